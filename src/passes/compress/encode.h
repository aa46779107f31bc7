// Stores a tensor of floats as integers of 8 or 4 bits: x is about scale * (code - zero point).
#pragma once

#include <optional>
#include <vector>

#include "passes/compress/groups.h"
#include "passes/compress/moments.h"

namespace sardonyx::compress {

// If all weights have more bytes, codes of those with so many elements are computed when they are read.
constexpr size_t kManyBytes = size_t{1} << 30;
constexpr int64_t kLargeSize = 1 << 16;

struct Codes {
  TensorPtr codes, scales, zeros;  // zeros: null for signed codes
};

// What a weight is multiplied with: number i of these vectors with the elements of row i, where the rows are
// all axes but `channel`, in row-major order.
struct Inputs {
  const Moments* moments = nullptr;  // null: unknown
  size_t channel = 0;
};

// The type of the scales of t: its own, and f32 for bf16, which no kernel makes of integers.
DType scale_type(const Tensor& t);

// Each group has a scale, of scale_type(t), and a zero point if `type` has no sign; least_squares.h chooses
// them, and where inputs are known error_feedback.h. `scale_shape` has as many elements as there are groups.
// Nullopt if an element is infinite or NaN.
std::optional<Codes> encode(const Tensor& t, const Grouping& grouping, DType type, const std::vector<int64_t>& scale_shape,
                            const Inputs& inputs = {});

// The same without inputs, computed when parts are read and then forgotten: for more weights than memory
// holds. Codes are read first; what is read again is computed again.
std::optional<Codes> encode_when_read(TensorPtr t, Grouping grouping, DType type, const std::vector<int64_t>& scale_shape);

// The f32 weight as f16 or bf16, rounded when it is read. Null if an element is infinite or NaN, or would
// become so.
TensorPtr rounded(const TensorPtr& t, DType to);

}  // namespace sardonyx::compress
