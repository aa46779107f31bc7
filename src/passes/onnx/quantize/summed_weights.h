// Codes of weights that are multiplied with codes of 8 bits without a sign, and summed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx::onnx {

// Where the weights of a channel of results are: its `outer` x `inner` numbers, which runtimes sum in this
// order or with the two exchanged (channels and places of a convolution).
struct Sums {
  int64_t channels = 0, outer = 1, inner = 0;
  int64_t channel_stride = 0, inner_stride = 1;  // and inner * inner_stride between outer ones
};

struct WeightCodes {
  TensorPtr codes;            // i8, in the weight's shape
  std::vector<float> scales;  // of each channel
};

// The codes with about the least squared error; all weights are finite. x86 processors without VNNI add two
// neighboring products in 16 bits, which saturates: the codes of two neighbors with one sign add up to 128 at
// most, unless full_range. No scale is below `least` (empty: any).
WeightCodes encode_summed(const Tensor& weight, const Sums& sums, std::span<const float> least, bool full_range);

// What results lose by rounding the weights, where the channels of x have these means. A matrix has `inner`
// channels, a convolution `outer` ones in each group, and any number of places.
std::vector<double> lost_of_means(const Tensor& weight, const Sums& sums, int64_t groups, const Tensor& codes,
                                  std::span<const float> scales, std::span<const double> means);

}  // namespace sardonyx::onnx
