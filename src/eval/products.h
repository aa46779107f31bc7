// Matrix products that several kernels share.
#pragma once

#include "eval/kernel.h"

namespace sardonyx::eval {

// NumPy's matmul of two arrays of one dtype. Floats are summed in f64 in the order of k (by Eigen when
// EvalOptions::fast_products is set); integers wrap.
Array matmul(Call& c, const Array& a, const Array& b, DType out);

// c[m][n] = sum over k of a[m][k] * b[k][n], for dense matrices of doubles.
void product_of(Call& c, const double* a, const double* b, double* out, int64_t m, int64_t k, int64_t n);
void product_of(Call& c, const float* a, const float* b, float* out, int64_t m, int64_t k, int64_t n);

}  // namespace sardonyx::eval
