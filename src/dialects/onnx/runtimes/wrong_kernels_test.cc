#include "dialects/onnx/runtimes/wrong_kernels.h"

#include <gtest/gtest.h>

namespace sardonyx::onnx {
namespace {

TEST(WrongKernels, AreKnownByRelease) {
  EXPECT_TRUE(is_wrong("ReduceMax", DType::kI64, &runtime_named("ort-1.31")));
  EXPECT_FALSE(is_wrong("ReduceMax", DType::kI64, &runtime_named("ort-1.32")));
  EXPECT_TRUE(is_wrong("ReduceMax", DType::kI64));  // in some release
  EXPECT_FALSE(is_wrong("ReduceMax", DType::kI32));
  EXPECT_FALSE(is_wrong("Add", DType::kI64));
}

}  // namespace
}  // namespace sardonyx::onnx
