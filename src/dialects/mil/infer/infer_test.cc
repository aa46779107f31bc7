// Types of MIL ops in cases that no file of coremltools shows; tests/python/coreml/test_coreml_roundtrip.py
// covers the rest.
#include "sardonyx/infer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace sardonyx {
namespace {

std::string type_of_result(const char* text, size_t i = 0) {
  const auto m = parse(text);
  return m->types().to_string(m->graph().output(i)->type());
}

std::string fault(const char* text) {
  const auto m = parse(text);
  ValueFacts facts;
  const auto messages = infer_model(*m, facts, /*tolerant=*/true);
  return messages.empty() ? "no fault" : messages[0];
}

TEST(MilInfer, SizesThroughAShapeChain) {
  EXPECT_EQ(type_of_result(R"(
graph mil(x: f32[B,T,6]) {
  s = shape(x)
  b = gather(s, i32 0, axis=i32 0)
  t = slice_by_index(s, begin=i32[1]{1}, end=i32[1]{2}, squeeze_mask=bool[1]{true})
  bt = mul(b, t)
  flat = reduce_prod(slice_by_index(s, begin=i32[1]{0}, end=i32[1]{2}, end_mask=bool[1]{false}), keep_dims=bool false)
  half = floor_div(i32 6, i32 2)
  to = concat(axis=i32 0, values=(bt, half, i32 2))
  y = reshape(x, to)
  z = reshape(y, concat(axis=i32 0, values=(flat, i32 -1)))
  return z
})"),
            "f32[B*T,6]");
}

TEST(MilInfer, ZerosAreCountedFromTheEnd) {
  EXPECT_EQ(type_of_result("graph mil(x: f32[2,3,5]) { y = reshape(x, i32[4]{0,0,3,-1})  return y }"), "f32[1,2,3,5]");
  EXPECT_EQ(type_of_result("opset 6 graph mil(x: f32[2,3,5]) { y = reshape(x, i32[3]{0,0,-1})  return y }"), "f32[2,3,5]");
}

TEST(MilInfer, LoopsWidenWhatTheyChange) {
  EXPECT_EQ(type_of_result(R"(
graph mil(x: f32[2,3], n: i32[]) {
  a, b = while_loop<cond=graph(k: i32[], v: f32[2,3]) {
    go = less(k, i32 7)
    return go
  }, body=graph(k: i32[], v: f32[2,3]) {
    next = add(k, i32 1)
    longer = concat(axis=i32 0, values=(v, v))
    return next, longer
  }>(n, x)
  return b
})"),
            "f32[?,3]");
}

TEST(MilInfer, IllTypedOps) {
  const auto expect = [](const char* text, const char* why) {
    EXPECT_NE(fault(text).find(why), std::string::npos) << fault(text);
  };
  expect("graph mil(x: f32[2,3], y: f32[5]) { z = add(x, y)  return z }", "do not broadcast");
  expect("graph mil(x: f32[2,3], y: f16[3]) { z = add(x, y)  return z }", "same element type");
  expect("graph mil(x: i32[2,3]) { z = exp(x)  return z }", "must be one of");
  expect("graph mil(x: f32[2,3]) { z = transpose(x, perm=i32[3]{0,1,2})  return z }", "perm has 3 elements");
  expect("graph mil(x: f32[2,3]) { z = transpose(x, perm=i32[2]{0,0})  return z }", "perm");
  expect("graph mil(x: f32[2,4]) { z = linear(x, f32[5,3]{0...})  return z }", "must be equal");
  expect("graph mil(x: f32[2,6,5,5]) { z = conv(x, f32[4,6,7,3]{0...})  return z }", "does not fit");
  expect("graph mil(x: f32[2,7]) { a, b = split(x, axis=i32 1, num_splits=i32 2)  return a }", "equal parts");
  expect("graph mil(x: f32[2,7]) { z = cast(x, dtype=str \"complex\")  return z }", "not an element type");
  expect("graph mil(x: f32[2,7]) { z = relu()  return z }", "takes 1 operands");
  expect("graph mil(x: f32[2,7]) { z = gather(x, i32[2]{0,1}, axis=i32 2)  return z }", "axis");
  for (const char* op : {"space_to_batch", "batch_to_space"}) {
    for (const char* block : {"0,2", "2,0", "-2,-2"})
      expect(
          fmt::format("graph mil(x: f32[4,3,4,4]) {{ z = {}(x, block_shape=i32[2]{{{}}}, {}=i32[2,2]{{0,0,0,0}})  return z }}",
                      op, block, op[0] == 's' ? "paddings" : "crops")
              .c_str(),
          "block_shape has");
  }
}

}  // namespace
}  // namespace sardonyx
