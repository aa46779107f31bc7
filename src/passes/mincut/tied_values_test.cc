// Which values bodies tie together, and how often bodies run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "passes/mincut/tied_values.h"
#include "sardonyx/infer.h"

namespace sardonyx::layout {
namespace {

struct Case {
  explicit Case(const std::string& nodes, int opset = 21)
      : model(parse(fmt::format("opset {} graph(p: bool[], n: i64[], x: f32[2,3], y: f32[2,3,5], z: f32[7,2,3], u: f32[...], "
                                "v: f32[7], s: i64[], w: f32[W,3]) {{ {} }}",
                                opset, nodes))),
        context(*model, facts) {
    infer_model(*model, facts, /*tolerant=*/true);
  }
  Node& node() {
    for (Node& n : model->graph().nodes()) {
      if (!n.bodies().empty()) return n;
    }
    throw std::runtime_error("no bodies");
  }
  std::string trips() { return model->dims().to_string(layout::trips(node(), context)); }

  std::unique_ptr<Model> model;
  ValueFacts facts;
  PassContext context;
};

// Of each set: operands of the node as 0, results of a body as body:0, a result or a body's input by its
// name; stacks with their axis.
std::string tied(const std::string& nodes, int opset = 21) {
  Case c(nodes, opset);
  std::vector<std::string> all;
  for (const TiedValues& b : tied_values(c.node())) {
    std::vector<std::string> reads, made;
    for (const TiedValues::Operand& r : b.read) {
      const Graph* body = r.owner->is_boundary() ? r.owner->graph() : nullptr;
      reads.push_back(body == nullptr ? fmt::format("{}", r.slot)
                                      : fmt::format("{}:{}", body->output(r.slot)->name().view(), r.slot));
    }
    for (const Value* v : b.made) made.emplace_back(v->name().view());
    all.push_back(fmt::format("{}{} -> {}{}", fmt::join(reads, " "), b.read_stacked ? fmt::format(" along {}", b.axis) : "",
                              fmt::join(made, " "), b.made_stacked ? fmt::format(" along {}", b.axis) : ""));
  }
  return fmt::format("{}", fmt::join(all, ", "));
}

TEST(LayoutTiedValues, OfBranches) {
  EXPECT_EQ(tied("a, b = If<then_branch=graph() { c = Neg(x)  d = Neg(y)  return c, d }, else_branch=graph() { e = Abs(x)  "
                 "f = Abs(y)  "
                 "return e, f }>(p)  return a, b"),
            "c:0 e:0 -> a, d:1 f:1 -> b");
  // No rank, another rank, one axis.
  EXPECT_EQ(
      tied("a = If<then_branch=graph() { c = Neg(u)  return c }, else_branch=graph() { d = Abs(x)  return d }>(p)  return a"),
      "");
  EXPECT_EQ(
      tied("a: f32[2,3] = If<then_branch=graph() { c = Neg(y)  return c }, else_branch=graph() { d = Abs(x)  return d }>(p)  "
           "return a"),
      "");
  EXPECT_EQ(
      tied("a = If<then_branch=graph() { c = Neg(v)  return c }, else_branch=graph() { d = Abs(v)  return d }>(p)  return a"),
      "");
  // What types do not allow.
  EXPECT_EQ(
      tied(
          "a, b = If<then_branch=graph() { c = Neg(x)  return c }, else_branch=graph() { d = Abs(x)  return d }>(p)  return a"),
      "");
}

TEST(LayoutTiedValues, OfRanks) {
  constexpr std::string_view branches =
      "a = If<then_branch=graph() {{ c = Reshape(y, {0})  return c }}, else_branch=graph() {{ d = Reshape(y, {0})  "
      "return d }}>(p)  return a";
  EXPECT_EQ(tied(fmt::format(branches, "i64[15]{1,1,1,1,1,1,1,1,1,1,1,1,2,3,5}")), "c:0 d:0 -> a");
  EXPECT_EQ(tied(fmt::format(branches, "i64[16]{1,1,1,1,1,1,1,1,1,1,1,1,1,2,3,5}")), "");
  EXPECT_EQ(tied(fmt::format(branches, "i64[2]{6,5}")), "c:0 d:0 -> a");
  EXPECT_EQ(tied(fmt::format(branches, "i64[1]{30}")), "");
}

TEST(LayoutTiedValues, OfLoops) {
  EXPECT_EQ(tied("a, b, e = Loop<body=graph(i: i64[], k: bool[], r: f32[2,3], q: f32[2,3,5]) { c = Neg(r)  d = Neg(q)  "
                 "return k, c, d, c }>"
                 "(n, p, x, y)  return a, b, e"),
            "c:1 2 -> a r, d:2 3 -> b q, c:3 -> e along 0");
  EXPECT_EQ(tied("a = Loop<body=graph(i: i64[], k: bool[]) { c = Neg(x)  return k, c }>(n, p)  return a"), "c:1 -> a along 0");
  EXPECT_EQ(tied("a = Loop<body=graph(i: i64[], k: bool[]) { c = Neg(v)  return k, c }>(n, p)  return a"), "");
}

TEST(LayoutTiedValues, OfScans) {
  EXPECT_EQ(tied("a, b = Scan<num_scan_inputs=1, body=graph(r: f32[2,3], e: f32[2,3]) { c = Add(r, e)  d = Neg(c)  return "
                 "c, d }>(x, z)  "
                 "return a, b"),
            "0 c:0 -> r a, 1 along 0 -> e, d:1 -> b along 0");
  EXPECT_EQ(tied("a, b, f = Scan<num_scan_inputs=2, scan_input_axes=[0,-1], scan_output_axes=[1,-2], body=graph(r: "
                 "f32[2,3], e: f32[3,5], h: f32[2,3]) "
                 "{ c = Add(r, h)  d = Neg(c)  return c, d, e }>(x, y, y)  return a, b, f"),
            "");
  EXPECT_EQ(tied("a, b, f = Scan<num_scan_inputs=2, scan_input_axes=[2,-1], scan_output_axes=[1,-2], body=graph(r: "
                 "f32[2,3], e: f32[2,3], h: f32[2,3]) "
                 "{ c = Add(r, h)  d = Neg(c)  return c, d, e }>(x, y, y)  return a, b, f"),
            "0 c:0 -> r a, 1 along 2 -> e, 2 along 2 -> h, d:1 -> b along 1, e:2 -> f along 1");
  EXPECT_EQ(tied("a = Scan<num_scan_inputs=1, body=graph(r: f32[2,3], e: f32[2,3]) { c = Add(r, e)  return c }>(x, z)  "
                 "return a",
                 9),
            "0 c:0 -> r a, 1 along 0 -> e");
  // Version 8 has lengths before all, and batches.
  EXPECT_EQ(tied("a, b = Scan<num_scan_inputs=1, body=graph(r: f32[3], e: f32[3]) { c = Add(r, e)  return c, c }>(_, x, y)  "
                 "return a, b",
                 8),
            "");
}

TEST(LayoutTiedValues, OfOthers) {
  EXPECT_EQ(tied("a = own.Scan<num_scan_inputs=1, body=graph(r: f32[2,3], e: f32[2,3]) { c = Add(r, e)  return c }>(x, z)  "
                 "return a"),
            "");
  EXPECT_EQ(tied("a = own.If<then_branch=graph() { c = Neg(x)  return c }, else_branch=graph() { d = Abs(x)  return d }>(p) "
                 " return a"),
            "");
}

TEST(LayoutTiedValues, HowOftenBodiesRun) {
  const std::string body = "<body=graph(i: i64[], k: bool[], r: f32[2,3]) { c = Neg(r)  return k, c }>";
  const std::string unknown = Case("a = Loop" + body + "(_, p, x)  return a").trips();
  EXPECT_EQ(Case("a = Loop" + body + "(i64 11, p, x)  return a").trips(), "11");
  EXPECT_EQ(Case("a = Loop" + body + "(i64 1048576, p, x)  return a").trips(), "1048576");
  EXPECT_EQ(Case("a = Loop" + body + "(i64 1048577, p, x)  return a").trips(), unknown);
  EXPECT_EQ(Case("a = Loop" + body + "(n, p, x)  return a").trips(), unknown);
  EXPECT_EQ(Case("a = Loop" + body + "(i64 11, _, x)  return a").trips(), "11");
  EXPECT_EQ(Case("a = Loop" + body + "(Size(w), p, x)  return a").trips(), "3*W");
  EXPECT_EQ(Case("a = own.Loop" + body + "(i64 11, p, x)  return a").trips(), unknown);
  const std::string scan =
      "a = Scan<num_scan_inputs=1{}, body=graph(r: f32[2,3], e: f32[2,3]) {{ c = Add(r, e)  return c }}>(x, {})  return a";
  EXPECT_EQ(Case(fmt::format(fmt::runtime(scan), "", "z")).trips(), "7");
  EXPECT_EQ(Case(fmt::format(fmt::runtime(scan), ", scan_input_axes=[-1]", "y")).trips(), "5");
  EXPECT_EQ(Case(fmt::format(fmt::runtime(scan), ", scan_input_axes=[2]", "y")).trips(), "5");
  EXPECT_EQ(Case(fmt::format(fmt::runtime(scan), "", "u")).trips(), unknown);
  EXPECT_EQ(Case("a = If<then_branch=graph() { return x }, else_branch=graph() { return x }>(p)  return a").trips(), unknown);
}

}  // namespace
}  // namespace sardonyx::layout
