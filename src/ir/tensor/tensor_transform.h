// Reshapes, transposes and casts constants at compile time, for lowerings and passes. Large results are
// deferred: computed when written.
#pragma once

#include <span>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx {

bool can_transpose(const Tensor& t);  // element types of whole bytes
TensorPtr transposed(const TensorPtr& t, const std::vector<int64_t>& perm);

// Only small constants, and only between types where every cast gives the same result: no float outside an
// integer type's range.
bool can_cast(const Tensor& t, DType to);
TensorPtr casted(const Tensor& t, DType to);

// All elements, converted.
std::vector<double> doubles(const Tensor& t);
// A constant of these elements, rounded to dtype.
TensorPtr tensor_of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& elements);

}  // namespace sardonyx
