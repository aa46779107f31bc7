#include "support/min_cut.h"

#include <gtest/gtest.h>

#include <random>

namespace sardonyx {
namespace {

struct Line {
  uint32_t from, to;
  int64_t capacity;
};

MinCut network(uint32_t vertices, const std::vector<Line>& lines) {
  MinCut net;
  while (vertices-- > 2) net.add_vertex();
  for (const Line& l : lines) net.add_edge(l.from, l.to, l.capacity);
  return net;
}

int64_t cost(const std::vector<Line>& lines, const auto& with_source) {
  int64_t sum = 0;
  for (const Line& l : lines) sum += with_source(l.from) && !with_source(l.to) ? l.capacity : 0;
  return sum;
}

TEST(MinCut, is_as_cheap_as_the_best_of_all_cuts) {
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const uint32_t vertices = 3 + random() % 6;
    std::vector<Line> lines;
    for (uint32_t k = 0; k < 3 * vertices; ++k)
      lines.push_back({static_cast<uint32_t>(random() % vertices), static_cast<uint32_t>(random() % vertices),
                       static_cast<int64_t>(random() % 13)});
    MinCut net = network(vertices, lines);
    ASSERT_TRUE(net.solve(100000));
    EXPECT_TRUE(net.with_source(0));
    EXPECT_FALSE(net.with_source(1));
    int64_t best = INT64_MAX;
    for (uint32_t set = 1; set < 1u << vertices; set += 4)  // with the source, without the sink
      best = std::min(best, cost(lines, [&](uint32_t v) { return (set >> v & 1) != 0; }));
    EXPECT_EQ(cost(lines, [&](uint32_t v) { return net.with_source(v); }), best);
  }
}

TEST(MinCut, leaves_least_with_the_source) {
  // 0 ──3── 2 ──3── 3 ──3── 1
  MinCut net = network(4, {{0, 2, 3}, {2, 3, 3}, {3, 1, 3}});
  ASSERT_TRUE(net.solve(1000));
  EXPECT_FALSE(net.with_source(2));
  EXPECT_FALSE(net.with_source(3));
}

TEST(MinCut, gives_up_when_told) {
  MinCut net = network(4, {{0, 2, 3}, {2, 3, 3}, {3, 1, 3}});
  EXPECT_FALSE(net.solve(5));
}

}  // namespace
}  // namespace sardonyx
