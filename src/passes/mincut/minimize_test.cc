// Whether the layouts that are found are the best there are: on random graphs small enough to try all
// choices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "passes/mincut/minimize.h"
#include "sardonyx/infer.h"

namespace sardonyx::layout {
namespace {

constexpr int64_t kSide = 61;
constexpr double kNode = 256, kImage = kSide * kSide;  // what a node costs; elements of one image

double elements(const Value& v) {
  double n = 1;
  for (Dim d : v.type()->dims()) n *= static_cast<double>(d.value());
  return n;
}

bool only_products_read(const Value& v) {
  return std::all_of(v.uses().begin(), v.uses().end(), [](const Use& u) { return u.owner->is("MatMul"); });
}

// What transposes and work along other axes than the last cost in a graph.
double cost_of(Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes()) {
    if (n.is("Transpose")) sum += kNode + (only_products_read(*n.result()) ? 0 : elements(*n.input(0)));
    if (n.is("Softmax") && int_attr(n, "axis") != 2) sum += 2 * elements(*n.input(0));
  }
  return sum;
}

// What a graph has besides nodes that cost the same in both layouts and read all operands in their own.
enum class Kind : uint8_t { kPlain, kSoftmax, kProducts, kMixed };

// A graph of square images, each as it is or transposed; nodes can follow either way. In mixed graphs a node
// reads some operands transposed and some not.
struct Drawn {
  struct Read {
    size_t part = 0;
    bool transposed = false, product = false;  // product: by a MatMul, which reads either way
  };
  struct Part {
    std::string op;  // empty: an input, or a constant
    size_t images = 0;
    bool free = false;  // a node or a constant, which may be stored either way
    int axis = 0;       // of a Softmax
    std::vector<Read> reads;
  };
  std::vector<Part> parts;
  std::vector<Read> results;

  Drawn(uint32_t seed, Kind kind) {
    std::mt19937 dice(seed);
    const auto roll = [&](size_t sides) { return static_cast<size_t>(dice() % sides); };
    const auto read = [&] { return Read{.part = roll(parts.size()), .transposed = roll(2) == 0}; };
    for (size_t n = 1 + roll(3); n > 0; --n) parts.push_back({.images = 1 + roll(5)});
    if (roll(3) == 0) parts.push_back({.images = 1 + roll(5), .free = true});
    for (size_t n = 1 + roll(7); n > 0; --n) {
      const Read first = read(), other = read();
      Part p{.op = "Neg", .images = parts[first.part].images, .free = true, .reads = {first}};
      switch (roll(5)) {
        case 0:
          p.op = "Concat";
          p.reads.push_back(other);
          p.images += parts[other.part].images;
          break;
        case 1:
          p.op = "Slice";
          p.images = 1 + roll(p.images);
          break;
        case 2:
          if (kind == Kind::kSoftmax) p.op = "Softmax", p.axis = static_cast<int>(1 + roll(2));
          break;
        case 3:
          if (parts[other.part].images == p.images) p.op = "Add", p.reads.push_back(other);
          break;
        default: break;
      }
      parts.push_back(p);
    }
    std::vector<bool> transposed(parts.size()), seen(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      transposed[i] = roll(2) == 0;
      for (Read& r : parts[i].reads) {
        seen[r.part] = true;
        if (kind != Kind::kMixed) r.transposed = transposed[i] != transposed[r.part];
      }
    }
    for (size_t n = 1 + roll(4); n > 0; --n) results.push_back(read());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (!seen[i] && !parts[i].op.empty()) results.push_back({.part = i, .transposed = roll(2) == 0});
    }
    for (Read& r : results) r.product = kind == Kind::kProducts && roll(3) == 0;
  }

  std::string text() const {
    std::vector<std::string> inputs{fmt::format("w: f32[{0},{0}]", kSide)}, returned;
    std::string nodes;
    const auto name = [&](const Read& r) {
      return fmt::format(fmt::runtime(r.transposed ? "Transpose<perm=[0,2,1]>(v{})" : "v{}"), r.part);
    };
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& p = parts[i];
      const std::string type = fmt::format("f32[{0},{1},{1}]", p.images, kSide);
      if (p.op.empty() && !p.free) inputs.push_back(fmt::format("v{}: {}", i, type));
      if (p.op.empty() && p.free) nodes += fmt::format("v{} = {}{{0.5...}}  ", i, type);
      if (p.op.empty()) continue;
      std::vector<std::string> reads;
      for (const Read& r : p.reads) reads.push_back(name(r));
      if (p.op == "Slice") reads.push_back(fmt::format("i64[1]{{0}}, i64[1]{{{}}}, i64[1]{{0}}", p.images));
      const std::string attrs = p.op == "Concat" ? "<axis=0>" : p.op == "Softmax" ? fmt::format("<axis={}>", p.axis) : "";
      nodes += fmt::format("v{} = {}{}({})  ", i, p.op, attrs, fmt::join(reads, ", "));
    }
    for (const Read& r : results) returned.push_back(r.product ? fmt::format("MatMul({}, w)", name(r)) : name(r));
    return fmt::format("opset 21 graph({}) {{ {}return {} }}", fmt::join(inputs, ", "), nodes, fmt::join(returned, ", "));
  }

  // The least that any choice costs.
  double best() const {
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < 1u << parts.size(); ++set) {
      const auto transposed = [&](size_t i) { return (set >> i & 1) != 0; };
      // The users of each part that want the other layout.
      enum : uint8_t { kNobody, kProducts, kOthers };
      std::vector<uint8_t> otherwise(parts.size());
      const auto read = [&](const Read& r, bool by_transposed) {
        if ((r.transposed != by_transposed) == transposed(r.part)) return;
        otherwise[r.part] = std::max<uint8_t>(otherwise[r.part], r.product ? kProducts : kOthers);
      };
      double sum = 0;
      bool possible = true;
      for (size_t i = 0; i < parts.size(); ++i) {
        const Part& p = parts[i];
        possible &= p.free || !transposed(i);
        for (const Read& r : p.reads) read(r, transposed(i));
        if (p.op == "Softmax" && (p.axis == 2) == transposed(i)) sum += 2 * kImage * static_cast<double>(p.images);
      }
      for (const Read& r : results) read(r, false);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (otherwise[i] != kNobody) sum += kNode;
        if (otherwise[i] == kOthers) sum += kImage * static_cast<double>(parts[i].images);
      }
      if (possible) least = std::min(least, sum);
    }
    return least;
  }
};

std::map<std::string, size_t> counts_of(const std::string& text) {
  const auto model = parse(text);
  ValueFacts facts;
  PassContext context(*model, facts);
  infer_model(*model, facts, /*tolerant=*/false);
  Graph* graphs[] = {&model->graph()};
  minimize_transposes(graphs, context);
  return context.log.counts();
}

TEST(LayoutMinimize, CountsWhatItMoves) {
  using Counts = std::map<std::string, size_t>;
  EXPECT_EQ(counts_of("graph(x: f32[2,61,67], w: f32[2,67,61]) { n = Neg(x)  m = Abs(Transpose<perm=[0,2,1]>(w)) "
                      "return Transpose<perm=[0,2,1]>(Add(n, m)), Transpose<perm=[0,2,1]>(m) }"),
            (Counts{{"nodes moved", 2}, {"transposes made", 1}}));
  EXPECT_EQ(
      counts_of(
          "graph(x: f32[2,61,67]) { return Transpose<perm=[0,2,1]>(Add(Transpose<perm=[0,2,1]>(x), f32[2,67,61]{0.5...})) }"),
      (Counts{{"constants moved", 1}, {"nodes moved", 1}}));
  EXPECT_EQ(counts_of("graph(n: i64[], p: bool[], x: f32[61,67]) { y = Loop<body=graph(i: i64[], k: bool[], s: f32[61,67]) { "
                      "return k, Transpose(Sin(Transpose(s))) }>(n, p, x) return Transpose(y) }"),
            (Counts{{"tied values moved", 1}, {"transposes made", 1}}));
  EXPECT_EQ(counts_of("graph(x: f32[3,61]) { return Transpose(Add(Transpose(x), f32[61,3]{0.5...})) }"),
            (Counts{{"nodes moved", 1}}));
  EXPECT_EQ(counts_of("graph(x: f32[2,61,67]) { return Transpose<perm=[0,2,1]>(x) }"), Counts{});
}

// A promise has no bytes yet.
TEST(LayoutMinimize, MovesPromisesToTheirUsers) {
  const auto model =
      parse("graph(x: f32[2,61,67]) { return Transpose<perm=[0,2,1]>(Add(Transpose<perm=[0,2,1]>(x), f32[2,67,61]{0.5...})) }");
  Graph& g = model->graph();
  g.set_constant(*g.constants()[0], Tensor::promise(DType::kF32, {2, 67, 61}, 7));
  ValueFacts facts;
  PassContext context(*model, facts);
  infer_model(*model, facts, /*tolerant=*/false);
  Graph* graphs[] = {&g};
  EXPECT_TRUE(minimize_transposes(graphs, context));
  EXPECT_EQ(context.log.counts(), (std::map<std::string, size_t>{{"nodes moved", 1}, {"transposes made", 1}}));
  EXPECT_TRUE(g.constants()[0]->constant()->is_promise());
}

// How many of 1000 graphs cost more than they need.
int count_too_costly(Kind kind) {
  int too_costly = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    const Drawn drawn(seed, kind);
    const auto model = parse(drawn.text());
    ValueFacts facts;
    PassContext context(*model, facts);
    infer_model(*model, facts, /*tolerant=*/false);
    Graph* graphs[] = {&model->graph()};
    minimize_transposes(graphs, context);
    verify(*model, {.types = true});
    EXPECT_GE(cost_of(model->graph()), drawn.best()) << drawn.text();
    too_costly += cost_of(model->graph()) > drawn.best() ? 1 : 0;
  }
  return too_costly;
}

TEST(LayoutMinimize, FindsTheBestOfAllChoices) { EXPECT_EQ(count_too_costly(Kind::kPlain), 0); }

// What makes transposes cancel is done at once, though one more of them could make a Softmax quicker; and a
// cut cannot say what it costs that two nodes move together.
TEST(LayoutMinimize, MostlyFindsTheBestWhereChoicesDependOnEachOther) {
  EXPECT_LE(count_too_costly(Kind::kSoftmax), 4);
  EXPECT_LE(count_too_costly(Kind::kProducts), 6);
  EXPECT_LE(count_too_costly(Kind::kMixed), 44);
}

}  // namespace
}  // namespace sardonyx::layout
