// The worklist that applies rules. See apply_rules() in ready_rule.h.
//
// Nodes are visited in graph order. After a rule fires, the driver revisits the users of the replaced values,
// the new nodes and the producers of erased operands. Patterns reach deeper than one level, so it repeats
// whole sweeps until one fires nothing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <variant>

#include "ir/graph/arrange.h"
#include "ir/graph/graph_summary.h"
#include "rewrite/fired_rules.h"
#include "rewrite/matcher.h"
#include "rewrite/mil_rewriter.h"
#include "rewrite/onnx_rewriter.h"
#include "rewrite/ready_rule.h"
#include "rewrite/shuffled_worklist.h"
#include "rewrite/values.h"
#include "support/system/interrupt.h"

namespace sardonyx {
namespace {

// Before opset 7 operators had other semantics (legacy broadcasting), so no rule runs there.
constexpr int kOldestOpset = 7;

// The status of a rule.
struct State {
  size_t fired = 0;
  size_t fired_at_half = 0;  // of the limit
  bool active = false;
  bool off = false;  // for good: the opset lacks an operator that it makes, or it changed results
};

class Driver {
 public:
  Driver(std::span<const AppliedRule> rules, std::span<Graph* const> graphs, PassContext& context, RewriteCheck* check,
         std::vector<size_t>* endless)
      : rules_(rules),
        graphs_(graphs),
        context_(context),
        check_(check),
        endless_(endless),
        model_(context.model),
        states_(rules.size()) {
    const int opset = static_cast<int>(model_.opset_version("").value_or(0));
    for (size_t k = 0; k < rules.size() && model_.dialect() == DialectId::kOnnx; ++k) {
      states_[k].off = rules[k].ready->opset() > opset || opset < kOldestOpset;
    }
  }

  bool run() {
    if (!activate()) return false;
    allow_more();
    queued_.emplace(model_, 0);
    bool changed = false;
    for (Graph* g : graphs_) changed |= erase_dead_nodes(*g) > 0;
    for (;;) {
      const size_t before = fired_;
      if (!activate()) break;
      for (Graph* top : graphs_) {
        for (Graph* g : graphs_in(*top)) sweep(*g);
      }
      if (fired_ == before) break;
      changed = true;
    }
    return changed;
  }

  void report(std::vector<size_t>& fired) const {
    fired.clear();
    for (const State& s : states_) fired.push_back(s.fired);
  }

 private:
  // Sets how often rules may fire from now on.
  void allow_more() {
    const size_t more = 64 * model_.num_nodes() + 10000;
    half_ = fired_ + more / 2;
    limit_ = fired_ + more;
  }

  // Switches off the rules that fired most since half of the limit: they undo each other, or one its own
  // work.
  void stop_endless_rules(size_t last) {
    if (endless_ == nullptr)
      throw Error(ErrorCode::kInternal, fmt::format("the rules did not converge: they fired {} times", fired_),
                  {fmt::format("the last was '{}': {}", rule(last).name, to_string(rule(last).match))});
    constexpr size_t kFew = 8;  // a rule that fired this many times less often than another goes on
    const auto recent = [&](size_t k) { return states_[k].fired - states_[k].fired_at_half; };
    size_t most = 0;
    for (size_t k = 0; k < states_.size(); ++k) most = std::max(most, recent(k));
    for (size_t k = 0; k < states_.size(); ++k) {
      if (recent(k) * kFew < most) continue;
      states_[k].off = true;
      states_[k].active = false;
      endless_->push_back(k);
    }
    exact_ = false;
    allow_more();
  }

  // Turns off the rules whose operators the model lacks; returns whether any is left. With `more`, only turns
  // rules on.
  bool activate(bool more = false) {
    if (seen_ops_ == op_set(model_) && (more || exact_)) return any_;
    seen_ops_ = op_set(model_);
    exact_ = !more;
    bool changed = false, any = false;
    const OpBits have = op_bits(model_);
    for (size_t k = 0; k < rules_.size(); ++k) {
      State& s = states_[k];
      const ReadyRule& r = *rules_[k].ready;
      const bool active = !s.off && ((more && s.active) || r.may_match(have));
      changed |= active != s.active;
      s.active = active;
      any |= active;
    }
    any_ = any;
    if (!changed) return any;
    // Lists the active rules by their root's operator: one array, a run per operator, in rule order.
    candidates_.clear();
    unknown_ops_.clear();
    rules_of_op_.assign(known_op_count(), {});
    std::vector<uint32_t> ops;
    const auto for_each_root = [&](auto&& see) {
      for (size_t k = 0; k < rules_.size(); ++k) {
        if (!states_[k].active) continue;
        for (auto [first, last] : matcher(k).root_ops()) {
          for (uint32_t id = first; id <= last; ++id) see(id, static_cast<uint16_t>(k));
        }
      }
    };
    for_each_root([&](uint32_t id, uint16_t) {
      if (rules_of_op_[id].count++ == 0) ops.push_back(id);
    });
    uint32_t total = 0;
    for (uint32_t id : ops) {
      RulesOfOp& r = rules_of_op_[id];
      r.first = total;
      total += std::exchange(r.count, 0);
    }
    rules_of_ops_.resize(total);
    for_each_root([&](uint32_t id, uint16_t rule) {
      RulesOfOp& r = rules_of_op_[id];
      if (r.count > 0 && rules_of_ops_[r.first + r.count - 1] == rule) return;  // it has several alternatives with this root
      rules_of_ops_[r.first + r.count++] = rule;
    });
    for (size_t k = 0; k < rules_.size(); ++k) {
      if (states_[k].active && matcher(k).root_ops().empty()) unknown_ops_.push_back(static_cast<uint16_t>(k));
    }
    return any;
  }

  const Rule& rule(size_t k) const { return rules_[k].ready->rule(); }
  const Matcher& matcher(size_t k) const { return rules_[k].ready->matcher(); }

  std::span<const uint16_t> rules_for(const Node& n) const {
    if (!n.op().known) return unknown_ops_;
    const RulesOfOp& r = rules_of_op_[n.op().id];
    return {rules_of_ops_.data() + r.first, r.count};
  }

  // The rules for n that may match, judged by the operators that make the operands and by whether these are
  // constants. Most nodes look alike, so the answer is cached.
  std::span<const uint16_t> candidates_for(const Node& n) {
    const auto rules = rules_for(n);
    if (rules.size() < 2 || n.num_inputs() > Looks::kOperands) return rules;
    Looks looks{.op = n.op().id, .operands = {}};
    uint64_t hash = looks.op;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const Value* v = n.input(i);
      if (v != nullptr) {
        const Node* def = v->def();
        looks.operands[i] = (def != nullptr ? def->op().id * 2 + 4 : 2) + (v->is_constant() ? 1 : 0);
      }
      hash = (hash ^ looks.operands[i]) * 0x9e3779b97f4a7c15;
    }
    if (candidates_.empty()) {
      candidates_.resize(kRemembered);
      candidate_rules_.clear();
    }
    Candidates& c = candidates_[hash >> (64 - kRememberedBits)];
    if (!c.known || !(c.looks == looks)) {
      if (candidate_rules_.size() > kMostCandidates) {
        std::fill(candidates_.begin(), candidates_.end(), Candidates{});
        candidate_rules_.clear();
      }
      c = {.looks = looks, .known = true, .first = static_cast<uint32_t>(candidate_rules_.size()), .count = 0};
      for (uint16_t k : rules) {
        if (matcher(k).may_match(n)) candidate_rules_.push_back(k);
      }
      c.count = static_cast<uint32_t>(candidate_rules_.size()) - c.first;
    }
    return {candidate_rules_.data() + c.first, c.count};
  }

  void push(Node* n) {
    if (n == nullptr || n->is_boundary() || !n->alive() || (*queued_)[*n]) return;
    (*queued_)[*n] = 1;
    work_.push_back(n);
  }

  void sweep(Graph& g) {
    if (g.parent() != nullptr && !g.parent()->alive()) return;
    if (shuffle_ != nullptr) return sweep_shuffled(g);
    for (Node& n : g.nodes()) {
      if (!rules_for(n).empty()) visit(n);
      if (!work_.empty()) drain();
    }
  }

  void sweep_shuffled(Graph& g) {
    std::vector<Node*> nodes;
    for (Node& n : g.nodes()) nodes.push_back(&n);
    shuffle_->shuffle(std::span(nodes));
    for (Node* n : nodes) {
      if (n->alive() && !rules_for(*n).empty()) visit(*n);
      if (!work_.empty()) drain();
    }
  }

  void drain() {
    for (size_t next = 0; next < work_.size();) {
      if (shuffle_ != nullptr) std::swap(work_[next], work_[next + shuffle_->below(work_.size() - next)]);
      Node* n = work_[next++];
      (*queued_)[*n] = 0;
      visit(*n);
    }
    work_.clear();
  }

  void visit(Node& n) {
    if ((++visits_ & 255) == 0) check_interrupt();
    if (!n.alive() || !n.linked()) return;
    if (!n.any_result_used() && is_removable(n)) {
      erase(n);
      return;
    }
    if (n.unchecked()) return;
    auto rules = context_.log.explains() ? rules_for(n) : candidates_for(n);
    std::vector<uint16_t> shuffled;
    if (shuffle_ != nullptr) {
      shuffled.assign(rules.begin(), rules.end());
      shuffle_->shuffle(std::span(shuffled));
      rules = shuffled;
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      const size_t k = rules[i];
      if (!states_[k].active) continue;
      context_.begin(rules_[k].pass_name, *rules_[k].options);
      if (!(context_.log.explains() ? match_and_explain(k, n) : matcher(k).match(n, context_, rule(k).when, &match_))) continue;
      if (!fire(k, match_)) continue;
      ++states_[k].fired;
      if (++fired_ == half_) {
        for (State& s : states_) s.fired_at_half = s.fired;
      }
      if (fired_ > limit_) stop_endless_rules(k);
      return;
    }
  }

  // Like match(), but reports a near miss when a pattern of several nodes matches and the rule's condition
  // declines without a reason.
  bool match_and_explain(size_t k, Node& n) {
    bool declined = false;
    const size_t explained = context_.log.near_misses();
    const Condition watched = [&](const Match& m) {
      if (!rule(k).when || rule(k).when(m)) return true;
      declined |= m.nodes().size() > 1;
      return false;
    };
    if (matcher(k).match(n, context_, watched, &match_)) return true;
    if (context_.log.near_misses() != explained) return false;
    const std::string what = rule(k).name.empty() ? std::string() : fmt::format(" of '{}'", rule(k).name);
    if (!declined) {
      const auto why = matcher(k).near_miss(n, context_);
      if (why) context_.log.near_miss(n, rule(k).name.empty() ? *why : fmt::format("{}: {}", rule(k).name, *why));
    } else {
      context_.log.near_miss(n, fmt::format("the nodes{} are there, a condition does not hold", what));
    }
    return false;
  }

  // Erases an unused node and revisits the producers of its operands.
  void erase(Node& n) {
    freed_.clear();
    for (const Use& u : n.operands()) {
      if (u.value != nullptr) freed_.push_back(u.value);
    }
    if (observer_ != nullptr) observer_->erasing(n);
    n.graph()->erase(n);
    if (observer_ != nullptr) observer_->erased(freed_);
    for (Value* v : freed_) {
      if (Node* def = v->def()) push(def);
      if (v->has_one_use()) push((*v->uses().begin()).owner);
    }
  }

  Value* build(const Pattern& p, Builder& b, const Match& m) {
    const Pattern::Data& d = p.data();
    switch (d.kind) {
      case Pattern::Kind::kAny: return m[d.vars.front()];
      case Pattern::Kind::kSplat: {
        const Value* like = m.root().result(0);
        return b.scalar(like->dtype(), d.number);
      }
      case Pattern::Kind::kAbsent: return nullptr;
      case Pattern::Kind::kOp: break;
      default: SX_CHECK(false, "a replacement is made of operators, variables and numbers");
    }
    std::vector<Value*> operands;
    for (const Pattern& c : d.children) operands.push_back(build(c, b, m));
    AttrInit attrs;
    if (!d.attrs_of.empty()) {
      const auto items = m.node(Var{d.attrs_of}).attrs().items();
      attrs.assign(items.begin(), items.end());
    }
    for (const auto& [name, value] : d.attrs) attrs.push_back(attr(name, value));
    const std::string_view name = model_.dialect() == DialectId::kMil ? d.mil : d.onnx;
    return b.op(name, operands, std::move(attrs), d.domain);
  }

  using AnyRewriter = std::variant<onnx::Rewriter, mil::Rewriter>;
  // One rewriter per graph, because it remembers the graph's constants.
  AnyRewriter& rewriter_of(Graph& g) {
    if (const auto known = rewriters_.find(&g); known != rewriters_.end()) return known->second;
    AnyRewriter fresh = model_.dialect() == DialectId::kMil ? AnyRewriter(std::in_place_type<mil::Rewriter>, g, context_)
                                                            : AnyRewriter(std::in_place_type<onnx::Rewriter>, g, context_);
    return rewriters_.emplace(&g, std::move(fresh)).first->second;
  }

  // Erases the nodes between `before` and the root, and the constants beyond the first `constants`.
  static void take_back(Graph& g, Node* before, Node& root, size_t constants) {
    for (Node* n = root.prev(); n != before;) {
      Node* earlier = n->prev();
      g.erase(*n);
      n = earlier;
    }
    while (g.constants().size() > constants) g.erase_constant(*g.constants().back());
  }

  bool fire(size_t k, const Match& m) {
    const Rule& fired = rule(k);
    Node& root = m.root();
    Graph& g = *root.graph();
    Node* before = root.prev();
    const size_t constants = g.constants().size();
    const uint32_t first_new = model_.node_id_limit();
    AnyRewriter& rewriter = rewriter_of(g);
    Builder& b = std::visit([](Builder& any) -> Builder& { return any; }, rewriter);
    b.set_insertion_point(&root);
    const Firing event{.rule = k, .pass = rules_[k].pass_name, .name = fired.name, .matched = m.nodes()};
    if (observer_ != nullptr) observer_->firing(model_, event);
    uint32_t provenance = root.provenance();
    for (Node* n : m.nodes()) {
      if (n->provenance() != provenance) provenance = model_.merge_provenance(provenance, n->provenance());
    }
    if (names_rules_) provenance = with_fired_rule(model_, provenance, event.pass, event.name);
    b.set_provenance(provenance);

    std::vector<Value*> made(root.num_results(), nullptr);
    try {
      if (fired.build_all) {
        made = std::visit([&](auto& own) { return fired.build_all(own, m); }, rewriter);
      } else {
        made[fired.match.data().result] =
            fired.build ? std::visit([&](auto& own) { return fired.build(own, m); }, rewriter) : build(*fired.replace, b, m);
      }
    } catch (const Error& e) {
      take_back(g, before, root, constants);
      throw e.with_note(fmt::format("while '{}' rewrote {}", fired.name, print(root)));
    }
    std::vector<Node*> fresh;
    const auto collect = [&] {
      fresh.clear();
      for (Node* n = root.prev(); n != before; n = n->prev()) fresh.push_back(n);
    };
    collect();
    if (!stands_for(fired, m, made, fresh)) {
      take_back(g, before, root, constants);
      return false;
    }
    if (arranges_ && (fresh.size() > 1 || (fresh.size() == 1 && !fresh[0]->bodies().empty()))) {
      arrange_before(root, made, first_new);
      collect();
    }
    if (check_ != nullptr && !(is_loadable(k, m, fresh) && keeps_results(k, m, made, fresh))) {
      take_back(g, before, root, constants);
      return false;
    }

    std::vector<Node*> users;
    for (size_t i = 0; i < made.size(); ++i) {
      Value& old = *root.result(i);
      if (made[i] == nullptr || !old.has_uses()) continue;
      for (const Use& u : old.uses()) users.push_back(u.owner);
      take_over(g, old, *made[i], root, first_new);
      g.replace_uses(old, *made[i]);
    }
    // A rule that makes an operator new to the model may activate others.
    for (const Node* n : fresh) {
      if (model_.op_count(n->op()) == 1) {
        activate(/*more=*/true);
        break;
      }
    }
    if (observer_ != nullptr) observer_->fired(event, fresh, first_new, made);
    if (!root.any_result_used()) erase(root);
    std::reverse(users.begin(), users.end());  // use lists are last in, first out: restore the order of creation
    for (Node* n : users) push(n);
    for (auto n = fresh.rbegin(); n != fresh.rend(); ++n) push(*n);
    return true;
  }

  bool keeps_results(size_t k, const Match& m, std::span<Value* const> made, std::span<Node* const> fresh) {
    if (!check_->evaluates) return true;
    const ValueCheck compared = compare_rewrite(m.root(), made, m.nodes(), fresh, rule(k).numerics);
    check_->evaluations += compared.runs;
    if (!compared.difference) return true;
    switch_off(k, m, fmt::format("would change results and was switched off: {}", *compared.difference));
    return false;
  }

  // Whether the target runtime accepts the nodes that the rule made.
  bool is_loadable(size_t k, const Match& m, std::span<Node* const> fresh) {
    if (!check_->refusal) return true;
    for (const Node* n : fresh) {
      const auto why = check_->refusal(*n);
      if (!why) continue;
      switch_off(k, m, fmt::format("would make what {}, and was switched off", *why));
      return false;
    }
    return true;
  }

  void switch_off(size_t k, const Match& m, const std::string& why) {
    states_[k].off = true;
    states_[k].active = false;
    const std::string name = rule(k).name.empty() ? std::string() : fmt::format("/{}", rule(k).name);
    std::string at = print(m.root());
    while (!at.empty() && at.back() == '\n') at.pop_back();
    check_->faults.push_back(fmt::format("{}{} {}\n  at {}", rules_[k].pass_name, name, why, at));
  }

  // Whether each value has the type of the root's result that it replaces; unused results are skipped.
  // `fresh`: the new nodes.
  bool stands_for(const Rule& rule, const Match& m, std::span<Value* const> made, std::span<Node* const> fresh) const {
    const Node& root = m.root();
    SX_CHECK(made.size() <= root.num_results(), "a rule made more values than its root has results");
    bool any = false;
    for (size_t i = 0; i < root.num_results(); ++i) {
      const Value& old = *root.result(i);
      if (!old.has_uses()) continue;
      if (i >= made.size() || made[i] == nullptr || made[i] == &old) return false;
      any = true;
      const Type* got = made[i]->type();
      if (rule.same_type) {
        if (got != nullptr && old.type() != nullptr && model_.types().meet(got, old.type()) == nullptr) return false;
      } else if (old.type() != nullptr && got != old.type()) {
        return false;
      } else if (is_of_unknown_rank(got) && !keeps_axes(m, *made[i], fresh)) {
        return false;
      }
    }
    return any;
  }

  static bool is_of_unknown_rank(const Type* t) { return t == nullptr || (t->is_tensor() && !t->ranked()); }

  // Equal types of unknown rank prove nothing: an operand that a matched node broadcasts may have more axes
  // than the others. Each operand must be a number, be used again by a new node, or be the replacement
  // itself. Only elementwise nodes may disappear without a substitute.
  static bool keeps_axes(const Match& m, const Value& made, std::span<Node* const> fresh) {
    const auto is_one_of = [](std::span<Node* const> nodes, const Value& v) {
      return v.def() != nullptr && std::ranges::find(nodes, v.def()) != nodes.end();
    };
    const auto is_read = [&](const Value& v) {
      return std::ranges::any_of(fresh, [&](const Node* n) {
        return std::ranges::any_of(n->operands(), [&](const Use& u) { return u.value == &v; });
      });
    };
    return std::ranges::all_of(m.nodes(), [&](const Node* n) {
      if (!n->has(Trait::kElementwise)) return is_one_of(fresh, made);
      return n->num_inputs() == 1 || std::ranges::all_of(n->operands(), [&](const Use& u) {
               const Value* v = u.value;
               const bool is_number = v == nullptr || (v->ranked() && v->type()->rank() == 0);
               return is_number || v == &made || is_one_of(m.nodes(), *v) || is_read(*v);
             });
    });
  }

  // Transfers the facts, declarations and metadata of the old value to the new one.
  void take_over(Graph& g, Value& old, Value& made, const Node& root, uint32_t first_new) {
    Node* def = made.def();
    if (made.type() != old.type() && old.type() != nullptr) {
      const Type* both = made.type() == nullptr ? old.type() : model_.types().meet(made.type(), old.type());
      if (both != nullptr) made.set_type(both);
    }
    if (context_.facts.find(made) == nullptr) {
      if (const SymbolicValue* known = context_.facts.find(old)) context_.facts.set(made, *known);
    }
    if (def == nullptr || def->id() < first_new) return;
    if (made.name().empty()) made.set_name(old.name());
    if (def->name().empty()) def->set_name(root.name());
    if (!g.value_info.contains(&made)) g.move_value_info(old, made, g);
  }

  const std::span<const AppliedRule> rules_;
  const std::span<Graph* const> graphs_;
  PassContext& context_;
  RewriteCheck* const check_;
  std::vector<size_t>* const endless_;
  Model& model_;
  const bool arranges_ = model_.dialect() != DialectId::kMil;  // see ir/graph/arrange.h
  ShuffledWorklist* const shuffle_ = ShuffledWorklist::innermost();
  Observer* const observer_ = context_.observer();
  const bool names_rules_ = observer_ != nullptr && observer_->names_rules();
  std::vector<State> states_;       // of rules_
  uint64_t seen_ops_ = UINT64_MAX;  // the model's set of operators at the last activation
  bool exact_ = false;              // whether that activation also turned rules off
  bool any_ = false;
  struct RulesOfOp {
    uint32_t first = 0, count = 0;
  };
  std::vector<RulesOfOp> rules_of_op_;  // by Op::id: a run of rules_of_ops_
  std::vector<uint16_t> rules_of_ops_;
  std::vector<uint16_t> unknown_ops_;
  // What Matcher::may_match() sees of a node.
  struct Looks {
    static constexpr size_t kOperands = 4;
    uint32_t op;
    std::array<uint32_t, kOperands> operands;  // 0: absent
    bool operator==(const Looks&) const = default;
  };
  struct Candidates {
    Looks looks{};
    bool known = false;
    uint32_t first = 0, count = 0;  // in candidate_rules_
  };
  static constexpr int kRememberedBits = 7;
  static constexpr size_t kRemembered = size_t{1} << kRememberedBits, kMostCandidates = 4096;
  std::vector<Candidates> candidates_;  // by hash; a collision evicts the older entry
  std::vector<uint16_t> candidate_rules_;
  std::unordered_map<const Graph*, AnyRewriter> rewriters_;
  Match match_;                // of the current visit
  std::vector<Node*> work_;    // first in, first out
  std::vector<Value*> freed_;  // operands of the node erased last
  std::optional<NodeMap<uint8_t>> queued_;
  size_t fired_ = 0;
  size_t visits_ = 0;
  size_t half_ = 0, limit_ = 0;  // of fired_
};

}  // namespace

const Matcher& ReadyRule::compile() const {
  auto made = std::make_unique<const Matcher>(rule_->match, dialect_);
  const Matcher* before = nullptr;
  const bool is_first = matcher_.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel);
  return is_first ? *made.release() : *before;
}

ReadyPass ready_pass(const Pass& pass, DialectId dialect) {
  ReadyPass ready;
  for (const Rule& r : pass.rules) ready.rules.emplace_back(r, dialect);
  for (const auto& one_of : pass.needed_ops.lists) ready.needs.push_back(op_bits(one_of, dialect));
  return ready;
}

bool apply_rules(std::span<const AppliedRule> rules, std::span<Graph* const> graphs, PassContext& context,
                 std::vector<size_t>* fired, RewriteCheck* check, std::vector<size_t>* endless) {
  Driver driver(rules, graphs, context, check, endless);
  const bool changed = driver.run();
  if (fired != nullptr) driver.report(*fired);
  return changed;
}

}  // namespace sardonyx
