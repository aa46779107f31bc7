// How passes read ops of Core ML programs: the typed readers, and operands by slot name.
#pragma once

#include <algorithm>

#include "dialects/mil/readers.h"
#include "rewrite/mil_rewriter.h"

namespace sardonyx::mil {

// Whether v's own block returns it, so that it must keep its name. Nested blocks may return it under other
// names.
inline bool is_block_result(const Value& v) {
  return std::ranges::any_of(v.uses(), [&](const Use& u) { return u.owner->is_boundary() && u.owner->graph() == v.graph(); });
}

// The operand in that slot; null if it is absent. Not for lists.
inline Value* operand(Node& n, PassContext& context, std::string_view slot) {
  return OpReader(n, context.facts).value_in(slot);
}

// Whether a transpose by this permutation swaps the last two axes only.
inline bool swaps_last_two(std::vector<int64_t> perm) {
  if (perm.size() < 2) return false;
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return std::ranges::is_sorted(perm);
}

}  // namespace sardonyx::mil
