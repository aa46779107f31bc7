// Whether the layouts that are found are the best there are: on random graphs small enough to try all choices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "passes/layout/onnx_operators.h"
#include "sardonyx/infer.h"

namespace sardonyx::layout {
namespace {

constexpr double kNode = 256, kImage = 61 * 67;  // what a node costs; elements of one image

double elements(const Value& v) {
  double n = 1;
  for (Dim d : v.type()->dims()) n *= static_cast<double>(d.value());
  return n;
}

// What transposes and work along other axes than the last cost in a graph.
double cost_of(Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes()) {
    if (n.is("Transpose")) sum += elements(*n.input(0)) + kNode;
    if (n.is("Softmax") && int_attr(n, "axis") != 2) sum += 2 * elements(*n.input(0));
  }
  return sum;
}

// Images of 61 x 67 points, each value spelled upright or turned, and each node able to follow either way.
struct Drawn {
  struct Part {
    std::string op;  // empty: an input
    size_t images = 0;
    bool turned = false, free = false;  // free: a node or a constant, which may be stored either way
    int axis = 0;                       // of a Softmax
    std::vector<size_t> reads;
    bool wanted[2] = {false, false};  // as a result of the graph, upright and turned
  };
  std::vector<Part> parts;

  Drawn(uint32_t seed, bool softmax) {
    std::mt19937 dice(seed);
    const auto roll = [&](size_t sides) { return static_cast<size_t>(dice() % sides); };
    for (size_t n = 1 + roll(3); n > 0; --n) parts.push_back({.images = 1 + roll(5), .turned = roll(2) == 0});
    if (roll(3) == 0) parts.push_back({.images = 1 + roll(5), .turned = roll(2) == 0, .free = true});
    for (size_t n = 1 + roll(7); n > 0; --n) {
      Part p{.op = "Neg", .turned = roll(2) == 0, .free = true, .reads = {roll(parts.size())}};
      p.images = parts[p.reads[0]].images;
      const size_t other = roll(parts.size());
      switch (roll(5)) {
        case 0:
          p.op = "Concat";
          p.reads.push_back(other);
          p.images += parts[other].images;
          break;
        case 1:
          p.op = "Slice";
          p.images = 1 + roll(p.images);
          break;
        case 2:
          if (softmax) p.op = "Softmax", p.axis = static_cast<int>(1 + roll(2));
          break;
        case 3:
          if (parts[other].images == p.images) p.op = "Add", p.reads.push_back(other);
          break;
        default: break;
      }
      parts.push_back(p);
    }
    std::vector<bool> read(parts.size());
    for (const Part& p : parts) {
      for (size_t r : p.reads) read[r] = true;
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].op.empty() || (read[i] && roll(4) != 0)) continue;
      parts[i].wanted[roll(2)] = true;
      parts[i].wanted[roll(2)] = true;
    }
  }

  std::string type(size_t i) const { return fmt::format("f32[{},{}]", parts[i].images, parts[i].turned ? "67,61" : "61,67"); }
  std::string text() const {
    std::vector<std::string> inputs, results;
    std::string nodes;
    const auto as = [&](size_t i, bool turned) {
      return parts[i].turned == turned ? fmt::format("v{}", i) : fmt::format("Transpose<perm=[0,2,1]>(v{})", i);
    };
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& p = parts[i];
      if (p.op.empty() && !p.free) inputs.push_back(fmt::format("v{}: {}", i, type(i)));
      if (p.op.empty() && p.free) nodes += fmt::format("v{} = {}{{0.5...}}  ", i, type(i));
      if (!p.op.empty()) {
        std::vector<std::string> reads;
        for (size_t r : p.reads) reads.push_back(as(r, p.turned));
        if (p.op == "Slice") reads.push_back(fmt::format("i64[1]{{0}}, i64[1]{{{}}}, i64[1]{{0}}", p.images));
        const std::string attrs = p.op == "Concat" ? "<axis=0>" : p.op == "Softmax" ? fmt::format("<axis={}>", p.axis) : "";
        nodes += fmt::format("v{} = {}{}({})  ", i, p.op, attrs, fmt::join(reads, ", "));
      }
      for (bool turned : {false, true}) {
        if (p.wanted[turned ? 1 : 0]) results.push_back(as(i, turned));
      }
    }
    return fmt::format("opset 21 graph({}) {{ {}return {} }}", fmt::join(inputs, ", "), nodes, fmt::join(results, ", "));
  }

  // The least that any choice costs.
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < 1u << parts.size(); ++set) {
      const auto turned = [&](size_t i) { return parts[i].free ? (set >> i & 1) != 0 : parts[i].turned; };
      std::vector<std::array<bool, 2>> needed(parts.size());
      double sum = 0;
      for (size_t i = 0; i < parts.size(); ++i) {
        const Part& p = parts[i];
        for (size_t r : p.reads) needed[r][turned(i) ? 1 : 0] = true;
        for (size_t side : {0, 1}) needed[i][side] |= p.wanted[side];
        const bool last = (p.axis == 2) == (turned(i) == p.turned);
        if (p.op == "Softmax" && !last) sum += 2 * kImage * static_cast<double>(p.images);
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        if (needed[i][turned(i) ? 0 : 1]) sum += kImage * static_cast<double>(parts[i].images) + kNode;
      }
      least = std::min(least, sum);
    }
    return least;
  }
};

// How many of so many graphs come out dearer than they need.
int count_dearer(uint32_t graphs_drawn, bool softmax) {
  int dearer = 0;
  for (uint32_t seed = 1; seed <= graphs_drawn; ++seed) {
    const Drawn drawn(seed, softmax);
    const auto model = parse(drawn.text());
    ValueFacts facts;
    PassContext context(*model, facts);
    infer_model(*model, facts, /*tolerant=*/false);
    Graph* graphs[] = {&model->graph()};
    minimize_transposes(graphs, context, *onnx_operators(context));
    verify(*model, {.types = true});
    EXPECT_GE(cost_of(model->graph()), drawn.best()) << drawn.text();
    dearer += cost_of(model->graph()) > drawn.best() ? 1 : 0;
  }
  return dearer;
}

TEST(LayoutMinimize, FindsTheBestOfAllChoices) { EXPECT_EQ(count_dearer(2000, false), 0); }

// What makes transposes cancel is done at once, though one more of them could make a Softmax quicker.
TEST(LayoutMinimize, NearlyAlwaysFindsTheBestWhereNodesGetSlower) { EXPECT_LE(count_dearer(2000, true), 7); }

}  // namespace
}  // namespace sardonyx::layout
