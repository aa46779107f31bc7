#!/usr/bin/env python3
"""Generates the operator tables of the onnx dialect and its builder from the schemas of the `onnx` package.

    python scripts/tables/gen_onnx_ops.py            writes the files
    python scripts/tables/gen_onnx_ops.py --check    exits 1 if they differ from what would be written

Writes src/dialects/onnx/generated/ops_*.gen.inc, src/dialects/onnx/generated/{builder_methods,readers}.gen.inc,
include/sardonyx/onnx_attrs.h and include/sardonyx/onnx_builder.h. Facts that schemas do not hold (traits,
type rules, which integers are flags) come from tables in gen_onnx_facts.py.
"""

from __future__ import annotations

import sys

import onnx
from gen_onnx_facts import (
    BUILDER_SKIP,
    DTYPE_ATTRS,
    FLAGS,
    HELPERS,
    RANK_OF,
    READERS,
    RESULT_COUNTS,
    RULES,
    rule_of,
    traits_of,
)
from gen_tables import ROOT, Pool, cpp_double, identifier, quote, write
from onnx import TensorProto
from onnx.defs import OpSchema

OPTION = OpSchema.FormalParameterOption
KIND = {
    OpSchema.AttrType.INT: "kInt",
    OpSchema.AttrType.FLOAT: "kFloat",
    OpSchema.AttrType.STRING: "kString",
    OpSchema.AttrType.TENSOR: "kTensor",
    OpSchema.AttrType.GRAPH: "kGraph",
    OpSchema.AttrType.SPARSE_TENSOR: "kSparseTensor",
    OpSchema.AttrType.TYPE_PROTO: "kType",
    OpSchema.AttrType.INTS: "kInts",
    OpSchema.AttrType.FLOATS: "kFloats",
    OpSchema.AttrType.STRINGS: "kStrings",
    OpSchema.AttrType.TENSORS: "kTensors",
    OpSchema.AttrType.GRAPHS: "kGraphs",
    OpSchema.AttrType.TYPE_PROTOS: "kTypes",
}
HEADER = f"// Written by scripts/tables/gen_onnx_ops.py from the schemas of onnx {onnx.__version__}. Do not edit.\n"


def sort_key(schema):
    return (schema.domain, schema.name, schema.since_version)


# ----------------------------------------------------------------------------------------------------------------------
# The tables


def dtype_bit(name: str) -> int:
    return 1 << {
        "float": TensorProto.FLOAT,
        "double": TensorProto.DOUBLE,
        "string": TensorProto.STRING,
        "bool": TensorProto.BOOL,
        "complex64": TensorProto.COMPLEX64,
        "complex128": TensorProto.COMPLEX128,
    }.get(name, getattr(TensorProto, name.upper(), 0))


def type_set(types) -> tuple[int, int, int, bool]:
    tensor = sequence = optional = 0
    other = False
    for text in types:
        if "map(" in text or "sparse" in text or "opaque" in text:
            other = True
            continue
        element = dtype_bit(text[text.index("tensor(") + 7 :].rstrip(")"))
        if text.startswith("tensor("):
            tensor |= element
        elif text.startswith("seq("):
            sequence |= element
        else:
            optional |= element
    return tensor, sequence, optional, other


def slot_row(schema, slot, sets: Pool) -> str:
    arity = {OPTION.Single: "kSingle", OPTION.Optional: "kOptional", OPTION.Variadic: "kVariadic"}[slot.option]
    variable = slot.type_str if any(c.type_param_str == slot.type_str for c in schema.type_constraints) else ""
    tensor, sequence, optional, other = type_set(slot.types)
    row = f"{{{tensor:#x}, {sequence:#x}, {optional:#x}, {'true' if other else 'false'}}},"
    index = sets.place([row])
    homogeneous = "true" if slot.is_homogeneous else "false"
    return f"{{{quote(slot.name)}, Arity::{arity}, {quote(variable)}, kTypeSets[{index}], {homogeneous}}},"


def attr_row(attr, ints: Pool) -> str:
    row = [quote(attr.name), f"AttrKind::{KIND[attr.type]}", "true" if attr.required else "false"]
    default = attr.default_value
    if default.type == onnx.AttributeProto.INT:
        row += ["true", str(default.i)]
    elif default.type == onnx.AttributeProto.FLOAT:
        row += ["true", "0", cpp_double(default.f)]
    elif default.type == onnx.AttributeProto.STRING:
        row += ["true", "0", "0", quote(default.s.decode())]
    elif default.type == onnx.AttributeProto.INTS:
        at = ints.place([f"{i}," for i in default.ints])
        row += ["true", "0", "0", '""', f"Ints(kInts + {at}, {len(default.ints)})"]
    elif default.type == onnx.AttributeProto.STRINGS:
        row += ["true", "0", "0", quote(",".join(s.decode() for s in default.strings))]
    elif default.type != onnx.AttributeProto.UNDEFINED:
        raise ValueError(f"{attr.name}: default of type {default.type}")
    return "{" + ", ".join(row) + "},"


def tables(schemas) -> dict[str, str]:
    sets, slots, attrs, ints = Pool(), Pool(), Pool(), Pool()
    rows, families = [], []
    for index, s in enumerate(schemas):
        ins = slots.place([slot_row(s, i, sets) for i in s.inputs])
        outs = slots.place([slot_row(s, o, sets) for o in s.outputs])
        specs = [attr_row(s.attributes[a], ints) for a in sorted(s.attributes)]
        at = attrs.place(specs)
        bound = lambda n: -1 if n > 1_000_000 else n  # noqa: E731
        traits = traits_of(s.domain, s.name, s.since_version)
        rule = rule_of(s.name, s.since_version)
        rows.append(
            f"SX_ROW(kOnnx, {quote(s.domain)}, {quote(s.name)}, {s.since_version}, true, "
            f"{'true' if s.deprecated else 'false'}, {traits}, kOnnxFirstId + {index}, "
            f"{s.min_input}, {bound(s.max_input)}, {s.min_output}, {bound(s.max_output)}, "
            f"Slots(kSlots + {ins}, {len(s.inputs)}), Slots(kSlots + {outs}, {len(s.outputs)}), "
            f"Specs(kSpecs + {at}, {len(specs)}), {rule}),"
        )
        if not families or families[-1][:2] != [s.domain, s.name]:
            families.append([s.domain, s.name, index, 0])
        families[-1][3] += 1
    latest = {}
    for s in schemas:
        latest[s.domain] = max(latest.get(s.domain, 0), s.since_version)
    latest[""] = onnx.defs.onnx_opset_version()
    join = "\n".join
    return {
        "ops_types.gen.inc": HEADER + join(sets.rows) + "\n",
        "ops_slots.gen.inc": HEADER + join(slots.rows) + "\n",
        "ops_attrs.gen.inc": HEADER + join(attrs.rows) + "\n",
        "ops_ints.gen.inc": HEADER + join(ints.rows) + "\n",
        "ops_rows.gen.inc": HEADER + join(rows) + "\n",
        "rules.gen.inc": HEADER
        + join(f"void {r}(InferContext& c);" for r in sorted({r for name in RULES for _, r in RULES[name]}))
        + "\n",
        "ops_families.gen.inc": HEADER
        + "// SX_FAMILY(domain, name, index of the oldest version, number of versions)\n"
        + join(f"SX_FAMILY({quote(d)}, {n}, {first}, {count})" for d, n, first, count in families)
        + "\n",
        "ops_domains.gen.inc": HEADER
        + "// SX_DOMAIN(domain, newest version)\n"
        + join(f"SX_DOMAIN({quote(d)}, {v})" for d, v in sorted(latest.items()))
        + "\n",
    }


# ----------------------------------------------------------------------------------------------------------------------
# The builder


class Attribute:
    """One attribute of a builder method: its field in the struct and the line that emits it."""

    def __init__(self, op: str, attr):
        self.attr = attr
        self.name = identifier(attr.name)
        kind, default = KIND[attr.type], attr.default_value
        has_default = default.type != onnx.AttributeProto.UNDEFINED
        cpp = {
            "kInt": "int64_t",
            "kFloat": "double",
            "kString": "std::string_view",
            "kInts": "std::vector<int64_t>",
            "kFloats": "std::vector<double>",
            "kStrings": "std::vector<std::string>",
            "kTensor": "TensorPtr",
            "kType": "const Type*",
        }[kind]
        if kind == "kInt" and attr.name in FLAGS:
            cpp = "bool"
        if kind == "kInt" and attr.name in DTYPE_ATTRS:
            cpp = "DType"
        otherwise = None
        if has_default and kind == "kInt":
            otherwise = str(default.i)
            if cpp == "bool":
                otherwise = "true" if default.i else "false"
            if cpp == "DType":
                otherwise = f"DType{{{default.i}}}"
        elif has_default and kind == "kFloat":
            otherwise = cpp_double(default.f)
        elif has_default and kind == "kString":
            otherwise = quote(default.s.decode())
        self.comment = ""
        if kind in ("kInts", "kFloats", "kStrings"):
            self.field = f"{cpp} {self.name} = {{}};"
            if has_default:
                values = default.ints if kind == "kInts" else [s.decode() for s in default.strings]
                self.comment = f"empty = {', '.join(str(v) for v in values)}"
            elif attr.required:
                self.comment = "required"
        elif attr.required:
            self.field = f"Required<{cpp}> {self.name};"
        elif cpp == "DType":
            self.field = f"DType {self.name} = {otherwise or 'DType::kUndefined'};"
        elif kind in ("kTensor", "kType"):
            self.field = f"{cpp} {self.name} = nullptr;"
        elif otherwise is not None:
            self.field = f"{cpp} {self.name} = {otherwise};"
        elif kind == "kString":
            self.field = f"std::string_view {self.name} = {{}};"
        else:
            self.field = f"std::optional<{cpp}> {self.name} = {{}};"
        if attr.required:
            value = f"a.{self.name}" if kind in ("kInts", "kFloats", "kStrings") else f"a.{self.name}.value"
            self.emit = f'm.require("{attr.name}", {value});'
        elif otherwise is not None and cpp in ("bool", "int64_t", "double", "std::string_view", "DType"):
            self.emit = f'm.put("{attr.name}", a.{self.name}, {otherwise});'
        else:
            self.emit = f'm.put("{attr.name}", a.{self.name});'


class Method:
    """One operator of the default domain as methods of the builder."""

    def __init__(self, schema):
        self.name = schema.name
        self.cpp = identifier(schema.name)
        graphs = [a for _, a in sorted(schema.attributes.items()) if KIND[a.type] == "kGraph"]
        if self.name == "If":
            graphs.sort(key=lambda a: a.name, reverse=True)  # then_branch first
        self.bodies = [a.name for a in graphs]
        self.attrs = [
            Attribute(schema.name, a)
            for _, a in sorted(schema.attributes.items())
            if KIND[a.type] not in ("kGraph", "kSparseTensor")
        ]
        self.inputs = list(schema.inputs)
        self.min_out, self.max_out = schema.min_output, schema.max_output
        self.variadic_out = any(o.option == OPTION.Variadic for o in schema.outputs)
        self.outputs = [o.name for o in schema.outputs]

    def struct(self) -> str:
        if not self.attrs:
            return ""
        lines = [f"struct {self.cpp} {{"]
        for a in self.attrs:
            lines.append(f"  {a.field}" + (f"  // {a.comment}" if a.comment else ""))
        return "\n".join(lines + ["};"])

    def parameters(self, declare: bool, count: bool, span: str = "std::span<Value* const>") -> str:
        out = []
        # C++ allows a default only if all later parameters have one.
        first_default = len(self.inputs)
        while first_default and self.inputs[first_default - 1].option == OPTION.Optional:
            first_default -= 1
        if self.bodies or count or any("Required<" in a.field for a in self.attrs):
            first_default = len(self.inputs)
        for i, slot in enumerate(self.inputs):
            if slot.option == OPTION.Variadic:
                out.append(f"{span} {self.parameter_name(slot)}")
            else:
                default = " = nullptr" if declare and i >= first_default else ""
                out.append(f"Value* {self.parameter_name(slot)}{default}")
        out += [f"Graph& {b}" for b in self.bodies]
        if count:
            out.append("size_t num_results")
        if self.attrs:
            required = any("Required<" in a.field for a in self.attrs)
            out.append(f"const onnx_attrs::{self.cpp}& a" + (" = {}" if declare and not required else ""))
        return ", ".join(out)

    def parameter_name(self, slot) -> str:
        name = identifier(slot.name)
        return "a_" if name == "a" else "m_" if name == "m" else name

    def variants(self) -> list[tuple[str, bool]]:
        """(return type, takes num_results)"""
        if self.name in RESULT_COUNTS:
            return [("Node&", False)]
        if self.variadic_out:
            return [("Node&", True)]
        if self.min_out == self.max_out:
            return [("Value*" if self.max_out == 1 else "Node&", False)]
        if self.min_out == 0:
            return [("Node&", True)]
        return [("Value*", False), ("Node&", True)]

    def spanned(self) -> list[str]:
        if any(i.option == OPTION.Variadic for i in self.inputs):
            return ["std::span<Value* const>", "std::initializer_list<Value*>"]
        return [""]

    def declaration(self) -> str:
        lines = []
        for result, count in self.variants():
            for span in self.spanned():
                text = f"  {result} {self.cpp}({self.parameters(True, count, span)})"
                if span.startswith("std::init"):
                    names = []
                    for i in self.inputs:
                        n = self.parameter_name(i)
                        variadic = i.option == OPTION.Variadic
                        names.append(f"std::span<Value* const>({n}.begin(), {n}.size())" if variadic else n)
                    names += self.bodies + (["num_results"] if count else []) + (["a"] if self.attrs else [])
                    text += f" {{\n    return {self.cpp}({', '.join(names)});\n  }}"
                else:
                    text += ";"
                if result == "Node&" and not self.variadic_out:
                    text += f"  // {', '.join(self.outputs)}"
                lines.append(text)
        return "\n".join(lines)

    def definition(self) -> str:
        lines = []
        for result, count in self.variants():
            lines.append(f"{result} OnnxBuilder::{self.cpp}({self.parameters(False, count, self.spanned()[0])}) {{")
            lines.append(f"  NodeMaker m(*this, kFamily{self.name});")
            lines += [f"  m.in({self.parameter_name(i)});" for i in self.inputs]
            lines += [f"  {a.emit}" for a in self.attrs]
            lines += [f'  m.body("{b}", {b});' for b in self.bodies]
            if result == "Value*":
                lines.append("  return m.one();")
            else:
                number = RESULT_COUNTS.get(self.name) or ("num_results" if count else str(self.max_out))
                lines.append(f"  return m.many({number});")
            lines.append("}")
        return "\n".join(lines)


def builder(schemas) -> tuple[str, str, str]:
    newest = {}
    for s in schemas:
        if s.domain == "":
            newest[s.name] = s
    methods = [Method(s) for n, s in sorted(newest.items()) if not s.deprecated and n not in BUILDER_SKIP]
    attrs_header = (
        HEADER
        + """// Attributes of ONNX operators, for designated initializers: b.CumSum(x, axis, {.reverse = true}).
// Fields are in alphabetical order. An attribute that is unset, or equal to the operator's default, is not written.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/dtype.h"
#include "sardonyx/tensor.h"

namespace sardonyx {
class Type;
}

namespace sardonyx::onnx_attrs {

// An attribute without default that must be given: leaving it out does not compile.
template <class T>
struct Required {
  template <class U>
    requires std::convertible_to<U, T>
  Required(U v) : value(static_cast<T>(v)) {}
  T value;
};

"""
        + "\n\n".join(m.struct() for m in methods if m.attrs)
        + "\n\n}  // namespace sardonyx::onnx_attrs\n"
    )
    header = (
        HEADER
        + """// One method per operator of the default ONNX domain, typed and checked.
//
// Operands come first (optional ones may be nullptr), then bodies, then the number of results where that may differ, then
// attributes. The model's opset import chooses the version of the operator; the parameters are those of the newest version, and
// what an older version does not know is an error. Helpers at the end spell one meaning for any opset from 13 on.
#pragma once

#include "sardonyx/builder.h"
#include "sardonyx/onnx_attrs.h"

namespace sardonyx {

class OnnxBuilder : public Builder {
 public:
  using Builder::Builder;

"""
        + "\n".join(m.declaration() for m in methods)
        + "\n\n"
        + HELPERS
        + """
 private:
  friend class NodeMaker;
};

}  // namespace sardonyx
"""
    )
    methods_inc = HEADER + "\n\n".join(m.definition() for m in methods) + "\n"
    return attrs_header, header, methods_inc


# ----------------------------------------------------------------------------------------------------------------------
# The readers

READ = {
    "kInt": ("int64_t", "int_in"),
    "kFloat": ("double", "float_in"),
    "kString": ("std::string", "string_in"),
    "kInts": ("Ints", "ints_in"),
}


def reader(name: str, ops: list[str], schemas) -> str:
    """The reader of these operators: the attributes of all their versions."""
    attrs = {}
    for s in schemas:
        if s.domain == "" and s.name in ops:
            attrs |= {n: KIND[a.type] for n, a in s.attributes.items()}
    lines = [f"class {name} : public ReaderOf<{name}> {{", " public:"]
    lines.append(f"  static constexpr auto kOps = std::to_array<std::string_view>({{{', '.join(map(quote, ops))}}});")
    lines.append("  using ReaderOf::ReaderOf;")
    for attr, kind in sorted(attrs.items()):
        held, how = ("bool", "flag_in") if attr in FLAGS else READ[kind]
        call = f"{how}({quote(attr)})"
        if attr == "axis":
            held, call = "size_t", f"axis_in({quote(attr)}, {RANK_OF.get(name, 'rank_at(0)')})"
        elif attr == "perm":
            call = "OpReader::perm()"
        elif attr == "axes":
            call = "reduced_axes()"
        elif (name, attr) in (("Split", "split"), ("Reduce", "noop_with_empty_axes")):
            continue  # an operand in newer versions; part of axes()
        lines.append(f"  std::optional<{held}> {attr}() const {{ return {call}; }}")
    return "\n".join(lines + ["};"])


def main() -> int:
    schemas = sorted(onnx.defs.get_all_schemas_with_history(), key=sort_key)
    files = {ROOT / "src/dialects/onnx/generated" / name: text for name, text in tables(schemas).items()}
    attrs_header, header, methods = builder(schemas)
    files[ROOT / "include/sardonyx/onnx_attrs.h"] = attrs_header
    files[ROOT / "include/sardonyx/onnx_builder.h"] = header
    files[ROOT / "src/dialects/onnx/generated/builder_methods.gen.inc"] = methods
    readers = [reader(name, ops.split(), schemas) for name, ops in READERS.items()]
    files[ROOT / "src/dialects/onnx/generated/readers.gen.inc"] = HEADER + "\n\n".join(readers) + "\n"
    return write(files, "gen_onnx_ops.py")


if __name__ == "__main__":
    sys.exit(main())
