// Minimum cuts of directed networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sardonyx {

// Edges of least total capacity whose removal parts the source from the sink, found by a maximum flow (Dinic
// 1970: level graphs and blocking flows).
class MinCut {
 public:
  static constexpr int64_t kUncuttable = int64_t{1} << 60;
  static constexpr uint32_t kSource = 0, kSink = 1;  // vertices that are always there

  uint32_t add_vertex();
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);

  // Finds the cut. False, without an answer, if that takes more than `steps` looks at edges, or if each cut
  // has an uncuttable edge. Adds the steps it took to *taken.
  bool solve(uint64_t steps, uint64_t* taken = nullptr);
  // Whether the vertex stays with the source. Of all cheapest cuts, this is the one that leaves the fewest
  // there.
  bool with_source(uint32_t vertex) const { return level_[vertex] != kUnreached; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kUnreached = UINT32_MAX;
  struct Edge {
    uint32_t to;
    uint32_t next;     // of the vertex that it leaves, or kNone
    int64_t capacity;  // what is left of it; its twin, at the index with the last bit flipped, leads back
  };
  bool find_levels(uint64_t& steps);
  bool push_flow(uint64_t& steps);

  std::vector<Edge> edges_;
  std::vector<uint32_t> first_{kNone, kNone};  // by vertex
  std::vector<uint32_t> level_, current_;
};

}  // namespace sardonyx
