#!/usr/bin/env python3
"""Generates the operator tables of the mil dialect and its builder from the op definitions of the
`coremltools` package.

    python scripts/tables/gen_mil_ops.py            writes the files
    python scripts/tables/gen_mil_ops.py --check    exits 1 if they differ from what would be written

Writes src/dialects/mil/generated/ops_*.gen.inc, rules.gen.inc, builder_definitions.gen.inc and readers.gen.inc, and
include/sardonyx/mil_builder.h. Facts that the definitions do not hold as data (traits, results, type rules) come from tables in
gen_mil_facts.py.

Operands are in the definition's order, except that data comes before parameters and lists of operands
(TupleInputType) come last. Blocks of `cond` and `while_loop` are bodies, not operands.
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
from gen_mil_facts import (  # noqa: E402
    BODIES,
    BUILDER_SKIP,
    DATA,
    EXTRA_OPS,
    FILLED,
    LISTS,
    RANK_OF,
    RESULT_NAMES,
    RULES,
    SKIP,
    result_counts,
    traits_of,
)
from gen_tables import ROOT, Pool, cpp_double, identifier, quote, write  # noqa: E402

OUT = ROOT / "src/dialects/mil/generated"
BUILDER = ROOT / "include/sardonyx/mil_builder.h"
HEADER = f"// Written by scripts/tables/gen_mil_ops.py from the op definitions of coremltools {coremltools.__version__}. Do not edit.\n"

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
    """A stand-in for an operand while default values are computed. It knows ranks and nothing else."""

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
        # Primes that are no op's default.
        return 1009 + i % self.rank + 31 * self.rank if isinstance(i, int) else [1009] * self.rank


def defaults_of(cls) -> dict[str, object]:
    """Default values of optional operands, where they do not depend on other operands."""
    found = []
    for rank in (3, 4):
        op = cls.__new__(cls)
        for name in cls.input_spec.input_types:
            setattr(op, name, Probe(rank))
        try:
            given = op.default_inputs()
        except Exception:  # the definition needs more than ranks
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


def slots_of(cls) -> list[tuple[str, object]]:
    """Operands in table order: data, parameters, lists."""
    kinds = [
        (n, k)
        for n, k in cls.input_spec.input_types.items()
        if not isinstance(k, (PyFunctionInputType, InternalInputType))
    ]
    kinds.sort(key=lambda item: (isinstance(item[1], TupleInputType), item[1].const))
    return kinds


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
            kinds = slots_of(cls)
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
        "ops_types.gen.inc": HEADER + join(sets.rows) + "\n",
        "ops_slots.gen.inc": HEADER + join(slots.rows) + "\n",
        "ops_defaults.gen.inc": HEADER + join(specs.rows) + "\n",
        "ops_ints.gen.inc": HEADER + join(ints.rows) + "\n",
        "ops_rows.gen.inc": HEADER + join(rows) + "\n",
        "ops_families.gen.inc": HEADER
        + "// SX_FAMILY(name, index of the oldest version, number of versions)\n"
        + join(f"SX_FAMILY({n}, {first}, {count})" for n, first, count in families)
        + "\n",
        "rules.gen.inc": HEADER + join(f"void {r}(InferContext& c);" for r in sorted(set(RULES.values()))) + "\n",
    }


# ----------------------------------------------------------------------------------------------------------------------
# The builder

HEAD = (
    HEADER
    + """\
// MilBuilder: one method per Core ML op, typed and checked.
//
//   Value* y = b.conv(x, weight, {.bias = bias, .pad_type = "same", .strides = {2, 2}});
//   Value* z = b.concat({y, b.mul(y, 0.5)}, {.axis = 1});
//
// Required operands that may be computed come first, then lists, blocks, and the number of results where it
// varies. All other operands are named, in alphabetical order. Operands that are not given are not written:
// Core ML uses the default, which the comments of mil_params note. Numbers, strings and flags become constants
// of the slot's type (mil_operand.h), created in slot order. The function's op set decides the version of the op.
// Slots are those of the newest version; giving one that the chosen version lacks is an error.
#pragma once

#include "sardonyx/builder.h"
#include "sardonyx/mil_operand.h"

namespace sardonyx {

// The named operands of each op.
namespace mil_params {

"""
)
CLASS = """
}  // namespace mil_params

class MilBuilder : public Builder {
 public:
  using Builder::Builder;
  using Flags = mil_params::Flags;
  using Ints = mil_params::Ints;
  using Numbers = mil_params::Numbers;
  using Operand = mil_params::Operand;
  using Text = mil_params::Text;

  // The specification version of the function's op set (8 is iOS 17); the newest if the function names none.
  int version() const;
  // The op's version in this op set, or null. For ops named by data; pass it to make().
  const Op* find(std::string_view op) const;
  // Constants as values, for setting an operand in place.
  Value* i32(int32_t v) { return scalar_int(DType::kI32, v); }
  Value* i32s(std::span<const int64_t> v);
  // The same op with other operands in some slots; nullptr leaves a slot empty. Not for ops with blocks.
  Value* like(const Node& n, std::initializer_list<mil_params::Change> changes);

"""

SPAN, LIST = "std::span<Value* const>", "std::initializer_list<Value*>"


def class_of(cls, kind) -> str:
    """The class of mil_operand.h for the slot."""
    if not isinstance(kind, TensorInputType):
        return "Operand"
    domain = set(kind._type_domain or cls.type_domains[kind.type_domain_id])
    if domain == {types.str}:
        return "Text"
    if domain == {types.bool}:
        return "Flags"
    return "Ints" if all(types.is_int(t) for t in domain) else "Numbers"


def spelled(value) -> str:
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    return cpp_double(float(value)) if isinstance(value, (float, np.floating)) else str(value)


class Method:
    """The newest version of one op as a method. Operands that must be given and may be computed come first;
    the rest are named."""

    def __init__(self, name: str, cls):
        self.name = name
        self.least, self.most = result_counts(name)
        self.bodies = BODIES.get(name, [])
        self.slots = [(n, None) for n in EXTRA_OPS[(name, 9)]] if cls is None else slots_of(cls)
        self.types = {n: class_of(cls, k) if k else "Operand" for n, k in self.slots}
        self.lists = [n for n, k in self.slots if isinstance(k, TupleInputType)]
        self.named = [n for n, k in self.slots if k and n not in self.lists and (k.const or k.optional)]
        self.required = [n for n, k in self.slots if n in self.named and not k.optional]
        self.defaults = defaults_of(cls) if cls else {}

    def struct(self) -> str:
        if not self.named:
            return ""
        lines = [f"struct {self.name} {{"]
        for n in sorted(self.named):
            kind = self.types[n]
            if n in self.required:
                kind = f"Required<{kind}>"
            default = f" = {{}};  // {spelled(self.defaults[n])}" if n in self.defaults else " = {};"
            lines.append(f"  {kind} {identifier(n)}" + (";" if n in self.required else default))
        return "\n".join(lines + ["};"])

    def parameters(self, declare: bool, span: str) -> str:
        out = []
        for n, _ in self.slots:
            if n in self.lists:
                out.append(f"{span} {identifier(n)}")
            elif n not in self.named:
                out.append(f"const {self.types[n]}& {identifier(n)}")
        out += [f"Graph& {b}" for b in self.bodies]
        if self.least != self.most and self.name != "while_loop":
            out.append("size_t num_results")
        if self.named:
            default = " = {}" if declare and not self.required else ""
            out.append(f"const mil_params::{self.name}& p{default}")
        return ", ".join(out)

    def result(self) -> str:
        return "Value*" if self.least == self.most == 1 else "Node&"

    def declaration(self) -> str:
        names = RESULT_NAMES.get(self.name, "")
        text = f"  {self.result()} {self.name}({self.parameters(True, SPAN)});" + (f"  // {names}" if names else "")
        if len(self.lists) != 1:
            return text
        given = [identifier(n) for n, _ in self.slots if n not in self.named and n not in self.lists]
        (values,) = self.lists
        given += [f"{SPAN}({values}.begin(), {values}.size())"] + self.bodies + (["p"] if self.named else [])
        text += f"\n  {self.result()} {self.name}({self.parameters(True, LIST)}) {{"
        return text + f"\n    return {self.name}({', '.join(given)});\n  }}"

    def definition(self) -> str:
        lines = [f"{self.result()} MilBuilder::{self.name}({self.parameters(False, SPAN)}) {{"]
        lines.append(f"  OpMaker m(*this, mil::kFamily_{self.name});")
        for n, _ in self.slots:
            place = f"p.{identifier(n)}" if n in self.named else identifier(n)
            lines.append(f"  m.{'list' if n in self.lists else 'in'}({quote(n)}, {place});")
        lines += [f"  m.body({quote(b)}, {b});" for b in self.bodies]
        if self.result() == "Value*":
            lines.append("  return m.one();")
        elif self.least == self.most:
            lines.append(f"  return m.many({self.most});")
        else:
            lines.append(f"  return m.many({'loop_vars.size()' if self.name == 'while_loop' else 'num_results'});")
        return "\n".join(lines + ["}"])


# ----------------------------------------------------------------------------------------------------------------------
# The readers

VALUE, INTS = "Value*", "std::optional<std::vector<int64_t>>"


def read(method: Method, slot: str, kind) -> tuple[str, str]:
    """The type of a slot's accessor and how it reads the slot."""
    op, held, quoted = method.name, method.types[slot], quote(slot)
    if slot in method.lists:
        return "std::vector<Value*>", f"list_in({quoted})"
    if slot == "perm":
        return INTS, f"perm_in({quoted})"
    if slot == "axes":
        return INTS, f'added_axes_in({quoted}, "x")' if op == "expand_dims" else f'axes_in({quoted}, rank_in("x"))'
    if slot == "axis":
        rank = RANK_OF.get(op, 'rank_in("x")')
        return "std::optional<size_t>", f"axis_in({quoted}, {rank})"
    if slot in FILLED and op not in ("pad", "sliding_windows"):
        return "std::optional<std::vector<bool>>" if held == "Flags" else INTS, FILLED[slot]
    if slot in LISTS or (op, slot) == ("slice_by_size", "size"):
        return INTS, f"ints_in({quoted})"
    if held == "Text":
        return "std::optional<std::string>", f"text_in({quoted})"
    if held == "Flags" and kind.const:
        return "bool", f"flag_in({quoted})"
    if held == "Ints" and slot not in DATA:
        return "std::optional<int64_t>", f"int_in({quoted})"
    if held == "Numbers" and kind.const and (slot == "epsilon" or slot in method.defaults):
        return "std::optional<double>", f"number_in({quoted})"
    return VALUE, f"value_in({quoted})"


def reader(method: Method) -> str:
    """The reader of an op; empty for one with no more than two operands, all of them data."""
    name = "".join(word.capitalize() for word in method.name.split("_"))
    accessors = [(identifier(slot), *read(method, slot, kind)) for slot, kind in method.slots]
    if len(accessors) <= 2 and all(result == VALUE for _, result, _ in accessors):
        return ""
    lines = [
        f"class {name} : public ReaderOf<{name}, kFamily_{method.name}> {{",
        " public:",
        "  using ReaderOf::ReaderOf;",
    ]
    lines += [f"  {result} {slot}() const {{ return {how}; }}" for slot, result, how in accessors]
    return "\n".join(lines + ["};"])


def builder() -> dict[Path, str]:
    newest = {name: cls for name, _, cls in versions()}
    methods = [Method(name, cls) for name, cls in newest.items() if name not in BUILDER_SKIP]
    readers = [
        reader(Method(name, cls)) for name, cls in newest.items() if cls is not None and name not in BUILDER_SKIP
    ]
    return {
        BUILDER: HEAD
        + "\n\n".join(m.struct() for m in methods if m.named)
        + "\n"
        + CLASS
        + "\n".join(m.declaration() for m in methods)
        + "\n};\n\n}  // namespace sardonyx\n",
        OUT / "builder_definitions.gen.inc": HEADER + "\n\n".join(m.definition() for m in methods) + "\n",
        OUT / "readers.gen.inc": HEADER + "\n\n".join(filter(None, readers)) + "\n",
    }


def main() -> int:
    return write({OUT / name: text for name, text in tables().items()} | builder(), "gen_mil_ops.py")


if __name__ == "__main__":
    sys.exit(main())
