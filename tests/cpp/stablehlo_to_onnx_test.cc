// What cases of one graph cannot show: modules of several functions, on their way to ONNX.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/convert.h"
#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

std::unique_ptr<Model> jax(std::string_view text) {
  return lower_stablehlo_to_jax(*read_stablehlo(std::as_bytes(std::span(text)), nullptr));
}

Error failure(std::string_view text) {
  try {
    jax(text);
  } catch (const Error& e) {
    return e;
  }
  return {ErrorCode::kInternal, "nothing failed"};
}

TEST(StablehloToOnnx, LowersCalledFunctionsForTheSizesOfEachCall) {
  const auto m = jax(R"(module {
    func.func @main(%x: tensor<?x3xf32>, %y: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %0 = call @twice(%x) : (tensor<?x3xf32>) -> tensor<?x3xf32>
      %1 = call @twice(%y) : (tensor<?x3xf32>) -> tensor<?x3xf32>
      %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xf32>
      return %2 : tensor<?x3xf32>
    }
    func.func private @twice(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %0 = stablehlo.add %a, %a : tensor<?x3xf32>
      return %0 : tensor<?x3xf32>
    }
  })");
  EXPECT_EQ(m->num_nodes(), 3u);
  EXPECT_EQ(m->types().to_string(m->graph().output(0)->type()), "f32[arg1_dim0 + arg0_dim0,3]");
}

TEST(StablehloToOnnx, NamesSizesAsTheModuleDoes) {
  const auto m = jax(R"(module {
    func.func @main(%x: tensor<?x3xf32>) -> tensor<?xf32> {
      %c = stablehlo.constant dense<2> : tensor<i32>
      %0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
      %1 = stablehlo.divide %0, %c : tensor<i32>
      %2 = call @f(%1) : (tensor<i32>) -> tensor<?xf32>
      return %2 : tensor<?xf32>
    }
    func.func private @f(%n: tensor<i32> {jax.global_constant = "B"}) -> tensor<?xf32> {
      %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      return %1 : tensor<?xf32>
    }
  })");
  EXPECT_EQ(m->types().to_string(m->graph().input(0)->type()), "f32[2*B,3]");
  EXPECT_EQ(m->types().to_string(m->graph().output(0)->type()), "f32[B]");
}

TEST(StablehloToOnnx, RefusesAFunctionThatCallsItself) {
  const Error e = failure(R"(module {
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = call @main(%x) : (tensor<3xf32>) -> tensor<3xf32>
      return %0 : tensor<3xf32>
    }
  })");
  EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
  EXPECT_EQ(e.message(), "the function 'main' calls itself");
}

TEST(StablehloToOnnx, BoundsWhatCallsAmountTo) {
  std::string text = "module {\n";
  for (int i = 0; i < 40; ++i) {
    const std::string head = i == 0 ? "func.func @main" : "func.func private @f" + std::to_string(i);
    const std::string call = "call @f" + std::to_string(i + 1) + "() : () -> ()\n";
    text += head + "() {\n" + call + call + "return\n}\n";
  }
  text += "func.func private @f40() {\nreturn\n}\n}\n";
  EXPECT_EQ(failure(text).code(), ErrorCode::kLimit);
}

}  // namespace
}  // namespace sardonyx
