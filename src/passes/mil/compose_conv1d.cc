//   x ── expand_dims<2> ── conv ── squeeze<2> ── y                                   =>    x ── conv ── y            x: rank 3
//   x ── expand_dims<1> ── transpose ── conv ── transpose ── squeeze<1> ── y         =>    x ── transpose ── conv ── transpose ── y
//
// A one-dimensional convolution, written with a dummy axis. The weight's dummy axis is squeezed as well;
// const_elimination folds that. Values in between must have no other users. After coremltools' pass of this
// name.
#include "passes/mil/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, expanded{"expanded"}, conv{"conv"}, before{"before"}, after{"after"};

bool has_axis(Node& n, PassContext& context, int64_t axis, int64_t rank) {
  const auto axes = param_ints(params(n, context), "axes");
  return axes && ((*axes)[0] < 0 ? (*axes)[0] + rank : (*axes)[0]) == axis;
}

bool has_perm(Node& n, PassContext& context, const std::vector<int64_t>& wanted) {
  auto perm = param_ints(params(n, context), "perm");
  if (!perm) return false;
  for (int64_t& p : *perm) p += p < 0 ? static_cast<int64_t>(perm->size()) : 0;
  return *perm == wanted;
}

// The convolution without the second last axis. Null when a parameter is not known.
Value* narrow(Rewriter& b, Node& wide, Value* in) {
  const InferContext at = params(wide, b.context());
  Value* weight = operand(wide, b.context(), "weight");
  if (weight == nullptr || !weight->ranked() || !weight->type()->dim(2).is(1)) return nullptr;
  const auto last = [&](std::string_view slot) -> Rewriter::Ints {
    const auto all = param_ints(at, slot);
    if (!all || operand(wide, b.context(), slot) == nullptr) return nullptr;
    return {all->back()};
  };
  Rewriter::Ints pad;
  if (operand(wide, b.context(), "pad") != nullptr) {
    const auto all = param_ints(at, "pad");
    if (!all) return nullptr;
    // A padded row above would be the only row of the result. Other pad types ignore `pad`.
    if ((*all)[0] != 0 && param_string(at, "pad_type") == "custom") return nullptr;
    pad = {(*all)[2], (*all)[3]};
  }
  Value* squeezed = b.squeeze(weight, {.axes = {-2}});
  return b.like(
      wide, {{"x", in}, {"weight", squeezed}, {"strides", last("strides")}, {"pad", pad}, {"dilations", last("dilations")}});
}

}  // namespace

Pass compose_conv1d() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern inner = sole(m::expand_dims(x)).as(expanded);
  const auto is_line = [](const Match& found) { return found[x]->ranked() && found.type(x)->rank() == 3; };
  return std::vector<Rule>{
      {.name = "channels_first",
       .match = m::squeeze(sole(m::conv(inner)).as(conv)),
       .when =
           [=](const Match& found) {
             return is_line(found) && has_axis(found.node(expanded), found.context(), 2, 4) &&
                    has_axis(found.root(), found.context(), 2, 4);
           },
       .build = [](Rewriter& b, const Match& found) { return narrow(b, found.node(conv), found[x]); },
       .same_type = true},  // the length may be a symbol that only the convolution introduces
      {.name = "channels_last",
       .match = m::squeeze(sole(m::transpose(sole(m::conv(sole(m::transpose(inner)).as(before))).as(conv))).as(after)),
       .when =
           [=](const Match& found) {
             return is_line(found) && has_axis(found.node(expanded), found.context(), 1, 4) &&
                    has_axis(found.root(), found.context(), 1, 4) &&
                    has_perm(found.node(before), found.context(), {0, 3, 1, 2}) &&
                    has_perm(found.node(after), found.context(), {0, 2, 3, 1});
           },
       .build = [](Rewriter& b, const Match& found) -> Value* {
         const std::vector<int64_t> perm{0, 2, 1};
         Value* y = narrow(b, found.node(conv), b.transpose(found[x], {.perm = perm}));
         return y == nullptr ? nullptr : b.transpose(y, {.perm = perm});
       },
       .same_type = true},
  };
}

}  // namespace sardonyx::mil
