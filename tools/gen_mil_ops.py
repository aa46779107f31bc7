#!/usr/bin/env python3
"""Generates the operator tables of the mil dialect from the op definitions of the `coremltools` package.

    python tools/gen_mil_ops.py            writes the files
    python tools/gen_mil_ops.py --check    exits 1 if they differ from what would be written

Written: src/dialects/mil/ops_*.inc and rules.inc. What definitions do not say as data (traits, results, type rules) is
tabled in gen_mil_facts.py.

Operands are in the order of the definition, except that data comes before parameters and lists of operands
(TupleInputType) come last. Blocks of `cond` and
`while_loop` are bodies and no operands.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

logging.disable(logging.WARNING)

import coremltools  # noqa: E402
import numpy as np  # noqa: E402
from coremltools.converters.mil.mil import types  # noqa: E402
from coremltools.converters.mil.mil.input_type import (  # noqa: E402
    InternalInputType,
    PyFunctionInputType,
    TensorInputType,
    TupleInputType,
)
from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry  # noqa: E402
from gen_mil_facts import EXTRA_OPS, RULES, SKIP, result_counts, traits_of  # noqa: E402
from gen_onnx_ops import Pool, cpp_double, quote  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "src/dialects/mil"
HEADER = f"// Written by tools/gen_mil_ops.py from the op definitions of coremltools {coremltools.__version__}. Do not edit.\n"

# Bits of a TypeSet: numbers of sardonyx::DType.
DTYPES = {
    types.fp32: 1,
    types.uint8: 2,
    types.int8: 3,
    types.uint16: 4,
    types.int16: 5,
    types.int32: 6,
    types.int64: 7,
    types.str: 8,
    types.bool: 9,
    types.fp16: 10,
    types.fp64: 11,
    types.uint32: 12,
    types.uint64: 13,
    types.complex64: 14,
    types.uint4: 21,
    types.int4: 22,
    types.uint2: 25,
    types.uint1: 48,
    types.uint3: 49,
    types.uint6: 50,
}


class Probe:
    """Stands for an operand of an op whose default values are asked for: knows ranks and nothing else."""

    def __init__(self, rank: int):
        self._rank = rank

    def __getattr__(self, name):
        if name == "rank":
            return self._rank
        if name == "shape":
            return Shape(self._rank)
        if name in ("val", "sym_val"):
            return None
        if name.startswith("__"):
            raise AttributeError(name)
        return Probe(self._rank)


class Shape:
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return self.rank

    def __getitem__(self, i):
        # Primes that no default is.
        return 1009 + i % self.rank + 31 * self.rank if isinstance(i, int) else [1009] * self.rank


def defaults_of(cls) -> dict[str, object]:
    """Values that optional operands have by default, as far as they depend on nothing."""
    found = []
    for rank in (3, 4):
        op = cls.__new__(cls)
        for name in cls.input_spec.input_types:
            setattr(op, name, Probe(rank))
        try:
            given = op.default_inputs()
        except Exception:  # the definition wants to know more
            return {}
        found.append(dict(given.items()))
    same = {}
    for name, value in found[0].items():
        other = found[1].get(name)
        if isinstance(value, Probe) or isinstance(other, Probe) or value is None:
            continue
        if type(value) is type(other) and np.array_equal(value, other):
            same[name] = value
    return same


def default_row(name: str, value, ints: Pool) -> str | None:
    if isinstance(value, (bool, np.bool_)):
        return f"{{{quote(name)}, AttrKind::kInt, false, true, {int(value)}}},"
    if isinstance(value, (int, np.integer)):
        return f"{{{quote(name)}, AttrKind::kInt, false, true, {int(value)}}},"
    if isinstance(value, (float, np.floating)):
        return f"{{{quote(name)}, AttrKind::kFloat, false, true, 0, {cpp_double(float(value))}}},"
    if isinstance(value, str):
        return f"{{{quote(name)}, AttrKind::kString, false, true, 0, 0, {quote(value)}}},"
    if isinstance(value, (list, tuple)) and all(isinstance(v, (int, bool)) for v in value):
        at = ints.place([f"{int(v)}," for v in value])
        return f'{{{quote(name)}, AttrKind::kInts, false, true, 0, 0, "", Ints(kInts + {at}, {len(value)})}},'
    raise ValueError(f"{name}: default {value!r}")


def slot_row(cls, name: str, kind, sets: Pool) -> str:
    bits, variable, other = 0, "", False
    if isinstance(kind, TensorInputType):
        domain = kind._type_domain or cls.type_domains[kind.type_domain_id]
        for t in domain:
            bits |= 1 << DTYPES[t]
        variable = kind.type_domain_id or ""
    else:
        other = True
    index = sets.place([f"{{{bits:#x}, 0x0, 0x0, {'true' if other else 'false'}}},"])
    arity = "kOptional" if kind.optional else "kSingle"
    if isinstance(kind, TupleInputType):
        arity = "kVariadic"
    homogeneous = "false" if arity == "kVariadic" else "true"
    parameter = "true" if kind.const else "false"
    return f"{{{quote(name)}, Arity::{arity}, {quote(variable)}, kTypeSets[{index}], {homogeneous}, {parameter}}},"


def versions() -> list[tuple[str, int, object]]:
    """(name, first specification version, class), by name and version."""
    found = []
    for name, by_target in SSAOpRegistry.core_ops.items():
        if name in SKIP:
            continue
        first: dict[object, int] = {}
        for target, cls in by_target.items():
            first[cls] = min(int(target), first.get(cls, 99))
        found += [(name, version, cls) for cls, version in first.items()]
    for name, cls in SSAOpRegistry.dialect_ops.items():
        if name.startswith(("complex", "coreml_")):
            found.append((name, 9 if name.startswith("coreml_") else 4, cls))
    found += [(name, version, None) for name, version in EXTRA_OPS]
    return sorted(found, key=lambda row: row[:2])


def tables() -> dict[str, str]:
    sets, slots, specs, ints = Pool(), Pool(), Pool(), Pool()
    rows, families = [], []
    for index, (name, version, cls) in enumerate(versions()):
        if cls is None:
            any_set = sets.place(["{0x0, 0x0, 0x0, true},"])
            slot_rows = [
                f'{{{quote(s)}, Arity::kSingle, "", kTypeSets[{any_set}], true, false}},'
                for s in EXTRA_OPS[(name, version)]
            ]
            least = most = len(slot_rows)
            defaults: dict[str, object] = {}
        else:
            kinds = [
                (n, k)
                for n, k in cls.input_spec.input_types.items()
                if not isinstance(k, (PyFunctionInputType, InternalInputType))
            ]
            kinds.sort(key=lambda item: (isinstance(item[1], TupleInputType), item[1].const))
            slot_rows = [slot_row(cls, n, k, sets) for n, k in kinds]
            lists = [n for n, k in kinds if isinstance(k, TupleInputType)]
            required = [i for i, (_, k) in enumerate(kinds) if not k.optional and not isinstance(k, TupleInputType)]
            most = -1 if lists else len(kinds)
            least = len(kinds) - len(lists) if lists else max(required, default=-1) + 1
            defaults = {n: v for n, v in defaults_of(cls).items() if any(n == k for k, _ in kinds)}
        ins = slots.place(slot_rows)
        default_rows = [default_row(n, v, ints) for n, v in sorted(defaults.items())]
        at = specs.place(default_rows)
        least_out, most_out = result_counts(name)
        rule = RULES.get(name)
        rows.append(
            f"SX_ROW({quote(name)}, {version}, {traits_of(name)}, {index}, {least}, {most}, {least_out}, {most_out}, "
            f"Slots(kSlots + {ins}, {len(slot_rows)}), Specs(kSpecs + {at}, {len(default_rows)}), "
            f"{'rules::' + rule if rule else 'nullptr'}),"
        )
        if not families or families[-1][0] != name:
            families.append([name, index, 0])
        families[-1][2] += 1
    join = "\n".join
    return {
        "ops_types.inc": HEADER + join(sets.rows) + "\n",
        "ops_slots.inc": HEADER + join(slots.rows) + "\n",
        "ops_defaults.inc": HEADER + join(specs.rows) + "\n",
        "ops_ints.inc": HEADER + join(ints.rows) + "\n",
        "ops_rows.inc": HEADER + join(rows) + "\n",
        "ops_families.inc": HEADER
        + "// SX_FAMILY(name, index of the oldest version, number of versions)\n"
        + join(f"SX_FAMILY({n}, {first}, {count})" for n, first, count in families)
        + "\n",
        "rules.inc": HEADER + join(f"void {r}(InferContext& c);" for r in sorted(set(RULES.values()))) + "\n",
    }


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for name, text in tables().items():
        path = OUT / name
        if check:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(ROOT)))
        else:
            path.write_text(text)
    if stale:
        print("out of date: " + ", ".join(stale) + "; run python tools/gen_mil_ops.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
