#include "rewrite/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

namespace sardonyx {
namespace {

constexpr int kMaxCommutativeDepth = 4;
constexpr size_t kMaxOperands = 16;

// The versions of the operator that a pattern names, oldest first; empty if no table has it.
std::span<const Op> versions_of(const Pattern::Data& d, DialectId id) {
  const std::string_view name = id == DialectId::kMil ? d.mil : d.onnx;
  if (d.kind != Pattern::Kind::kOp || name.empty()) return {};
  const std::span<const Op> ops = dialect(id).ops();
  if (d.rows > 0) return ops.subspan(d.first_row, d.rows);
  const auto is_it = [&](const Op& op) { return op.name == name && op.domain == d.domain; };
  const auto first = std::ranges::find_if(ops, is_it);
  return {first, std::find_if_not(first, ops.end(), is_it)};
}

// Whether the constant equals v rounded to its dtype, or is 1 ulp off. If the dtype represents v exactly,
// only v matches: 0.9999 is not 1.
bool is_number(double got, double wanted, DType dtype) {
  if (got == wanted) return true;
  if (!is_float(dtype) || !std::isfinite(got) || !std::isfinite(wanted)) return false;
  std::array<std::byte, 8> rounded{};
  encode_element(dtype, rounded.data(), 0, wanted);
  if (decode_element(dtype, rounded.data(), 0) == wanted) return false;
  const int mantissa = dtype == DType::kF64    ? 52
                       : dtype == DType::kF32  ? 23
                       : dtype == DType::kF16  ? 10
                       : dtype == DType::kBF16 ? 7
                                               : 2;
  int exponent = 0;
  std::frexp(wanted, &exponent);
  return std::abs(got - wanted) <= 1.5 * std::ldexp(1.0, exponent - 1 - mantissa);
}

// Beyond this many sets, the last ones are replaced by their intersection.
constexpr size_t kMostNeeds = 8;

bool has_all(const OpBits& have, const OpBits& wanted) { return (wanted & ~have).none(); }

// Adds a set and keeps the list free of supersets.
void add_needs(std::vector<OpBits>& needs, const OpBits& more) {
  if (std::ranges::any_of(needs, [&](const OpBits& n) { return has_all(more, n); })) return;
  std::erase_if(needs, [&](const OpBits& n) { return has_all(n, more); });
  needs.push_back(more);
  if (needs.size() <= kMostNeeds) return;
  const OpBits shared = needs[kMostNeeds - 1] & needs[kMostNeeds];
  needs.resize(kMostNeeds - 1);
  add_needs(needs, shared);
}

}  // namespace

struct Matcher::Building {
  std::vector<std::pair<const Pattern::Data*, uint16_t>> made;  // a pattern used in several places is one step
};

Matcher::Matcher(const Pattern& p, DialectId dialect) : pattern_(p), dialect_(dialect) {
  Building building;
  add(pattern_, 0, building);
  steps_.shrink_to_fit();
  Ids ops;
  for (Step& s : steps_) {
    // For operators with ids, first_id and last_id suffice.
    if (s.kind == Pattern::Kind::kOp && s.first_id <= s.last_id) continue;
    ops.clear();
    add_accepted(s, s.accepts, ops);
    s.accepted_ops_at = static_cast<uint16_t>(accepted_ops_.size());
    s.accepted_ops = static_cast<uint16_t>(ops.size());
    accepted_ops_.insert(accepted_ops_.end(), ops.begin(), ops.end());
    SX_CHECK(accepted_ops_.size() < UINT16_MAX, "a pattern is too large");
  }
  add_ops(steps_.front(), roots_);
  std::vector<std::vector<OpBits>> known(steps_.size());
  needs_ = needs_of(0, known);
}

uint16_t Matcher::add(const Pattern& p, int commutative_depth, Building& building) {
  const Pattern::Data& d = p.data();
  // A pattern used in several places is one step; copies would multiply the alternatives.
  for (const auto& [data, step] : building.made) {
    if (data == &d) return step;
  }
  SX_CHECK(steps_.size() < UINT16_MAX && children_.size() < UINT16_MAX, "a pattern is too large");
  const auto at = static_cast<uint16_t>(steps_.size());
  building.made.emplace_back(&d, at);
  steps_.emplace_back();
  Step s;
  s.kind = d.kind;
  s.leaf = d.kind == Pattern::Kind::kAny || d.kind == Pattern::Kind::kConstant || d.kind == Pattern::Kind::kSplat ||
           d.kind == Pattern::Kind::kAbsent;
  s.sole = d.sole;
  s.number = d.number;
  s.tolerance = d.tolerance;
  s.trait = d.trait;
  s.result = d.result;
  if (!d.attrs.empty()) s.attrs = &d.attrs;
  s.vars_at = static_cast<uint16_t>(step_vars_.size());
  s.vars = static_cast<uint16_t>(d.vars.size());
  for (std::string_view v : d.vars) {
    auto known = std::find(vars_.begin(), vars_.end(), v);
    step_vars_.push_back(static_cast<uint16_t>(known - vars_.begin()));
    if (known == vars_.end()) vars_.push_back(v);
  }
  SX_CHECK(vars_.size() <= Match::kMaxVars, "a pattern has too many variables: " + to_string(pattern_));
  if (d.kind == Pattern::Kind::kOp) {
    s.name = dialect_ == DialectId::kMil ? d.mil : d.onnx;
    s.domain = d.domain;
    const std::span<const Op> versions = versions_of(d, dialect_);
    if (!versions.empty()) s.name = s.domain = {};
    for (const Op& op : versions) {
      if (op.since_version < d.since) continue;
      if (s.last_id < s.first_id) s.first_id = op.id;
      s.last_id = op.id;
      s.commutative =
          op.has(Trait::kCommutative) && d.children.size() == 2 && d.children[1].data().kind != Pattern::Kind::kRest;
    }
  }
  // Operand orders multiply only where commutative operators feed each other; any other operator resets the
  // count.
  const int depth = s.commutative ? commutative_depth + 1 : d.kind == Pattern::Kind::kAnyOf ? commutative_depth : 0;
  SX_CHECK(depth <= kMaxCommutativeDepth, "commutative operators nest too deeply in " + to_string(pattern_));
  s.open_ended = dialect_ == DialectId::kMil;  // further slots are parameters
  size_t count = d.children.size();
  if (count > 0 && d.children.back().data().kind == Pattern::Kind::kRest) {
    s.open_ended = true;
    --count;
  }
  SX_CHECK(count <= kMaxOperands, "a pattern has too many operands");
  s.children_at = static_cast<uint16_t>(children_.size());
  s.children = static_cast<uint16_t>(count);
  children_.resize(children_.size() + count);
  for (size_t i = 0; i < count; ++i) {
    SX_CHECK(d.children[i].data().kind != Pattern::Kind::kRest,
             "`rest` stands before other operands in " + to_string(pattern_));
    const uint16_t c = add(d.children[i], depth, building);
    children_[s.children_at + i] = c;
  }
  steps_[at] = s;
  return at;
}

void Matcher::add_ops(const Step& s, Ids& ids) const {
  if (s.kind == Pattern::Kind::kOp && s.first_id <= s.last_id) ids.emplace_back(s.first_id, s.last_id);
  if (s.kind == Pattern::Kind::kTrait) {
    for (const Op& op : dialect(dialect_).ops()) {
      if (op.has(s.trait)) ids.emplace_back(op.id, op.id);
    }
  }
  if (s.kind == Pattern::Kind::kAnyOf) {
    for (uint16_t c : children(s)) add_ops(steps_[c], ids);
  }
}

// A node needs what each of its operands needs, alternatives what one of them needs. `known` caches the sets
// of each step.
const std::vector<OpBits>& Matcher::needs_of(uint16_t step, std::span<std::vector<OpBits>> known) const {
  std::vector<OpBits>& needs = known[step];
  if (!needs.empty()) return needs;
  const Step& s = steps_[step];
  const bool alternatives = s.kind == Pattern::Kind::kAnyOf;
  if (!alternatives) {
    const bool is_op = s.kind == Pattern::Kind::kOp && s.first_id <= s.last_id;
    needs.push_back(is_op ? op_bits(s.first_id, dialect_) : OpBits());
  }
  for (uint16_t c : children(s)) {
    if (!alternatives && steps_[c].leaf) continue;
    const std::vector<OpBits>& below = needs_of(c, known);
    if (alternatives) {
      for (const OpBits& m : below) add_needs(needs, m);
    } else if (below.size() == 1) {
      for (OpBits& n : needs) n |= below.front();
    } else {
      std::vector<OpBits> both;
      for (const OpBits& n : needs) {
        for (const OpBits& m : below) add_needs(both, n | m);
      }
      needs = std::move(both);
    }
  }
  return needs;
}

bool Matcher::can_match_like(const Graph& samples) const {
  std::vector<int8_t> known(steps_.size(), -1);
  const auto has_op = [&](const Step& s) {
    return std::ranges::any_of(samples.nodes(), [&](const Node& n) { return may_match_root(s, n); });
  };
  return is_possible(0, has_op, known);
}

// has_op(step): whether some op matches an operator step. `known` caches the answer for each step: 1, 0, or
// -1 = unknown.
template <class F>
bool Matcher::is_possible(uint16_t step, const F& has_op, std::span<int8_t> known) const {
  if (known[step] >= 0) return known[step] != 0;
  const Step& s = steps_[step];
  bool possible = s.kind != Pattern::Kind::kOp || has_op(s);
  const auto is = [&](uint16_t c) { return is_possible(c, has_op, known); };
  if (possible) {
    const auto all = children(s);
    possible =
        s.kind == Pattern::Kind::kAnyOf ? std::any_of(all.begin(), all.end(), is) : std::all_of(all.begin(), all.end(), is);
  }
  known[step] = possible ? 1 : 0;
  return possible;
}

void Matcher::add_accepted(const Step& s, uint8_t& accepts, Ids& ops) const {
  switch (s.kind) {
    case Pattern::Kind::kOp:
      if (s.first_id <= s.last_id) {
        const std::pair ids(s.first_id, s.last_id);
        if (std::find(ops.begin(), ops.end(), ids) == ops.end()) ops.push_back(ids);
      } else {
        accepts |= kUnknownOp;
      }
      break;
    case Pattern::Kind::kConstant:
    case Pattern::Kind::kSplat: accepts |= kConstant; break;
    case Pattern::Kind::kAnyOf:
      for (uint16_t c : children(s)) add_accepted(steps_[c], accepts, ops);
      break;
    case Pattern::Kind::kAbsent: accepts |= kAbsent; break;
    default: accepts |= kAny;
  }
}

// A cheap check of one operand before the search starts.
inline bool Matcher::may_match_operand(uint16_t step, const Value* v) const {
  const Step& s = steps_[step];
  if (v == nullptr) return (s.accepts & kAbsent) != 0;
  if ((s.accepts & kAny) != 0) return true;
  if (const Node* n = v->def()) {
    const uint32_t id = n->op().id;
    if (id >= s.first_id && id <= s.last_id) return true;
    for (size_t i = 0; i < s.accepted_ops; ++i) {
      const auto& [first, last] = accepted_ops_[s.accepted_ops_at + i];
      if (id >= first && id <= last) return true;
    }
    if ((s.accepts & kUnknownOp) != 0 && !n->op().known) return true;
  }
  return (s.accepts & kConstant) != 0 && v->is_constant();
}

inline bool Matcher::may_match_operands(const Step& s, const Node& n, bool swapped) const {
  for (size_t i = 0; i < s.children; ++i) {
    if (!may_match_operand(child(s, i), n.input(swapped ? 1 - i : i))) return false;
  }
  return true;
}

bool Matcher::may_match_root(const Step& s, const Node& root) const {
  if (s.kind == Pattern::Kind::kAnyOf) {
    for (uint16_t c : children(s)) {
      if (may_match_root(steps_[c], root)) return true;
    }
    return false;
  }
  if (s.kind != Pattern::Kind::kOp) return true;
  return is_op(s, root) && (may_match_operands(s, root, false) || (s.commutative && may_match_operands(s, root, true)));
}

bool Matcher::may_match(const Node& root) const { return may_match_root(steps_.front(), root); }

// What remains to be matched: a linked list on the callers' stacks.
struct Matcher::Goal {
  uint16_t step;
  Value* value;
  const Goal* next;
};

// Where a node that nearly matches differs.
struct Matcher::Difference {
  enum class Kind : uint8_t { kLeaf, kOperator, kAttributes, kReaders, kAbsent };
  Kind kind = Kind::kLeaf;
  uint16_t step = 0;
  const Value* value = nullptr;
};

namespace {
struct NothingForgiven {};
}  // namespace

// The search for near misses: one place may differ.
struct Matcher::Forgiven {
  struct Nearest {
    Difference difference;
    size_t nodes = 0;  // that match
    const Node* reader = nullptr;
  };
  std::optional<Difference> difference;  // on the way here
  std::optional<Nearest> nearest;
  size_t visits = 0;
};

// With kForgives, no match is found; the nearest miss is.
template <bool kForgives>
struct Matcher::Run {
  const Matcher& matcher;
  PassContext& context;
  const Condition& accept;
  Match& m;
  Graph* graph;
  const Node* root;
  std::conditional_t<kForgives, Forgiven, NothingForgiven> forgiven = {};

  // Whether the first difference may be passed over.
  bool forgive(Difference::Kind kind, uint16_t at, const Value* v) {
    if constexpr (kForgives) {
      if (forgiven.difference || m.node_count_ == 0) return false;
      forgiven.difference = Difference{kind, at, v};
      return true;
    }
    return false;
  }
  bool may_forgive() const {
    if constexpr (kForgives) return !forgiven.difference;
    return false;
  }

  // At the end of the pattern.
  void keep() {
    auto& [difference, nearest, visits] = forgiven;
    if (!difference || (nearest && nearest->nodes >= m.node_count_)) return;
    nearest = {.difference = *difference, .nodes = m.node_count_, .reader = root};
    for (const Node* n : m.nodes()) {
      for (const Use& u : n->operands()) {
        if (u.value == nearest->difference.value) nearest->reader = n;
      }
    }
  }

  const Step& step(uint16_t i) const { return matcher.steps_[i]; }

  bool bind(const Step& s, Value* v, uint32_t* trail) {
    for (uint16_t i = 0; i < s.vars; ++i) {
      const uint16_t var = matcher.step_vars_[s.vars_at + i];
      Value*& slot = m.values_[var];
      if (slot == nullptr) {
        slot = v;
        *trail |= 1u << var;
      } else if (slot != v) {
        const TensorPtr& a = slot->constant();
        const TensorPtr& b = v->constant();
        if (a == nullptr || b == nullptr || a->size() > 4096 || b->size() > 4096 || !a->equals(*b)) return false;
      }
    }
    return true;
  }

  void unbind(uint32_t trail) {
    for (uint32_t var = 0; trail != 0; ++var, trail >>= 1) {
      if (trail & 1) m.values_[var] = nullptr;
    }
  }

  bool attrs_match(const Step& s, const Node& n) const {
    for (const std::pair<std::string, Attr>& item : *s.attrs) {
      const std::string& name = item.first;
      const Attr& wanted = item.second;
      const Attr* a = n.attr(name);
      if (a != nullptr) {
        if (!(*a == wanted)) return false;
        continue;
      }
      bool same = false;
      if (const auto* i = wanted.get<int64_t>()) same = int_attr(n, name) == *i;
      if (const auto* f = wanted.get<double>()) same = float_attr(n, name) == *f;
      if (const auto* text = wanted.get<std::string>()) same = string_attr(n, name) == *text;
      if (const auto* list = wanted.get<Attr::Ints>()) same = ints_attr(n, name) == *list;
      if (!same) return false;
    }
    return true;
  }

  // Whether v matches the leaf; binds its variables.
  bool leaf(const Step& s, Value* v, uint32_t* trail) {
    if (s.kind == Pattern::Kind::kAbsent) return v == nullptr;
    if (v == nullptr || (s.sole && !v->has_one_use())) return false;
    if (s.kind == Pattern::Kind::kConstant && !v->is_constant()) return false;
    if (s.kind == Pattern::Kind::kSplat) {
      const auto number = v->is_constant() ? context.splat(v) : std::nullopt;
      if (!number) return false;
      // near() serves Core ML, whose passes accept only scalar constants.
      if (s.tolerance > 0 ? v->constant()->size() != 1 || !(std::abs(*number - s.number) <= s.tolerance)
                          : !is_number(*number, s.number, v->constant()->dtype()))
        return false;
    }
    return bind(s, v, trail);
  }

  // Core ML: whether a parameter with a default is computed. Core ML refuses such a program, and a rule that
  // asks for the parameter would see the default instead.
  static bool has_computed_parameter(const Node& n) {
    if (n.op().dialect != DialectId::kMil) return false;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const Value* v = n.input(i);
      if (v == nullptr || v->is_constant()) continue;
      const Slot* slot = slot_of(n.op(), i, n.num_inputs());
      if (slot == nullptr || !slot->parameter) continue;
      if (std::ranges::any_of(n.op().attrs, [&](const AttrSpec& s) { return s.name == slot->name; })) return true;
    }
    return false;
  }

  // Whether v is result s.result of a node that matches s; operands are not checked.
  bool is_node(const Step& s, const Value& v) const {
    return is_operator(s, v) && (s.attrs == nullptr || attrs_match(s, *v.def()));
  }
  bool is_operator(const Step& s, const Value& v) const {
    const Node* n = v.def();
    if (n == nullptr || v.index() != s.result || n->unchecked() || n->graph() != graph || !n->linked()) return false;
    if (s.kind == Pattern::Kind::kTrait) return n->has(s.trait);
    if (!Matcher::is_op(s, *n) || has_computed_parameter(*n)) return false;
    for (size_t i = n->num_inputs(); i < s.children; ++i) {
      if (step(matcher.child(s, i)).kind != Pattern::Kind::kAbsent) return false;
    }
    if (!s.open_ended) {
      for (size_t i = s.children; i < n->num_inputs(); ++i) {
        if (n->input(i) != nullptr) return false;
      }
    }
    return true;
  }

  bool may_match_operand(uint16_t c, const Value* v) const { return may_forgive() || matcher.may_match_operand(c, v); }
  bool may_match_operands(const Step& s, const Node& n, bool swapped) const {
    return may_forgive() || matcher.may_match_operands(s, n, swapped);
  }

  // Matches all goals, or leaves the match unchanged. It loops, and recurses only where there are
  // alternatives.
  bool solve(const Goal* g) {
    using Kind = Difference::Kind;
    uint32_t trail = 0;
    const size_t nodes_before = m.node_count_;
    const auto forgiven_before = forgiven;
    const auto fail = [&] {
      m.node_count_ = nodes_before;
      if (trail != 0) unbind(trail);
      if constexpr (kForgives) forgiven.difference = forgiven_before.difference;
      return false;
    };
    if constexpr (kForgives) {
      constexpr size_t kMostVisits = 20000;
      if (++forgiven.visits > kMostVisits) return false;
    }
    for (; g != nullptr; g = g->next) {
      const Step& s = step(g->step);
      Value* v = g->value;
      if (s.leaf) {
        if (!leaf(s, v, &trail) && !forgive(v == nullptr ? Kind::kAbsent : Kind::kLeaf, g->step, v)) return fail();
        continue;
      }
      if (v == nullptr) {
        if (!forgive(Kind::kAbsent, g->step, v)) return fail();
        continue;
      }
      if (s.sole && !v->has_one_use() && !forgive(Kind::kReaders, g->step, v)) return fail();
      if (s.kind == Pattern::Kind::kAnyOf) {
        if (!bind(s, v, &trail)) return fail();
        for (uint16_t c : matcher.children(s)) {
          if (!may_match_operand(c, v)) continue;
          const Goal goal{c, v, g->next};
          if (solve(&goal)) return true;
        }
        return fail();
      }
      if (!is_node(s, *v)) {
        const bool is_it = kForgives && is_operator(s, *v);
        if (!forgive(is_it ? Kind::kAttributes : Kind::kOperator, g->step, v)) return fail();
        if (!is_it) continue;
      }
      if (!bind(s, v, &trail)) return fail();
      Node& n = *v->def();
      if (m.node_count_ == Match::kMaxNodes) return fail();
      m.nodes_[m.node_count_++] = &n;
      if (s.kind == Pattern::Kind::kTrait) {
        const uint16_t c = matcher.child(s, 0);
        for (size_t i = 0; i < n.num_inputs(); ++i) {
          if (!may_match_operand(c, n.input(i))) continue;
          const Goal goal{c, n.input(i), g->next};
          if (solve(&goal)) return true;
        }
        return fail();
      }
      const bool swaps = s.commutative && n.input(0) != n.input(1) && may_match_operands(s, n, true);
      if (!may_match_operands(s, n, false)) {
        if (!swaps) return fail();
      } else if (swaps) {
        if (in_order(s, n, 0, false, g->next)) return true;
        // the other order follows, as the last alternative
      }
      size_t i = 0;
      for (; i < s.children; ++i) {
        const uint16_t at = matcher.child(s, i);
        const Step& c = step(at);
        Value* operand = n.input(swaps ? 1 - i : i);
        if (!c.leaf) break;
        if (!leaf(c, operand, &trail) && !forgive(operand == nullptr ? Kind::kAbsent : Kind::kLeaf, at, operand)) return fail();
      }
      if (i == s.children) continue;
      return in_order(s, n, i, swaps, g->next) || fail();
    }
    if constexpr (kForgives) {
      keep();
      return fail();
    }
    return !accept || accept(m) || fail();
  }

  // Matches the operands of n from child `first` on, then `next`.
  bool in_order(const Step& s, const Node& n, size_t first, bool swapped, const Goal* next) {
    Goal goals[kMaxOperands];
    for (size_t i = first; i < s.children; ++i) {
      goals[i] = {matcher.child(s, i), n.input(swapped ? 1 - i : i), i + 1U < s.children ? &goals[i + 1] : next};
    }
    return solve(first < s.children ? &goals[first] : next);
  }
};

bool Matcher::match(Node& root, PassContext& context, const Condition& accept, Match* m) const {
  const Step* first = &steps_.front();
  uint32_t index = first->result;
  if (root.num_results() <= index) return false;
  m->context_ = &context;
  m->names_ = &vars_;
  for (size_t i = 0; i < vars_.size(); ++i) m->values_[i] = nullptr;
  m->node_count_ = 0;
  Run<false> run{*this, context, accept, *m, root.graph(), &root};
  const Goal goal{0, root.result(index), nullptr};
  return run.solve(&goal);
}

// The nodes of the smallest match.
size_t Matcher::fewest_nodes(uint16_t at) const {
  const Step& s = steps_[at];
  if (s.leaf) return 0;
  size_t sum = 1, fewest = SIZE_MAX;
  for (uint16_t c : children(s)) {
    const size_t below = fewest_nodes(c);
    sum += below;
    fewest = std::min(fewest, below);
  }
  return s.kind == Pattern::Kind::kAnyOf ? fewest : sum;
}

std::optional<std::string> Matcher::near_miss(Node& root, PassContext& context) const {
  const uint32_t index = steps_.front().result;
  if (root.num_results() <= index) return std::nullopt;
  Match m;
  m.context_ = &context;
  m.names_ = &vars_;
  Run<true> run{*this, context, {}, m, root.graph(), &root};
  const Goal goal{0, root.result(index), nullptr};
  run.solve(&goal);
  // One node alone, or less than half of the pattern, is no near miss.
  const auto& nearest = run.forgiven.nearest;
  if (!nearest || nearest->nodes < 2 || 2 * nearest->nodes < fewest_nodes(0)) return std::nullopt;
  return text_of(nearest->difference, *nearest->reader);
}

std::string Matcher::text_of(const Difference& d, const Node& reader) const {
  const Step& s = steps_[d.step];
  const auto wanted = [&](const Step& of) -> std::string {
    switch (of.kind) {
      case Pattern::Kind::kSplat: return fmt::format("the constant {}", of.number);
      case Pattern::Kind::kConstant: return "a constant";
      case Pattern::Kind::kAbsent: return "nothing";
      case Pattern::Kind::kAny: return "the value that is read elsewhere";
      case Pattern::Kind::kTrait: return "another kind of operator";
      default: {
        const auto ops = dialect(dialect_).ops();
        const auto op = std::ranges::find(ops, of.first_id, &Op::id);
        return fmt::format("a result of {}", op != ops.end() ? op->name : of.name);
      }
    }
  };
  const auto found = [](const Value* v) -> std::string {
    if (v == nullptr) return "nothing";
    if (const TensorPtr& t = v->constant()) {
      const bool is_number = t->dtype() != DType::kString && !is_complex(t->dtype()) && !t->is_promise() && !t->is_deferred();
      if (is_number && t->size() == 1) return fmt::format("the constant {:.9g}", t->as_double(0));
      return fmt::format("a constant of {} elements", t->size());
    }
    const Node* def = v->def();
    return def != nullptr ? fmt::format("a result of {}", def->op().name) : fmt::format("'{}'", v->name().view());
  };
  std::string name(reader.name().view());
  if (name.empty() && reader.num_results() > 0) name = reader.result(0)->name().view();
  const std::string where = fmt::format("{}{}", reader.op().name, name.empty() ? std::string() : fmt::format(" '{}'", name));
  switch (d.kind) {
    case Difference::Kind::kReaders: return fmt::format("all of it is there, but more than one node reads {}", found(d.value));
    case Difference::Kind::kAttributes: {
      std::string attributes;
      for (const auto& [attribute, value] : *s.attrs)
        attributes +=
            fmt::format("{}{}={}", attributes.empty() ? "" : ", ", attribute, to_string(value, reader.model().types()));
      return fmt::format("all of it is there but the attributes of {}: expected {}", d.value->def()->op().name, attributes);
    }
    default:
      return fmt::format("all of it is there but one operand: {} reads {}, expected {}", where, found(d.value), wanted(s));
  }
}

Value* Match::operator[](std::string_view name) const {
  // Usually the very string literal that the pattern was written with.
  for (size_t i = 0; i < names_->size(); ++i) {
    if ((*names_)[i].data() == name.data() && (*names_)[i].size() == name.size()) return values_[i];
  }
  for (size_t i = 0; i < names_->size(); ++i) {
    if ((*names_)[i] == name) return values_[i];
  }
  SX_CHECK(false, fmt::format("the pattern has no variable '{}'", name));
  return nullptr;
}

Value* Match::operator[](Var v) const { return (*this)[v.name]; }

Node& Match::node(Var v) const {
  Value* value = (*this)[v];
  SX_CHECK(value != nullptr && value->def() != nullptr, fmt::format("'{}' is not the result of a node", v.name));
  return *value->def();
}

const Type* Match::type(Var v) const {
  const Value* value = (*this)[v];
  return value != nullptr ? value->type() : nullptr;
}

bool Match::refuse(std::string_view why) const {
  context_->log.near_miss(root(), why);
  return false;
}

}  // namespace sardonyx
