//   x ── conv ── add(c) or sub(c) ── y                  =>    x ── conv<bias> ── y
//   x ── conv ── transpose ── add(c) or sub(c) ── y     =>    x ── conv<bias> ── transpose ── y
//
// Also for conv_transpose, and after a transpose for c - conv, which negates the weights. c is one number or
// one per channel; the convolution (and the transpose) must have no other user. A compressed or computed
// weight cannot change, which rules out c - conv, and a scalar c for a convolution without bias and
// transpose. After coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var conv{"conv"}, transpose_op{"transpose_op"}, c{"c"};

// The two vectors of conv * scale + shift that the root computes; nullopt when the constant is not one per
// channel.
struct ScaleShift {
  std::vector<double> scale{1.0}, shift;
};
ScaleShift scale_shift(const Match& found, std::vector<double> constant) {
  ScaleShift a{.shift = std::move(constant)};
  if (!found.root().is("sub")) return a;
  if (found.root().input(0) == found[c]) {
    a.scale = {-1.0};
  } else {
    for (double& v : a.shift) v = -v;
  }
  return a;
}

Value* build(Rewriter& b, const Match& found) {
  const auto layer = convolution(found.node(conv), b.context(), /*any_weight=*/true);
  if (!layer || !found[conv]->ranked()) return nullptr;
  const size_t rank = found[conv]->type()->rank();
  const Tensor& t = *found[c]->constant();
  if (found[transpose_op] == nullptr) {
    auto constant = per_channel(t, rank - 2, layer->channels);
    if (!constant || (constant->size() == 1 && layer->weight == nullptr && layer->bias == nullptr)) return nullptr;
    const ScaleShift a = scale_shift(found, std::move(*constant));
    return scaled(b, *layer, a.scale, a.shift);
  }
  // After the transpose, the channel axis is where perm has 1.
  Node& transpose = found.node(transpose_op);
  const auto perm = Transpose(transpose, b.facts()).perm();
  if (!perm) return nullptr;
  std::vector<double> constant;
  if (t.size() == 1) {
    constant = {t.as_double(0)};
  } else {
    const auto from_end = static_cast<size_t>(perm->end() - std::ranges::find(*perm, 1));
    if (t.size() != layer->channels || t.rank() < from_end) return nullptr;
    if (t.shape()[t.rank() - from_end] != layer->channels) return nullptr;
    constant = doubles(t);
  }
  const ScaleShift a = scale_shift(found, std::move(constant));
  Value* inner = scaled(b, *layer, a.scale, a.shift);
  if (inner == nullptr) return nullptr;
  return b.like(transpose, {{"x", inner}});
}

}  // namespace

Pass fuse_conv_bias() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern layer = sole(any_of(m::conv(any), m::conv_transpose(any))).as(conv);
  const Pattern transpose = sole(m::transpose(layer)).as(transpose_op), inner = any_of(layer, transpose);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::add(inner, constant.as(c)), m::sub(inner, constant.as(c)), m::sub(constant.as(c), transpose)),
      .build = build,
      .same_type = true,  // sizes of the image may be symbols that only the convolution has
  };
}

}  // namespace sardonyx::mil
