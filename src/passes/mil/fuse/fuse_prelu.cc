//   relu(x) + a * relu(-x)                    =>    prelu<alpha = -a>(x)
//   the same of transpose<0,2,3,1>(x)         =>    transpose<0,2,3,1>(prelu<alpha = -a>(x))
//
// x has rank 4; a is constant, one per channel: of shape (C, 1, 1) or (1, C, 1, 1), after the transpose (C),
// (1, C), ... Values in between must have no other users. After coremltools' pass of this name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, input{"input"}, transpose_op{"transpose_op"}, a{"a"};

TensorPtr slopes(const Tensor& t) {
  std::vector<double> alpha = doubles(t);
  for (double& v : alpha) v = -v;
  return tensor_of(t.dtype(), {t.size()}, alpha);
}

Pattern relus(const Pattern& of) {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern negative = sole(m::relu(sole(m::mul(of, near(-1, 1e-3)))));
  return m::add(sole(m::relu(of)), sole(m::mul(negative, constant.as(a))));
}

// Of rank four, with as many channels as there are slopes.
bool has_channels(const Value* v, const Tensor& all) {
  return v->ranked() && v->type()->rank() == 4 && v->type()->dim(1).is(all.size());
}

}  // namespace

Pass fuse_prelu() {
  using namespace pattern;
  namespace m = pattern::mil;
  return std::vector<Rule>{
      {.name = "channels_last",
       .numerics = Numerics::kRounds,  // 0 may become -0
       .match = relus(m::transpose(input).as(transpose_op)),
       .when =
           [](const Match& found) {
             const TensorPtr& t = found[a]->constant();
             const bool last = t->rank() >= 1 && t->shape().back() == t->size() && has_channels(found[input], *t);
             const auto perm = Transpose(found.node(transpose_op), found.context().facts).ints_in("perm");
             // The two relus are the only users of the transpose.
             size_t users = 0;
             for ([[maybe_unused]] const Use& u : found[transpose_op]->uses()) ++users;
             return last && perm == std::vector<int64_t>{0, 2, 3, 1} && users == 2;
           },
       .build =
           [](Rewriter& b, const Match& found) {
             Value* y = b.prelu(found[input], {.alpha = slopes(*found[a]->constant())});
             return b.like(found.node(transpose_op), {{"x", y}});
           }},
      {.name = "channels_first",
       .numerics = Numerics::kRounds,
       .match = relus(x),
       .when =
           [](const Match& found) {
             const TensorPtr& t = found[a]->constant();
             return has_channels(found[x], *t) && (t->rank() == 3 || t->rank() == 4) && t->shape()[t->rank() - 3] == t->size();
           },
       .build = [](Rewriter& b, const Match& found) { return b.prelu(found[x], {.alpha = slopes(*found[a]->constant())}); }},
  };
}

}  // namespace sardonyx::mil
