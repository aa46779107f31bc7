// Rules as the driver takes them: with their matchers, and with what says at a glance that a model has nothing for them.
//
// A pipeline has hundreds of rules and a model some dozen operators: most rules are passed over, and these few words, side by side in
// one array, are all that is read for it. Rules, patterns and matchers lie all over the heap and are cold after a program was traced.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "rewrite/matcher.h"
#include "rewrite/pass.h"

namespace sardonyx {

struct ReadyRule {
  const Rule* rule;
  const Matcher* matcher;
  OpBits needs, roots;  // the matcher's
  int opset;            // the rule's

  // False: the model whose operators these are has no match. True says nothing: Matcher::can_match() looks closer.
  bool may_match(OpBits have) const { return (needs & ~have) == 0 && (roots & have) != 0; }
};

// The rules of a pass, in their order. They point to the pass, which must outlive them; matchers live as long as the process.
std::vector<ReadyRule> ready_rules(const Pass& pass, DialectId dialect);

// One of the rules that are applied together.
struct SweptRule {
  const ReadyRule* ready;
  std::string_view pass_name;
  const PassOptions* options = nullptr;
};
// As apply_rules() of AppliedRules, which makes them ready first.
bool apply_rules(std::span<const SweptRule> rules, std::span<Graph* const> graphs, PassContext& context,
                 std::vector<size_t>* fired = nullptr);

}  // namespace sardonyx
