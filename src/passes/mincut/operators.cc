#include "passes/mincut/operators.h"

#include <algorithm>
#include <numeric>

#include "ir/tensor/tensor_transform.h"

namespace sardonyx::layout {
namespace {

// A constant up to this size may be stored once per layout.
constexpr size_t kSmallConstant = 4096;

// Whether the call of a function decides an attribute, so that it is unknown here.
bool has_attr_of_call(const Node& n) {
  return std::ranges::any_of(n.attrs().items(), [](const NamedAttr& a) { return a.value.get<RefAttr>() != nullptr; });
}

AttrInit attrs_of(const Node& n, Spelling& s) {
  AttrInit attrs;
  if (!s.drop_attrs) attrs.assign(n.attrs().items().begin(), n.attrs().items().end());
  for (auto& [name, value] : s.attrs) {
    const auto at = std::ranges::find_if(attrs, [&](const NamedAttr& a) { return a.name == name; });
    if (at != attrs.end()) {
      at->value = std::move(value);
    } else {
      attrs.push_back(attr(name, std::move(value)));
    }
  }
  return attrs;
}

}  // namespace

std::optional<Layout> Operators::transposition(const Node& n) {
  if (!n.is("Transpose")) return std::nullopt;
  const auto rank = rank_of(n.input(0));
  if (!rank) return std::nullopt;
  if (n.attr("perm") == nullptr) {
    Ints reverse(*rank);
    std::iota(reverse.rbegin(), reverse.rend(), 0);
    return Layout::permutation(reverse);
  }
  const auto perm = ints_attr(n, "perm");
  return perm && perm->size() == *rank ? Layout::permutation(*perm) : std::nullopt;
}

std::pair<Value*, Layout> Operators::look_through(Value& v) {
  Node* def = v.def();
  const auto l = def != nullptr ? transposition(*def) : std::nullopt;
  return l ? std::pair{def->input(0), *l} : std::pair{&v, Layout::as_is()};
}

std::optional<Move> Operators::from_operand(const Node& n, size_t slot, const Layout& l) {
  return follow(n, l, /*forward=*/true, slot);
}

std::optional<Move> Operators::from_result(const Node& n, size_t index, const Layout& l) {
  return follow(n, l, /*forward=*/false, index);
}

std::optional<Move> Operators::follow(const Node& n, const Layout& l, bool forward, size_t slot) {
  const Family* family = family_of(n);
  if (family == nullptr) return std::nullopt;
  if (slot > 0 && !(forward ? family->any_operand : family->any_result)) return std::nullopt;
  if (family != &kElementwise && has_attr_of_call(n)) return std::nullopt;
  Move m;
  m.operands.resize(n.num_inputs());
  m.results.resize(n.num_results());
  if (!family->follow({.n = n, .context = context_, .given = l, .forward = forward, .slot = slot}, m)) return std::nullopt;
  bool moves = false;
  const auto settle = [&](Layout& to, const Value* v) {  // false for a value without rank that would move
    if (to.is_identity()) to = Layout::as_is();
    moves |= !to.is_as_is();
    return to.is_as_is() || rank_of(v);
  };
  for (size_t i = 0; i < m.operands.size(); ++i) {
    if (!settle(m.operands[i], n.input(i))) return std::nullopt;
  }
  for (size_t i = 0; i < m.results.size(); ++i) {
    if (!settle(m.results[i], n.result(i))) return std::nullopt;
  }
  return moves ? std::optional(std::move(m)) : std::nullopt;
}

bool Operators::reads_swapped(const Node& n) { return n.is("MatMul") && is_float(n.result()->dtype()); }

Node& Operators::rebuild(Node& n, const Move& m, std::vector<Value*>* results) {
  Graph& g = *n.graph();
  Model& model = context_.model;
  const Family& family = *family_of(n);
  OnnxBuilder& b = builder(g, &n);
  b.set_provenance(n.provenance());
  Spelling s{.b = b, .context = context_, .operands = {}, .attrs = {}, .op = {}};
  for (const Use& u : n.operands()) s.operands.push_back(u.value);
  if (family.spell != nullptr) family.spell(n, m, s);
  for (size_t i = 0; i < m.operands.size(); ++i) {
    if (!m.operands[i].is_as_is()) s.operands[i] = nullptr;
  }
  const Op& op = s.op.empty() ? n.op() : model.op("", s.op);
  Node& made = model.new_node(op, s.operands, n.num_results(), model.attrs(attrs_of(n, s)));
  g.insert_before(n, made);
  results->clear();
  for (Value& v : made.results()) results->push_back(&v);
  if (family.restore != nullptr) (*results)[0] = family.restore(n, m, made, b);
  return made;
}

Value* Operators::store(Value& v, const Layout& l, Graph& g, Node* before) {
  OnnxBuilder& b = builder(g, before);
  b.set_provenance(v.def() != nullptr ? v.def()->provenance() : 0);
  Value* out = &v;
  Ints perm, added;
  for (size_t i = 0; i < l.rank; ++i) {
    if (l.from[i] == Layout::kNew) {
      added.push_back(static_cast<int64_t>(i));
    } else {
      perm.push_back(l.from[i]);
    }
  }
  if (!std::is_sorted(perm.begin(), perm.end())) out = b.Transpose(out, {.perm = perm});
  if (!added.empty()) out = b.unsqueeze(out, added);
  return out;
}

bool Operators::can_store(const Tensor& t) { return can_transpose(t) && !t.is_promise(); }

bool Operators::is_free(const Value& v) {
  return v.is_constant() && v.constant()->byte_size() <= kSmallConstant && can_store(*v.constant());
}

TensorPtr Operators::stored(const TensorPtr& t, const Layout& l) {
  Ints perm, shape;
  for (size_t i = 0; i < l.rank; ++i) {
    const int8_t from = l.from[i];
    if (from != Layout::kNew) perm.push_back(from);
    shape.push_back(from == Layout::kNew ? 1 : t->shape()[static_cast<size_t>(from)]);
  }
  TensorPtr out = std::is_sorted(perm.begin(), perm.end()) ? t : transposed(t, perm);
  return out->reshaped(std::move(shape));
}

Value* Operators::store_constant(const Value& constant, const Layout& l, Graph& g, Node* before) {
  return builder(g, before).constant(stored(constant.constant(), l), constant.name().view());
}

OnnxBuilder& Operators::builder(Graph& g, Node* before) {
  auto at = builders_.find(&g);
  if (at == builders_.end()) at = builders_.try_emplace(&g, g, context_.facts).first;
  at->second.set_insertion_point(before);
  return at->second;
}

}  // namespace sardonyx::layout
