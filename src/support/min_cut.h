// The cheapest way to cut a network in two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sardonyx {

// Edges of least total capacity whose removal parts the source from the sink, found by a maximum flow (Dinic 1970: level graphs and blocking
// flows). Vertex 0 is the source, vertex 1 the sink.
class MinCut {
 public:
  static constexpr int64_t kUncuttable = int64_t{1} << 60;

  uint32_t add_vertex();
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);

  // Finds the cut. False when that takes more than `steps` looks at edges: then there is no answer.
  bool solve(size_t steps);
  // Whether the vertex stays with the source: of all cheapest cuts, the one that leaves least there.
  bool with_source(uint32_t vertex) const { return level_[vertex] != kUnreached; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kUnreached = UINT32_MAX;
  struct Edge {
    uint32_t to;
    uint32_t next;     // of the vertex that it leaves, or kNone
    int64_t capacity;  // what is left of it; its twin, at the index with the last bit flipped, leads back
  };
  bool find_levels(size_t& steps);
  bool push_flow(size_t& steps);

  std::vector<Edge> edges_;
  std::vector<uint32_t> first_{kNone, kNone};  // by vertex
  std::vector<uint32_t> level_, current_;
};

}  // namespace sardonyx
