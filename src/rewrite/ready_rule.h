// Rules prepared for the driver: with their matchers, and with a quick test for models where they cannot
// match.
//
// A pipeline has hundreds of rules, a model a few dozen operators, so most rules are skipped. The data for
// skipping lies side by side in one array; rules, patterns and matchers are scattered over the heap and cold
// after a program was traced.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "rewrite/matcher.h"
#include "rewrite/pass.h"

namespace sardonyx {

struct ReadyRule {
  const Rule* rule;
  const Matcher* matcher;
  OpBits always;                  // the intersection of `needs`
  std::span<const OpBits> needs;  // the matcher's
  int opset;                      // the rule's

  // False: a model with these operators has no match.
  bool may_match(const OpBits& have) const {
    const auto has = [&](const OpBits& wanted) { return (wanted & ~have).none(); };
    return has(always) && (needs.size() == 1 || std::ranges::any_of(needs, has));
  }
};

// Refers to the rule, which must outlive it. Matchers live as long as the process.
ReadyRule ready_rule(const Rule& r, DialectId dialect);

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
// of rule i. Throws kInternal if the rules do not converge. With a `check`, rewrites are evaluated.
bool apply_rules(std::span<const AppliedRule> rules, std::span<Graph* const> graphs, PassContext& context,
                 std::vector<size_t>* fired = nullptr, RewriteCheck* check = nullptr);

}  // namespace sardonyx
