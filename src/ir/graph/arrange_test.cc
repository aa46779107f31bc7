// arrange() gives nodes made in different orders the same order, and moves nothing else.
#include "ir/graph/arrange.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace sardonyx {
namespace {

// The graph after arranging all nodes with ids from `first` on as one batch.
std::string arranged(const char* text, uint32_t first = 0) {
  const auto m = parse(text);
  const uint32_t starts[] = {first};
  arrange(*m, starts);
  verify(*m);
  return print(*m);
}

// Both texts make the same nodes in different orders.
void expect_same(const char* one, const char* other) {
  EXPECT_NE(print(*parse(one)), print(*parse(other))) << "the case says nothing: the orders do not differ";
  EXPECT_EQ(arranged(one), arranged(other));
  EXPECT_EQ(print(*parse(arranged(one).c_str())), arranged(arranged(one).c_str())) << "a second time changes nothing";
}

TEST(Arrange, OrdersOperandsFromLeftToRight) {
  expect_same("graph(x: f32[3]) {\n  s = Sin(x)\n  c = Cos(x)\n  z = Div(s, c)\n  return z\n}\n",
              "graph(x: f32[3]) {\n  c = Cos(x)\n  s = Sin(x)\n  z = Div(s, c)\n  return z\n}\n");
}

TEST(Arrange, KeepsTheOrderOfResults) {
  expect_same("graph(x: f32[3]) {\n  s = Sin(x)\n  c = Cos(x)\n  return s, c\n}\n",
              "graph(x: f32[3]) {\n  c = Cos(x)\n  s = Sin(x)\n  return s, c\n}\n");
}

TEST(Arrange, BodiesDecideTheOrderOfWhatTheyCapture) {
  expect_same(
      "graph(p: bool[], x: f32[3]) {\n  s = Sin(x)\n  c = Cos(x)\n  y = If<then_branch=graph() {\n    a = Sub(s, c)\n    "
      "return a\n"
      "  }, else_branch=graph() {\n    b = Neg(c)\n    return b\n  }>(p)\n  return y\n}\n",
      "graph(p: bool[], x: f32[3]) {\n  c = Cos(x)\n  s = Sin(x)\n  y = If<then_branch=graph() {\n    a = Sub(s, c)\n    "
      "return a\n"
      "  }, else_branch=graph() {\n    b = Neg(c)\n    return b\n  }>(p)\n  return y\n}\n");
}

TEST(Arrange, NodesInsideABodyAreArrangedToo) {
  const auto with = [](const char* order) {
    return "graph(p: bool[], x: f32[3]) {\n  y = If<then_branch=graph() {\n" + std::string(order) +
           "    a = Sub(s, c)\n    return a\n  }, else_branch=graph() {\n    b = Neg(x)\n    return b\n  }>(p)\n  return "
           "y\n}\n";
  };
  expect_same(with("    s = Sin(x)\n    c = Cos(x)\n").c_str(), with("    c = Cos(x)\n    s = Sin(x)\n").c_str());
}

TEST(Arrange, OldNodesStayWhereTheyAre) {
  const char* text =
      "graph(x: f32[3]) {\n  c = Cos(x)\n  s = Sin(x)\n  z = Div(s, c)\n  b = Neg(z)\n  a = Exp(z)\n  w = Sub(a, b)\n  return "
      "w\n}\n";
  const std::string out = arranged(text, 3);  // Neg and Exp are new
  EXPECT_LT(out.find("Cos"), out.find("Sin"));
  EXPECT_LT(out.find("Exp"), out.find("Neg"));
}

TEST(Arrange, BatchesDoNotMix) {
  const auto m = parse("graph(x: f32[3]) {\n  c = Cos(x)\n  s = Sin(x)\n  z = Div(s, c)\n  return z\n}\n");
  const uint32_t starts[] = {0, 1};  // Cos is a batch of its own
  arrange(*m, starts);
  EXPECT_LT(print(*m).find("Cos"), print(*m).find("Sin"));
}

TEST(Arrange, NewConstantsFollowTheirFirstUsers) {
  const auto m = parse("graph(x: f32[2]) {\n  a = Add(x, x)\n  b = Mul(a, a)\n  return b\n}\n");
  Graph& g = m->graph();
  const uint32_t first_new = m->value_id_limit();
  Value* late = g.add_constant(Tensor::full(DType::kF32, {2}, 2), "late");
  Value* early = g.add_constant(Tensor::full(DType::kF32, {2}, 3), "early");
  g.first()->set_input(1, early);
  g.last()->set_input(1, late);
  arrange_constants(*m, first_new);
  EXPECT_EQ(g.constants()[0], early);
  EXPECT_EQ(g.constants()[1], late);
}

}  // namespace
}  // namespace sardonyx
