// What a walk learns about a value reaches all users.
#include "passes/onnx/shapes/retype.h"

#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

TEST(Retype, the_taken_branch_decides_the_types_of_its_users) {
  const auto m = parse(R"(
graph(x: f32[15]) {
  m = If<then_branch=graph() {
    return t = Reshape(x, i64[2]{3,5})
  }, else_branch=graph() {
    return e = x
  }>(bool true)
  r = Relu(m)
  return r
}
)");
  ASSERT_FALSE(m->graph().output(0)->ranked());
  run_passes(*m, {.passes = {"simplify_control_flow"}, .strict = true, .verify_graph = true});
  const Value& r = *m->graph().output(0);
  ASSERT_TRUE(r.ranked());
  EXPECT_TRUE(r.type()->rank() == 2 && r.type()->dim(0).is(3) && r.type()->dim(1).is(5));
}

TEST(Retype, so_do_the_values_of_a_loop_that_runs_once) {
  const auto m = parse(R"(
graph(x: f32[15]) {
  m = Loop<body=graph(i: i64[], c: bool[], s: f32[...]) {
    return c, t = Reshape(s, i64[2]{3,5})
  }>(i64 1, bool true, x)
  r = Relu(m)
  return r
}
)");
  ASSERT_FALSE(m->graph().output(0)->ranked());
  run_passes(*m, {.passes = {"simplify_control_flow"}, .strict = true, .verify_graph = true});
  ASSERT_TRUE(m->graph().output(0)->ranked());
  EXPECT_EQ(m->graph().output(0)->type()->rank(), 2u);
}

}  // namespace
}  // namespace sardonyx
