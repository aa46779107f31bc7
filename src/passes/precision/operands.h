// Operands of ops, in the words of words.h, whose rounding to half precision would make results wrong.
#pragma once

#include <cstdint>
#include <string_view>

namespace sardonyx::precision {

enum class Precision : uint8_t {
  kExact,         // must be computed in single precision, like all elementwise arithmetic before it
  kExactInLoops,  // as kExact in a loop, where it decides what the next iterations do
  kExactSum,      // as kExact, also through sums and small products before it: the logarithm of an underflow is infinite
  kBelow,         // as kLarge if it may exceed `limit`
  kSquared,       // its square counts: as kLarge if it may exceed `limit`
  kPower,         // as kSquared if it is a square, else as kLarge if the power may exceed 65504
  kLarge,         // a small operand makes a result beyond 65504
  kDivisor,       // a small element counts: exact behind a small epsilon, or if it loses digits on the given inputs
  kFactor,        // a constant of which half precision keeps at most one digit
};

struct OperandPrecision {
  std::string_view op, operand;
  Precision precision;
  double limit = 0;
};

// clang-format off
inline constexpr OperandPrecision kPrecisions[] = {
    // Angles: around 2049 radians, half precision is off by up to a third of a turn.
    {"sin", "x", Precision::kExact},
    {"cos", "x", Precision::kExact},
    {"tan", "x", Precision::kExact},
    // Inverse functions that are steep at 1 and -1.
    {"acos", "x", Precision::kExact},
    {"asin", "x", Precision::kExact},
    {"atanh", "x", Precision::kExact},
    // Remainders: small differences of large numbers.
    {"mod", "x", Precision::kExact},
    {"mod", "y", Precision::kExact},
    {"floor_div", "x", Precision::kExact},
    {"floor_div", "y", Precision::kExact},
    // Coordinates in images: from 1024 on, half precision represents only whole pixels.
    {"affine", "transform_matrix", Precision::kExact},
    {"crop_resize", "roi", Precision::kExact},
    {"crop_resize", "boxes", Precision::kExact},
    {"non_maximum_suppression", "boxes", Precision::kExact},
    {"resample", "coordinates", Precision::kExact},
    // Operands that become integers (only casts to integers).
    {"cast", "x", Precision::kExact},
    // Decisions in loops: how often they run, which box or beam they choose, whether a solver accepts a step.
    {"equal", "x", Precision::kExactInLoops},
    {"equal", "y", Precision::kExactInLoops},
    {"not_equal", "x", Precision::kExactInLoops},
    {"not_equal", "y", Precision::kExactInLoops},
    {"less", "x", Precision::kExactInLoops},
    {"less", "y", Precision::kExactInLoops},
    {"less_equal", "x", Precision::kExactInLoops},
    {"less_equal", "y", Precision::kExactInLoops},
    {"greater", "x", Precision::kExactInLoops},
    {"greater", "y", Precision::kExactInLoops},
    {"greater_equal", "x", Precision::kExactInLoops},
    {"greater_equal", "y", Precision::kExactInLoops},
    {"argsort", "x", Precision::kExactInLoops},
    {"reduce_argmax", "x", Precision::kExactInLoops},
    {"reduce_argmin", "x", Precision::kExactInLoops},
    {"topk", "x", Precision::kExactInLoops},
    // Functions whose results leave the range of half precision.
    {"log", "x", Precision::kExactSum},
    {"reduce_log_sum", "x", Precision::kExactSum},
    {"exp", "x", Precision::kBelow, 11},
    {"exp2", "x", Precision::kBelow, 15.9},
    {"sinh", "x", Precision::kBelow, 11},
    {"cosh", "x", Precision::kBelow, 11},
    {"square", "x", Precision::kSquared, 255},
    {"reduce_sum_square", "x", Precision::kSquared, 255},
    {"reduce_l2_norm", "x", Precision::kSquared, 255},
    {"l2_norm", "x", Precision::kSquared, 255},
    {"pow", "x", Precision::kPower, 255},
    {"reduce_prod", "x", Precision::kBelow, 1},
    {"inverse", "x", Precision::kLarge},
    {"rsqrt", "x", Precision::kLarge},
    // What makes large numbers of small ones: of 1e-8, which half precision rounds to zero, an infinite one.
    {"real_div", "y", Precision::kDivisor},
    {"inverse", "x", Precision::kDivisor},
    {"rsqrt", "x", Precision::kDivisor},
    {"log", "x", Precision::kDivisor},
    {"reduce_log_sum", "x", Precision::kDivisor},
    {"pow", "x", Precision::kDivisor},  // to a negative power
    // Factors below 2^-14, of which half precision keeps few digits: 1e-6 becomes 0.95e-6.
    {"mul", "x", Precision::kFactor},
    {"mul", "y", Precision::kFactor},
    {"quantize", "scale", Precision::kFactor},
    {"dequantize", "scale", Precision::kFactor},
};
// clang-format on

}  // namespace sardonyx::precision
