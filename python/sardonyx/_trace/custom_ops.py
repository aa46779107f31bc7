"""`custom_ops=`: callbacks, foreign functions and kernels, as nodes of the user's own domain."""

import functools
import re

from sardonyx._error import Error

# Primitives by which JAX calls foreign code.
_OPAQUE = ("call_hi_primitive", "ffi_call", "io_callback", "pallas_call", "pure_callback", "custom_partitioning")


def lowerings(custom_ops, closed) -> dict:
    """By primitive, the lowering that writes the nodes. A key of `custom_ops` that the program does not have
    is an error."""
    wanted = {key: _operator(key, value) for key, value in custom_ops.items()}
    found, primitives, offered = set(), set(), set()
    for eqn in _equations(closed.jaxpr):
        names = names_of(eqn)
        if eqn.primitive.name in _OPAQUE:
            offered.update(names)
        if (key := next((n for n in names if n in wanted), None)) is not None:
            found.add(key)
            primitives.add(eqn.primitive.name)
    if missing := [key for key in wanted if key not in found]:
        notes = ["it has " + ", ".join(sorted(offered))] if offered else []
        raise Error(f"custom_ops: the program has no {missing[0]!r}", notes=notes)
    return dict.fromkeys(primitives, functools.partial(_lower, wanted))


def names_of(eqn) -> list[str]:
    """Names of an equation in custom_ops: that of its foreign function or kernel, if any, and its
    primitive's."""
    params = eqn.params
    if eqn.primitive.name not in _OPAQUE:
        return [eqn.primitive.name]
    names = [params.get("target_name"), params.get("name")]
    callback = getattr(params.get("callback"), "callback_func", None)
    names.append(getattr(callback, "__name__", None))
    if eqn.primitive.name == "call_hi_primitive":
        names.append(type(params.get("_prim", params.get("prim"))).__name__)
    kernel = params.get("jaxpr") if eqn.primitive.name == "pallas_call" else None
    names.append(getattr(getattr(kernel, "debug_info", None), "func_name", None))
    return [*(n for n in names if isinstance(n, str) and n and "<" not in n), eqn.primitive.name]


def _operator(key, value) -> tuple[str, str]:
    match = re.fullmatch(r"([A-Za-z_][\w.\-]*)::([A-Za-z_]\w*)", value) if isinstance(value, str) else None
    if match is None or match[1] == "ai.onnx":
        raise Error(
            f"custom_ops[{key!r}] is {value!r}",
            notes=['expected a domain of your own and an operator: "my.domain::MyOp"'],
        )
    return match[1], match[2]


def _equations(jaxpr):
    from sardonyx._trace.data.sizes import _bodies

    todo = [jaxpr]
    while todo:
        for eqn in todo.pop().eqns:
            yield eqn
            if eqn.primitive.name not in _OPAQUE:
                todo.extend(_bodies(eqn))


def _lower(wanted, ctx, eqn):
    """One node with the equation's operands, results and attributes."""
    key = next((n for n in names_of(eqn) if n in wanted), None)
    if key is None:
        raise ctx.unsupported(f"custom_ops does not name it: its names are {', '.join(names_of(eqn))}")
    domain, operator = wanted[key]
    results = [ctx.get_value_for_var(v) for v in eqn.outvars]
    operands = [ctx.get_value_for_var(v) for v in eqn.invars]
    return ctx.builder.op_multi_out(operator, operands, _attributes(eqn), outputs=results, domain=domain)


def _attributes(eqn) -> dict:
    """The numbers and strings that are passed to a foreign function. For other primitives, the parameters
    that are numbers, strings or lists of them."""
    import numpy as np

    name = eqn.primitive.name
    given = dict(eqn.params["attributes"]) if name == "ffi_call" else {} if name in _OPAQUE else eqn.params
    out = {}
    for key, value in given.items():
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        value = list(value) if isinstance(value, tuple) else value
        items = value if isinstance(value, list) else [value]
        kinds = {bool: int, int: int, float: float, str: str}
        if items and len({type(x) for x in items}) == 1 and type(items[0]) in kinds:
            made = [kinds[type(x)](x) for x in items]
            out[key] = made if isinstance(value, list) else made[0]
    return out
