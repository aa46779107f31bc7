#include "passes/layout/min_cut.h"

#include <algorithm>

namespace sardonyx::layout {
namespace {

// Capacities are sums of sizes up to 2^60: what is left of them after subtractions is noise below this share.
constexpr double kNothing = 1e-6;

}  // namespace

uint32_t MinCut::add_node() {
  first_.push_back(0);
  return static_cast<uint32_t>(first_.size() - 1);
}

void MinCut::add_edge(uint32_t tail, uint32_t head, double capacity) {
  edges_.push_back({head, first_[tail], capacity});
  first_[tail] = static_cast<uint32_t>(edges_.size());
  edges_.push_back({tail, first_[head], 0});
  first_[head] = static_cast<uint32_t>(edges_.size());
}

bool MinCut::find_levels(uint64_t* steps) {
  level_.assign(first_.size(), 0);
  std::vector<uint32_t> queue{kSource};
  level_[kSource] = 1;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t e = first_[queue[i]]; e != 0; e = edges_[e - 1].next) {
      ++*steps;
      const Edge& edge = edges_[e - 1];
      if (edge.left <= kNothing || level_[edge.head] != 0) continue;
      level_[edge.head] = level_[queue[i]] + 1;
      queue.push_back(edge.head);
    }
  }
  return level_[kSink] != 0;
}

bool MinCut::solve(uint64_t work, uint64_t* spent) {
  uint64_t steps = 0;
  std::vector<uint32_t> path;  // edges from the source to where we stand
  while (find_levels(&steps)) {
    at_ = first_;
    path.clear();
    uint32_t node = kSource;
    for (;;) {
      if (++steps > work) {
        *spent += steps;
        return false;
      }
      if (node == kSink) {
        double flow = kInfinite;
        for (uint32_t e : path) flow = std::min(flow, edges_[e].left);
        size_t keep = path.size();
        for (size_t i = path.size(); i-- > 0;) {
          edges_[path[i]].left -= flow;
          edges_[path[i] ^ 1].left += flow;
          if (edges_[path[i]].left <= kNothing) keep = i;
        }
        steps += path.size();
        if (keep == path.size()) {  // infinite all along
          *spent += steps;
          return false;
        }
        node = edges_[path[keep] ^ 1].head;
        path.resize(keep);
        continue;
      }
      uint32_t& e = at_[node];
      while (e != 0 && (edges_[e - 1].left <= kNothing || level_[edges_[e - 1].head] != level_[node] + 1)) {
        e = edges_[e - 1].next;
        ++steps;
      }
      if (e != 0) {
        path.push_back(e - 1);
        node = edges_[e - 1].head;
        continue;
      }
      if (node == kSource) break;
      node = edges_[path.back() ^ 1].head;
      path.pop_back();
      at_[node] = edges_[at_[node] - 1].next;
    }
  }
  // Back from the sink along edges with something left: these alone must be on its side.
  sink_side_.assign(first_.size(), false);
  std::vector<uint32_t> queue{kSink};
  sink_side_[kSink] = true;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t e = first_[queue[i]]; e != 0; e = edges_[e - 1].next) {
      const uint32_t tail = edges_[e - 1].head;
      if (edges_[(e - 1) ^ 1].left <= kNothing || sink_side_[tail]) continue;
      sink_side_[tail] = true;
      queue.push_back(tail);
    }
  }
  *spent += steps;
  return true;
}

}  // namespace sardonyx::layout
