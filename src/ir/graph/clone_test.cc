#include <gtest/gtest.h>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// if c: s = x + x else: s = -x * w, with w an initializer; then relu(s).
std::unique_ptr<Model> branches(std::string_view prefix, bool swapped = false) {
  auto m = std::make_unique<Model>();
  m->set_opset_version("", 23);
  Graph& g = m->add_function("main").graph();
  auto name = [&](std::string_view s) { return m->name(std::string(prefix) + std::string(s)); };
  const Type* t = m->types().tensor(DType::kF32, std::vector<Dim>{m->dims().parse("2*B"), Dim::of(3)});
  Value* c = g.add_input("c", m->types().scalar(DType::kBool));
  Value* x = g.add_input("x", t);
  Value* w = g.add_constant(Tensor::full(DType::kF32, {3}, 0.5), std::string(prefix) + "w");
  Graph &then_graph = m->new_graph("then"), &else_graph = m->new_graph("else");
  Value* twice[] = {x, x};
  Node& add = m->new_node(m->op("", "Add"), twice, 1);
  then_graph.append(add);
  add.result()->set_name(name("sum"));
  then_graph.add_output(*add.result(), "sum");
  Value* once[] = {x};
  Node& neg = m->new_node(m->op("", "Neg"), once, 1);
  Value* product[] = {swapped ? w : neg.result(), swapped ? neg.result() : w};
  Node& mul = m->new_node(m->op("", "Mul"), product, 1);
  else_graph.append(neg);
  else_graph.append(mul);
  else_graph.add_output(*mul.result(), "product");
  Value* condition[] = {c};
  Node& n = m->new_node(m->op("", "If"), condition, 1, m->attrs({attr("note", m->dims().parse("B + 1"))}));
  n.add_body("then_branch", then_graph);
  n.add_body("else_branch", else_graph);
  g.append(n);
  Value* chosen[] = {n.result()};
  Node& relu = m->new_node(m->op("", "Relu"), chosen, 1);
  g.append(relu);
  relu.result()->set_name(name("y"));
  relu.result()->set_type(t);
  g.add_output(*relu.result(), "y", t);
  return m;
}

TEST(Clone, CopiesNestedGraphsTypesAndCaptures) {
  auto m = branches("");
  auto copy = clone_model(*m);
  std::string why;
  EXPECT_TRUE(equal_models(*m, *copy, &why)) << why;
  Graph& g = copy->graph();
  ASSERT_EQ(g.num_nodes(), 2u);
  EXPECT_EQ(copy->types().to_string(g.outputs()[0].declared), "f32[2*B,3]");
  EXPECT_EQ(copy->types().to_string(g.input(1)->type()), "f32[2*B,3]");
  Graph* otherwise = g.first()->body("else_branch");
  ASSERT_NE(otherwise, nullptr);
  EXPECT_EQ(otherwise->last()->input(1), g.constants()[0]) << "a capture reads the copied value";
  EXPECT_EQ(otherwise->first()->input(0), g.input(1));
  EXPECT_EQ(copy->dims().to_string(*g.first()->attr("note")->get<Dim>()), "B + 1");
  m.reset();  // the copy must not depend on the original
  EXPECT_EQ(g.last()->result()->name().view(), "y");
}

TEST(Clone, KeepsCapturesWithinOneModelAndRefusesThemAcross) {
  auto m = branches("");
  Graph& body = *m->graph().first()->body("else_branch");
  Graph& copy = m->new_graph();
  clone_graph(body, copy);
  EXPECT_EQ(copy.first()->input(0), m->graph().input(1));
  EXPECT_TRUE(equal_graphs(body, copy));
  Model other;
  EXPECT_THROW(clone_graph(body, other.new_graph()), Error);
  Graph& home = other.add_function("main").graph();
  Value* x = home.add_input("x", nullptr);
  Value* w = home.add_input("w", nullptr);
  Graph& moved = other.new_graph();
  clone_graph(body, moved, {{m->graph().input(1), x}, {m->graph().constants()[0], w}});
  EXPECT_EQ(moved.last()->input(1), w);
}

TEST(Equal, IgnoresNamesButNotStructure) {
  auto a = branches(""), b = branches("other_"), swapped = branches("", /*swapped=*/true);
  std::string why;
  EXPECT_TRUE(equal_models(*a, *b, &why)) << why;
  EXPECT_FALSE(equal_models(*a, *swapped, &why));
  EXPECT_NE(why, "");
}

TEST(Equal, SeesEachDifference) {
  auto differs = [](auto change) {
    auto a = branches(""), b = branches("");
    change(*b);
    std::string why;
    bool same = equal_models(*a, *b, &why);
    EXPECT_NE(same, !why.empty());
    return !same;
  };
  EXPECT_TRUE(differs([](Model& m) { m.ir_version = 9; }));
  EXPECT_TRUE(differs([](Model& m) { m.set_opset_version("", 22); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().output_port(0).name = m.name("z"); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().output_port(0).declared = m.types().scalar(DType::kF32); }));
  EXPECT_TRUE(
      differs([](Model& m) { m.graph().set_constant(*m.graph().constants()[0], Tensor::full(DType::kF32, {3}, 0.25)); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().set_output(0, *m.graph().input(1)); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().last()->set_op(m.op("", "Abs")); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().last()->set_attrs(m.attrs({attr("alpha", 1)})); }));
  EXPECT_TRUE(differs([](Model& m) { m.graph().first()->set_attrs(m.attrs({attr("note", m.dims().parse("B + 2"))})); }));
  EXPECT_TRUE(
      differs([](Model& m) { m.graph().first()->body("then_branch")->first()->set_input(0, m.graph().constants()[0]); }));
  EXPECT_TRUE(differs([](Model& m) {  // a node without users
    Value* in[] = {m.graph().input(1)};
    m.graph().append(m.new_node(m.op("", "Neg"), in, 1));
  }));
  EXPECT_TRUE(differs([](Model& m) { m.add_function("f"); }));
  EXPECT_FALSE(differs([](Model& m) { m.graph().first()->set_name(m.name("n")); }));
}

TEST(Equal, NodesInAnotherOrderAreTheSameGraph) {
  auto make = [](bool first) {
    auto m = std::make_unique<Model>();
    Graph& g = m->add_function("main").graph();
    Value* x[] = {g.add_input("x", nullptr)};
    Node *p = nullptr, *q = nullptr;
    for (int i = 0; i < 2; ++i) {
      if ((i == 0) == first) {
        g.append(*(p = &m->new_node(m->op("", "Neg"), x, 1)));
      } else {
        g.append(*(q = &m->new_node(m->op("", "Abs"), x, 1)));
      }
    }
    Value* both[] = {p->result(), q->result()};
    Node& sum = m->new_node(m->op("", "Add"), both, 1);
    g.append(sum);
    g.add_output(*sum.result(), "y");
    return m;
  };
  auto a = make(true), b = make(false);
  EXPECT_TRUE(equal_graphs(a->graph(), b->graph()));
}

TEST(Clone, AMillionNodesInALine) {
  Model m;
  Graph& g = m.add_function("main").graph();
  Value* v = g.add_input("x", nullptr);
  const Op& op = m.op("", "Neg");
  for (int i = 0; i < 1000000; ++i) {
    Node& n = m.new_node(op, {&v, 1}, 1);
    g.append(n);
    v = n.result();
  }
  g.add_output(*v, "y");
  auto copy = clone_model(m);
  EXPECT_EQ(copy->num_nodes(), 1000000u);
  EXPECT_TRUE(equal_models(m, *copy));
}

}  // namespace
}  // namespace sardonyx
