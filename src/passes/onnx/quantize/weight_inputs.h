// What products multiply weights with.
#pragma once

#include <compare>
#include <optional>

#include "passes/compress/moments.h"
#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx::onnx {

// The vectors in a value, each of which meets all rows of a weight.
struct Vectors {
  enum class Are : uint8_t { kRows, kColumns, kPatches };  // along the last axis; along the one before it; in windows

  const Value* value = nullptr;
  Are are = Are::kRows;
  const Node* windows = nullptr;  // patches: the convolution

  friend auto operator<=>(const Vectors&, const Vectors&) = default;
};

// What `reader`, a MatMul, Gemm or Conv, multiplies its weight with, whose rows are then all axes but that
// of columns or channels; nullopt where that is not known.
std::optional<Vectors> vectors_of(const Use& reader);

// Adds the vectors in `x`, which is what their value was in a run, if they have as many numbers as the
// moments.
void add_vectors(const Vectors& vectors, const Array& x, compress::Moments& moments);

}  // namespace sardonyx::onnx
