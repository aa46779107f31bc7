//   ids ── OneHot(depth, [0, 1]) ── MatMul(w) ── y                        =>   Gather(w, ids)
//   ids ── Unsqueeze ── Equal([0 ... depth-1]) ── Cast ── MatMul(w) ── y  =>   Gather(w, ids)     JAX's one_hot
//
// Takes a row of the table instead of multiplying with all rows. Every id must be a row of the table: out of
// range, a one-hot is zero and a Gather is an error. The pass knows the range of constants, ArgMax, Clip,
// Mod, small integer types, and nodes that only move or select such numbers.
//
// What stops it: ids that could be out of range; another axis than the last; values other than 0 and 1; a
// table of more than two axes.
// Rounds: the product multiplies the other rows by zero, which turns infinities into NaN.
#include <algorithm>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var ids{"ids"}, hot{"hot"}, depth{"depth"}, values{"values"}, table{"table"}, numbers{"numbers"};
constexpr int kSteps = 8;
constexpr int64_t kMostNumbers = 1 << 20;  // that a comparison may have to be recognized

struct Span {
  int64_t least, most;
};
Span both(Span a, Span b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

// A range that contains all elements, derived from a few nodes.
std::optional<Span> span_of(const Value* v, PassContext& c, int steps = kSteps) {
  if (v == nullptr || steps == 0) return std::nullopt;
  if (v->is_constant()) {
    const auto list = v->constant()->to_ints();
    if (!list || list->empty()) return std::nullopt;
    const auto [least, most] = std::minmax_element(list->begin(), list->end());
    return Span{*least, *most};
  }
  std::optional<Span> by_type;
  switch (v->dtype()) {
    case DType::kBool: by_type = {0, 1}; break;
    case DType::kU8: by_type = {0, 255}; break;
    case DType::kI8: by_type = {-128, 127}; break;
    default: break;
  }
  const Node* n = v->def();
  if (n == nullptr || n->unchecked()) return by_type;
  const auto of = [&](size_t i) { return span_of(n->input(i), c, steps - 1); };
  const auto number = [&](size_t i) -> std::optional<int64_t> {
    const auto list = n->input(i) != nullptr ? c.ints(n->input(i)) : std::nullopt;
    return list && list->size() == 1 ? std::optional(list->front()) : std::nullopt;
  };
  if (n->is("ArgMax") || n->is("ArgMin")) {
    const Value* x = n->input(0);
    const auto axis = read::ArgReduce(*n).axis();
    if (!axis || !x->ranked()) return by_type;
    const Dim d = x->type()->dim(*axis);
    return d.is_int() ? std::optional(Span{0, d.value() - 1}) : by_type;
  }
  if (n->is("Clip")) {
    const auto low = number(1), high = number(2);
    return low && high && *low <= *high ? std::optional(Span{*low, *high}) : by_type;
  }
  if (n->is("Min") || n->is("Max")) {  // Max(Min(x, high), low), or the other way round
    if (n->num_inputs() != 2) return by_type;
    for (size_t i : {size_t{0}, size_t{1}}) {
      const auto bound = number(i);
      const Node* inner = n->input(1 - i)->def();
      if (!bound || inner == nullptr || inner->num_inputs() != 2 || !inner->is(n->is("Min") ? "Max" : "Min")) continue;
      for (size_t k : {size_t{0}, size_t{1}}) {
        const auto list = inner->input(k) != nullptr ? c.ints(inner->input(k)) : std::nullopt;
        if (!list || list->size() != 1) continue;
        const Span s = n->is("Min") ? Span{list->front(), *bound} : Span{*bound, list->front()};
        if (s.least <= s.most) return s;
      }
    }
    return by_type;
  }
  if (n->is("Mod")) {
    const auto by = number(1);
    return by && *by > 0 && int_attr(*n, "fmod") == 0 ? std::optional(Span{0, *by - 1}) : by_type;
  }
  if (n->is("Cast")) {
    const DType from = n->input(0)->dtype();
    const auto s = is_integer(from) || from == DType::kBool ? of(0) : std::nullopt;
    // A cast from 64 to 32 bits may wrap, but a range that wide fits no table anyway. The same holds for
    // other types.
    return v->dtype() == DType::kI32 || v->dtype() == DType::kI64 ? s : by_type;
  }
  if (n->is("Where")) {
    const auto a = of(1), b = of(2);
    return a && b ? std::optional(both(*a, *b)) : by_type;
  }
  if (is_view(*n) || n->is("Identity") || n->is("Slice") || n->is("Gather") || n->is("Expand") || n->is("Tile") ||
      n->is("Flatten"))
    return of(0);
  return by_type;
}

bool is_table(const Match& m, int64_t rows, int64_t least) {
  const Value *t = m[table], *i = m[ids];
  if (!t->ranked() || t->type()->rank() != 2 || !t->type()->dim(0).is(rows))
    return m.refuse("the table has another number of rows");
  if (!i->ranked() || (i->dtype() != DType::kI32 && i->dtype() != DType::kI64))
    return m.refuse("the ids are not 32- or 64-bit integers");
  const auto s = span_of(i, m.context());
  return (s && s->least >= least && s->most < rows) || m.refuse("an id could be out of range");
}

bool is_one_hot(const Match& m) {
  const Node& n = m.node(hot);
  const auto axis = read::OneHot(n).axis();
  const auto rows = m.ints(depth);
  const auto& v = m[values]->constant();
  if (!axis || !rows || rows->size() != 1 || !m[hot]->ranked()) return false;
  if (*axis + 1 != m[hot]->type()->rank()) return m.refuse("the one-hot axis is not the last one");
  if (v->size() != 2 || v->as_double(0) != 0 || v->as_double(1) != 1) return m.refuse("its values are not 0 and 1");
  return is_table(m, rows->front(), -rows->front());
}

bool is_comparison(const Match& m) {
  const auto shape = m[numbers]->constant()->shape();
  const auto list = m[numbers]->constant()->to_ints(kMostNumbers);
  if (!list || shape.empty() || shape.back() != static_cast<int64_t>(list->size())) return false;
  for (size_t k = 0; k < list->size(); ++k) {
    if ((*list)[k] != static_cast<int64_t>(k)) return m.refuse("it compares with numbers other than 0, 1, 2, ...");
  }
  // The driver checks that there is one id per row: it compares the result's type with the root's.
  return is_float(m.root().result()->dtype()) && is_table(m, shape.back(), 0);
}

Value* gather(Rewriter& b, const Match& m) { return b.Gather(m[table], m[ids]); }

}  // namespace

Pass fuse_one_hot_into_gather() {
  const Pattern compared = any_of(Unsqueeze(ids, rest), Reshape(ids, any));
  return std::vector<Rule>{
      {.name = "one_hot",
       .numerics = Numerics::kRounds,
       .match = MatMul(OneHot(ids, depth, constant.as(values)).as(hot), table),
       .when = is_one_hot,
       .build = gather},
      {.name = "comparison",
       .numerics = Numerics::kRounds,
       .match = MatMul(Cast(Equal(compared, constant.as(numbers))), table),
       .when = is_comparison,
       .build = gather},
  };
}

}  // namespace sardonyx::onnx
