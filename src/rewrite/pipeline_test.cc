// What happens to a model when a pass fails.
#include "rewrite/pipeline.h"

#include <gtest/gtest.h>

namespace sardonyx {
namespace {

constexpr std::string_view kText = "graph(x: f32[2,3]) { a = Exp(x)  b = Neg(a)  y = Add(a, b)  return y }";

// Does much, then fails, or so the caller says.
Pass destroyer(bool throws) {
  return Pass::on_graph(Numerics::kExact, [throws](Graph& g, PassContext& context) {
    Node& neg = *g.first()->next();
    g.replace_uses(*neg.result(), *neg.input(0));
    g.erase(neg);
    g.add_constant(Tensor::scalar(3));
    g.output_port(0).name = g.model().name("z");
    g.first()->result()->set_type(nullptr);
    context.count("things");
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

  void run(const Pass& pass, bool strict, bool verify_rewrites = false) {
    static const Pass last = harmless();
    ValueFacts facts;
    infer_model(*model, facts, /*tolerant=*/true);
    PassContext context(*model, facts);
    context.verify_rewrites = verify_rewrites;
    Pipeline pipeline;
    pipeline.entries.push_back({.name = "destroyer", .pass = &pass});
    if (!strict) pipeline.entries.push_back({.name = "harmless", .pass = &last});
    report = run_pipeline(context, pipeline, {.strict = strict});
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

}  // namespace
}  // namespace sardonyx
