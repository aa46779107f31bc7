#include "support/min_cut.h"

#include <algorithm>

namespace sardonyx {

uint32_t MinCut::add_vertex() {
  first_.push_back(kNone);
  return static_cast<uint32_t>(first_.size() - 1);
}

void MinCut::add_edge(uint32_t from, uint32_t to, int64_t capacity) {
  const auto id = static_cast<uint32_t>(edges_.size());
  edges_.push_back({to, first_[from], capacity});
  edges_.push_back({from, first_[to], 0});
  first_[from] = id;
  first_[to] = id + 1;
}

bool MinCut::solve(uint64_t steps, uint64_t* taken) {
  uint64_t left = steps;
  bool pushed = true;
  while (pushed && find_levels(left)) pushed = push_flow(left);
  if (taken != nullptr) *taken += steps - left;
  return pushed && left > 0;
}

// Computes distances from the source over edges with capacity left. Returns whether the sink is reachable.
bool MinCut::find_levels(uint64_t& steps) {
  level_.assign(first_.size(), kUnreached);
  level_[kSource] = 0;
  std::vector<uint32_t> queue{kSource};
  for (size_t i = 0; i < queue.size(); ++i) {
    const uint32_t v = queue[i];
    for (uint32_t e = first_[v]; e != kNone; e = edges_[e].next) {
      if (steps == 0) return false;
      --steps;
      const uint32_t to = edges_[e].to;
      if (edges_[e].capacity == 0 || level_[to] != kUnreached) continue;
      level_[to] = level_[v] + 1;
      queue.push_back(to);
    }
  }
  return level_[kSink] != kUnreached;
}

// Pushes flow along paths that go up one level per edge, until none is left. False if the steps run out, or
// if a path has unlimited capacity. Not recursive, because paths may be long.
bool MinCut::push_flow(uint64_t& steps) {
  current_ = first_;
  std::vector<uint32_t> path;  // edges
  for (uint32_t v = kSource;;) {
    if (steps == 0) return false;
    --steps;
    if (v == kSink) {
      int64_t flow = kUncuttable;
      for (uint32_t e : path) flow = std::min(flow, edges_[e].capacity);
      size_t full = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        if (edges_[path[i]].capacity < kUncuttable) edges_[path[i]].capacity -= flow;
        edges_[path[i] ^ 1].capacity += flow;
        if (edges_[path[i]].capacity == 0) full = i;
      }
      if (full == path.size()) return false;
      steps -= std::min<uint64_t>(steps, path.size());
      v = edges_[path[full] ^ 1].to;
      path.resize(full);
      continue;
    }
    uint32_t& e = current_[v];
    while (e != kNone && (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[v] + 1)) e = edges_[e].next;
    if (e != kNone) {
      path.push_back(e);
      v = edges_[e].to;
    } else if (v == kSource) {
      return true;
    } else {  // a dead end
      v = edges_[path.back() ^ 1].to;
      path.pop_back();
      current_[v] = edges_[current_[v]].next;
    }
  }
}

}  // namespace sardonyx
