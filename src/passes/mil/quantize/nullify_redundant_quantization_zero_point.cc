//   quantize or dequantize (zero_point = 0)                 =>    the same without a zero point
//   dequantize(constant int8, zero_point = -128)            =>    dequantize(constant + 128 as uint8)
//   quantize(x, -128, "int8") ── dequantize(-128) ── y      =>    quantize(x, "uint8") ── dequantize ── y
//
// The last two also apply to uint8 and 128. This saves a subtraction. Between int8 and uint8, a shift by 128
// flips the highest bit and nothing else. The value in between must have no other user, which would see it
// shifted. After coremltools' pass of this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr size_t kDeferBytes = 64 << 10;

// -128 or 128 if all zero points are that, else 0.
int far_zero(const Match& found, Var v) {
  const auto z = found.splat(v);
  return z && (*z == -128 || *z == 128) ? static_cast<int>(*z) : 0;
}

// Converts to uint8 by adding 128, or to int8 by subtracting it.
TensorPtr shifted(const TensorPtr& t) {
  const DType to = t->dtype() == DType::kI8 ? DType::kU8 : DType::kI8;
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  const auto flip = [](std::span<std::byte> bytes) {
    for (std::byte& b : bytes) b ^= std::byte{0x80};
  };
  if (t->byte_size() > kDeferBytes) {
    return Tensor::defer(to, std::move(shape), Tensor::Fill([t, flip](int64_t first, std::span<std::byte> out) {
                           t->read(first, out);
                           flip(out);
                         }));
  }
  std::vector<std::byte> scratch;
  const auto from = t->bytes(scratch);
  std::vector<std::byte> out(from.begin(), from.end());
  flip(out);
  return Tensor::own(to, std::move(shape), std::move(out));
}

}  // namespace

Pass nullify_redundant_quantization_zero_point() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"}, zero{"zero"}, second_zero{"second_zero"}, integers{"integers"};
  const auto without = [](Rewriter& b, const Match& found) { return b.like(found.root(), {{"zero_point", nullptr}}); };
  return std::vector<Rule>{
      {.name = "quantize_zero", .match = m::quantize(x, splat(0)), .build = without},
      {.name = "dequantize_zero", .match = m::dequantize(x, splat(0)), .build = without},
      {.name = "constant",
       .match = m::dequantize(constant.as(x), constant.as(zero)),
       .when =
           [](const Match& found) {
             return far_zero(found, zero) != 0 &&
                    !found[x]->constant()->is_promise();  // int8 or uint8: other types are refused
           },
       .build =
           [](Rewriter& b, const Match& found) {
             return b.like(found.root(), {{"input", shifted(found[x]->constant())}, {"zero_point", nullptr}});
           }},
      {.name = "pair",
       .match = m::dequantize(sole(m::quantize(x, constant.as(zero)).as(integers)), constant.as(second_zero)),
       .when =
           [](const Match& found) {
             return far_zero(found, zero) != 0 && far_zero(found, zero) == far_zero(found, second_zero);
           },
       .build =
           [](Rewriter& b, const Match& found) {
             const char* other = far_zero(found, zero) == -128 ? "uint8" : "int8";
             Value* q = b.like(found.node(integers), {{"zero_point", nullptr}, {"output_dtype", other}});
             return b.like(found.root(), {{"input", q}, {"zero_point", nullptr}});
           }},
  };
}

}  // namespace sardonyx::mil
