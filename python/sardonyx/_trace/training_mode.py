"""Warnings for what a trace bakes into a model although it was meant to change from run to run: random numbers
from keys that are no inputs, and statistics of the batch in place of those that training kept."""

import contextlib
import os
import re
import sys
from dataclasses import dataclass

from sardonyx import _source
from sardonyx._trace import module_paths as _module_paths
from sardonyx._trace.data import sizes as _data_sizes

_DRAWS = ("random_bits", "threefry2x32", "rng_bit_generator")
_FOLDERS = (("/flax/nnx/", "nnx"), ("/flax/linen/", "linen"), ("/haiku/", "haiku"), ("/equinox/", "equinox"))
_ADVICE = {
    "nnx": "call model.eval() before",
    "linen": "apply it with deterministic=True and use_running_average=True (often train=False)",
    "haiku": "call it with is_training=False",
    "equinox": "export eqx.nn.inference_mode(model)",
}


@contextlib.contextmanager
def watched():
    """Around traces. Yields the batch normalizations of Linen, Haiku and NNX that take statistics of the batch:
    {(library, name): None}."""
    found: dict[tuple[str, str], None] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_module_paths.watched_by(_nnx_watcher(found)))
        if (linen := sys.modules.get("flax.linen")) is not None and hasattr(linen, "intercept_methods"):
            stack.enter_context(linen.intercept_methods(_linen_watcher(linen, found)))
        if (haiku := sys.modules.get("haiku")) is not None and hasattr(haiku, "intercept_methods"):
            stack.enter_context(haiku.intercept_methods(_haiku_watcher(haiku, found)))
        yield found


def _nnx_watcher(found):
    def watch(module, path, args, kwargs):
        if not isinstance(module, sys.modules["flax.nnx"].BatchNorm):
            return
        said = kwargs.get("use_running_average", args[1] if len(args) > 1 else None)
        if (module.use_running_average if said is None else said) is False:
            found["nnx", path] = None

    return watch


def _linen_watcher(linen, found):
    def watch(call, args, kwargs, context):
        module = context.module
        if isinstance(module, linen.BatchNorm) and context.method_name == "__call__":
            said = kwargs.get("use_running_average", args[1] if len(args) > 1 else None)
            running = module.use_running_average if said is None else said
            if running is False:
                found["linen", "/".join(module.path) or "BatchNorm"] = None
        return call(*args, **kwargs)

    return watch


def _haiku_watcher(haiku, found):
    def watch(call, args, kwargs, context):
        module = context.module
        if isinstance(module, haiku.BatchNorm) and context.method_name == "__call__":
            training = kwargs.get("is_training", args[1] if len(args) > 1 else None)
            test = kwargs.get("test_local_stats", args[2] if len(args) > 2 else False)
            if training is True or test is True:
                found["haiku", module.module_name] = None
        return call(*args, **kwargs)

    return watch


def warning(fn, closed, batch_norms) -> str:
    """What is baked into the traced program; "" for most."""
    draws, found = _fixed_draws(closed)
    found = {**batch_norms, **found}
    libraries = {library: None for library, _ in found}
    parts = []
    if found:
        parts.append(f"{_listed([name for _, name in found])} normalizes by statistics of the batch")
    if draws:
        parts.append(
            f"random numbers come from a key that is not an input, and are the same in every run: {_listed(list(draws))}"
        )
        libraries |= {library: None for library in draws.values() if library}
    if not parts:
        return ""
    advice = [_ADVICE[library] for library in libraries]
    if draws:
        advice.append('make the key an input ("key[]")')
    what = "is exported in training mode" if libraries else "has random numbers baked in"
    return f"{_source.callable_name(fn)} {what}: {'; '.join(parts)}\n  help: {', or '.join(advice)}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _fixed_draws(closed) -> tuple[dict[str, str], dict[tuple[str, str], None]]:
    """Where the program draws random numbers from keys that depend on no input: "Net/Dropout_0 at net.py:12" and
    the library whose layer it is, "" for none. And Equinox's batch normalizations that take means of the batch."""
    found: dict[str, str] = {}
    batch_norms: dict[tuple[str, str], None] = {}
    if not _has_draws(closed.jaxpr) and "equinox" not in sys.modules:
        return found, batch_norms
    todo = [(closed.jaxpr, [True] * len(closed.jaxpr.invars), _Place())]
    while todo:
        jaxpr, given, around = todo.pop()
        varies = {id(v) for v, is_given in zip(jaxpr.invars, given, strict=True) if is_given}
        for eqn in jaxpr.eqns:
            operands = [id(v) in varies for v in eqn.invars]
            place = None
            if any(operands):
                varies.update(id(v) for v in eqn.outvars)
            elif eqn.primitive.name in _DRAWS:
                place = around.of(eqn)
                found.setdefault(str(place), place.library)
            if eqn.primitive.name in ("reduce_sum", "psum") and "eqx.nn.BatchNorm" in "/".join(around.of(eqn).scopes):
                batch_norms["equinox", "eqx.nn.BatchNorm"] = None
            for body in _data_sizes._bodies(eqn):
                place = place or around.of(eqn)
                todo.append((body, _given_to(body, eqn, operands), place))
    return found, batch_norms


def _has_draws(jaxpr) -> bool:
    seen, todo = {id(jaxpr)}, [jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            if eqn.primitive.name in _DRAWS:
                return True
            for body in _data_sizes._bodies(eqn):
                if id(body) not in seen:
                    seen.add(id(body))
                    todo.append(body)
    return False


@dataclass(frozen=True)
class _Place:
    """The scope and the user's line of an equation, and the library whose layer made it ("" for none). JAX knows
    less of the equations in the body of a call that it traced before."""

    scopes: tuple[str, ...] = ()
    line: str = ""
    library: str = ""

    def of(self, eqn) -> "_Place":
        named = re.sub(r"\b(?:vmap|jvp|transpose)\(([^()]*)\)", r"\1", str(eqn.source_info.name_stack)).split("/")
        scopes = tuple(s for s in named if s and "(" not in s and not s.startswith("_"))
        line = library = ""
        for file, number in _frames(eqn):
            for folder, name in _FOLDERS:
                if folder in file and not library:
                    library = name
            if "/site-packages/" not in file and not _source.is_own(file) and not line:
                line = f"{os.path.basename(file)}:{number}"
        return _Place(self.scopes + scopes, self.line or line, self.library or library)

    def __str__(self) -> str:
        return " at ".join(filter(None, ("/".join(self.scopes), self.line))) or "in the function"


def _given_to(body, eqn, operands: list[bool]) -> list[bool]:
    """Which inputs of a body vary with the inputs of the program."""
    name = eqn.primitive.name
    if name == "cond":
        operands = operands[1:]
    elif name == "while":
        conditions, consts = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carry = operands[conditions + consts :]
        operands = (
            operands[:conditions] if body is eqn.params["cond_jaxpr"].jaxpr else operands[conditions:][:consts]
        ) + carry
    if len(operands) != len(body.invars):
        return [any(operands)] * len(body.invars)
    return operands


def _frames(eqn) -> list[tuple[str, int]]:
    try:
        from jax._src import source_info_util

        return [(f.file_name, f.start_line) for f in source_info_util.user_frames(eqn.source_info.traceback)]
    except Exception:  # a private part of JAX: without it no line is named
        return []
