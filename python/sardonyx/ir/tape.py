"""Recording graphs."""

from sardonyx.ir._tape import Builder, Tape

__all__ = ["Builder", "Tape"]
