// Removes no-ops: identities, x + 0, x * 1, x / 1, x ^ 1, x // 1 of integers, and reshapes, slices, pads,
// tiles, resizes and transposes that change nothing.
//
// A result of the block keeps its op, for its name. Ops that broadcast stay: the types differ. After
// coremltools' pass of this name.
#include <algorithm>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

constexpr Var x{"x"};

bool is_inner(const Match& found) { return !is_block_result(*found.root().result()); }
Value* operand_x(Rewriter&, const Match& found) { return found[x]; }

// x, if the pattern matches and x has the type of the result.
Rule drop(std::string_view name, const Pattern& p, Numerics numerics = Numerics::kExact, Condition when = is_inner) {
  return {.name = name, .numerics = numerics, .match = p, .when = std::move(when), .build = operand_x};
}

// Ops whose result always has the type of x.
Rule drop_whatever(std::string_view name, const Pattern& p, Numerics numerics = Numerics::kExact, Condition when = is_inner) {
  Rule rule = drop(name, p, numerics, std::move(when));
  rule.same_type = true;
  return rule;
}

bool goes_forward(const Match& found) {
  if (!is_inner(found)) return false;
  const auto stride = SliceByIndex(found.root(), found.context().facts).stride();
  return stride && std::ranges::all_of(*stride, [](int64_t s) { return s > 0; });
}

bool keeps_order(const Match& found) {
  if (!is_inner(found)) return false;
  const auto perm = Transpose(found.root(), found.context().facts).perm();
  return perm && std::ranges::is_sorted(*perm);
}

// With corner offsets, samples lie between the pixels even if the sizes are equal.
bool samples_pixels(const Match& found) {
  return is_inner(found) && ResizeBilinear(found.root(), found.context().facts).sampling_mode() != "offset_corners";
}

}  // namespace

Pass noop_elimination() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern filled_zero = any_of(m::fill(any, splat(0)), m::fill(any, absent)), zero = any_of(splat(0), filled_zero);
  const Pattern filled_one = m::fill(any, splat(1)), one = any_of(splat(1), filled_one);
  std::vector<Rule> rules{
      drop_whatever("identity", m::identity(x)),
      // Numbers first: 1 * fill(1) matches both ways, and has the type of the fill.
      drop("add", m::add(x, splat(0)), Numerics::kRounds),  // -0 + 0 is 0
      drop("add_filled", m::add(x, filled_zero), Numerics::kRounds),
      drop("mul", m::mul(x, splat(1))),
      drop("mul_filled", m::mul(x, filled_one)),
      drop("sub", m::sub(x, zero), Numerics::kRounds),  // -0 - -0 is 0, too
      drop("floor_div", m::floor_div(x, one), Numerics::kExact,
           [](const Match& found) { return is_inner(found) && is_integer(found[x]->dtype()); }),  // floats would be rounded
      drop("pow", m::pow(x, one)),
      drop("real_div", m::real_div(x, one)),
      drop("split", m::split(x)),  // into one piece, or into several of which only one has users
      drop("slice_by_index", m::slice_by_index(x), Numerics::kExact, goes_forward),
      drop_whatever("transpose", m::transpose(x), Numerics::kExact, keeps_order),
      drop_whatever("linear_activation", m::linear_activation(x, splat(1), splat(0)), Numerics::kRounds),  // likewise
      drop("resize_bilinear", m::resize_bilinear(x), Numerics::kExact, samples_pixels),
  };
  for (const PatternOp& op :
       {m::reshape, m::slice_by_size, m::pad, m::tile, m::upsample_nearest_neighbor, m::upsample_bilinear, m::crop}) {
    rules.push_back(drop(op.mil, op(x)));
  }
  return rules;
}

}  // namespace sardonyx::mil
