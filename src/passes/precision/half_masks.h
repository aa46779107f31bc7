// Constants that half precision cannot represent, and the values that they mask.
//
// Attention adds -1e9 or the least number of single precision, -3.4e38, to masked scores. In half precision
// both would be -inf, and the softmax of a fully masked row would be NaN; in single precision it is a mean.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "passes/precision/words.h"

namespace sardonyx::precision {

inline constexpr double kLargestHalf = 65504;
inline constexpr double kLeastNormalHalf = 0x1p-14;
inline constexpr double kAsGoodAsInfinite = 1e38;  // numbers this large are masks, whose value does not matter

struct HalfFit {
  bool overflows = false;  // an element above 65504 whose value matters
  bool saturates = false;  // a finite element that becomes 65504 or -65504
  bool vanishes = false;   // all elements are below 2^-14, where half precision has fewer digits, and some are not zero
};
// Decides which constants of single precision fit; constants of other types do. Reads each constant once.
class HalfFits {
 public:
  // mask: finite elements of at least this magnitude stand for infinity.
  explicit HalfFits(double mask = kAsGoodAsInfinite) : mask_(static_cast<float>(mask)) {}
  HalfFit of(const TensorPtr& t);

 private:
  float mask_;
  std::unordered_map<TensorPtr, HalfFit> known_;
};

// Whether the operand is a factor of a product or of a normalization, where no number stands for infinity.
bool is_factor(const Node& n, size_t operand);

// Whether all elements below -65504 act as -inf where the tensor is added before a softmax of its last axis:
// each row that has one also has one above -1000, and no element exceeds 65504.
bool only_hides(const Tensor& t);

// The tensor with larger elements clamped to 65504 and -65504. Infinite ones stay.
TensorPtr saturated(const TensorPtr& t);

// The constant with the least numbers of half precision in place of those that would round to zero; null if
// there are none, and for 400 elements or more, among which zeros are assumed to be those of a sparse matrix.
TensorPtr saved_from_zero(const Tensor& t);

// Values that a constant above 65504 may have masked: by arithmetic, or by moving or choosing elements.
std::unordered_set<const Value*> masked_values(Graph& function, HalfFits& fits);

}  // namespace sardonyx::precision
