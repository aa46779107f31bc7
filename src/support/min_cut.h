// MinCut: minimum cuts of directed networks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sardonyx {

// Finds edges of least total capacity whose removal separates the source from the sink, by maximum flow
// (Dinic 1970: level graphs and blocking flows).
class MinCut {
 public:
  static constexpr int64_t kUncuttable = int64_t{1} << 60;
  static constexpr uint32_t kSource = 0, kSink = 1;  // these two vertices always exist

  uint32_t add_vertex();
  void add_edge(uint32_t from, uint32_t to, int64_t capacity);

  // Finds the cut. Returns false, without an answer, if that takes more than `steps` edge visits, or if every
  // cut has an uncuttable edge. Adds the steps used to *taken.
  bool solve(uint64_t steps, uint64_t* taken = nullptr);
  // Whether the vertex is on the source's side. Among all minimum cuts, this is the one with the fewest
  // vertices there.
  bool with_source(uint32_t vertex) const { return level_[vertex] != kUnreached; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX, kUnreached = UINT32_MAX;
  struct Edge {
    uint32_t to;
    uint32_t next;     // next edge of the same start vertex, or kNone
    int64_t capacity;  // residual capacity; the reverse edge is at the index with the lowest bit flipped
  };
  bool find_levels(uint64_t& steps);
  bool push_flow(uint64_t& steps);

  std::vector<Edge> edges_;
  std::vector<uint32_t> first_{kNone, kNone};  // by vertex
  std::vector<uint32_t> level_, current_;
};

}  // namespace sardonyx
