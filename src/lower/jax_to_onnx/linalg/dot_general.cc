// dot_general[((lc, rc), (lb, rb))] x, y   =>   MatMul(x', y'); Gemm for transposed matrices;
//                                               MatMulInteger for bytes; Mul if nothing is contracted
//
// MatMul takes [batch.., m, k] and [batch.., k, n]. Operands whose axes already have that order are used as
// they are: x of any rank times a matrix needs neither Transpose nor Reshape.
#include <algorithm>

#include "lower/jax_to_onnx/linalg/dot_general.h"
#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {
namespace {

using Axes = std::vector<int64_t>;

Axes free_axes(size_t rank, const Axes& a, const Axes& b) {
  Axes out;
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    if (std::ranges::find(a, i) == a.end() && std::ranges::find(b, i) == b.end()) out.push_back(i);
  }
  return out;
}

Axes joined(std::initializer_list<const Axes*> parts) {
  Axes out;
  for (const Axes* p : parts) out.insert(out.end(), p->begin(), p->end());
  return out;
}

bool is_identity(const Axes& perm) {
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<Dim> dims_at(std::span<const Dim> dims, const Axes& axes) {
  std::vector<Dim> out;
  for (int64_t a : axes) out.push_back(dims[static_cast<size_t>(a)]);
  return out;
}

struct Operands {
  Axes lhs_batch, rhs_batch, lhs_contract, rhs_contract, lhs_free, rhs_free;
  std::vector<Dim> lhs_dims, rhs_dims;
};

// Contracted axes may have any common order: takes that of x or that of y, whichever saves a Transpose.
void order_contraction(Operands& o) {
  if (o.lhs_contract.size() < 2) return;
  auto sorted_by = [&](const Axes& key) {
    std::vector<size_t> order(key.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return key[i]; });
    Operands r = o;
    for (size_t i = 0; i < order.size(); ++i) {
      r.lhs_contract[i] = o.lhs_contract[order[i]];
      r.rhs_contract[i] = o.rhs_contract[order[i]];
    }
    return r;
  };
  auto cost = [](const Operands& c) {
    return (is_identity(joined({&c.lhs_batch, &c.lhs_free, &c.lhs_contract})) ? 0 : 1) +
           (is_identity(joined({&c.rhs_batch, &c.rhs_contract, &c.rhs_free})) ? 0 : 1);
  };
  Operands by_lhs = sorted_by(o.lhs_contract), by_rhs = sorted_by(o.rhs_contract);
  o = cost(by_rhs) < cost(by_lhs) ? std::move(by_rhs) : std::move(by_lhs);
}

// Nothing is contracted: an outer product, by broadcasting.
Value* outer_product(Lowering& ctx, const Operands& o, Value* x, Value* y) {
  std::vector<Dim> xs = dims_at(o.lhs_dims, joined({&o.lhs_batch, &o.lhs_free}));
  std::vector<Dim> ys = dims_at(o.rhs_dims, o.rhs_batch);
  x = ctx.transpose(x, joined({&o.lhs_batch, &o.lhs_free}));
  y = ctx.transpose(y, joined({&o.rhs_batch, &o.rhs_free}));
  xs.insert(xs.end(), o.rhs_free.size(), Dim::of(1));
  if (!o.rhs_batch.empty()) ys.insert(ys.end(), o.lhs_free.size(), Dim::of(1));
  for (Dim d : dims_at(o.rhs_dims, o.rhs_free)) ys.push_back(d);
  return ctx.via("Mul", {ctx.reshape(x, xs), ctx.reshape(y, ys)});
}

// A product of two matrices of which x or y is transposed: Gemm takes them as they are.
Value* gemm(Lowering& ctx, const Operands& o, Value* x, Value* y) {
  if (o.lhs_dims.size() != 2 || o.rhs_dims.size() != 2 || o.lhs_contract.size() != 1 || !o.lhs_batch.empty()) return nullptr;
  const bool trans_x = o.lhs_contract[0] == 0, trans_y = o.rhs_contract[0] == 1;
  if ((!trans_x && !trans_y) || !has_kernel(ctx, "Gemm", x->dtype())) return nullptr;
  return ctx.b.Gemm(x, y, nullptr, {.transA = trans_x, .transB = trans_y});
}

// w if x is Transpose(w) with the last two axes swapped; else null.
Value* before_transpose(Value* x) {
  const Node* def = x->def();
  if (def == nullptr || !def->is("Transpose")) return nullptr;
  auto perm = def->attr_ints("perm");
  if (!perm || perm->size() < 2) return nullptr;
  std::swap(perm->end()[-1], perm->end()[-2]);
  return is_identity(*perm) ? def->input(0) : nullptr;
}

// MatMulInteger is u8 times u8, summed in i32. Signed bytes are widened instead: runtimes add pairs of their
// products in 16 bits, and saturate.
Value* product(Lowering& ctx, Value* x, Value* y) {
  return x->dtype() == DType::kU8 ? ctx.b.MatMulInteger(x, y) : ctx.via("MatMul", {x, y});
}

bool is_byte_product(Lowering& ctx, const DotAxes& axes, Value* x, Value* y, DType out) {
  return x->dtype() == DType::kU8 && y->dtype() == DType::kU8 && out == DType::kI32 && !axes.lhs_contract.empty() &&
         x->type()->rank() > axes.lhs_contract.size() && y->type()->rank() > axes.rhs_contract.size() &&
         has_kernel(ctx, "MatMulInteger", DType::kU8);
}

// x v with a vector v. onnxruntime (1.31) fuses a Transpose into the MatMul that uses it, and the result is
// wrong if the second operand is a vector. So that pair is never written: x v becomes v x', which also saves
// the Transpose, or v becomes a column. Weights are transposed for the same form: at 64 rows onnxruntime
// takes 8 times as long for x v as for v x', at 256 rows 25 times.
Value* times_vector(Lowering& ctx, Value* x, Value* v) {
  if (x->constant() && x->type()->rank() == 2) return ctx.via("MatMul", {v, ctx.transpose(x, std::vector<int64_t>{1, 0})});
  if (Value* w = before_transpose(x)) return ctx.via("MatMul", {v, w});
  if (x->def() != nullptr && x->def()->is("Transpose")) {
    const Dim column[] = {v->type()->dims()[0], Dim::of(1)};
    v = ctx.reshape(v, column);
  }
  return ctx.via("MatMul", {x, v});
}

Value* matmul(Lowering& ctx, const Operands& o, Value* x, Value* y) {
  Dims& dims = ctx.b.dims();
  const Dim k = dims.product(dims_at(o.lhs_dims, o.lhs_contract));
  const Dim n = dims.product(dims_at(o.rhs_dims, o.rhs_free));
  x = ctx.transpose(x, joined({&o.lhs_batch, &o.lhs_free, &o.lhs_contract}));
  y = ctx.transpose(y, joined({&o.rhs_batch, &o.rhs_contract, &o.rhs_free}));
  std::vector<Dim> x_shape = dims_at(o.lhs_dims, o.lhs_batch), y_shape = x_shape;
  if (o.lhs_batch.empty()) {
    // The free axes of x become MatMul's batch axes; a vector stays a vector.
    for (Dim d : dims_at(o.lhs_dims, o.lhs_free)) x_shape.push_back(d);
  } else {
    x_shape.push_back(dims.product(dims_at(o.lhs_dims, o.lhs_free)));
  }
  x_shape.push_back(k);
  y_shape.push_back(k);
  if (!o.rhs_batch.empty() || !o.rhs_free.empty()) y_shape.push_back(n);
  x = ctx.reshape(x, x_shape);
  y = ctx.reshape(y, y_shape);
  return y_shape.size() == 1 && x_shape.size() > 1 ? times_vector(ctx, x, y) : product(ctx, x, y);
}

}  // namespace

DotAxes DotAxes::of(const Lowering& ctx, const Attr& dimension_numbers) {
  const auto* numbers = dimension_numbers.get<AttrList>();
  if (numbers == nullptr || numbers->size() != 2) ctx.unsupported("dimension_numbers is not ((contracting), (batch))");
  const auto contract = rows_of(ctx, (*numbers)[0], "contracting dimensions");
  const auto batch = rows_of(ctx, (*numbers)[1], "batch dimensions");
  DotAxes axes;
  if (contract.size() == 2) axes.lhs_contract = contract[0], axes.rhs_contract = contract[1];
  if (batch.size() == 2) axes.lhs_batch = batch[0], axes.rhs_batch = batch[1];
  return axes;
}

Value* dot_product(Lowering& ctx, const DotAxes& axes, Value* x, Value* y) {
  Operands o;
  o.lhs_dims.assign(x->type()->dims().begin(), x->type()->dims().end());
  o.rhs_dims.assign(y->type()->dims().begin(), y->type()->dims().end());
  o.lhs_contract = axes.lhs_contract, o.rhs_contract = axes.rhs_contract;
  o.lhs_batch = axes.lhs_batch, o.rhs_batch = axes.rhs_batch;
  o.lhs_free = free_axes(o.lhs_dims.size(), o.lhs_contract, o.lhs_batch);
  o.rhs_free = free_axes(o.rhs_dims.size(), o.rhs_contract, o.rhs_batch);
  order_contraction(o);
  if (o.lhs_contract.empty()) return outer_product(ctx, o, x, y);
  Value* result = gemm(ctx, o, x, y);
  return result != nullptr ? result : matmul(ctx, o, x, y);
}

Value* dot_general(Lowering& ctx, const DotAxes& axes, Value* x, Value* y, DType out) {
  // JAX multiplies and adds in the preferred type if that is wider. Products of bools are counted and
  // compared with zero.
  const DType compute = out == DType::kBool ? DType::kI32 : out;
  std::vector<Dim> dims;
  auto add = [&](Value* v, const Axes& at_axes) {
    for (Dim d : dims_at(v->type()->dims(), at_axes)) dims.push_back(d);
  };
  add(x, axes.lhs_batch);
  add(x, free_axes(x->type()->rank(), axes.lhs_contract, axes.lhs_batch));
  add(y, free_axes(y->type()->rank(), axes.rhs_contract, axes.rhs_batch));
  if (!is_byte_product(ctx, axes, x, y, out)) {
    x = ctx.cast(x, compute);
    y = ctx.cast(y, compute);
  }
  return ctx.cast(ctx.reshape(dot_product(ctx, axes, x, y), dims), out);
}

std::vector<Value*> lower_dot_general(Lowering& ctx) {
  auto xs = ctx.operands();
  Value* result = dot_general(ctx, DotAxes::of(ctx, ctx.param("dimension_numbers")), xs[0], xs[1], ctx.out_dtype());
  return {ctx.reshape(result, ctx.out_dims())};
}

}  // namespace sardonyx::jax_to_onnx
