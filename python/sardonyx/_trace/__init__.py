"""Tracing: from a function and its inputs to a jaxpr that can be lowered."""
