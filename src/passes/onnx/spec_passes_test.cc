// Covers what graph equality does not show: names, declared types, bodies of functions, the order of the
// preset.
#include <gtest/gtest.h>

#include <set>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

bool run(Model& m, std::vector<std::string> passes) {
  const PipelineReport report = run_passes(m, {.passes = std::move(passes), .strict = true, .verify_graph = true});
  return std::any_of(report.passes.begin(), report.passes.end(), [](const PassReport& p) { return p.changed; });
}

std::vector<std::string> ops_of(const Graph& g) {
  std::vector<std::string> names;
  for (const Node& n : g.nodes()) names.emplace_back(n.op().name);
  return names;
}

TEST(name_fix, makes_names_unique_and_leaves_the_signature) {
  const auto m = parse(R"(
graph(x: f32[2,3], c: bool[]) {
  %"y" = Exp(x)
  a = Neg(y)
  d = If<then_branch=graph() { a1 = Abs(a)  return x=a1 }, else_branch=graph() { a2 = Sin(a)  return x=a2 }>(c)
  return y=d
}
)");
  Graph& g = m->graph();
  for (Graph* body : graphs_in(g)) {
    for (Node& n : body->nodes()) n.set_name(m->name("same"));
  }
  g.first()->next()->result()->set_name(m->name("a1"));
  ASSERT_TRUE(run(*m, {"name_fix"}));
  std::set<std::string> values, nodes;
  size_t count = 0;
  for (Graph* body : graphs_in(g)) {
    for (const Node& n : body->nodes()) {
      EXPECT_TRUE(nodes.insert(std::string(n.name().view())).second) << n.name().view();
      EXPECT_TRUE(values.insert(std::string(n.result()->name().view())).second) << n.result()->name().view();
      EXPECT_FALSE(n.result()->name().empty() || n.name().empty());
      ++count;
    }
  }
  EXPECT_EQ(nodes.size(), count);
  EXPECT_FALSE(values.contains("x"));
  EXPECT_EQ(g.first()->name().view(), "same");
  EXPECT_EQ(g.outputs()[0].name.view(), "y");
  EXPECT_NE(g.first()->result()->name().view(), "y") << "a result of the graph is called that";
  EXPECT_EQ(graphs_in(g)[1]->outputs()[0].name.view(), "x");
  EXPECT_FALSE(run(*m, {"name_fix"}));
}

TEST(name_fix, one_name_is_a_change) {
  const auto m = parse("graph(x: f32[2,3]) { y = Neg(x)  return y }");
  EXPECT_TRUE(run(*m, {"name_fix"}));
  EXPECT_EQ(m->graph().first()->name().view(), "Neg_0");
}

TEST(name_fix, a_result_without_any_name) {
  const auto m = parse("graph(x: f32[2,3]) { %0 = Neg(x)  return y = %0 }");
  m->graph().output_port(0).name = Name();
  const PipelineReport report = run_passes(*m, {.passes = {"name_fix"}, .strict = true});
  EXPECT_EQ(m->graph().first()->result()->name().view(), "Neg_0");
  EXPECT_EQ(report.passes.front().counts, (std::vector<std::pair<std::string, size_t>>{{"names", 2}}));
}

TEST(prune_unused_graph_inputs, leaves_inputs_without_a_name) {
  const auto m = parse("graph(x: f32[2,3], z: f32[5], u: f32[7]) { y = Neg(x)  return y }");
  m->graph().input_port(1).name = Name();
  ASSERT_TRUE(run(*m, {"prune_unused_graph_inputs"}));
  EXPECT_EQ(m->graph().inputs().size(), 2u);
}

TEST(lift_constants_to_initializers, keeps_sparse_tensors_of_the_file) {
  const auto m =
      parse("graph(x: f32[2]) { a = Constant<value=f32[2]{0,1}>()  b = Constant<value=f32[2]{0,2}>()  return Add(a, b) }");
  Node& sparse = *m->graph().first();
  sparse.edit_extra().payload_attrs = m->attrs({attr("sparse_value", std::vector<int64_t>{1})});
  Node& dense = *sparse.next();
  dense.edit_extra().doc = "dense";
  ASSERT_TRUE(run(*m, {"lift_constants_to_initializers"}));
  EXPECT_EQ(ops_of(m->graph()), (std::vector<std::string>{"Constant", "Add"}));
  EXPECT_TRUE(sparse.alive());
}

TEST(simplify_control_flow, constants_that_nobody_reads_stay_behind) {
  const auto m = parse(R"(
graph(x: f32[3], z: f32[5]) {
  a, b = If<then_branch=graph() { k = f32[3]{1...}  return Neg(x), Neg(z) }, else_branch=graph() { return x, z }>(bool true)
  c = Loop<body=graph(i: i64[], go: bool[], s: f32[3]) { return go, Neg(s) }>(i64 1, bool true, a)
  return b, c
}
)");
  ASSERT_TRUE(run(*m, {"simplify_control_flow"}));
  EXPECT_EQ(ops_of(m->graph()), (std::vector<std::string>{"Neg", "Neg", "Neg"}));
  EXPECT_EQ(m->graph().constants().size(), 3u) << "of the If and the Loop, and the condition that the body hands on";
}

TEST(propagate, declares_what_is_inferred) {
  const auto m = parse("graph(x: f32[B,3], w: f32[3]) { a = Add(x, w)  b = Gelu(a)  y, mask = Dropout(b)  return y }");
  Graph& g = m->graph();
  const Value* a = g.first()->result();
  const Value* b = g.first()->next()->result();
  const Value* y = g.last()->result();
  ASSERT_TRUE(run(*m, {"propagate_elementwise_shapes"}));
  ASSERT_EQ(g.value_info.size(), 1u);
  EXPECT_EQ(m->types().to_string(g.value_info.at(a).declared), "f32[B,3]");
  ASSERT_TRUE(run(*m, {"propagate_unary_shapes"}));
  ASSERT_EQ(g.value_info.size(), 3u);
  EXPECT_EQ(m->types().to_string(g.value_info.at(b).declared), "f32[B,3]");
  EXPECT_EQ(m->types().to_string(g.value_info.at(y).declared), "f32[B,3]");
  EXPECT_FALSE(run(*m, {"propagate_elementwise_shapes"}));
  EXPECT_FALSE(run(*m, {"propagate_unary_shapes"}));
}

TEST(propagate, keeps_a_more_precise_declared_type) {
  const auto m = parse("graph(x: f32[?,3]) { a = Exp(x)  y = Neg(a)  return y }");
  Graph& g = m->graph();
  const Value* a = g.first()->result();
  g.value_info[a].declared = m->types().parse("f32[5,3]");
  run(*m, {"propagate_unary_shapes"});
  EXPECT_EQ(m->types().to_string(g.value_info.at(a).declared), "f32[5,3]");
}

TEST(unframing, declared_types_follow) {
  const auto m = parse("graph(x: f32[2,3]) { a = Relu(Transpose(x))  y = Transpose(a)  return y }");
  Graph& g = m->graph();
  const Value* a = g.first()->next()->result();
  g.value_info[a].declared = m->types().parse("f32[3,2]");
  ASSERT_TRUE(run(*m, {"remove_redundant_transpose_pairs"}));
  EXPECT_EQ(ops_of(g), std::vector<std::string>{"Relu"});
  EXPECT_EQ(m->types().to_string(g.value_info.at(a).declared), "f32[2,3]");
}

TEST(onnx_spec, has_the_seventeen_in_order) {
  const auto m = parse("graph(x: f32[2]) { y = Neg(x)  return y }");
  const PipelineReport report = run_passes(*m, {.passes = {"onnx-spec"}, .strict = true});
  std::vector<std::string> names;
  for (const PassReport& p : report.passes) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "name_fix", "remove_redundant_casts", "remove_redundant_transpose_reduce",
                       "remove_redundant_transpose_add_forests", "remove_redundant_transpose_pairs",
                       "remove_redundant_reshape_pairs", "remove_identity_reshapes", "common_subexpression_elimination",
                       "lift_constants_to_initializers", "rewrite_mul_rsqrt_as_div", "inline_dropout_training_mode_constants",
                       "propagate_elementwise_shapes", "propagate_unary_shapes", "remove_redundant_casts_after_propagation",
                       "remove_dead_nodes", "remove_orphan_transposes", "prune_unused_graph_inputs"}));
}

// Some passes only run on the main graph; the others also run on functions.
TEST(onnx_spec, enters_functions_where_the_table_says_so) {
  const auto m = parse(R"(
graph(x: f32[2,3]) { y = custom::f(x)  return y }
function custom::f(a, unread) { b = Cast<to=1>(Cast<to=1>(a))  c = Exp(b)  d = Exp(b)  e = Sub(c, d)  return e }
)");
  ASSERT_EQ(m->functions().size(), 2u);
  run(*m, {"onnx-spec"});
  const Graph& body = m->functions()[1]->graph();
  EXPECT_EQ(ops_of(body), (std::vector<std::string>{"Exp", "Exp", "Sub"}));
  EXPECT_EQ(body.inputs().size(), 2u);
}

// Appends a Sum and makes it the result of the graph.
Node& returned_sum(Graph& g, std::span<Value* const> operands) {
  Model& m = g.model();
  Node& sum = m.new_node(m.op("", "Sum"), operands, 1);
  g.append(sum);
  g.add_output(*sum.result(), "y");
  return sum;
}

TEST(cse, merges_large_constants_by_content) {
  Model m;
  m.set_opset_version("", 21);
  Graph& g = m.add_function("main").graph();
  std::vector<float> values(100000, 1.0f);
  values[77777] = 2;
  const auto tensor = [&] { return Tensor::of<float>(DType::kF32, {100000}, values); };
  Value* a = g.add_constant(tensor());
  Value* b = g.add_constant(tensor());
  values[33333] = 3;
  Value* c = g.add_constant(tensor());
  Value* operands[] = {a, b, c};
  Node& sum = returned_sum(g, operands);
  ASSERT_TRUE(run(m, {"common_subexpression_elimination"}));
  EXPECT_EQ(sum.input(1), a);
  EXPECT_EQ(sum.input(2), c);
}

TEST(cse, merges_a_constant_in_short_with_one_in_full) {
  Model m;
  m.set_opset_version("", 21);
  Graph& g = m.add_function("main").graph();
  const std::vector<float> twos{2, 2, 2};
  Value* a = g.add_constant(Tensor::full(DType::kF32, {3}, 2));
  Value* operands[] = {a, g.add_constant(Tensor::of<float>(DType::kF32, {3}, twos))};
  Node& sum = returned_sum(g, operands);
  ASSERT_TRUE(run(m, {"common_subexpression_elimination"}));
  EXPECT_EQ(sum.input(1), a);
}

TEST(cse, merges_constants_known_only_by_hash) {
  Model m;
  m.set_opset_version("", 21);
  Graph& g = m.add_function("main").graph();
  const auto tensor = [](uint64_t hash) { return Tensor::promise(DType::kF32, {3}, hash); };
  Value* a = g.add_constant(tensor(17));
  Value* c = g.add_constant(tensor(19));
  Value* operands[] = {a, g.add_constant(tensor(17)), c};
  Node& sum = returned_sum(g, operands);
  ASSERT_TRUE(run(m, {"common_subexpression_elimination"}));
  EXPECT_EQ(sum.input(1), a);
  EXPECT_EQ(sum.input(2), c);
}

// Comparing constants must not compute deferred ones.
TEST(cse, leaves_constants_that_are_deferred) {
  Model m;
  m.set_opset_version("", 21);
  Graph& g = m.add_function("main").graph();
  size_t computed = 0;
  const auto tensor = [&] {
    return Tensor::defer(DType::kF32, {3}, [&](int64_t, std::span<std::byte> out) {
      ++computed;
      std::fill(out.begin(), out.end(), std::byte{0});
    });
  };
  Value* a = g.add_constant(tensor());
  Value* b = g.add_constant(tensor());
  Value* operands[] = {a, b};
  Node& sum = returned_sum(g, operands);
  EXPECT_FALSE(run(m, {"common_subexpression_elimination"}));
  EXPECT_EQ(sum.input(1), b);
  EXPECT_EQ(computed, 0u);
}

}  // namespace
}  // namespace sardonyx
