// The engine on a third pair of dialects, made for these tests: mil -> onnx with three operators.
#include "lower/engine/engine.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "sardonyx/onnx_builder.h"

namespace sardonyx::lower {
namespace {

class Context;
using Lowering = LoweringOf<Context, OnnxBuilder>;
class Context : public EngineOf<Lowering> {
 public:
  using EngineOf::EngineOf;
};
using Values = std::vector<Value*>;

Values lower_add(Lowering& ctx) {
  if (ctx.in(0)->dtype() == DType::kI32) ctx.unsupported("sums of integers");
  return {ctx.b.Add(ctx.in(0), ctx.in(1))};
}

Values lower_cond(Lowering& ctx) {
  OnnxBuilder branches[] = {ctx.new_body("then_branch"), ctx.new_body("else_branch")};
  for (size_t k : {0, 1}) {
    for (Value* v : ctx.inline_body(*ctx.node.bodies()[k].graph, {}, branches[k])) branches[k].graph().add_output(*v, {});
  }
  return {ctx.b.If(ctx.in(0), branches[0].graph(), branches[1].graph()).result()};
}

Table<Lowering> table() {
  Table<Lowering> t;
  t.add("add", lower_add);
  t.add("cond", lower_cond);
  t.add("relu", [](Lowering& ctx) { return Values{ctx.b.Relu(ctx.in(0))}; });
  return t;
}

std::unique_ptr<Model> lowered(const Model& mil, const Table<Lowering>& lowerings = table()) {
  auto onnx = std::make_unique<Model>(DialectId::kOnnx);
  onnx->opset_imports = {{"", 23}};
  Context context(mil, onnx->add_function("main").graph(), {.node = "op", .task = "this program"}, lowerings);
  context.run();
  return onnx;
}

Error failure(const Model& mil, const Table<Lowering>& lowerings = table()) {
  try {
    lowered(mil, lowerings);
  } catch (const Error& e) {
    return e;
  }
  return {ErrorCode::kInternal, "nothing failed"};
}

// Records line `line` of net.py as the source of the node.
void set_line(Node& n, int line) {
  Model& m = n.graph()->model();
  n.set_provenance(m.add_provenance({.sources = {{.file = "net.py", .line = line, .function = "f"}}}));
}

int line_of(const Node& n) {
  const Provenance& p = n.graph()->model().provenance(n.provenance());
  return p.sources.empty() ? 0 : p.sources[0].line;
}

TEST(LoweringEngine, LowersValuesConstantsAndSymbolicSizes) {
  const auto mil = parse("graph mil(x: f32[B,3]) {\n  a = relu(x)\n  y = add(a, f32[3]{1,2,3})\n  return y\n}\n");
  const auto onnx = lowered(*mil);
  verify(*onnx);
  std::string why;
  EXPECT_TRUE(
      equal_models(*onnx, *parse("graph(x: f32[B,3]) {\n  y: f32[B,3] = Add(Relu(x), f32[3]{1,2,3})\n  return y\n}\n"), &why))
      << why << print(*onnx);
}

TEST(LoweringEngine, ReportsAllRefusalsWithTheirLines) {
  const auto mil = parse(
      "graph mil(x: f32[3], i: i32[3]) {\n  a = tanh(x)\n  b = tanh(a)\n  c = relu(b)\n  j = add(i, i)\n  return c, j\n}\n");
  for (Node& n : mil->graph().nodes()) set_line(n, n.is("tanh") ? 7 : 8);
  const Error e = failure(*mil);
  EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(e.message(), "cannot convert 3 ops of this program");
  const std::vector<std::string> expected{"add of i32[3], i32[3] -> i32[3], at net.py:8 (f): sums of integers",
                                          "tanh of f32[3] -> f32[3] (2 times), at net.py:7 (f)"};
  EXPECT_EQ(std::vector<std::string>(e.notes().begin(), e.notes().end()), expected);
}

TEST(LoweringEngine, KeepsProvenanceAndGivesBodiesThatOfTheCaller) {
  const auto mil = parse(
      "graph mil(c: bool[], x: f32[3]) {\n  y = cond<true_fn=graph() {\n    return a = relu(x)\n  }, false_fn=graph() {\n    "
      "return b = add(x, x)\n  }>(c)\n  z = relu(y)\n  return z\n}\n");
  Node& cond = *mil->graph().first();
  set_line(cond, 3);
  set_line(*cond.bodies()[1].graph->first(), 5);
  set_line(*mil->graph().last(), 9);
  const auto onnx = lowered(*mil);
  verify(*onnx);
  Node& made = *onnx->graph().first();
  EXPECT_TRUE(made.is("If"));
  EXPECT_EQ(line_of(made), 3);
  EXPECT_EQ(line_of(*made.bodies()[0].graph->first()), 3);
  EXPECT_EQ(line_of(*made.bodies()[1].graph->first()), 5);
  EXPECT_EQ(line_of(*onnx->graph().last()), 9);
}

TEST(LoweringEngine, AnEntryOverridesTheTableBelowAndItsResultsAreChecked) {
  const Table<Lowering> below = table();
  Table<Lowering> t(&below);
  t.add("relu", [](Lowering& ctx) { return Values{ctx.b.Shape(ctx.in(0))}; }, "a plugin");
  const auto mil = parse("graph mil(x: f32[3]) {\n  y = relu(x)\n  return y\n}\n");
  const Error e = failure(*mil, t);
  EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
  EXPECT_EQ(e.message(), "the lowering of 'relu' (a plugin) returned i64[1] as result 0, but the op says f32[3]");
  EXPECT_EQ(e.notes().front(), "while lowering 'relu' of f32[3] -> f32[3] (a plugin)");
}

TEST(LoweringEngine, AResultThatSomebodyUsesMustBeBound) {
  Table<Lowering> t = table();
  t.add("relu", [](Lowering&) { return Values{}; });
  const auto mil = parse("graph mil(x: f32[3]) {\n  y = relu(x)\n  return y\n}\n");
  EXPECT_EQ(failure(*mil, t).message().find("the lowering of 'relu' (builtin) left result 0 unbound"), 0u);
}

}  // namespace
}  // namespace sardonyx::lower
