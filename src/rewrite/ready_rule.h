// Rules as the driver takes them: with their matchers, and with what says at a glance that a model has nothing for them.
//
// A pipeline has hundreds of rules and a model some dozen operators: most rules are passed over, and these few words, side by side in
// one array, are all that is read for it. Rules, patterns and matchers lie all over the heap and are cold after a program was traced.
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
  OpBits always;                  // what all of `needs` have
  std::span<const OpBits> needs;  // the matcher's
  int opset;                      // the rule's

  // False: the model whose operators these are has no match.
  bool may_match(const OpBits& have) const {
    const auto has = [&](const OpBits& wanted) { return (wanted & ~have).none(); };
    return has(always) && (needs.size() == 1 || std::ranges::any_of(needs, has));
  }
};

// It points to the rule, which must outlive it; matchers live as long as the process.
ReadyRule ready_rule(const Rule& r, DialectId dialect);

// A pass as the pipeline takes it.
struct ReadyPass {
  std::vector<ReadyRule> rules;  // in their order
  std::vector<OpBits> needs;     // the lists of Pass::needed_ops

  // False: the walk has nothing to do in a model whose operators these are.
  bool may_walk(const OpBits& have) const {
    return std::ranges::all_of(needs, [&](const OpBits& one_of) { return (one_of & have).any(); });
  }
};
// It points to the rules of the pass, which must outlive it. Throws kInternal where the pass needs an operator that no table knows.
ReadyPass ready_pass(const Pass& pass, DialectId dialect);

// One of the rules that are applied together, and the pass that it works for.
struct AppliedRule {
  const ReadyRule* ready;
  std::string_view pass_name;
  const PassOptions* options;
};
// Why the runtime that has to load the model refuses a node; nullopt if it does not.
using NodeRefusal = std::function<std::optional<std::string>(const Node&)>;

// Judges each rewrite before it happens. A rule that would change results, or make a node that the runtime refuses, is switched off, and
// `faults` says so.
struct RewriteCheck {
  bool evaluates = true;
  NodeRefusal refusal;  // null: nobody asks
  std::vector<std::string> faults;
  size_t evaluations = 0;  // how many runs were compared
};
// Applies the rules to the graphs (and what is nested in them) until none fires; earlier rules are tried first on a node. Nodes
// without users go on the way. Returns whether anything changed; fired[i] = how often rule i did. Throws kInternal when the rules do not
// converge. With a `check`, rewrites are evaluated.
bool apply_rules(std::span<const AppliedRule> rules, std::span<Graph* const> graphs, PassContext& context,
                 std::vector<size_t>* fired = nullptr, RewriteCheck* check = nullptr);

}  // namespace sardonyx
