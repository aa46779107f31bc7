//   one number ── Expand ── Unsqueeze ── Sub(x, ·)      =>   Sub(x, number)
//
// A constant of one number stays that number however it is expanded or reshaped; an elementwise reader that has its shape from the other
// operand can read it as a scalar. Flax's RMSNorm subtracts a mean that was made of zeros this way.
// What stops it: a reader whose shape comes from the expanded value, or is not known.
// Exact: the same numbers are read.
#include "passes/onnx/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, v{"v"};
constexpr int kSteps = 8;

// The constant that v repeats; null when it is something else, or v is read as the constant already.
Value* number_behind(Value* v, PassContext& c) {
  for (int i = 0; i < kSteps; ++i) {
    if (v->is_constant()) return i > 0 && c.splat(v) ? v : nullptr;
    const Node* n = v->def();
    if (n == nullptr || n->unchecked() || !(is_view(*n) || n->is("Expand"))) return nullptr;
    v = n->input(0);
  }
  return nullptr;
}

}  // namespace

Pass read_splats_directly() {
  const auto is_spared = [](const Match& m) {
    return same_shape(m[x], m.root().result()) && number_behind(m[v], m.context()) != nullptr;
  };
  return Rule{
      .match = any_of(Add(x, v), Mul(x, v), Sub(x, v), Sub(v, x), Div(x, v), Div(v, x)),
      .when = is_spared,
      .build =
          [](Rewriter& b, const Match& m) {
            Value* number = number_behind(m[v], m.context());
            std::vector<std::byte> element(static_cast<size_t>(bit_width(number->dtype())) / 8);
            if (element.empty()) return static_cast<Value*>(nullptr);
            if (number->constant()->rank() > 0) {
              std::vector<std::byte> scratch;
              const auto bytes = number->constant()->bytes(scratch);
              std::copy_n(bytes.begin(), element.size(), element.begin());
              number = b.constant(Tensor::own(number->dtype(), {}, std::move(element)));
            }
            return b.like(m.root(), *m[v], *number);
          },
  };
}

}  // namespace sardonyx::onnx
