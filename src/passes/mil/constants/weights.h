// Arithmetic on constants, and convolutions and linear layers with new weights: shared by the fusions into
// them.
#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "ir/tensor/tensor_transform.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {

// The constants of a graph: its own, then those of const ops, in order. Without those of nested graphs.
std::vector<Value*> constants_of(Graph& g);
// The weight_key of a const op with "=" before it, or "" if it has none: programs in memory may give weights
// keys, and weights with different keys stay apart.
std::string weight_key(const Value& v);

// The constant value of v, seen through an op that only reshapes it (compose_conv1d leaves such weights);
// null if there is none.
TensorPtr known_value(const Value* v);

// A conv or conv_transpose whose weight is constant, and whose bias is constant or absent.
struct Convolution {
  Node* node = nullptr;
  TensorPtr weight, bias;  // null weight: not constant; null bias: absent
  bool transposed = false;
  int64_t groups = 1;
  int64_t channels = 0;  // of the result
};
// With `any_weight`, the weight may also be compressed or computed, if its shape is known.
std::optional<Convolution> convolution(Node& n, PassContext& context, bool any_weight = false);

// scale * conv(x) + shift as a conv with new weights; scale and shift have one element, or one per channel of
// the result. Null if that would change a weight that is not constant.
Value* scaled(Rewriter& b, const Convolution& conv, const std::vector<double>& scale, const std::vector<double>& shift);

// The elements of a constant that varies along channels only: of shape (1, C, 1, ...) or (C, 1, ...) with
// `spatial` ones, or a single element.
std::optional<std::vector<double>> per_channel(const Tensor& t, size_t spatial, int64_t channels);

// One element of a list, as a scalar.
Value* element_of(Rewriter& b, Value* list, int64_t i);

// Whether 8-bit integers survive dequantize and quantize by this scale: no product overflows or loses digits.
bool comes_back(const Tensor& scale);

}  // namespace sardonyx::mil
