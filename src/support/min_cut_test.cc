#include "support/min_cut.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace sardonyx {
namespace {

struct Edge {
  uint32_t from, to;
  int64_t capacity;
};

MinCut network(uint32_t vertices, const std::vector<Edge>& edges) {
  MinCut net;
  for (uint32_t v = 2; v < vertices; ++v) EXPECT_EQ(net.add_vertex(), v);
  for (const Edge& e : edges) net.add_edge(e.from, e.to, e.capacity);
  return net;
}

double cost(const std::vector<Edge>& edges, uint32_t with_source) {
  double sum = 0;
  for (const Edge& e : edges) {
    const bool is_cut = (with_source >> e.from & 1) != 0 && (with_source >> e.to & 1) == 0;
    if (is_cut) sum += e.capacity == MinCut::kUncuttable ? INFINITY : static_cast<double>(e.capacity);
  }
  return sum;
}

TEST(MinCut, is_the_cheapest_and_leaves_fewest_with_the_source) {
  std::mt19937 random(17);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t vertices = 2 + random() % 7;
    std::vector<Edge> edges;
    for (uint32_t n = random() % 24; n > 0; --n) {
      const auto from = static_cast<uint32_t>(random() % vertices), to = static_cast<uint32_t>(random() % vertices);
      const bool uncuttable = random() % 6 == 0 && from > 1 && to > 1;
      edges.push_back({from, to, uncuttable ? MinCut::kUncuttable : static_cast<int64_t>(random() % 5)});
    }
    uint32_t best = 1;
    for (uint32_t set = 1; set < 1u << vertices; set += 4) {  // with the source, without the sink
      const double now = cost(edges, set), least = cost(edges, best);
      if (now < least || (now == least && std::popcount(set) < std::popcount(best))) best = set;
    }
    MinCut net = network(vertices, edges);
    uint64_t taken = 5;
    ASSERT_TRUE(net.solve(10000, &taken));
    EXPECT_GE(taken, 5);
    EXPECT_LE(taken, 10005);
    uint32_t found = 0;
    for (uint32_t v = 0; v < vertices; ++v) found |= (net.with_source(v) ? 1u : 0u) << v;
    EXPECT_EQ(found, best) << round;
  }
}

TEST(MinCut, gives_up_when_steps_run_out) {
  const std::vector<Edge> edges = {{0, 2, 3}, {2, 3, 2}, {3, 1, 5}, {0, 3, 1}};
  uint64_t whole = 0;
  ASSERT_TRUE(network(4, edges).solve(1000, &whole));
  bool solved = false;
  for (uint64_t steps = 0; steps <= whole + 1; ++steps) {
    uint64_t taken = 0;
    const bool now = network(4, edges).solve(steps, &taken);
    EXPECT_TRUE(now || !solved) << steps;  // more steps never solve less
    EXPECT_LE(taken, steps);
    solved = now;
  }
  EXPECT_TRUE(solved);
}

TEST(MinCut, has_no_answer_if_each_cut_has_an_uncuttable_edge) {
  MinCut net = network(3, {{0, 2, MinCut::kUncuttable}, {2, 1, MinCut::kUncuttable}, {0, 1, 3}});
  uint64_t taken = 0;
  EXPECT_FALSE(net.solve(1000000, &taken));
  EXPECT_LT(taken, 100);
}

}  // namespace
}  // namespace sardonyx
