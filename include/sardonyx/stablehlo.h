// StableHLO modules: what jax.export, PyTorch/XLA and other systems save.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "sardonyx/io.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Reads a StableHLO module in one of these forms, which its first bytes tell apart:
// - the text of MLIR, in the custom or the generic form of operations;
// - MLIR bytecode with VHLO, a portable artifact of StableHLO up to version 1.20;
// - the container that jax.export.Exported.serialize() writes, which holds bytecode.
//
// The model is of the stablehlo dialect (src/dialects/stablehlo/dialect.h), its main function is the module's
// entry. Constants refer to the file where its bytes are theirs; a text is not kept.
//
// Throws Error: kIo (cannot be read), kParse (text, with line and column), kInvalidModel (damaged bytecode,
// undefined names, wrong attributes), kUnsupported (quantized elements, tokens, tuples, newer versions),
// kLimit.
std::unique_ptr<Model> load_stablehlo(const std::filesystem::path& path, const ReadOptions& options = {});

// Reads from memory, which `keepalive` keeps valid; without one, constants are copied. `name` is the file's
// name in errors.
std::unique_ptr<Model> read_stablehlo(std::span<const std::byte> bytes, std::shared_ptr<const void> keepalive,
                                      std::string_view name = "<module>", const ReadOptions& options = {});

// Lowers the main function of a model of the stablehlo dialect, with the functions that it calls in line.
// Payloads are shared, not copied.
//
// Sizes that are `?` become expressions. An open size of an input has the name that the module gives it
// (jax.global_constant), else "PORT_dimAXIS". Sizes that the module computes from others follow from those.
//
// Throws one Error(kUnsupported) that lists all operations that cannot be lowered: name, types, count, source
// line.
std::unique_ptr<Model> lower_stablehlo_to_jax(const Model& stablehlo);

}  // namespace sardonyx
