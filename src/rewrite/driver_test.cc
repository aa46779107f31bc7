// Tests of the driver on small rules.
#include <gtest/gtest.h>

#include <set>

#include "rewrite/matcher.h"
#include "rewrite/onnx_rewriter.h"
#include "rewrite/ready_rule.h"
#include "rewrite/shuffled_worklist.h"

namespace sardonyx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, y{"y"}, z{"z"}, f{"f"};

struct Rewritten {
  std::unique_ptr<Model> model;
  bool changed = false;
  std::vector<size_t> fired;
  std::vector<std::string> faults;
  std::string text() const { return print(model->graph()); }
  bool is(std::string_view expected) const {
    std::string why;
    return equal_graphs(parse(expected)->graph(), model->graph(), &why);
  }
};

Rewritten rewrite(std::string_view text, const std::vector<Rule>& rules, bool verify_rewrites = false,
                  std::vector<size_t>* endless = nullptr) {
  Rewritten r{.model = parse(text)};
  ValueFacts facts;
  infer_model(*r.model, facts, /*tolerant=*/true);
  PassContext context(*r.model, facts);
  std::vector<ReadyRule> ready;
  for (const Rule& rule : rules) ready.emplace_back(rule, r.model->dialect());
  const PassOptions none;
  std::vector<AppliedRule> applied;
  for (const ReadyRule& rule : ready) applied.push_back({.ready = &rule, .pass_name = "test", .options = &none});
  Graph* graphs[] = {&r.model->graph()};
  RewriteCheck check;
  r.changed = apply_rules(applied, graphs, context, &r.fired, verify_rewrites ? &check : nullptr, endless);
  r.model->graph().erase_unused_constants();
  r.faults = check.faults;
  verify(*r.model);
  return r;
}

TEST(Rules, CommutativeOperandsMatchInBothOrders) {
  const Rule rule{.match = Add(Neg(x), Exp(y)), .replace = Sub(Exp(y), x)};
  const char* after = "graph(a: f32[3], b: f32[3]) { r = Sub(Exp(b), a)  return r }";
  EXPECT_TRUE(rewrite("graph(a: f32[3], b: f32[3]) { r = Add(Neg(a), Exp(b))  return r }", {rule}).is(after));
  EXPECT_TRUE(rewrite("graph(a: f32[3], b: f32[3]) { r = Add(Exp(b), Neg(a))  return r }", {rule}).is(after));
  EXPECT_FALSE(rewrite("graph(a: f32[3], b: f32[3]) { r = Sub(Exp(b), Neg(a))  return r }", {rule}).changed);
}

TEST(Rules, OneVariableIsOneValue) {
  const Rule rule{.match = Add(Mul(x, y), Mul(x, z)), .replace = Mul(x, Add(y, z))};
  EXPECT_TRUE(rewrite("graph(a: f32[3], b: f32[3], c: f32[3]) { r = Add(Mul(b, a), Mul(c, a))  return r }", {rule})
                  .is("graph(a: f32[3], b: f32[3], c: f32[3]) { r = Mul(a, Add(b, c))  return r }"));
  EXPECT_FALSE(
      rewrite("graph(a: f32[3], b: f32[3], c: f32[3], d: f32[3]) { r = Add(Mul(a, b), Mul(c, d))  return r }", {rule}).changed);
}

// The condition rejects the first operand order that matches.
TEST(Rules, ConditionsTakePartInBacktracking) {
  const Rule rule{.match = Mul(x, y), .when = [](const Match& m) { return m.splat(y) == 2.0; }, .replace = Add(x, x)};
  EXPECT_TRUE(
      rewrite("graph(a: f32[3]) { r = Mul(f32 2, a)  return r }", {rule}).is("graph(a: f32[3]) { r = Add(a, a)  return r }"));
}

TEST(Rules, SoleUsersOnly) {
  const Rule rule{.match = Neg(sole(Neg(x))), .build = [](onnx::Rewriter&, const Match& m) { return m[x]; }};
  EXPECT_TRUE(
      rewrite("graph(a: f32[3]) { r = Exp(Neg(Neg(a)))  return r }", {rule}).is("graph(a: f32[3]) { r = Exp(a)  return r }"));
  EXPECT_FALSE(rewrite("graph(a: f32[3]) { n = Neg(a)  r = Exp(Neg(n))  return r, n }", {rule}).changed);
}

TEST(Rules, AReplacementOfAnotherShapeIsNone) {
  const Rule rule{.match = Mul(x, splat(1)), .build = [](onnx::Rewriter&, const Match& m) { return m[x]; }};
  EXPECT_TRUE(rewrite("graph(a: f32[2,3]) { r = Exp(Mul(a, f32[3]{1...}))  return r }", {rule}).changed);
  EXPECT_FALSE(rewrite("graph(a: f32[3]) { r = Exp(Mul(a, f32[2,1]{1...}))  return r }", {rule}).changed);
  EXPECT_FALSE(rewrite("graph(a: f32[?]) { r = Exp(Mul(a, f32[2,1]{1...}))  return r }", {rule}).changed);
}

TEST(Rules, TraitsMatchAnyOperator) {
  const Rule rule{.match = with_operand(Trait::kUnary, sole(Neg(x)).as(y)).as(f),
                  .when = [](const Match& m) { return m.node(f).is("Abs"); },
                  .build = [](onnx::Rewriter& b, const Match& m) { return b.like(m.node(f), *m[y], *m[x]); }};
  EXPECT_TRUE(
      rewrite("graph(a: f32[3]) { r = Abs(Neg(a))  return r }", {rule}).is("graph(a: f32[3]) { r = Abs(a)  return r }"));
  EXPECT_FALSE(rewrite("graph(a: f32[3]) { r = Exp(Neg(a))  return r }", {rule}).changed);
}

TEST(Rules, AlternativesAndAttributes) {
  const Rule rule{
      .match = any_of(ReduceSum(x, any).attr("keepdims", 1), ReduceMax(x, any)), .replace = Abs(x), .same_type = true};
  EXPECT_TRUE(rewrite("graph(a: f32[1,3]) { r = ReduceSum(a, i64[1]{0})  return r }", {rule}).changed);
  EXPECT_TRUE(rewrite("graph(a: f32[1,3]) { r = ReduceMax(a, i64[1]{0})  return r }", {rule}).changed);
  EXPECT_FALSE(rewrite("graph(a: f32[1,3]) { r = ReduceSum<keepdims=0>(a, i64[1]{0})  return r }", {rule}).changed);
}

// Nodes outside a body run once, those inside many times.
TEST(Rules, PatternsStopAtABody) {
  const Rule rule{.match = Exp(Neg(x)), .replace = Reciprocal(Exp(x))};
  const auto r = rewrite(
      "graph(c: bool[], a: f32[3]) { n = Neg(a)  r = If<then_branch=graph() { t = Exp(n)  return t }, "
      "else_branch=graph() { e = Exp(Neg(a))  return e }>(c)  return r }",
      {rule});
  EXPECT_EQ(r.fired[0], 1u) << r.text();
}

TEST(Rules, LongChainsCollapse) {
  std::string text = "graph(a: f32[3]) { v0 = Exp(a)  ";
  for (int i = 0; i < 1001; ++i) text += "v" + std::to_string(i + 1) + " = Neg(v" + std::to_string(i) + ")  ";
  const Rule rule{.match = Neg(Neg(x)), .build = [](onnx::Rewriter&, const Match& m) { return m[x]; }};
  EXPECT_TRUE(rewrite(text + "return v1001 }", {rule}).is("graph(a: f32[3]) { v1001 = Neg(Exp(a))  return v1001 }"));
}

TEST(Rules, PingPongIsReported) {
  const std::vector<Rule> rules{{.name = "there", .match = Neg(Abs(x)), .replace = Abs(Neg(x))},
                                {.name = "back", .match = Abs(Neg(x)), .replace = Neg(Abs(x))}};
  try {
    rewrite("graph(a: f32[3]) { r = Neg(Abs(a))  return r }", rules);
    FAIL() << "it converged";
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.what()).find("did not converge"), std::string_view::npos);
  }
}

// Where the caller can do without the pair, the other rules come to an end.
TEST(Rules, PingPongIsSwitchedOff) {
  const std::vector<Rule> rules{
      {.name = "one", .match = Neg(Neg(x)), .build = [](onnx::Rewriter&, const Match& m) { return m[x]; }},
      {.name = "there", .match = Neg(Abs(x)), .replace = Abs(Neg(x))},
      {.name = "back", .match = Abs(Neg(x)), .replace = Neg(Abs(x))},
      {.name = "other", .match = Exp(x), .replace = Sin(x)}};
  std::vector<size_t> endless;
  const auto r = rewrite("graph(a: f32[3]) { r = Exp(Neg(Neg(Neg(Abs(Exp(a))))))  return r }", rules, false, &endless);
  EXPECT_EQ(std::set(endless.begin(), endless.end()), (std::set<size_t>{1, 2}));
  EXPECT_TRUE(r.changed);
  EXPECT_EQ(r.model->num_nodes(), 4u) << r.text();
  EXPECT_EQ(r.fired[3], 2u) << r.text();
}

// A right side that cannot be built leaves no nodes behind.
TEST(Rules, WhatABuildMadeIsTakenBack) {
  const Rule rule{.match = Exp(x), .build = [](onnx::Rewriter& b, const Match& m) -> Value* {
                    b.Add(m[x], b.full(DType::kF32, {7}, 3));
                    return nullptr;
                  }};
  const auto r = rewrite("graph(a: f32[1]) { r = Exp(a)  return r }", {rule});
  EXPECT_FALSE(r.changed);
  EXPECT_EQ(r.model->num_nodes(), 1u);
  EXPECT_TRUE(r.model->graph().constants().empty());
}

TEST(Rules, NamesMoveToTheReplacement) {
  const Rule rule{.match = Mul(x, Reciprocal(y)), .replace = Div(x, y)};
  const auto r = rewrite("graph(a: f32[3], b: f32[3]) { scaled = Mul(a, Reciprocal(b))  r = Exp(scaled)  return r }", {rule});
  EXPECT_EQ(r.model->graph().first()->result()->name().view(), "scaled");
}

// --verify pass
TEST(Rules, AWrongRuleIsSwitchedOff) {
  const std::vector<Rule> rules{
      {.name = "wrong", .match = Sub(x, y), .replace = Sub(y, x)},
      {.name = "right", .match = Neg(Neg(x)), .build = [](onnx::Rewriter&, const Match& m) { return m[x]; }}};
  const auto r =
      rewrite("graph(a: f32[B,3], b: f32[B,3]) { r = Sub(Neg(Neg(a)), b)  return r }", rules, /*verify_rewrites=*/true);
  EXPECT_TRUE(r.is("graph(a: f32[B,3], b: f32[B,3]) { r = Sub(a, b)  return r }")) << r.text();
  ASSERT_EQ(r.faults.size(), 1u);
  EXPECT_NE(r.faults[0].find("test/wrong would change results"), std::string::npos) << r.faults[0];
}

// The evaluation keeps the integer facts that a rule relies on.
TEST(Rules, ShapesAreEvaluatedAsTheyAre) {
  const Rule rule{.match = Reshape(x, y),
                  .when = [](const Match& m) { return m[y]->def() != nullptr; },
                  .build = [](onnx::Rewriter& b, const Match& m) { return b.Reshape(m[x], b.i64s({0, -1})); },
                  .same_type = true};
  const auto r = rewrite(
      "graph(a: f32[B,3,5]) { s = Shape(a)  n = Gather(s, i64[1]{0})  t = Concat<axis=0>(n, i64[1]{15})  r = Reshape(a, t)  "
      "return r }",
      {rule}, /*verify_rewrites=*/true);
  EXPECT_TRUE(r.changed);
  EXPECT_TRUE(r.faults.empty()) << r.faults[0];
}

// A rule is off while the model lacks the operators of all its alternatives, not just of some.
TEST(Rules, OneAlternativeIsEnough) {
  const Rule rule{.match = any_of(Neg(Erf(x)), Neg(any_of(Exp(x), Log(x)))), .replace = Sin(x)};
  EXPECT_TRUE(rewrite("graph(a: f32[3]) { r = Neg(Log(a))  return r }", {rule}).changed);
  EXPECT_FALSE(rewrite("graph(a: f32[3]) { r = Neg(Cos(a))  return r }", {rule}).changed);
}

// A rule may be activated by what another makes.
TEST(Rules, OperatorsThatAreMadeWakeRules) {
  const std::vector<Rule> rules{{.match = Cos(Sin(x)), .replace = Exp(x)}, {.match = Neg(x), .replace = Sin(x)}};
  EXPECT_TRUE(rewrite("graph(a: f32[3]) { r = Cos(Neg(a))  return r }", rules).is("graph(a: f32[3]) { r = Exp(a)  return r }"));
}

// A right side that declines loses the constants that it made; the next one makes them again, and later ones
// share them.
TEST(Rules, ConstantsOfRightSidesAreShared) {
  const Rule declines{.match = Neg(x), .build = [](onnx::Rewriter& b, const Match& m) {
                        b.Mul(m[x], b.full(DType::kF32, {3}, 7));
                        return static_cast<Value*>(nullptr);
                      }};
  const Rule makes{.match = Neg(x),
                   .build = [](onnx::Rewriter& b, const Match& m) { return b.Mul(m[x], b.full(DType::kF32, {3}, 7)); }};
  const auto r = rewrite("graph(a: f32[3]) { r = Neg(Exp(Neg(Exp(Neg(a)))))  return r }", {declines, makes});
  EXPECT_EQ(r.fired, (std::vector<size_t>{0, 3}));
  EXPECT_EQ(r.model->graph().constants().size(), 1u);
}

// Two rules match the same node, and one rule matches two nodes: a shuffled worklist may take any first,
// always the same for one seed.
TEST(Rules, AShuffledWorklistTakesAnyNodeAndRuleFirst) {
  const char* text = "graph(a: f32[3], b: f32[3]) { r = Neg(a)  s = Neg(b)  return r, s }";
  const std::vector<Rule> rules{{.match = Neg(x), .replace = Sin(x)}, {.match = Neg(x), .replace = Cos(x)}};
  const std::string in_order = rewrite(text, rules).text();
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 32; ++seed) {
    std::string texts[2];
    for (std::string& t : texts) {
      const ShuffledWorklist shuffled(seed);
      t = rewrite(text, rules).text();
    }
    EXPECT_EQ(texts[0], texts[1]);
    found.insert(texts[0]);
  }
  EXPECT_EQ(found.size(), 4u);
  EXPECT_EQ(rewrite(text, rules).text(), in_order);
}

TEST(Graphs, BodiesAreFoundWhereverTheyAre) {
  const auto m = parse(
      "graph(a: f32[3], c: bool[]) { y = If<then_branch=graph() { d = Neg(a)  return d }, else_branch=graph() { return a }>(c) "
      " "
      "z = Exp(y)  return z }");
  Graph& g = m->graph();
  EXPECT_EQ(graphs_in(g).size(), 3u);
  const auto may_walk = [](const Model& model, std::initializer_list<std::string_view> one_of) {
    const Pass pass = Pass::on_graph(Numerics::kExact, needs(one_of), [](Graph&, PassContext&) { return false; });
    return ready_pass(pass, DialectId::kOnnx).may_walk(op_bits(model));
  };
  EXPECT_TRUE(may_walk(*m, {"Loop", "If"}));
  EXPECT_TRUE(may_walk(*m, {"Neg"}));
  EXPECT_TRUE(may_walk(*m, {"Loop", "Ne*"}));
  EXPECT_FALSE(may_walk(*m, {"Loop", "Transpose"}));
  EXPECT_THROW(may_walk(*m, {"no such operator"}), Error);
  g.replace_uses(*g.first()->result(), *g.input(0));
  g.erase(*g.first());
  EXPECT_EQ(graphs_in(g).size(), 1u);
  EXPECT_FALSE(may_walk(*m, {"If", "Neg"}));
  const auto odd = parse("graph(a: f32[3]) { y = foreign::Op<body=graph() { return a }>(a)  return y }");
  EXPECT_EQ(graphs_in(odd->graph()).size(), 2u);
  EXPECT_TRUE(may_walk(*odd, {"Transpose"}));
}

TEST(Patterns, Print) {
  EXPECT_EQ(to_string(Mul(x, sole(Reciprocal(Sqrt(any).as(y))))), "Mul(%x, sole(Reciprocal(Sqrt(_) as %y)))");
  EXPECT_EQ(to_string(any_of(Transpose(x).attr("perm", Attr::Ints{1, 0}), Add(splat(0.5), rest))),
            "any_of(Transpose<perm=[1, 0]>(%x), Add(0.5, ...))");
}

TEST(Patterns, TooManyOrdersAreRefused) {
  const Pattern deep = Add(Add(Add(Add(Add(x, x), x), x), x), x);
  EXPECT_THROW(Matcher(deep, DialectId::kOnnx), Error);
}

}  // namespace
}  // namespace sardonyx
