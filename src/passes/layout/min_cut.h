// Minimum cuts of small directed graphs, for choosing between two states per variable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sardonyx::layout {

// Dinic's algorithm. Nodes 0 and 1 are source and sink. An edge costs its capacity when its tail is on the source's side and its head
// on the sink's.
class MinCut {
 public:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr uint32_t kSource = 0, kSink = 1;

  uint32_t add_node();
  void add_edge(uint32_t tail, uint32_t head, double capacity);
  // Solves it. False when it would take more than `work` steps or every cut is infinite: then there is no answer. Adds what it took to *spent.
  bool solve(uint64_t work, uint64_t* spent);
  // Whether a node is on the sink's side; of several minimum cuts, the one with the fewest nodes there.
  bool on_sink_side(uint32_t node) const { return sink_side_[node]; }

 private:
  struct Edge {
    uint32_t head = 0, next = 0;  // next: index + 1
    double left = 0;
  };
  bool find_levels(uint64_t* steps);
  std::vector<Edge> edges_;
  std::vector<uint32_t> first_{0, 0}, level_, at_;
  std::vector<bool> sink_side_;
};

}  // namespace sardonyx::layout
