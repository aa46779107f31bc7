// Rules prepared for the driver, with a quick test for models where they cannot match.
//
// A pipeline has hundreds of rules, a model a few dozen operators, so most rules are skipped. Their patterns
// are never compiled, and the data for skipping lies side by side in one array: rules and patterns are
// scattered over the heap and cold after a program was traced.
#pragma once

#include <algorithm>
#include <atomic>
#include <span>
#include <string_view>
#include <vector>

#include "rewrite/matcher.h"
#include "rewrite/pass.h"

namespace sardonyx {

class ReadyRule {
 public:
  // Refers to the rule, which must outlive it.
  ReadyRule(const Rule& r, DialectId dialect) : rule_(&r), always_(r.match.data().always), opset_(r.opset), dialect_(dialect) {}
  ReadyRule(ReadyRule&& o) noexcept
      : rule_(o.rule_), always_(o.always_), opset_(o.opset_), dialect_(o.dialect_), matcher_(o.matcher_.exchange(nullptr)) {}
  ~ReadyRule() { delete matcher_.load(); }

  const Rule& rule() const { return *rule_; }
  int opset() const { return opset_; }  // the rule's
  // Compiled at the first call; any thread may be the first.
  const Matcher& matcher() const {
    const Matcher* m = matcher_.load(std::memory_order_acquire);
    return m != nullptr ? *m : compile();
  }

  // False: a model with these operators has no match. Compiles the pattern only if `have` contains all
  // operators that every match needs.
  bool may_match(const OpBits& have) const {
    const auto has = [&](const OpBits& wanted) { return (wanted & ~have).none(); };
    return has(always_) && std::ranges::any_of(matcher().needs(), has);
  }

 private:
  const Matcher& compile() const;

  const Rule* rule_;
  OpBits always_;
  int opset_;
  DialectId dialect_;
  mutable std::atomic<const Matcher*> matcher_ = nullptr;
};

// A pass prepared for the pipeline.
struct ReadyPass {
  std::vector<ReadyRule> rules;  // in order
  std::vector<OpBits> needs;     // the lists of Pass::needed_ops

  // False: the walk has nothing to do in a model with these operators.
  bool may_walk(const OpBits& have) const {
    return std::ranges::all_of(needs, [&](const OpBits& one_of) { return (one_of & have).any(); });
  }
};
// Refers to the rules of the pass, which must outlive it. Throws kInternal if the pass needs an operator that
// no table knows.
ReadyPass ready_pass(const Pass& pass, DialectId dialect);

// A rule to apply, and the pass that it belongs to.
struct AppliedRule {
  const ReadyRule* ready;
  std::string_view pass_name;
  const PassOptions* options;
};
// Why the target runtime refuses a node; nullopt if it accepts it.
using NodeRefusal = std::function<std::optional<std::string>(const Node&)>;

// Judges each rewrite before it is applied. A rule that would change results, or make a node that the runtime
// refuses, is switched off and listed in `faults`.
struct RewriteCheck {
  bool evaluates = true;
  NodeRefusal refusal;  // null: no target runtime
  std::vector<std::string> faults;
  size_t evaluations = 0;  // how many pairs of runs were compared
};
// Applies the rules to the graphs and their nested graphs until none fires. On each node, earlier rules are
// tried first. Erases unused nodes on the way. Returns whether anything changed; fired[i] counts the firings
// of rule i. With a `check`, rewrites are evaluated. Rules that do not converge are switched off and listed
// in `endless`; if that is null, throws kInternal.
bool apply_rules(std::span<const AppliedRule> rules, std::span<Graph* const> graphs, PassContext& context,
                 std::vector<size_t>* fired = nullptr, RewriteCheck* check = nullptr, std::vector<size_t>* endless = nullptr);

}  // namespace sardonyx
