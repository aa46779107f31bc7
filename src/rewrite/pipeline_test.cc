// Tests of pipelines: what happens to a model when a pass fails.
#include "rewrite/pipeline.h"

#include <gtest/gtest.h>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx {
namespace {

constexpr std::string_view kText = "graph(x: f32[2,3]) { a = Exp(x)  b = Neg(a)  y = Add(a, b)  return y }";

// Makes many changes, then throws if `throws`.
Pass destroyer(bool throws) {
  return Pass::on_graph(Numerics::kExact, [throws](Graph& g, PassContext& context) {
    Node& neg = *g.first()->next();
    g.replace_uses(*neg.result(), *neg.input(0));
    g.erase(neg);
    g.add_constant(Tensor::scalar(3));
    g.output_port(0).name = g.model().name("z");
    g.first()->result()->set_type(nullptr);
    context.log.count("things");
    if (throws) throw Error(ErrorCode::kUnsupported, "this pass cannot go on");
    return true;
  });
}

Pass harmless() {
  return Pass::on_graph(Numerics::kExact, [](Graph& g, PassContext&) {
    g.first()->set_name(g.model().name("seen"));
    return true;
  });
}

struct Ran {
  std::unique_ptr<Model> model = parse(kText);
  std::string before = print(*model, {.full_constants = true, .types = true});
  PipelineReport report;

  void run(const Pass& pass, bool strict, bool verify_rewrites = false, NodeRefusal refusal = {}) {
    static const Pass last = harmless();
    ValueFacts facts;
    infer_model(*model, facts, /*tolerant=*/true);
    PassContext context(*model, facts);
    Pipeline pipeline;
    pipeline.entries.push_back({.name = "destroyer", .pass = &pass});
    if (!strict) pipeline.entries.push_back({.name = "harmless", .pass = &last});
    report =
        run_pipeline(context, pipeline, {.strict = strict, .verify_rewrites = verify_rewrites, .refusal = std::move(refusal)});
  }
  std::string text() const { return print(*model, {.full_constants = true, .types = true}); }
};

TEST(Pipeline, a_pass_that_throws_is_undone_and_the_next_one_runs) {
  Ran r;
  r.run(destroyer(true), /*strict=*/false);
  ASSERT_EQ(r.report.passes.size(), 2u);
  EXPECT_NE(r.report.passes[0].error.find("this pass cannot go on"), std::string::npos);
  EXPECT_FALSE(r.report.passes[0].changed);
  EXPECT_TRUE(r.report.passes[0].counts.empty());
  EXPECT_EQ(r.report.passes[0].nodes_after, 3u);
  EXPECT_TRUE(r.report.passes[1].changed);
  EXPECT_TRUE(r.report.failed());
  r.model->graph().first()->set_name({});
  EXPECT_EQ(r.text(), r.before);
  verify(*r.model);
}

TEST(Pipeline, strict_undoes_it_too_and_throws) {
  Ran r;
  EXPECT_THROW(r.run(destroyer(true), /*strict=*/true), Error);
  EXPECT_EQ(r.text(), r.before);
  EXPECT_EQ(r.model->journal(), nullptr);
}

TEST(Pipeline, a_walk_that_changes_results_is_undone_when_they_are_compared) {
  Ran r;
  r.run(destroyer(false), /*strict=*/false, /*verify_rewrites=*/true);
  EXPECT_NE(r.report.passes[0].error.find("changed results"), std::string::npos) << r.report.passes[0].error;
  r.model->graph().first()->set_name({});
  EXPECT_EQ(r.text(), r.before);
}

// Abs(Neg(Neg(b))) => Abs(b), or wrongly Neg(b); the pattern is Abs alone.
PipelineReport read_beyond_the_pattern(bool rightly) {
  Ran r;
  r.model =
      parse("graph(x: f32[...]) { a = Transpose<perm=[0,2,1]>(x)  b = Exp(a)  c = Neg(b)  d = Neg(c)  y = Abs(d)  return y }");
  static constexpr Var v{"v"};
  const Pass pass =
      Rule{.name = "skip", .match = pattern::Abs(v), .build = [rightly](onnx::Rewriter& b, const Match& m) -> Value* {
             const Node* n = m[v]->def();
             if (!n->is("Neg")) return nullptr;
             Value* of = n->input(0)->def()->input(0);
             return rightly ? b.Abs(of) : b.Neg(of);
           }};
  r.run(pass, /*strict=*/true, /*verify_rewrites=*/true);
  return r.report;
}

TEST(Pipeline, a_rule_that_reads_beyond_its_pattern_is_judged_from_where_its_new_nodes_begin) {
  const PipelineReport right = read_beyond_the_pattern(true), wrong = read_beyond_the_pattern(false);
  EXPECT_TRUE(right.faults.empty()) << right.faults.front();
  EXPECT_TRUE(right.passes[0].changed);
  ASSERT_EQ(wrong.faults.size(), 1u);
  EXPECT_NE(wrong.faults[0].find("skip would change results"), std::string::npos) << wrong.faults[0];
  EXPECT_FALSE(wrong.passes[0].changed);
}

// Drops one node per run: the last.
Pass one_fewer() {
  return Pass::on_graph(Numerics::kExact, [](Graph& g, PassContext&) {
    if (g.num_nodes() == 1) return false;
    Node& last = *g.last();
    g.replace_uses(*last.result(), *last.input(0));
    g.erase(last);
    return true;
  });
}

// Reports a change on every run.
Pass restless() {
  return Pass::on_graph(Numerics::kExact, [](Graph& g, PassContext& context) {
    context.log.count("things");
    g.first()->set_name(g.model().name(g.first()->name().view() == "a" ? "b" : "a"));
    return true;
  });
}

PipelineReport repeat(Model& m, const Pass& pass, bool strict) {
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  PassContext context(m, facts);
  Pipeline pipeline;
  for (std::string_view name : {"one", "other"}) pipeline.entries.push_back({.name = name, .pass = &pass, .repeats = true});
  return run_pipeline(context, pipeline, {.strict = strict});
}

TEST(Pipeline, rounds_go_on_while_there_is_something_to_do) {
  std::string text = "graph(x: f32[2,3]) { a0 = Exp(x)";
  for (int i = 1; i < 50; ++i) text += "  a" + std::to_string(i) + " = Neg(a" + std::to_string(i - 1) + ")";
  const auto m = parse(text + "  return a49 }");
  repeat(*m, one_fewer(), /*strict=*/true);
  EXPECT_EQ(m->graph().num_nodes(), 1u);
}

TEST(Pipeline, passes_that_never_end_are_stopped) {
  const auto m = parse(kText);
  const PipelineReport report = repeat(*m, restless(), /*strict=*/false);
  EXPECT_EQ(report.passes[0].counts[0].second, 16u);
  ASSERT_EQ(report.not_converged.size(), 1u);
  EXPECT_EQ(report.not_converged[0],
            "the passes did not converge and were stopped; the last 4 rounds: one 4 times, other 4 times");
  EXPECT_FALSE(report.failed());
  EXPECT_EQ(repeat(*m, restless(), /*strict=*/true).not_converged, report.not_converged);
}

// Two passes of rules that undo each other: `there` and `back` share sweeps, so the driver meets the pair.
TEST(Pipeline, rules_that_undo_each_other_are_named_and_the_others_go_on) {
  using namespace pattern;
  constexpr Var x{"x"};
  const Pass there = Rule{.name = "down", .match = Neg(Abs(x)), .replace = Abs(Neg(x))},
             back = Rule{.match = Abs(Neg(x)), .replace = Neg(Abs(x))}, last = Rule{.match = Exp(x), .replace = Sin(x)};
  for (bool repeats : {true, false}) {
    const auto m = parse("graph(x: f32[3]) { y = Exp(Neg(Abs(x)))  return y }");
    ValueFacts facts;
    infer_model(*m, facts, /*tolerant=*/true);
    PassContext context(*m, facts);
    Pass both = there;
    both.rules.push_back(back.rules[0]);
    Pipeline pipeline;
    if (repeats) {
      pipeline.entries.push_back({.name = "there", .pass = &there, .repeats = true});
      pipeline.entries.push_back({.name = "back", .pass = &back, .repeats = true});
    } else {
      pipeline.entries.push_back({.name = "both", .pass = &both});
    }
    pipeline.entries.push_back({.name = "last", .pass = &last, .repeats = repeats});
    const PipelineReport report = run_pipeline(context, pipeline, {.strict = true, .verify_graph = true});
    ASSERT_EQ(report.not_converged.size(), 1u);
    EXPECT_EQ(report.not_converged[0], repeats ? "rules did not converge and were switched off: there/down, back"
                                               : "rules did not converge and were switched off: both/down, both");
    EXPECT_TRUE(report.passes.back().changed);
    EXPECT_EQ(m->num_nodes(), 3u);
  }
}

// Stands for a runtime without Relu.
std::optional<std::string> refuses_relu(const Node& n) {
  return n.is("Relu") ? std::optional<std::string>("it refuses: Relu") : std::nullopt;
}

TEST(Pipeline, a_rule_that_makes_what_the_runtime_refuses_is_switched_off) {
  using namespace pattern;
  const Pass pass = Rule{.name = "bad", .numerics = Numerics::kRelaxed, .match = Neg(Var{"x"}), .replace = Relu(Var{"x"})};
  Ran r;
  r.run(pass, /*strict=*/false, /*verify_rewrites=*/false, refuses_relu);
  ASSERT_EQ(r.report.faults.size(), 1u);
  EXPECT_TRUE(r.report.faults[0].starts_with("destroyer/bad would make what it refuses: Relu, and was switched off\n  at "))
      << r.report.faults[0];
  EXPECT_EQ(r.model->graph().first()->next()->op().name, "Neg");
}

TEST(Pipeline, a_walk_that_makes_what_the_runtime_refuses_is_undone) {
  const Pass pass = Pass::on_graph(Numerics::kExact, [](Graph& g, PassContext& context) {
    Node& neg = *g.first()->next();
    neg.set_op(context.model.op("", "Relu"));
    return true;
  });
  Ran r;
  r.run(pass, /*strict=*/false, /*verify_rewrites=*/false, refuses_relu);
  ASSERT_EQ(r.report.faults.size(), 1u);
  EXPECT_TRUE(r.report.faults[0].starts_with("destroyer made what it refuses: Relu\n  at ")) << r.report.faults[0];
  EXPECT_EQ(r.model->graph().first()->next()->op().name, "Neg");
}

}  // namespace
}  // namespace sardonyx
