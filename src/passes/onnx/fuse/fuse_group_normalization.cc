//   x ── Reshape [N,G,-1] ── InstanceNormalization ── Reshape ── y   =>   GroupNormalization(x, scale, bias)
//
// PyTorch's exporters write torch.nn.GroupNorm this way, and fuse_instance_normalization makes it of
// arithmetic. No preset has this pass: onnxruntime's CPU provider has no kernel for the operator, but other
// runtimes do. Opset 21. Scale and bias are per channel; fuse_batch_normalization absorbs what follows.
//
// What stops it: an inner value with another user, a last Reshape to another shape than x has, an unknown
// number of channels or groups.
// Rounds: the operator specifies statistics in f32.
#include "passes/onnx/fuse/per_channel.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, flat{"flat"}, norm{"norm"}, gamma{"gamma"}, beta{"beta"};

bool is_group(const Match& m) {
  const Type *t = m.type(x), *f = m.type(flat);
  if (!m[x]->ranked() || !m[flat]->ranked() || t->rank() < 3 || f->rank() != 3) return false;
  const Dim channels = t->dim(1);
  const int64_t groups = m[gamma]->constant()->size();
  if (!(t->dim(0) == f->dim(0)) || !channels.is_int() || groups < 1 || channels.value() % groups != 0)
    return m.refuse("the channels do not fall into groups");
  if (!float_attr(m.node(norm), "epsilon")) return false;
  return m[beta]->constant()->size() == groups || m.refuse("its parameters are not one number per group");
}

Value* group(Rewriter& b, const Match& m) {
  const int64_t channels = m.type(x)->dim(1).value(), groups = m[gamma]->constant()->size();
  const auto per_channel = [&](Var v) {
    const Channels of_groups = numbers(*m[v]->constant(), groups);
    Channels all;
    for (int64_t c = 0; c < channels; ++c) all.push_back(of_groups[static_cast<size_t>(c / (channels / groups))]);
    return channel_constant(b, m[x]->dtype(), all, {});
  };
  return b.op("GroupNormalization", {m[x], per_channel(gamma), per_channel(beta)},
              {attr("epsilon", *float_attr(m.node(norm), "epsilon")), attr("num_groups", groups)});
}

}  // namespace

Pass fuse_group_normalization() {
  return Rule{
      .numerics = Numerics::kRounds,
      .match = Reshape(
          sole(InstanceNormalization(sole(Reshape(x, any).as(flat)), constant.as(gamma), constant.as(beta)).as(norm)), any),
      .when = is_group,
      .build = group,
      .opset = 21};
}

}  // namespace sardonyx::onnx
