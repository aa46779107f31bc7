//   x ── expand_dims<2> ── conv ── squeeze<2> ── y                                   =>    x ── conv ── y            x: rank 3
//   x ── expand_dims<1> ── transpose ── conv ── transpose ── squeeze<1> ── y         =>    x ── transpose ── conv ── transpose ── y
//
// A one-dimensional convolution, written with a dummy axis. The weight's dummy axis is squeezed as well;
// const_elimination folds that. Values in between must have no other users. After coremltools' pass of this
// name.
#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"}, expanded{"expanded"}, conv{"conv"}, before{"before"}, after{"after"};

// x: rank 3, and the match expands and squeezes this axis.
bool has_dummy(const Match& found, int64_t axis) {
  const std::vector<int64_t> wanted{axis};
  ValueFacts& facts = found.context().facts;
  return found[x]->ranked() && found.type(x)->rank() == 3 && ExpandDims(found.node(expanded), facts).axes() == wanted &&
         Squeeze(found.root(), facts).axes() == wanted;
}

// The convolution without the second last axis. Null when a parameter is not known.
Value* narrow(Rewriter& b, Node& wide, Value* in) {
  const Conv layer(wide, b.facts());
  Value* weight = layer.weight();
  if (weight == nullptr || !weight->ranked() || !weight->type()->dim(2).is(1)) return nullptr;
  const auto last = [&](std::string_view slot) -> Rewriter::Ints {
    const auto all = layer.ints_in(slot);
    if (!all) return nullptr;
    return {all->back()};
  };
  Rewriter::Ints pad;
  if (layer.value_in("pad") != nullptr) {
    const auto all = layer.pad();
    if (!all) return nullptr;
    // A padded row above would be the only row of the result. Other pad types ignore `pad`.
    if ((*all)[0] != 0 && layer.pad_type() == "custom") return nullptr;
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
  return std::vector<Rule>{
      {.name = "channels_first",
       .match = m::squeeze(sole(m::conv(inner)).as(conv)),
       .when = [](const Match& found) { return has_dummy(found, 2); },
       .build = [](Rewriter& b, const Match& found) { return narrow(b, found.node(conv), found[x]); },
       .same_type = true},  // the length may be a symbol that only the convolution introduces
      {.name = "channels_last",
       .match = m::squeeze(sole(m::transpose(sole(m::conv(sole(m::transpose(inner)).as(before))).as(conv))).as(after)),
       .when =
           [](const Match& found) {
             ValueFacts& facts = found.context().facts;
             return has_dummy(found, 1) && Transpose(found.node(before), facts).perm() == std::vector<int64_t>{0, 3, 1, 2} &&
                    Transpose(found.node(after), facts).perm() == std::vector<int64_t>{0, 2, 3, 1};
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
