//   matmul(x, W) + c    =>    linear<W transposed, c>(x)
//   matmul(W, x) + c    =>    transpose(linear<W, c>(transpose(x)))
//
// W is constant, of rank 2, and has no other user. In the second form all elements of c are equal
// (coremltools takes a vector along the wrong axis). Otherwise c is a vector with a number for each column of
// the product, or (1, ..., columns). Also with sub, which negates c. The product must have no other user.
// Flags that transpose W or x become transposes; const_elimination folds that of the constant. After
// coremltools' pass of this name.
#include <numeric>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

Value* swapped(Rewriter& b, Value* v) {
  std::vector<int64_t> perm(v->type()->rank());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.transpose(v, {.perm = perm});
}

}  // namespace

Pass fuse_matmul_weight_bias() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var product{"product"}, w{"w"}, x{"x"}, c{"c"};
  const Pattern weight = sole(constant.as(w));
  const Pattern inner = sole(any_of(m::matmul(weight, x), m::matmul(x, weight))).as(product);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::add(inner, constant.as(c)), m::sub(inner, constant.as(c))),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const Matmul matmul(found.node(product), b.facts());
        const bool first = matmul.x() == found[w];
        const bool swap_w = first ? matmul.transpose_x() : matmul.transpose_y();
        const bool swap_x = first ? matmul.transpose_y() : matmul.transpose_x();
        const TensorPtr &weights = found[w]->constant(), &shift = found[c]->constant();
        if (weights->rank() != 2 || !found[x]->ranked() || !found[product]->ranked() || found[x]->type()->rank() < 2 ||
            !is_float(shift->dtype()))
          return nullptr;
        if (shift->rank() == 0 || shift->shape().back() != shift->size() || (shift->rank() > 1 && shift->size() == 1))
          return nullptr;
        const double sign = found.root().is("sub") ? -1 : 1;
        if (first) {
          // Each row of the product becomes a column of the layer's result: only a uniform bias can follow.
          const auto same = b.context().splat(found[c]);
          if (!same || !found[product]->type()->dim(found[product]->type()->rank() - 1).is(shift->size())) return nullptr;
          const int64_t rows = weights->shape()[swap_w ? 1 : 0];
          const TensorPtr bias = Tensor::full(shift->dtype(), {rows}, sign * *same);
          Value* in = swap_x ? found[x] : swapped(b, found[x]);
          return swapped(b, b.linear(in, {.bias = bias, .weight = swap_w ? swapped(b, found[w]) : found[w]}));
        }
        const int64_t columns = weights->shape()[swap_w ? 0 : 1];
        if (shift->size() != columns) return nullptr;
        std::vector<double> bias = doubles(*shift);
        for (double& v : bias) v *= sign;
        Value* in = swap_x ? swapped(b, found[x]) : found[x];
        Value* layer_weight = swap_w ? found[w] : swapped(b, found[w]);
        return b.linear(in, {.bias = tensor_of(shift->dtype(), {columns}, bias), .weight = layer_weight});
      },
  };
}

}  // namespace sardonyx::mil
