// sort[dimension, num_keys] xs   =>   TopK<largest = 0> of each key, last key first, and GatherElements
//
// A complex key becomes two keys: the real part, then the imaginary part.
//
// TopK breaks ties by index, so every sort is stable whether is_stable asks for it or not. JAX puts NaN last
// and treats -0 as 0. TopK agrees on -0 but not on NaN, so it gets infinities instead, and a second pass
// moves the NaNs behind them.
#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/reductions/reduction.h"

namespace sardonyx::jax_to_onnx {
namespace {

struct Order {
  Value* sorted = nullptr;  // the key in that order, if TopK sorted it unchanged
  Value* index = nullptr;   // i64
};

class Sorter {
 public:
  explicit Sorter(Lowering& ctx) : ctx_(ctx), axis_(ctx.int_param("dimension")) {
    size_ = ctx.in_dims(0)[static_cast<size_t>(axis_)];
  }

  Order ascending(Value* key) {
    DType own = key->dtype();
    if (own == DType::kU64) {
      Node& top = bottom(to_ordered_i64(ctx_, key));
      return {from_ordered_i64(ctx_, top.result(0)), top.result(1)};
    }
    DType wide = kernel_dtype(ctx_, {"TopK"}, own);
    Value* x = ctx_.cast(key, wide);
    if (!is_float(own)) {
      Node& top = bottom(x);
      return {ctx_.cast(top.result(0), own), top.result(1)};
    }
    OnnxBuilder& b = ctx_.b;
    Value* nan = b.IsNaN(x);
    Value* by_value = bottom(b.Where(nan, ctx_.like(x, std::numeric_limits<double>::infinity()), x)).result(1);
    Value* by_kind = bottom(ctx_.cast(take(nan, by_value), DType::kI32)).result(1);
    return {nullptr, take(by_value, by_kind)};
  }

  Value* take(Value* x, Value* index) { return ctx_.b.GatherElements(x, index, {.axis = axis_}); }

 private:
  Node& bottom(Value* x) { return ctx_.b.TopK(x, ctx_.shape({&size_, 1}), {.axis = axis_, .largest = false}); }

  Lowering& ctx_;
  int64_t axis_;
  Dim size_;
};

}  // namespace

std::vector<Value*> lower_sort(Lowering& ctx) {
  auto key_operands = static_cast<size_t>(ctx.int_param("num_keys"));
  std::vector<Complex> xs;
  std::vector<Value*> keys;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    xs.push_back(operand(ctx, i));
    if (i >= key_operands) continue;
    keys.push_back(xs[i].re.value());
    if (xs[i].im) keys.push_back(xs[i].im->value());
  }
  Sorter sorter(ctx);
  Order order = sorter.ascending(keys.back());
  for (size_t k = keys.size() - 1; k-- > 0;) {
    Order next = sorter.ascending(sorter.take(keys[k], order.index));
    order = {nullptr, sorter.take(order.index, next.index)};
  }
  std::vector<Value*> results;
  for (size_t i = 0; i < xs.size(); ++i) {
    bool is_done = i == key_operands - 1 && order.sorted != nullptr && xs[i].is_real();
    if (is_done) {
      results.push_back(order.sorted);
    } else {
      results.push_back(
          result(ctx, each_part(xs[i], [&](const Num& v) { return v.with(sorter.take(v.value(), order.index)); }), i));
    }
  }
  return results;
}

}  // namespace sardonyx::jax_to_onnx
