// Passes compare bodies only when their hashes are equal, so pass cases cannot cover how two bodies differ.
#include "passes/onnx/control_flow/same_bodies.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sardonyx::onnx {
namespace {

// Whether the bodies of the first two nodes are the same.
bool are_same(const std::string& nodes, const std::function<bool(const Value*, const Value*)>& same_outside = {}) {
  const auto m = parse(fmt::format("opset 23, \"own\" 1 graph(c: bool[], n: i64[], x: f32[2,3], y: f32[2,3]) {{ {} }}", nodes));
  auto node = m->graph().nodes().begin();
  const Node& first = *node;
  return same_bodies(first, *++node, same_outside);
}

// Compares two Ifs with these first branches.
bool branches_are_same(const std::string& a, const std::string& b) {
  constexpr std::string_view kIf =
      "{0} = If<then_branch=graph() {{ {1} }}, else_branch=graph() {{ z = Sin(x)  return z }}>(c)  ";
  return are_same(fmt::format(kIf, "p", a) + fmt::format(kIf, "q", b) + "return p, q");
}

// Compares two Scans of x with these bodies.
bool scans_are_same(const std::string& a, const std::string& b) {
  return are_same(
      fmt::format("p = Scan<num_scan_inputs=1, body=graph({}>(y, x)  q = Scan<num_scan_inputs=1, body=graph({}>(y, x)  "
                  "return p, q",
                  a, b));
}

TEST(SameBodies, names_do_not_matter) {
  EXPECT_TRUE(branches_are_same("a = Neg(x)  b = Add(a, f32 1)  return b", "d = Neg(x)  e = Add(d, f32 1)  return f = e"));
  EXPECT_TRUE(branches_are_same("return x", "return x"));
  EXPECT_TRUE(branches_are_same("a = Clip(x, _, f32 1)  return a", "b = Clip(x, _, f32 1)  return b"));
  EXPECT_TRUE(
      branches_are_same("k = Constant<value=f32[3]{1,2,3}>()  return k", "l = Constant<value=f32[3]{1,2,3}>()  return l"));
}

TEST(SameBodies, nodes_that_differ) {
  EXPECT_FALSE(branches_are_same("a = Neg(x)  return a", "a = Abs(x)  return a"));
  EXPECT_FALSE(branches_are_same("a = Neg(x)  return a", "a = Neg(x)  b = Abs(x)  return a"));
  EXPECT_FALSE(branches_are_same("a = Max(x, y)  return a", "a = Max(x, y, y)  return a"));
  EXPECT_FALSE(branches_are_same("a = Dropout(x)  return a", "a, b = Dropout(x)  return a"));
  EXPECT_FALSE(branches_are_same("a = Elu<alpha=0.5>(x)  return a", "a = Elu<alpha=0.25>(x)  return a"));
  EXPECT_FALSE(branches_are_same("a = Add(x, f32 1)  return a", "a = Add(x, f32 2)  return a"));
  EXPECT_FALSE(branches_are_same("k = Constant<value=f32 1>()  return k", "l = Constant<value=f32 2>()  return l"));
}

TEST(SameBodies, wires_that_differ) {
  EXPECT_FALSE(branches_are_same("a = Neg(x)  return a", "a = Neg(y)  return a"));
  EXPECT_FALSE(branches_are_same("a = Neg(x)  b = Abs(a)  return b", "a = Neg(x)  b = Abs(x)  return b"));
  EXPECT_FALSE(branches_are_same("a = Clip(x, _, f32 1)  return a", "a = Clip(x, f32 1, f32 1)  return a"));
  EXPECT_FALSE(branches_are_same("a = Neg(x)  b = Abs(a)  return a", "a = Neg(x)  b = Abs(a)  return b"));
  EXPECT_FALSE(
      are_same("p = If<then_branch=graph() { return x }, else_branch=graph() { return y }>(c)  "
               "q, r = If<then_branch=graph() { return x, x }, else_branch=graph() { return y, y }>(c)  return p, q, r"));
}

TEST(SameBodies, bodies_in_bodies) {
  constexpr std::string_view kInner =
      "a = If<then_branch=graph() {{ i = {}(x)  return i }}, else_branch=graph() {{ return x }}>(c)  return a";
  EXPECT_TRUE(branches_are_same(fmt::format(kInner, "Neg"), fmt::format(kInner, "Neg")));
  EXPECT_FALSE(branches_are_same(fmt::format(kInner, "Neg"), fmt::format(kInner, "Abs")));
}

TEST(SameBodies, inputs_of_bodies) {
  const std::string body = "s: f32[2,3], e: f32[3]) { t = Neg(s)  return t, e }";
  EXPECT_TRUE(scans_are_same(body, "u: f32[2,3], v: f32[3]) { w = Neg(u)  return w, v }"));
  EXPECT_FALSE(scans_are_same(body, "s: f32[2,3], e: f32[?]) { t = Neg(s)  return t, e }"));
  EXPECT_FALSE(scans_are_same("s: f32[2,3], e: f32[3]) { t = Neg(s)  return t, t }",
                              "s: f32[2,3], e: f32[3]) { t = Neg(s)  return t, s }"));
}

TEST(SameBodies, bodies_of_other_kinds) {
  EXPECT_FALSE(
      are_same("p = If<then_branch=graph() { return x }, else_branch=graph() { return y }>(c)  "
               "q = Loop<body=graph(i: i64[], k: bool[], s: f32[2,3]) { return k, s }>(n, c, x)  return p, q"));
  EXPECT_FALSE(
      are_same("q = Loop<body=graph(i: i64[], k: bool[], s: f32[2,3]) { t = Neg(s)  return k, t }>(n, c, x)  "
               "p, r = Scan<num_scan_inputs=1, body=graph(s: f32[2,3], e: f32[3]) { t = Neg(s)  return t, e }>(y, x)  "
               "return p, q, r"));
}

// Bodies of unknown operators. Type rules would refuse them in known ones.
TEST(SameBodies, bodies_of_operators_that_are_not_known) {
  const auto same = [](const std::string& a, const std::string& b) {
    return are_same(fmt::format("p: f32[2,3] = own::f<{}>(x)  q: f32[2,3] = own::f<{}>(x)  return p, q", a, b));
  };
  const std::string one = "a=graph() { return x }";
  EXPECT_TRUE(same(one, one));
  EXPECT_FALSE(same(one, one + ", b=graph() { return x }"));
  EXPECT_FALSE(same(one, "b=graph() { return x }"));
  EXPECT_FALSE(same(one, "a=graph(s: f32[2,3]) { return x }"));
  constexpr std::string_view kDefault = "a=graph(s: f32[3] = f32[3]{{1,2,{}}}) {{ return x }}";
  EXPECT_TRUE(same(fmt::format(kDefault, 3), fmt::format(kDefault, 3)));
  EXPECT_FALSE(same(fmt::format(kDefault, 3), fmt::format(kDefault, 4)));
}

TEST(SameBodies, values_from_outside_may_stand_for_each_other) {
  const std::string two =
      "p = If<then_branch=graph() { a = Neg(x)  return a }, else_branch=graph() { return x }>(c)  "
      "q = If<then_branch=graph() { b = Neg(y)  return b }, else_branch=graph() { return y }>(c)  return p, q";
  EXPECT_FALSE(are_same(two));
  EXPECT_TRUE(are_same(two, [](const Value* a, const Value* b) { return a->name().view() == "x" && b->name().view() == "y"; }));
  EXPECT_FALSE(
      are_same(two, [](const Value* a, const Value* b) { return a->name().view() == "y" && b->name().view() == "x"; }));
}

}  // namespace
}  // namespace sardonyx::onnx
