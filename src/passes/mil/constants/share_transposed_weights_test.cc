// Keys of weights, which only programs in memory have.
#include <gtest/gtest.h>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

// The nodes that are left if E has key "a" and W, which is E transposed, has this key.
size_t nodes_left(const char* key) {
  const auto m = parse(R"(
graph mil(x: f32[5,2], i: i32[7]) mil_opset "CoreML7" {
  e = const<val=f32[3,2]{1,2,3,4,5,6}>()
  w = const<val=f32[2,3]{1,3,5,2,4,6}>()
  a: f32[7,2] = gather(e, i, axis=i32 0)
  z: f32[5,3] = matmul(x, w)
  return a, z
})");
  const char* keys[] = {"a", key};
  size_t at = 0;
  for (Node& n : m->graph().nodes()) {
    if (n.is("const") && n.result()->type()->rank() == 2) n.set_attrs(m->with_attr(n.attrs(), "weight_key", keys[at++]));
  }
  EXPECT_EQ(at, 2U);
  run_passes(*m, {.passes = {"share_transposed_weights"}, .options = {{"share_transposed_weights.threshold", "4"}}});
  return m->graph().num_nodes();
}

TEST(ShareTransposedWeights, WeightsWithDifferentKeysStayApart) { EXPECT_EQ(nodes_left("b"), nodes_left("a") + 1); }

}  // namespace
}  // namespace sardonyx
