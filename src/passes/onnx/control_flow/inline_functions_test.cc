// Covers what the text of a graph does not show: provenance of nodes and the output of --explain.
#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {
namespace {

TEST(InlineFunctions, nodes_without_origin_take_that_of_the_call) {
  const auto m = parse(R"(
opset 18, "own" 1
graph(x: f32[3]) { y = own::f(x)  return y }
function own::f(a) opset 18 { b = Neg(a)  c = Exp(b)  return c }
)");
  const uint32_t of_call = m->add_provenance({.sources = {Source{.function = "call"}}, .source_count = 1});
  const uint32_t of_node = m->add_provenance({.sources = {Source{.function = "node"}}, .source_count = 1});
  m->graph().first()->set_provenance(of_call);
  m->functions()[1]->graph().first()->set_provenance(of_node);
  run_passes(*m, {.passes = {"inline_functions"}, .strict = true});
  ASSERT_EQ(m->graph().num_nodes(), 2u);
  EXPECT_EQ(m->graph().first()->provenance(), of_node);
  EXPECT_EQ(m->graph().last()->provenance(), of_call);
}

TEST(InlineFunctions, what_stays_is_explained) {
  const auto near_misses = [](const std::string& imports) {
    const auto m = parse(R"(
opset 18, "own" 1, "other" 1
graph(x: f32[3]) { z: f32[3] = other::g(x)  y = own::f(z)  return y }
function own::f(a) opset 18, )" +
                         imports + " { b: f32[3] = other::g(a)  return b }");
    struct : Observer {
      void near_miss(std::string_view, std::string_view, std::string_view) override { ++count; }
      size_t count = 0;
    } observer;
    PassRequest request{.passes = {"inline_functions"}, .strict = true, .explain = {"inline_functions"}};
    request.observer = &observer;
    run_passes(*m, request);
    return observer.count;
  };
  EXPECT_EQ(near_misses("\"other\" 1"), 0u);
  EXPECT_EQ(near_misses("\"other\" 2"), 1u);
}

}  // namespace
}  // namespace sardonyx
