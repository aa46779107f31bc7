"""Sizes that depend on data: symbols for them while JAX traces."""
