#include "passes/compress/weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_set>

#include "passes/compress/groups.h"
#include "passes/compress/threads.h"
#include "passes/dead_nodes.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {

bool is_large(const Value& v, int64_t min_elements) {
  if (!v.is_constant() || (v.dtype() != DType::kF32 && v.dtype() != DType::kF16 && v.dtype() != DType::kBF16)) return false;
  const Tensor& t = *v.constant();
  return !t.is_promise() && t.rank() >= 2 && t.size() > 0 && t.size() >= min_elements;
}

std::vector<Value*> large_constants(Graph& top, const Filter& filter) {
  std::vector<Value*> found;
  std::unordered_set<const Value*> seen;
  for (Graph* g : graphs_in(top)) {
    for (const Node& n : g->nodes()) {
      for (const Use& u : n.operands()) {
        if (u.value == nullptr || !is_large(*u.value, filter.min_elements)) continue;
        if (!filter.only.empty() && !filter.only.contains(u.value->name().view())) continue;
        if (seen.insert(u.value).second) found.push_back(u.value);
      }
    }
  }
  return found;
}

void erase_constant(Value& constant) {
  if (constant.def() != nullptr) {
    constant.graph()->erase(*constant.def());
  } else {
    constant.graph()->erase_constant(constant);
  }
}

void replace_constant(Value& constant, Value& by) {
  constant.graph()->replace_uses(constant, by);
  erase_constant(constant);
}

bool are_below(const Tensor& t, float limit) {
  const Floats floats(t);
  constexpr int64_t kAtOnce = 1 << 20;
  std::atomic<bool> all = true;
  const int64_t pieces = (t.size() - 1) / kAtOnce + 1;
  on_threads(pieces, static_cast<size_t>(std::clamp<int64_t>(pieces, 1, 8)), [&] {
    return [&](int64_t piece) {
      check_interrupt();
      const int64_t end = std::min(t.size(), (piece + 1) * kAtOnce);
      bool below = true;
      for (int64_t i = piece * kAtOnce; i < end; ++i) below &= std::abs(floats[i]) < limit;
      if (!below) all = false;
    };
  });
  return all;
}

}  // namespace sardonyx::compress
