"""Names of functions, equations and source lines in messages."""

import linecache
import os
import sysconfig

_OWN = os.path.dirname(__file__) + os.sep


def is_own(path: str) -> bool:
    """Whether it is a file of this package."""
    return path.startswith(_OWN)


def callable_name(fn) -> str:
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None)
    return name or type(fn).__name__


def _is_inside(path: str) -> bool:
    import jax

    return is_own(path) or path.startswith((os.path.dirname(jax.__file__), "<"))


def _user_frame(e: BaseException):
    """The traceback's entry of the innermost frame of the user's own code, or of any code outside JAX; else None."""
    stdlib = sysconfig.get_path("stdlib")
    best, best_rank = None, 0
    tb = e.__traceback__
    while tb is not None:
        path = tb.tb_frame.f_code.co_filename
        installed = "/site-packages/" in path or "/dist-packages/" in path or path.startswith(stdlib)
        rank = 0 if _is_inside(path) else 1 if installed else 2
        if rank and rank >= best_rank:
            best, best_rank = tb, rank
        tb = tb.tb_next
    return best


def user_line(e: BaseException) -> str | None:
    """ "file.py:12 (function)" of the user's code that raised."""
    if (tb := _user_frame(e)) is None:
        return None
    code = tb.tb_frame.f_code
    return f"{os.path.basename(code.co_filename)}:{tb.tb_lineno} ({code.co_qualname})"


def user_code(e: BaseException) -> str:
    """The text of that line; "" if it is unknown."""
    tb = _user_frame(e)
    return "" if tb is None else linecache.getline(tb.tb_frame.f_code.co_filename, tb.tb_lineno)


def first_line(e: BaseException) -> str:
    return (str(e).strip().splitlines() or [type(e).__name__])[0]


def source_frame(eqn):
    """The frame of the user's own code that an equation comes from, or None."""
    try:
        from jax._src import source_info_util

        frame = source_info_util.user_frame(eqn.source_info.traceback)
        return None if frame is None or is_own(frame.file_name) else frame
    except Exception:  # a private part of JAX: without it the line is not named
        return None


def types_text(eqn) -> str:
    operands = ", ".join(v.aval.str_short(short_dtypes=True) for v in eqn.invars)
    return operands + " -> " + ", ".join(v.aval.str_short(short_dtypes=True) for v in eqn.outvars)


def source_text(eqn) -> str:
    frame = source_frame(eqn)
    if frame is None:
        return ""
    return f"{os.path.basename(frame.file_name)}:{frame.start_line} ({frame.function_name})"
