#include "ir/infer/infer_anew.h"

#include <gtest/gtest.h>

namespace sardonyx {
namespace {

TEST(InferAnew, what_one_node_computes_now_has_one_size) {
  const auto m = parse("graph(x: f32[2,3]) { a = NonZero(x)  b = NonZero(x)  c = Neg(a)  d = Neg(b)  return c, d }");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  Graph& g = m->graph();
  Node &a = *g.first(), &b = *a.next(), &c = *b.next(), &d = *c.next();
  g.replace_uses(*b.result(), *a.result());
  EXPECT_TRUE(may_tell_more(*m));
  EXPECT_NE(c.result()->type(), d.result()->type());
  infer_anew(*m, facts);
  EXPECT_EQ(c.result()->type(), d.result()->type());
}

TEST(InferAnew, a_rank_and_a_number_stay_where_the_node_that_told_them_is_gone) {
  const auto m = parse("graph(x: f32[...]) { a = Identity(x)  b = Neg(a)  c = Neg(b)  return c }");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  Node& a = *m->graph().first();
  a.result()->set_type(m->types().parse("f32[N,7]"));
  infer_anew(*m, facts);
  const Type* c = a.next()->next()->result()->type();
  ASSERT_TRUE(c->is_tensor() && c->ranked());
  EXPECT_TRUE(c->dim(1).is(7));
}

TEST(InferAnew, numbers_are_no_open_sizes) {
  const auto m = parse("graph(x: f32[2,3]) { a = Neg(x)  return a }");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  EXPECT_FALSE(may_tell_more(*m));
}

TEST(InferAnew, an_element_becomes_known_where_the_node_that_hid_it_is_gone) {
  const auto m = parse("graph(x: f32[B,3]) { s = Shape(x)  a = Sin(Cast<to=1>(s))  b = Neg(s)  return a, b }");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  EXPECT_FALSE(infer_anew(*m, facts));
  Node& b = *m->graph().first()->next()->next()->next();
  ASSERT_TRUE(b.is("Neg"));
  facts.erase(*b.result());
  EXPECT_TRUE(may_tell_more(*m));  // the input's size is unknown, the results' are not
  EXPECT_TRUE(infer_anew(*m, facts));
  EXPECT_NE(facts.find(*b.result()), nullptr);
  EXPECT_FALSE(infer_anew(*m, facts));
}

TEST(InferAnew, a_size_with_two_names_gets_one) {
  const auto m = parse("graph(x: f32[B,3]) { a = Neg(x)  return a }");
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/false);
  EXPECT_TRUE(may_tell_more(*m));
  EXPECT_FALSE(infer_anew(*m, facts));
  m->graph().first()->result()->set_type(m->types().parse("f32[N,3]"));
  EXPECT_TRUE(infer_anew(*m, facts));
  EXPECT_EQ(m->graph().first()->result()->type(), m->graph().input(0)->type());
}

}  // namespace
}  // namespace sardonyx
