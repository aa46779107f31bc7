//   x ── SplitToSequence ── SequenceAt 0, SequenceAt 1, ...             =>   Split(x)
//   SequenceConstruct(a, b, c) ── SequenceAt 1                          =>   b
//   SequenceConstruct(a, b, c) ── SequenceLength                        =>   3
//   SequenceConstruct(a, b, c) ── ConcatFromSequence                    =>   Concat(a, b, c)
//   SequenceEmpty ── SequenceInsert a ── SequenceInsert b               =>   SequenceConstruct(a, b)
//   Optional(a) ── OptionalGetElement, OptionalHasElement               =>   a, true
//
// Removes sequences whose elements are known individually, as exporters write Python's lists (chunk, split,
// unbind, append), and uses the elements instead. Other passes look through Split and Concat, and runtimes
// need no copies into a list.
//
// What stops it: an index that is not constant or is out of range; an unknown number of elements; a sequence
// of pieces that is also used as a whole; a new axis for several elements (each would need a node).
// Exact: no element changes.
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, list{"list"}, at{"at"};
constexpr int64_t kMostPieces = 1024;

std::optional<int64_t> number(const Match& m, const Value* v) {
  const auto known = v != nullptr && v->is_constant() ? m.context().ints(v) : std::nullopt;
  return known && known->size() == 1 ? std::optional(known->front()) : std::nullopt;
}

// The position of an index that may count from the end; nullopt if it is out of range.
std::optional<size_t> place(std::optional<int64_t> index, size_t count) {
  if (!index) return std::nullopt;
  const int64_t i = *index < 0 ? *index + static_cast<int64_t>(count) : *index;
  return i >= 0 && i < static_cast<int64_t>(count) ? std::optional(static_cast<size_t>(i)) : std::nullopt;
}

Value* element(Rewriter&, const Match& m) {
  const auto all = operands_of(m.node(list));
  const auto i = place(number(m, m[at]), all.size());
  return i ? all[*i] : nullptr;
}

bool add_up_to(int64_t whole, const std::vector<int64_t>& sizes) {
  for (int64_t size : sizes) {
    if (size < 0 || size > whole) return false;
    whole -= size;
  }
  return whole == 0;
}

// Sizes of the pieces that SplitToSequence makes.
struct Pieces {
  std::vector<int64_t> sizes;
  int64_t axis;
  bool squeeze;
};
std::optional<Pieces> pieces(const Match& m) {
  const Node& n = m.root();
  const Value* from = n.input(0);
  if (!from->ranked()) return std::nullopt;
  const read::SplitToSequence op(n);
  const auto axis = op.axis();
  if (!axis) return std::nullopt;
  Pieces p{{}, static_cast<int64_t>(*axis), false};
  const Dim d = from->type()->dim(*axis);
  const Value* split = n.input(1);
  if (split == nullptr || (split->ranked() && split->type()->rank() == 0)) {
    const auto each = split == nullptr ? std::optional<int64_t>(1) : number(m, split);
    p.squeeze = each == 1 && op.keepdims() == false;
    const int64_t whole = d.is_int() ? d.value() : 0;
    if (!each || *each <= 0 || whole > kMostPieces * *each) return std::nullopt;
    for (int64_t left = whole; left > 0; left -= *each) p.sizes.push_back(std::min(left, *each));
  } else {
    const auto sizes = split->is_constant() ? m.context().ints(split) : std::nullopt;
    if (!sizes || static_cast<int64_t>(sizes->size()) > kMostPieces) return std::nullopt;
    if (d.is_int() && !add_up_to(d.value(), *sizes)) return std::nullopt;  // the node would fail
    p.sizes = *sizes;
  }
  return p.sizes.empty() ? std::nullopt : std::optional(p);
}

// Whether all users of the list take one element that exists.
bool is_read_by_element(const Match& m) {
  const auto p = pieces(m);
  if (!p) return false;
  for (const Use& u : m.root().result()->uses()) {
    const Node& n = *u.owner;
    if (n.unchecked() || !n.is("SequenceAt")) return false;
    if (!place(number(m, n.input(1)), p->sizes.size())) return false;
  }
  return true;
}

Value* split(Rewriter& b, const Match& m) {
  const Pieces p = *pieces(m);
  std::vector<Value*> all = p.sizes.size() == 1 ? std::vector{m[x]} : b.split(m[x], p.sizes, p.axis);
  if (p.squeeze) {
    for (Value*& v : all) v = b.squeeze(v, std::vector<int64_t>{p.axis});
  }
  return b.op("SequenceConstruct", all);
}

// Whether Concat takes these values, the first of which has a known rank: equal ranks, and no sizes that
// differ off the axis.
bool are_concatenated(const Match& m, const std::vector<Value*>& all, int64_t axis) {
  const Type* first = all.front()->type();
  const auto rank = static_cast<int64_t>(first->rank());
  const auto along = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  for (const Value* v : all) {
    if (!v->ranked() || v->type()->rank() != first->rank()) return false;
    for (size_t i = 0; i < first->rank(); ++i) {
      if (i != along && m.dims().compare(v->type()->dim(i), first->dim(i)) == Compare::kDifferent) return false;
    }
  }
  return true;
}

Value* concatenated(Rewriter& b, const Match& m) {
  const auto all = operands_of(m.node(list));
  const auto axis = int_attr(m.root(), "axis"), is_new = int_attr(m.root(), "new_axis");
  if (!axis || !is_new || !all.front()->ranked()) return nullptr;
  if (*is_new == 0) return are_concatenated(m, all, *axis) ? b.op("Concat", all, {attr("axis", *axis)}) : nullptr;
  const auto rank = static_cast<int64_t>(all.front()->type()->rank()) + 1;
  if (all.size() > 1) return nullptr;
  return b.unsqueeze(all.front(), std::vector<int64_t>{*axis < 0 ? *axis + rank : *axis});
}

Value* inserted(Rewriter& b, const Match& m) {
  const Node& before = m.node(list);
  auto all = before.is("SequenceEmpty") ? std::vector<Value*>() : operands_of(before);
  size_t where = all.size();
  if (m.root().input(2) != nullptr) {
    const auto index = number(m, m.root().input(2));
    if (!index) return nullptr;
    const int64_t i = *index < 0 ? *index + static_cast<int64_t>(all.size()) : *index;
    if (i < 0 || i > static_cast<int64_t>(all.size())) return nullptr;
    where = static_cast<size_t>(i);
  }
  all.insert(all.begin() + static_cast<std::ptrdiff_t>(where), m[x]);
  return b.op("SequenceConstruct", all);
}

}  // namespace

Pass simplify_sequences() {
  const Pattern construct = SequenceConstruct(rest).as(list);
  std::vector<Rule> rules;
  rules.push_back({.name = "element", .match = SequenceAt(construct, constant.as(at)), .build = element, .same_type = true});
  rules.push_back({.name = "pieces",
                   .match = SplitToSequence(x, rest),
                   .when = is_read_by_element,
                   .build = split,
                   .opset = 13,
                   .same_type = true});
  rules.push_back({.name = "length", .match = SequenceLength(construct), .build = [](Rewriter& b, const Match& m) {
                     return b.i64(static_cast<int64_t>(m.node(list).num_inputs()));
                   }});
  rules.push_back({.name = "concatenation", .match = ConcatFromSequence(construct), .build = concatenated, .same_type = true});
  rules.push_back({.name = "insertion",
                   .match = SequenceInsert(any_of(SequenceEmpty().as(list), sole(construct)), x, rest),
                   .build = inserted,
                   .same_type = true});
  const Pattern some = Optional(x);
  rules.push_back(
      {.name = "content", .match = OptionalGetElement(some), .build = [](Rewriter&, const Match& m) { return m[x]; }});
  rules.push_back({.name = "has_content", .match = OptionalHasElement(some), .build = [](Rewriter& b, const Match&) {
                     return b.scalar(DType::kBool, 1);
                   }});
  return rules;
}

}  // namespace sardonyx::onnx
