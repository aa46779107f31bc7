// Entry points for hostile bytes. Each function passes them to one reader, and the resulting model to
// inference, evaluator, printer and writers.
//
// They may throw only Error, and never with code kInternal. make fuzz-bytes runs them under libFuzzer.
// sx_unit replays tests/bytes/kept, the inputs that once did harm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sardonyx::bytes {

using Input = std::span<const uint8_t>;

// The message of an .onnx file.
void onnx(Input bytes);
// Four bytes with the little-endian length of a Core ML Model message; the message; the file
// weights/weight.bin.
void coreml(Input bytes);
// A text in the .sx form.
void text(Input bytes);
// Four bytes with the little-endian length of a text; the text of a saved program; the sidecar with its
// constants.
void program(Input bytes);
// The text of a StableHLO module.
void mlir_text(Input bytes);
// A portable artifact, or a function that jax.export wrote.
void mlir_bytecode(Input bytes);

// The memory that a reader may take for an input of that size: a constant for tables, and a multiple of the
// input.
constexpr size_t memory_cap(size_t input) { return (size_t{64} << 20) + 256 * input; }

}  // namespace sardonyx::bytes
