"""Running a model on Sardonyx's own reference evaluator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from sardonyx import _sardonyx, ir
from sardonyx._error import Error
from sardonyx._require import known_keywords


def _to_native(value: Any) -> Any:
    if value is None or isinstance(value, ir.Tensor):
        return value
    if isinstance(value, list):
        return [_to_native(v) for v in value]
    if isinstance(value, Mapping):
        pairs = [(k, _to_native(v)) for k, v in value.items()]
        return ("map", all(not isinstance(k, str) for k in value), pairs)
    return ir.tensor(value)


def _from_native(value: Any) -> Any:
    if isinstance(value, ir.Tensor):
        array = value.numpy()
        if value.dtype == ir.DataType.STRING:
            array = array.copy()
            flat = array.reshape(-1)
            flat[:] = [s.decode() for s in flat]
        return array
    if isinstance(value, list):
        return [_from_native(v) for v in value]
    if isinstance(value, dict):
        return {k: _from_native(v) for k, v in value.items()}
    return value


def _load(model: Any) -> ir.Model:
    if isinstance(model, ir.Model):
        return model
    if isinstance(model, (str, os.PathLike)):
        return ir.load(model)
    if isinstance(model, (bytes, bytearray)):
        return cast(ir.Model, _sardonyx.ir.read_bytes(bytes(model), ""))
    return ir.from_proto(model)


@known_keywords
def evaluate(
    model: Any,
    inputs: Mapping[str, Any] | Sequence[Any] = (),
    *,
    seed: int = 0,
    memory_limit: int | None = None,
    max_steps: int = 1 << 30,
    fast: bool = False,
) -> dict[str, Any]:
    """Run an ONNX model and return its results by name.

    The evaluator is exact and slow: Sardonyx checks itself with it. `model` is an `ir.Model`, an
    `onnx.ModelProto`, the bytes or the path of a file; `inputs` are arrays by name or in order. A list is a
    sequence, a dict a map, None an absent optional. `seed` serves random operators that have none. More than
    `memory_limit` bytes of tensors at once, or more than `max_steps` nodes, are an error. With `fast`, matrix
    products may differ in their last bits from machine to machine.
    """
    model = _load(model)
    names = [v.name for v in model.graph.inputs]
    if isinstance(inputs, Mapping):
        if unknown := [k for k in inputs if k not in names]:
            raise Error(f"the model has no input '{unknown[0]}'", notes=(f"its inputs: {', '.join(map(str, names))}",))
        inputs = [inputs.get(n) for n in names]
    elif len(inputs) > len(names):
        raise Error(f"the model has {len(names)} inputs, {len(inputs)} are given")
    values = [_to_native(v) for v in inputs]
    results = _sardonyx.evaluate(model, values, seed, memory_limit or 0, max_steps, fast)
    return {v.name: _from_native(r) for v, r in zip(model.graph.outputs, results, strict=True)}
