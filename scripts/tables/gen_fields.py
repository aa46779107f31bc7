"""Writes the field numbers of ONNX's and Core ML's messages: src/io/onnx/fields_onnx.h and src/io/coreml/fields_coreml.h.

scripts/tables/gen_fields.py          from the protobuf descriptors in the pip packages onnx and coremltools
scripts/tables/gen_fields.py --check  says which file is out of date
"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from pathlib import Path

import gen_tables
import onnx
from gen_tables import ROOT
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

IO = ROOT / "src" / "io"

# The messages of Model.proto that describe interfaces. The others hold models of other kinds than programs.
MODEL_MESSAGES = {"Model", "ModelDescription", "FunctionDescription", "FeatureDescription", "Metadata"}

WIRE_TYPES = {
    FieldDescriptor.TYPE_FLOAT: "kFixed32",
    FieldDescriptor.TYPE_DOUBLE: "kFixed64",
    FieldDescriptor.TYPE_INT32: "kVarint",
    FieldDescriptor.TYPE_INT64: "kVarint",
    FieldDescriptor.TYPE_UINT32: "kVarint",
    FieldDescriptor.TYPE_UINT64: "kVarint",
    FieldDescriptor.TYPE_BOOL: "kVarint",
    FieldDescriptor.TYPE_ENUM: "kVarint",
    FieldDescriptor.TYPE_STRING: "kBytes",
    FieldDescriptor.TYPE_BYTES: "kBytes",
    FieldDescriptor.TYPE_MESSAGE: "kBytes",
}


def constant(name: str) -> str:
    """kIsUpdatable for isUpdatable and for is_updatable."""
    return "k" + "".join(part[0].upper() + part[1:] for part in name.split("_"))


def message(descriptor: Descriptor, indent: str = "") -> list[str]:
    inner = [m for m in descriptor.nested_types if not m.GetOptions().map_entry]
    rows = [f"{indent}struct {descriptor.name} {{"]
    for nested in inner:
        rows += message(nested, indent + "  ")
    for f in sorted(descriptor.fields, key=lambda f: f.number):
        value = f"wire::field({f.number}, wire::{WIRE_TYPES[f.type]})"
        rows.append(f"{indent}  static constexpr wire::Field {constant(f.name)} = {value};")
    return [*rows, f"{indent}}};"] if len(rows) > 1 else []


def header(source: str, *namespaces: tuple[str, str, list[Descriptor]]) -> str:
    rows = [
        f"// Written by scripts/tables/gen_fields.py from {source}. Do not edit.",
        "#pragma once",
        "",
        '#include "io/wire.h"',
    ]
    for name, comment, messages in namespaces:
        rows += ["", f"// {comment}", f"namespace sardonyx::{name} {{", ""]
        for m in messages:
            rows += message(m)
        rows += ["", f"}}  // namespace sardonyx::{name}"]
    return "\n".join([*rows, ""])


def messages_of(file: FileDescriptor, only: set[str] | None = None) -> list[Descriptor]:
    return [m for name, m in file.message_types_by_name.items() if only is None or name in only]


def main() -> int:
    logging.disable()  # coremltools reports what it misses outside of macOS
    from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2  # noqa: PLC0415

    model = [*messages_of(Model_pb2.DESCRIPTOR, MODEL_MESSAGES), *messages_of(FeatureTypes_pb2.DESCRIPTOR)]
    files: dict[Path, str] = {
        IO / "onnx" / "fields_onnx.h": header(
            f"the descriptors of onnx {onnx.__version__}",
            ("onnx_file", "onnx.proto", messages_of(onnx.onnx_ml_pb2.DESCRIPTOR)),
        ),
        IO / "coreml" / "fields_coreml.h": header(
            f"the descriptors of coremltools {version('coremltools')}",
            ("milspec", "MIL.proto", messages_of(MIL_pb2.DESCRIPTOR)),
            ("spec", "Model.proto and FeatureTypes.proto", model),
        ),
    }
    return gen_tables.write(files, "gen_fields.py")


if __name__ == "__main__":
    sys.exit(main())
