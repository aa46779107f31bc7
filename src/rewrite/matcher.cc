#include "rewrite/matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace sardonyx {
namespace {

constexpr int kMaxCommutativeDepth = 4;
constexpr size_t kMaxOperands = 16;

// Ids of the versions of each operator, oldest first.
struct Versions {
  std::vector<std::pair<int, uint32_t>> since_and_id;
};
const std::unordered_map<std::string, Versions>& versions_of(DialectId d) {
  static const auto make = [](DialectId id) {
    std::unordered_map<std::string, Versions> all;
    for (const Op& op : dialect(id).ops()) {
      all[fmt::format("{}/{}", op.domain, op.name)].since_and_id.emplace_back(op.since_version, op.id);
    }
    for (auto& [name, v] : all) std::sort(v.since_and_id.begin(), v.since_and_id.end());
    return all;
  };
  if (d == DialectId::kMil) {
    static const auto mil = make(d);
    return mil;
  }
  static const auto onnx = make(DialectId::kOnnx);
  return onnx;
}

// The constant's number is v rounded to its dtype, or 1 ulp beside; v itself where the dtype has it: 0.9999 is not 1.
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

}  // namespace

Matcher::Matcher(const Pattern& p, DialectId dialect) : pattern_(p), dialect_(dialect) {
  add(pattern_, dialect, 0);
  shared_.clear();
  steps_.shrink_to_fit();
  for (Step& s : steps_) {
    // Of an operator with ids, they say it.
    if (s.kind != Pattern::Kind::kOp || s.first_id > s.last_id) look_for(s, s.look);
  }
}

const Matcher& Matcher::of(const Pattern& p, DialectId dialect) {
  static std::mutex mutex;
  static std::map<std::pair<const Pattern::Data*, DialectId>, std::unique_ptr<const Matcher>> compiled;
  const std::lock_guard<std::mutex> one_at_a_time(mutex);
  auto& matcher = compiled[{&p.data(), dialect}];
  if (matcher == nullptr) matcher = std::make_unique<const Matcher>(p, dialect);
  return *matcher;
}

uint16_t Matcher::add(const Pattern& p, DialectId dialect, int commutative_depth) {
  const Pattern::Data& d = p.data();
  // A pattern that stands in several places is one step: alternatives would multiply otherwise.
  const auto [shared, is_new] = shared_.try_emplace(&d, static_cast<uint16_t>(steps_.size()));
  if (!is_new) return shared->second;
  const uint16_t at = shared->second;
  SX_CHECK(steps_.size() < UINT16_MAX, "a pattern is too large");
  steps_.emplace_back();
  Step s;
  s.kind = d.kind;
  s.sole = d.sole;
  s.number = d.number;
  s.tolerance = d.tolerance;
  s.trait = d.trait;
  s.result = d.result;
  if (!d.attrs.empty()) s.attrs = &d.attrs;
  for (std::string_view v : d.vars) {
    auto known = std::find(vars_.begin(), vars_.end(), v);
    s.vars.push_back(static_cast<uint16_t>(known - vars_.begin()));
    if (known == vars_.end()) vars_.push_back(v);
  }
  SX_CHECK(vars_.size() <= Match::kMaxVars, "a pattern has too many variables: " + to_string(pattern_));
  if (d.kind == Pattern::Kind::kOp) {
    const std::string_view name = dialect == DialectId::kMil ? d.mil : d.onnx;
    const auto& all = versions_of(dialect);
    const auto found = all.find(fmt::format("{}/{}", d.domain, name));
    if (found == all.end()) {
      s.domain = d.domain;
      s.name = name;
    } else {
      for (const auto& [since, id] : found->second.since_and_id) {
        if (since < d.since) continue;
        if (s.last_id < s.first_id) s.first_id = s.last_id = id;
        SX_CHECK(id >= s.first_id && id <= s.last_id + 1, "versions of an operator are not neighbours in its table");
        s.last_id = id;
        const Op& op = sardonyx::dialect(dialect).ops()[id - sardonyx::dialect(dialect).ops().front().id];
        s.commutative =
            op.has(Trait::kCommutative) && d.children.size() == 2 && d.children[1].data().kind != Pattern::Kind::kRest;
      }
    }
  }
  // Orders multiply only through commutative operators that feed each other: any other operator ends the count.
  const int depth = s.commutative ? commutative_depth + 1 : d.kind == Pattern::Kind::kAnyOf ? commutative_depth : 0;
  SX_CHECK(depth <= kMaxCommutativeDepth, "commutative operators nest too deeply in " + to_string(pattern_));
  s.open_ended = dialect == DialectId::kMil;  // slots behind the operands are parameters
  for (size_t i = 0; i < d.children.size(); ++i) {
    if (d.children[i].data().kind == Pattern::Kind::kRest) {
      SX_CHECK(i + 1 == d.children.size(), "`rest` stands before other operands in " + to_string(pattern_));
      s.open_ended = true;
      break;
    }
    s.children.push_back(add(d.children[i], dialect, depth));
  }
  SX_CHECK(s.children.size() <= kMaxOperands, "a pattern has too many operands");
  steps_[at] = std::move(s);
  return at;
}

Matcher::Ids Matcher::ops_of(const Step& s) const {
  Ids ids;
  if (s.kind == Pattern::Kind::kOp && s.first_id <= s.last_id) ids.emplace_back(s.first_id, s.last_id);
  if (s.kind == Pattern::Kind::kTrait) {
    for (const Op& op : dialect(dialect_).ops()) {
      if (op.has(s.trait)) ids.emplace_back(op.id, op.id);
    }
  }
  if (s.kind == Pattern::Kind::kAnyOf) {
    for (uint16_t c : s.children) {
      Ids more = ops_of(steps_[c]);
      ids.insert(ids.end(), more.begin(), more.end());
    }
  }
  return ids;
}

std::vector<std::pair<uint32_t, uint32_t>> Matcher::root_ops() const { return ops_of(steps_.front()); }

bool Matcher::can_match(const Model& m) const {
  const auto ops = dialect(dialect_).ops();
  std::vector<int8_t> known(steps_.size(), -1);
  const auto has_op = [&](const Step& s) {
    bool found = s.first_id > s.last_id;
    for (uint32_t id = s.first_id; id <= s.last_id && !found; ++id) found = m.op_count(ops[id - ops.front().id]) > 0;
    return found;
  };
  return is_possible(0, has_op, known);
}

bool Matcher::can_match_like(const Graph& samples) const {
  std::vector<int8_t> known(steps_.size(), -1);
  const auto has_op = [&](const Step& s) {
    return std::ranges::any_of(samples.nodes(), [&](const Node& n) { return could_root(s, n); });
  };
  return is_possible(0, has_op, known);
}

// has_op(step) says whether there is an op for a step that is one. known: what was found of each step: 1, 0, or -1 = not looked at yet.
template <class F>
bool Matcher::is_possible(uint16_t step, const F& has_op, std::vector<int8_t>& known) const {
  if (known[step] >= 0) return known[step] != 0;
  const Step& s = steps_[step];
  bool possible = s.kind != Pattern::Kind::kOp || has_op(s);
  const auto child = [&](uint16_t c) { return is_possible(c, has_op, known); };
  if (possible) {
    possible = s.kind == Pattern::Kind::kAnyOf ? std::any_of(s.children.begin(), s.children.end(), child)
                                               : std::all_of(s.children.begin(), s.children.end(), child);
  }
  known[step] = possible ? 1 : 0;
  return possible;
}

void Matcher::look_for(const Step& s, Look& look) const {
  switch (s.kind) {
    case Pattern::Kind::kOp:
      if (s.first_id <= s.last_id) {
        const std::pair ids(s.first_id, s.last_id);
        if (std::find(look.ops.begin(), look.ops.end(), ids) == look.ops.end()) look.ops.push_back(ids);
      } else {
        look.unknown_op = true;
      }
      break;
    case Pattern::Kind::kConstant:
    case Pattern::Kind::kSplat: look.constant = true; break;
    case Pattern::Kind::kAnyOf:
      for (uint16_t c : s.children) look_for(steps_[c], look);
      break;
    case Pattern::Kind::kAbsent: look.absent = true; break;
    default: look.any = true;
  }
}

// One look ahead, before anything is tried.
inline bool Matcher::could(uint16_t step, const Value* v) const {
  const Step& s = steps_[step];
  const Look& look = s.look;
  if (v == nullptr) return look.absent;
  if (look.any) return true;
  if (const Node* n = v->def()) {
    const uint32_t id = n->op().id;
    if (id >= s.first_id && id <= s.last_id) return true;
    for (const auto& [first, last] : look.ops) {
      if (id >= first && id <= last) return true;
    }
    if (look.unknown_op && !n->op().known) return true;
  }
  return look.constant && v->is_constant();
}

bool Matcher::could_root(const Step& s, const Node& root) const {
  if (s.kind == Pattern::Kind::kAnyOf) {
    for (uint16_t c : s.children) {
      if (could_root(steps_[c], root)) return true;
    }
    return false;
  }
  if (s.kind != Pattern::Kind::kOp) return true;
  if (!is_op(s, root)) return false;
  const auto in_order = [&](bool swapped) {
    for (size_t i = 0; i < s.children.size(); ++i) {
      if (!could(s.children[i], root.input(swapped ? 1 - i : i))) return false;
    }
    return true;
  };
  return in_order(false) || (s.commutative && in_order(true));
}

bool Matcher::could_match(const Node& root) const { return could_root(steps_.front(), root); }

// What remains to be matched: a list on the stack of those who ask.
struct Matcher::Goal {
  uint16_t step;
  Value* value;
  const Goal* next;
};

struct Matcher::Run {
  const Matcher& matcher;
  PassContext& context;
  const Condition& accept;
  Match& m;
  Graph* graph;
  const Node* root;

  const Step& step(uint16_t i) const { return matcher.steps_[i]; }

  bool could(uint16_t i, Value* v) const { return matcher.could(i, v); }

  bool bind(const Step& s, Value* v, uint32_t* trail) {
    for (uint16_t var : s.vars) {
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
    if (s.attrs == nullptr) return true;
    for (const auto& [name, wanted] : *s.attrs) {
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

  bool solve(const Goal* g) {
    if (g == nullptr) return !accept || accept(m);
    const Step& s = step(g->step);
    Value* v = g->value;
    if (s.kind == Pattern::Kind::kAbsent) return v == nullptr && solve(g->next);
    if (v == nullptr || (s.sole && !v->has_one_use())) return false;

    Node* n = nullptr;
    switch (s.kind) {
      case Pattern::Kind::kConstant:
        if (!v->is_constant()) return false;
        break;
      case Pattern::Kind::kSplat: {
        const auto number = v->is_constant() ? context.splat(v) : std::nullopt;
        if (!number) return false;
        if (s.tolerance > 0 ? !(std::abs(*number - s.number) <= s.tolerance)
                            : !is_number(*number, s.number, v->constant()->dtype()))
          return false;
        break;
      }
      case Pattern::Kind::kOp:
      case Pattern::Kind::kTrait: {
        n = v->def();
        if (n == nullptr || v->index() != s.result || n->unchecked() || n->graph() != graph || !n->linked()) return false;
        if (s.kind == Pattern::Kind::kTrait ? !n->has(s.trait) : !Matcher::is_op(s, *n)) return false;
        if (s.kind == Pattern::Kind::kOp) {
          if (n->num_inputs() < s.children.size()) {
            for (size_t i = n->num_inputs(); i < s.children.size(); ++i) {
              if (step(s.children[i]).kind != Pattern::Kind::kAbsent) return false;
            }
          }
          if (!s.open_ended) {
            for (size_t i = s.children.size(); i < n->num_inputs(); ++i) {
              if (n->input(i) != nullptr) return false;
            }
          }
          if (!attrs_match(s, *n)) return false;
        }
        break;
      }
      default: break;
    }

    uint32_t trail = 0;
    if (!bind(s, v, &trail)) {
      unbind(trail);
      return false;
    }
    if (n == nullptr && s.kind != Pattern::Kind::kAnyOf) {  // a leaf
      if (solve(g->next)) return true;
      unbind(trail);
      return false;
    }
    const size_t nodes_before = m.node_count_;
    if (n != nullptr) {
      if (m.node_count_ == Match::kMaxNodes) return unbind(trail), false;
      m.nodes_[m.node_count_++] = n;
    }
    if (children(s, v, n, g->next)) return true;
    m.node_count_ = nodes_before;
    unbind(trail);
    return false;
  }

  bool children(const Step& s, Value* v, Node* n, const Goal* next) {
    if (s.kind == Pattern::Kind::kAnyOf) {
      for (uint16_t c : s.children) {
        if (!could(c, v)) continue;
        const Goal goal{c, v, next};
        if (solve(&goal)) return true;
      }
      return false;
    }
    if (s.kind == Pattern::Kind::kTrait) {
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        if (!could(s.children[0], n->input(i))) continue;
        const Goal goal{s.children[0], n->input(i), next};
        if (solve(&goal)) return true;
      }
      return false;
    }
    if (s.kind != Pattern::Kind::kOp) return solve(next);

    Goal goals[kMaxOperands];
    const size_t count = s.children.size();
    const auto in_order = [&](bool swapped) {
      for (size_t i = 0; i < count; ++i) {
        Value* operand = n->input(swapped ? 1 - i : i);
        if (!could(s.children[i], operand)) return false;
        goals[i] = {s.children[i], operand, i + 1 < count ? &goals[i + 1] : next};
      }
      return solve(count > 0 ? &goals[0] : next);
    };
    if (in_order(false)) return true;
    return s.commutative && n->input(0) != n->input(1) && in_order(true);
  }
};

bool Matcher::match(Node& root, PassContext& context, const Condition& accept, Match* m) const {
  const Step* first = &steps_.front();
  uint32_t index = first->result;
  if (root.num_results() <= index) return false;
  m->context_ = &context;
  m->names_ = &vars_;
  std::fill_n(m->values_.begin(), vars_.size(), nullptr);
  m->node_count_ = 0;
  Run run{*this, context, accept, *m, root.graph(), &root};
  const Goal goal{0, root.result(index), nullptr};
  return run.solve(&goal);
}

Value* Match::operator[](std::string_view name) const {
  // Mostly the very text that the pattern was written with.
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
  if (context_->explain) context_->explain(root(), why);
  return false;
}

}  // namespace sardonyx
