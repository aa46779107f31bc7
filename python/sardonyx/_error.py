"""The one exception that Sardonyx raises on purpose."""


class Error(ValueError):
    """What was found, what was expected, where, and what to do.

    `str(error)` is the message and its notes; `code` says what kind of mistake it is ("invalid_argument",
    "invalid_model", "parse", "unsupported", "io", "limit", "internal"); `notes` has the notes one by one.
    """

    def __init__(self, text: str, code: str = "invalid_argument", notes: tuple[str, ...] = ()):
        super().__init__(text)
        self.code = code
        self.notes = tuple(notes)

    def __reduce__(self):
        return type(self), (str(self), self.code, self.notes)


class WrongType(Error, TypeError):
    """An argument of a wrong type: both a `sardonyx.Error` and a `TypeError`."""
