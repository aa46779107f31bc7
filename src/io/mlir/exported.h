// The container that jax.export.Exported.serialize() writes: a module, and what it does not say of the
// function. Source: the schema of JAX (jax/_src/export/serialization.fbs).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::mlir {

// One leaf of the tree of arguments or results.
struct ExportedLeaf {
  std::string path;                // "args[0]['w']", "kwargs['x']", "result[1]"
  std::vector<std::string> sizes;  // of an argument: "3", "b", "2*b + 1"
};

struct Exported {
  std::string function;
  std::vector<ExportedLeaf> inputs, outputs;
  std::vector<size_t> kept_inputs;    // which leaves the module's function takes
  std::span<const std::byte> module;  // bytecode
};

// Nullopt if the bytes are something else. Throws kInvalidModel, kUnsupported (a newer calling convention),
// kLimit.
std::optional<Exported> read_exported(std::span<const std::byte> file);

// Gives names to ports of the module's function that have none, names to the sizes of its inputs, and its
// name to its graph.
void describe(Model& model, const Exported& exported);

}  // namespace sardonyx::mlir
