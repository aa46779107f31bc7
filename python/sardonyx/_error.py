"""The one exception that Sardonyx raises on purpose."""

from collections.abc import Sequence


class Error(ValueError):
    """Says what was found, what was expected, where, and what to do.

    `str(error)` is the message and its notes. `code` is the kind of error ("invalid_argument",
    "invalid_model", "parse", "unsupported", "io", "limit", "internal"). `notes` lists the notes.
    """

    def __init__(self, message: str, code: str = "invalid_argument", notes: Sequence[str] = ()):
        self.message = message
        self.code = code
        self.notes = tuple(notes)
        super().__init__("\n  ".join([message, *(note.replace("\n", "\n  ") for note in self.notes)]))

    def __reduce__(self):
        return type(self), (self.message, self.code, self.notes)


class WrongType(Error, TypeError):
    """An argument of a wrong type: both a `sardonyx.Error` and a `TypeError`."""
