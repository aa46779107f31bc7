#include "passes/layout/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

namespace sardonyx::layout {
namespace {

struct Edge {
  uint32_t tail = 0, head = 0;
  double capacity = 0;
};

double cost(const std::vector<Edge>& edges, uint32_t on_sink_side) {
  double sum = 0;
  for (const Edge& e : edges) {
    if ((on_sink_side >> e.tail & 1) == 0 && (on_sink_side >> e.head & 1) != 0) sum += e.capacity;
  }
  return sum;
}

MinCut make(uint32_t nodes, const std::vector<Edge>& edges) {
  MinCut g;
  for (uint32_t i = 2; i < nodes; ++i) EXPECT_EQ(g.add_node(), i);
  for (const Edge& e : edges) g.add_edge(e.tail, e.head, e.capacity);
  return g;
}

uint32_t side(const MinCut& g, uint32_t nodes) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < nodes; ++i) set |= (g.on_sink_side(i) ? 1u : 0u) << i;
  return set;
}

TEST(MinCut, IsTheCheapestOfAllAndOfThoseTheSmallest) {
  std::mt19937 dice(17);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t nodes = 2 + dice() % 7;
    std::vector<Edge> edges;
    for (uint32_t n = dice() % 24; n > 0; --n) {
      const auto tail = static_cast<uint32_t>(dice() % nodes), head = static_cast<uint32_t>(dice() % nodes);
      const bool endless = dice() % 6 == 0 && tail > 1 && head > 1;
      if (tail != head) edges.push_back({tail, head, endless ? MinCut::kInfinite : static_cast<double>(dice() % 5) * 0.25});
    }
    uint32_t best = 2;
    for (uint32_t set = 0; set < 1u << nodes; ++set) {
      if ((set & 3) != 2) continue;
      const double now = cost(edges, set), then = cost(edges, best);
      if (now < then || (now == then && std::popcount(set) < std::popcount(best))) best = set;
    }
    MinCut g = make(nodes, edges);
    uint64_t spent = 5;
    ASSERT_TRUE(g.solve(10000, &spent));
    EXPECT_GE(spent, 5);
    EXPECT_LE(spent, 10005);
    EXPECT_EQ(side(g, nodes), best) << round;
  }
}

TEST(MinCut, SaysWhenItTakesTooLong) {
  const std::vector<Edge> edges = {{0, 2, 3}, {2, 3, 2}, {3, 1, 5}, {0, 3, 1}};
  uint64_t whole = 0;
  ASSERT_TRUE(make(4, edges).solve(1000, &whole));
  bool solved = false;
  for (uint64_t work = 0; work <= whole; ++work) {
    MinCut g = make(4, edges);
    uint64_t spent = 0;
    const bool now = g.solve(work, &spent);
    EXPECT_TRUE(now || !solved) << work;  // more work never solves less
    if (!now) {
      EXPECT_GT(spent, work);
    }
    solved = now;
  }
  EXPECT_TRUE(solved);
  uint64_t spent = 0;
  EXPECT_FALSE(make(4, edges).solve(0, &spent));
}

TEST(MinCut, SaysWhenNoCutIsFinite) {
  const std::vector<Edge> edges = {{0, 2, MinCut::kInfinite}, {2, 1, MinCut::kInfinite}, {0, 1, 3}};
  uint64_t spent = 0;
  EXPECT_FALSE(make(3, edges).solve(1000000, &spent));
  EXPECT_LT(spent, 100);
}

}  // namespace
}  // namespace sardonyx::layout
