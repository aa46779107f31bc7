// Families without parameters that depend on the layout.
//
//   kElementwise          any order; operands of lower rank get axes of size 1
//   kFirstOperand         any order of operand 0; the others have no axes (Clip)
//   kMatMul               leading axes in any order; the last two change places if the operands do
//   kLayerNormalization   the axes before those that are normalized, in any order
//   kShape                a Gather puts the sizes back in order
//   kSize                 any order
#include <algorithm>

#include "passes/mincut/family.h"

namespace sardonyx::layout {
namespace {

bool follow_elementwise(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.result());
  if (!rank || c.given.rank != *rank) return false;
  for (size_t i = 0; i < c.n.num_inputs(); ++i) {
    if (!rank_of(c.n.input(i))) return false;
    m.operands[i] = broadcast(*c.n.input(i), c.given);
    if (c.forward && i == c.slot && m.operands[i].is_as_is()) return false;
  }
  m.main = c.given;
  std::fill(m.results.begin(), m.results.end(), c.given);
  return true;
}

bool follow_first_operand(const Change& c, Move& m) { return same(m, c.given); }

bool follow_matmul(const Change& c, Move& m) {
  const Layout& l = c.given;
  const auto ra = rank_of(c.n.input(0)), rb = rank_of(c.n.input(1)), rank = rank_of(c.n.result());
  if (!ra || !rb || !rank || *ra != *rank) return false;
  const auto last = static_cast<int8_t>(*rank - 1), before = static_cast<int8_t>(*rank - 2);
  if (*rb == *rank && l.from[*rank - 1] == before && l.from[*rank - 2] == last) {
    m.operands[0] = m.operands[1] = m.main = m.results[0] = l;  // the transposed product of the transposed
    m.swaps_operands = true;
    return true;
  }
  // Operand 1 with fewer axes than the result has none there.
  if (l.from[*rank - 1] != last) return false;
  if (*rb == 2) {  // rows in any order
    m.operands[0] = m.main = m.results[0] = l;
    return true;
  }
  if (*rb != *rank || l.from[*rank - 2] != before) return false;
  m.operands[0] = m.operands[1] = m.main = m.results[0] = l;
  return true;
}

bool follow_layer_normalization(const Change& c, Move& m) {
  const auto rank = rank_of(c.n.input(0));
  if (!rank) return false;
  for (size_t i = 1; i < c.n.num_results(); ++i) {
    if (c.n.result(i)->has_uses()) return false;
  }
  const auto axis = axis_in(int_attr(c.n, "axis"), *rank);
  if (!axis) return false;
  for (auto i = static_cast<size_t>(*axis); i < *rank; ++i) {
    if (c.given.from[i] != static_cast<int8_t>(i)) return false;
  }
  m.results[0] = m.operands[0] = m.main = c.given;
  return true;
}

bool follow_shape(const Change& c, Move& m) {
  m.operands[0] = m.main = c.given;
  m.more_nodes = 1;
  return true;
}

Value* restore_shape(const Node& n, const Move& m, Node& made, OnnxBuilder& b) {
  const Layout inv = inverse(m.main);
  const auto rank = static_cast<int64_t>(m.main.rank);
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(int_attr(n, "start").value_or(0));
  const int64_t end = n.attr("end") != nullptr ? clamp(int_attr(n, "end").value_or(rank)) : rank;
  Model& model = n.graph()->model();
  made.set_attrs(model.empty_attrs());
  made.result()->set_type(model.types().tensor(DType::kI64, {rank}));
  Ints at;
  for (int64_t i = start; i < end; ++i) at.push_back(inv.from[static_cast<size_t>(i)]);
  return b.Gather(made.result(), b.i64s(at));
}

bool follow_size(const Change& c, Move& m) {
  m.operands[0] = m.main = c.given;
  return true;
}

}  // namespace

const Family kElementwise{.follow = follow_elementwise, .any_operand = true};
const Family kFirstOperand{.follow = follow_first_operand};
const Family kMatMul{.follow = follow_matmul, .any_operand = true};
const Family kLayerNormalization{.follow = follow_layer_normalization};
const Family kShape{.follow = follow_shape, .restore = restore_shape};
const Family kSize{.follow = follow_size};

}  // namespace sardonyx::layout
