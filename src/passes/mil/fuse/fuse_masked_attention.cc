//   q ── mul(c) ── matmul ── add ── softmax ── matmul ── y    =>    q ── scaled_dot_product_attention ── y
//                    k ┘   mask ┘             v ┘                     k, v, mask ┘
//
// From iOS 18 on. The op's own scale is 1 / sqrt(E), where E is the size of q's last axis; any other c is
// multiplied into q. The mul may also follow the product. For rows of a mask that hide all keys, ONNX's
// Attention gives other results than this op, so attention with a computed mask arrives here as separate ops.
// q, k and v have the same leading axes, the mask does not widen the scores, and values in between have no
// other users. Constant masks stay, since fuse_attention knows their rows.
// coremltools has no such pass: it gets the op from PyTorch.
#include <cmath>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr int kIos18 = 9;

bool has_flags(Node& n, PassContext& context, bool x, bool y) {
  const Matmul matmul(n, context.facts);
  return matmul.transpose_x() == x && matmul.transpose_y() == y;
}

// k, if v is k with its last two axes swapped; else null.
Value* swapped_last(Value* v, PassContext& context) {
  const auto t = Transpose::of(v->def(), context.facts);
  const auto perm = t && v->has_one_use() ? t->perm() : std::nullopt;
  return perm && swaps_last_two(*perm) ? t->x() : nullptr;
}

bool same_leading_axes(const Value& a, const Value& b) {
  if (!a.ranked() || !b.ranked() || a.type()->rank() != b.type()->rank() || a.type()->rank() < 3) return false;
  for (size_t i = 0; i + 2 < a.type()->rank(); ++i) {
    if (!(a.type()->dim(i) == b.type()->dim(i))) return false;
  }
  return true;
}

bool is_last_axis(Node& softmax, PassContext& context) {
  return Softmax(softmax, context.facts).axis() == softmax.result()->type()->rank() - 1;
}

}  // namespace

Pass fuse_masked_attention() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var q{"q"}, k{"k"}, v{"v"}, mask{"mask"}, scores{"scores"}, sum{"sum"}, shares{"shares"}, factor{"factor"},
      divisor{"divisor"};
  const Pattern product = sole(m::matmul(q, k)).as(scores);
  const Pattern masked =
      sole(m::add(any_of(product, sole(m::mul(constant.as(factor), product)), sole(m::real_div(product, constant.as(divisor)))),
                  mask))
          .as(sum);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = m::matmul(sole(m::softmax(masked)).as(shares), v),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        PassContext& context = b.context();
        Value *query = found[q], *key = found[k], *bias = found[mask];
        if (b.version() < kIos18 || bias->is_constant() || !has_flags(found.root(), context, false, false) ||
            !found[shares]->ranked() || !is_last_axis(found.node(shares), context))
          return nullptr;
        if (!has_flags(found.node(scores), context, false, true)) {
          if (!has_flags(found.node(scores), context, false, false) || !key->ranked()) return nullptr;
          key = swapped_last(key, context);
        }
        const DType d = query->dtype();
        if (key == nullptr || !is_float(d) || key->dtype() != d || found[v]->dtype() != d || bias->dtype() != d) return nullptr;
        if (!same_leading_axes(*query, *key) || !same_leading_axes(*query, *found[v]) || !bias->ranked() ||
            bias->type()->rank() < 2 || found[sum]->type() != found[scores]->type())
          return nullptr;
        const Dim size = query->type()->dim(query->type()->rank() - 1);
        if (!size.is_int()) return nullptr;
        double scale = std::sqrt(static_cast<double>(size.value()));
        for (Var given : {factor, divisor}) {
          if (found[given] == nullptr) continue;
          const auto number = context.splat(found[given]);
          if (!number || *number == 0 || found[given]->constant()->size() != 1) return nullptr;
          scale *= given.name == factor.name ? *number : 1 / *number;
        }
        Node* scaled = query->def();
        if (scaled != nullptr && scaled->is("mul") && query->has_one_use()) {
          const size_t at = context.splat(scaled->input(0)) ? 0 : 1;
          const auto own = context.splat(scaled->input(at));
          Value* whole = scaled->input(1 - at);
          if (own && whole->type() == query->type()) {
            scale *= *own;
            query = whole;
          }
        }
        if (std::abs(scale - 1) > 1e-6) query = b.mul(query, b.scalar(d, scale));
        return b.scaled_dot_product_attention(query, key, found[v], {.attn_mask = bias});
      },
  };
}

}  // namespace sardonyx::mil
