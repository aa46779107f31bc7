"""Comparing a function in JAX with the model that was made of it."""
