#include "lower/jax_to_onnx/lib/wide_integers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dialects/onnx/runtimes/wrong_kernels.h"
#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr double kLowWord = 0x1p31;       // kernels that compare only low words are right below this
constexpr double kInDoubles = 0x1p53;     // doubles represent all integers up to this
constexpr double kUnknownCount = 0x1p21;  // assumed limit on elements per reduction over axes of symbolic sizes
constexpr int kMaxDepth = 8;

double bound_of(DType t) { return std::ldexp(1.0, t == DType::kBool ? 1 : is_signed(t) ? bit_width(t) - 1 : bit_width(t)); }

double bound_of(const Tensor& known) {
  double bound = 0;
  const int64_t count = known.is_splat() ? std::min<int64_t>(known.size(), 1) : known.size();
  for (int64_t i = 0; i < count; ++i) {
    const double v = known.as_double(i);
    bound = std::max(bound, v < 0 ? -v : v + 1);
  }
  return bound;
}

bool is_one_of(const Node& n, std::initializer_list<std::string_view> ops) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return n.is(op); });
}

double bound(const Lowering& ctx, const Value* v, int depth) {
  const DType t = v->dtype();
  if (!is_integer(t) && t != DType::kBool) return std::numeric_limits<double>::infinity();
  const double by_type = bound_of(t);
  if (const TensorPtr& known = v->constant()) {
    const bool is_small = known->is_splat() || (known->size() <= 4096 && !known->is_deferred());
    return is_small ? bound_of(*known) : by_type;
  }
  if (const SymbolicValue* known = ctx.b.facts().find(*v)) {
    const bool is_small = std::ranges::all_of(known->elements, [&](Dim d) {
      if (d.is_int()) return std::abs(static_cast<double>(d.value())) < kLowWord;
      return ctx.b.dims().range(d).min.has_value();  // computed from sizes, not from data
    });
    return is_small ? std::min(by_type, kLowWord) : by_type;
  }
  const Node* n = v->def();
  if (n == nullptr || depth == kMaxDepth) return by_type;
  if (is_one_of(*n, {"Shape", "Size", "ArgMax", "ArgMin", "NonZero"})) return std::min(by_type, kLowWord);
  const auto of = [&](size_t first, size_t last) {
    double found = 0;
    for (size_t i = first; i < last; ++i) {
      // A negative number wraps in an unsigned type.
      const double part = bound(ctx, n->input(i), depth + 1);
      found = std::max(found, is_unsigned(t) && is_signed(n->input(i)->dtype()) ? by_type : part);
    }
    return std::min(found, by_type);
  };
  if (is_one_of(*n, {"Cast", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Slice", "Gather", "Tile", "Identity"}))
    return of(0, 1);
  if (is_one_of(*n, {"Concat", "Max", "Min"})) return of(0, n->num_inputs());
  if (n->is("Where")) return of(1, 3);
  if (n->is("Range")) return of(0, 2);
  if (n->is("Mul")) return std::min(by_type, bound(ctx, n->input(0), depth + 1) * bound(ctx, n->input(1), depth + 1));
  return by_type;
}

bool has_one_element(std::span<Value* const> xs) {
  return std::ranges::all_of(
      xs, [](const Value* x) { return x->ranked() && std::ranges::all_of(x->type()->dims(), [](Dim d) { return d.is(1); }); });
}

double count_of(const Value* x, std::span<const int64_t> axes) {
  double known = 1;
  bool all_known = true;
  for (const int64_t axis : axes) {
    const auto rank = static_cast<int64_t>(x->type()->rank());
    const Dim d = x->type()->dim(static_cast<size_t>(axis < 0 ? axis + rank : axis));
    if (d.is_int())
      known *= static_cast<double>(d.value());
    else
      all_known = false;
  }
  return all_known ? known : std::max(known, kUnknownCount);
}

// Splits elements into pieces of `width` bits, whose sums are exact in doubles, and adds up the shifted sums.
// Mod has the sign of its divisor, so no piece is negative but the last, which holds the sign.
Value* sum_of_pieces(Lowering& ctx, Value* x, const std::vector<int64_t>& axes, bool keepdims, int width) {
  OnnxBuilder& b = ctx.b;
  Value *rest = ctx.cast(x, DType::kI64), *total = nullptr;
  for (int shift = 0; shift < 64; shift += width) {
    const bool is_last = shift + width == 64;
    Value* unit = b.i64(int64_t{1} << width);
    Value* piece = is_last ? rest : b.Mod(rest, unit);
    Value* sum = b.reduce("ReduceSum", piece, axes, keepdims);
    if (shift > 0) sum = b.Mul(sum, b.i64(int64_t{1} << shift));
    total = total == nullptr ? sum : b.Add(total, sum);
    if (!is_last) rest = b.Div(b.Sub(rest, piece), unit);
  }
  return total;
}

Value* exact_sum(Lowering& ctx, Value* x, const std::vector<int64_t>& axes, bool keepdims) {
  const DType own = x->dtype();
  const double count = count_of(x, axes), bound = integer_bound(ctx, x) * count;
  const DType wide = kernel_dtype(ctx, {"ReduceSum"}, own);
  if (!is_wrong(ctx, "ReduceSum", wide) || (wide == DType::kI32 && bound <= kLowWord)) return nullptr;
  Value* sum = bound <= kInDoubles ? ctx.b.reduce("ReduceSum", ctx.cast(x, DType::kI64), axes, keepdims)
                                   : sum_of_pieces(ctx, x, axes, keepdims, count <= kUnknownCount ? 32 : 16);
  return ctx.cast(sum, own);
}

// The first element of the sorted axis, axis by axis; over no elements, the identity.
Value* exact_extreme(Lowering& ctx, const Reduction& r, Value* x, const std::vector<int64_t>& axes, bool keepdims) {
  const DType own = x->dtype();
  x = ctx.cast(x, DType::kI64);
  for (const int64_t axis : axes) {
    const Dim size = x->type()->dim(static_cast<size_t>(axis));
    if (size.is(1)) continue;
    if (ctx.context().model().dims().range(size).min.value_or(0) < 1) {
      std::vector<Dim> dims(x->type()->dims().begin(), x->type()->dims().end());
      dims[static_cast<size_t>(axis)] = Dim::of(1);
      Value* pieces[] = {x, ctx.expand(ctx.cast(identity_element(ctx, r, own), DType::kI64), dims)};
      x = ctx.concat(pieces, axis);
    }
    AttrInit attrs{attr("axis", axis)};
    if (r.op == "Min") attrs.push_back(attr("largest", 0));
    x = ctx.b.node("TopK", std::vector<Value*>{x, ctx.b.i64s({1})}, 2, std::move(attrs)).result(0);
  }
  return ctx.cast(keepdims ? x : ctx.squeeze(x, axes), own);
}

}  // namespace

bool is_wrong(const Lowering& ctx, std::string_view op, DType t) {
  const bool any = ctx.context().options().target.empty();
  return onnx::is_wrong(op, t, any ? nullptr : &ctx.context().runtime());
}

double integer_bound(const Lowering& ctx, const Value* v) { return bound(ctx, v, 0); }

Value* exact_op(Lowering& ctx, std::string_view op, std::span<Value* const> xs) {
  OnnxBuilder& b = ctx.b;
  const bool is_plain = !is_wrong(ctx, op, xs[0]->dtype()) || has_one_element(xs) ||
                        std::ranges::all_of(xs, [&](const Value* x) { return integer_bound(ctx, x) <= kLowWord; });
  if (is_plain) return b.op(op, xs);
  if (op == "Sign") return ctx.cast(b.Sign(ctx.cast(xs[0], DType::kF32)), xs[0]->dtype());  // rounding keeps signs
  if (op == "Clip") return exact_op(ctx, "Min", {exact_op(ctx, "Max", {xs[0], xs[1]}), xs[2]});
  Value* result = xs[0];
  for (Value* x : xs.subspan(1)) result = b.Where(b.op(op == "Max" ? "Less" : "Greater", {result, x}), x, result);
  return result;
}

Value* clamped_index(Lowering& ctx, Value* index, Value* first, Value* last) {
  return exact_op(ctx, "Max", {exact_op(ctx, "Min", {index, last}), first});
}

Value* exact_reduce(Lowering& ctx, std::string_view op, Value* x, std::span<const int64_t> axes, bool keepdims) {
  if (!is_integer(x->dtype())) return nullptr;
  std::vector<int64_t> reduced(axes.begin(), axes.end());
  for (int64_t& axis : reduced) axis += axis < 0 ? static_cast<int64_t>(x->type()->rank()) : 0;
  if (op == "ReduceSum") return exact_sum(ctx, x, reduced, keepdims);
  const Reduction* r = op == "ReduceMax" ? find_reduction("max") : op == "ReduceMin" ? find_reduction("min") : nullptr;
  if (r == nullptr) return nullptr;
  const DType wide = kernel_dtype(ctx, {op}, x->dtype());
  if (!is_wrong(ctx, op, wide) || integer_bound(ctx, x) <= kLowWord) return nullptr;
  return exact_extreme(ctx, *r, x, reduced, keepdims);
}

}  // namespace sardonyx::jax_to_onnx
