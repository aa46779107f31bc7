//   x ── linear<w, b> ── add(c) or sub(c) ── y    =>    x ── linear<w, b ± c> ── y
//   c - linear<w, b>(x)                           =>    linear<-w, c - b>(x)
//
// b may be absent. c has as many elements as the layer's result has columns, along the last axis. The linear
// layer must have no other user. After coremltools' pass of this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {

Pass fuse_linear_bias() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var layer{"layer"}, c{"c"};
  const Pattern linear = sole(any_of(m::linear(any, constant, constant), m::linear(any, constant, absent))).as(layer);
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(m::add(linear, constant.as(c)), m::sub(linear, constant.as(c)), m::sub(constant.as(c), linear)),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        Node& n = found.node(layer);
        const Value* given = n.input(2);
        const TensorPtr &weight = n.input(1)->constant(), &shift = found[c]->constant();
        const TensorPtr bias = given != nullptr ? given->constant() : Tensor::full(weight->dtype(), {weight->shape()[0]}, 0);
        if (!is_float(bias->dtype()) || shift->size() != bias->size() || shift->rank() == 0 ||
            shift->shape().back() != bias->size())
          return nullptr;
        const bool subtracts = found.root().is("sub"), from_constant = subtracts && found.root().input(0) == found[c];
        std::vector<double> sum = doubles(*bias), more = doubles(*shift);
        for (size_t i = 0; i < sum.size(); ++i)
          sum[i] = from_constant ? more[i] - sum[i] : subtracts ? sum[i] - more[i] : sum[i] + more[i];
        Value* new_weight = n.input(1);
        if (from_constant) {
          std::vector<double> negated = doubles(*weight);
          for (double& v : negated) v = -v;
          new_weight = b.constant(tensor_of(weight->dtype(), {weight->shape().begin(), weight->shape().end()}, negated));
        }
        return b.like(n, {{"weight", new_weight}, {"bias", tensor_of(bias->dtype(), {bias->size()}, sum)}});
      },
  };
}

}  // namespace sardonyx::mil
