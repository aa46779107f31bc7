// MatMul, Gemm.
#include <fmt/format.h>

#include "ir/tensor/tensor_transform.h"
#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {

// Vectors become matrices; a reshape removes the added axis from the product.
Value* product(Lowering& ctx, Value* x, Value* y, bool transpose_x, bool transpose_y) {
  if (!ctx.takes("matmul", x->dtype())) ctx.unsupported(fmt::format("Core ML's matmul takes no {}", to_string(x->dtype())));
  const bool row = x->type()->rank() == 1, column = y->type()->rank() == 1;
  if (row) x = ctx.unsqueeze(x, std::vector<int64_t>{0});
  if (column) y = ctx.unsqueeze(y, std::vector<int64_t>{1});
  Value* z = ctx.b.matmul(x, y, {.transpose_x = transpose_x && !row, .transpose_y = transpose_y && !column});
  const auto rank = as_int(z->type()->rank());
  std::vector<int64_t> gone;
  if (row) gone.push_back(rank - 2);
  if (column) gone.push_back(rank - 1);
  return ctx.squeeze(z, gone);
}

std::vector<Value*> lower_MatMul(Lowering& ctx) {
  ctx.in_type(0), ctx.in_type(1);  // refuses unknown ranks
  return {product(ctx, ctx.in(0), ctx.in(1))};
}

namespace {

// The bias of a linear layer: a constant vector of n numbers; null if C is anything else.
TensorPtr as_bias(const Value* c, int64_t n) {
  if (c == nullptr || !c->is_constant()) return nullptr;
  const TensorPtr& t = c->constant();
  if (t->size() == n && (t->rank() == 0 || t->shape().back() == n)) return t->reshaped({n});
  if (t->size() != 1) return nullptr;
  std::vector<std::byte> scratch;
  return Tensor::splat(t->dtype(), {n}, t->bytes(scratch));
}

}  // namespace

// If B is constant, writes `linear`, whose weight is B transposed.
std::vector<Value*> lower_Gemm(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value *x = ctx.in(0), *y = ctx.in(1), *c = ctx.in_or_null(2);
  const double alpha = ctx.float_attr("alpha", 1), beta = ctx.float_attr("beta", 1);
  const bool trans_x = ctx.int_attr("transA", 0) != 0, trans_y = ctx.int_attr("transB", 0) != 0;
  if (beta == 0) c = nullptr;
  Value* z = nullptr;
  if (y->is_constant() && !trans_x && ctx.takes("linear", x->dtype()) && can_transpose(*y->constant())) {
    const TensorPtr weight = trans_y ? y->constant() : transposed(y->constant(), {1, 0});
    const TensorPtr bias = alpha == 1 && beta == 1 ? as_bias(c, weight->shape()[0]) : nullptr;
    Value* kept = trans_y ? y : b.constant(weight, y->name().view());
    z = bias != nullptr ? b.linear(x, {.bias = bias, .weight = kept}) : b.linear(x, {.weight = kept});
    if (bias != nullptr) return {z};
  } else {
    if (!ctx.takes("matmul", x->dtype())) ctx.unsupported(fmt::format("Core ML's matmul takes no {}", to_string(x->dtype())));
    z = b.matmul(x, y, {.transpose_x = trans_x, .transpose_y = trans_y});
  }
  if (alpha != 1) z = b.mul(z, ctx.like(z, alpha));
  if (c == nullptr) return {z};
  return {b.add(z, beta == 1 ? c : b.mul(c, ctx.like(c, beta)))};
}

}  // namespace sardonyx::onnx_to_mil
