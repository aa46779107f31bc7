#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

std::unique_ptr<Model> read(std::string_view text) { return read_stablehlo(std::as_bytes(std::span(text)), nullptr, "m.mlir"); }

// The model of a module with the one function main(%a: f32[2,3]) whose body is `body`.
std::string main_of(std::string_view signature, std::string_view body) {
  return print(*read("func.func @main" + std::string(signature) + " {\n" + std::string(body) + "\n}"),
               {.full_constants = true});
}

std::string body_of(std::string_view signature, std::string_view body) {
  const std::string text = main_of(signature, body);
  const size_t from = text.find("{\n") + 2;
  return text.substr(from, text.rfind("  return") - from);
}

std::string message(std::string_view text, ErrorCode code = ErrorCode::kParse) {
  try {
    (void)read(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.message();
  }
  return "no error";
}

TEST(StablehloText, ReadsAModuleOfJax) {
  const auto m = read(R"(#loc = loc(unknown)
#loc2 = loc("x")
#loc3 = loc("/home/me/net.py":7:4 to :27)
#loc4 = loc("layer"(#loc3))
#loc5 = loc(callsite(#loc4 at #loc6))
#loc7 = loc("jit(f)/jit(main)/enc/dot_general"(#loc5))
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func private @g(%arg0: tensor<2x5xf32> loc("h")) -> tensor<2x5xf32> {
    return %arg0 : tensor<2x5xf32> loc(#loc)
  } loc(#loc)
  func.func public @main(%arg0: tensor<2x3xf32> {mhlo.sharding = "{replicated}"} loc(#loc2), %arg1: tensor<3x5xf32> loc(#loc)) -> (tensor<2x5xf32> {jax.result_info = "result['y']"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32> loc(#loc7)
    %1 = call @g(%0) : (tensor<2x5xf32>) -> tensor<2x5xf32> loc(#loc)
    return %1 : tensor<2x5xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc6 = loc("run"("/home/me/main.py":11:0))
)");
  verify(*m);
  EXPECT_EQ(print(*m), R"(graph stablehlo(x: f32[2,3], arg1: f32[3,5]) named "jit_f" {
  %0: f32[2,5] = dot_general<dot_dimension_numbers={lhs_batching_dimensions: [], rhs_batching_dimensions: [], lhs_contracting_dimensions: [1], rhs_contracting_dimensions: [0]}>(x, arg1)
  %1: f32[2,5] = func::call<callee="g">(%0)
  return result: f32[2,5] = %1 meta {"jax.result_info": "result['y']"}
}

function g(h: f32[2,5]) {
  return result: f32[2,5] = h
}
)");
  const Source& s = m->provenance(m->graph().first()->provenance()).sources[0];
  EXPECT_EQ(s.file, "net.py");
  EXPECT_EQ(s.line, 7);
  EXPECT_EQ(s.function, "layer");
  EXPECT_EQ(s.scope, "enc");
  EXPECT_EQ(s.primitive, "dot_general");
}

TEST(StablehloText, BothFormsOfAnOperationGiveOneModel) {
  const std::string_view signature = "(%x: tensor<2x7xf32>, %i: tensor<f32>) -> tensor<2xf32>";
  const std::string compact = main_of(signature, R"(
    %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>)");
  EXPECT_EQ(compact, main_of(signature, R"(
    %0 = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %1 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<2xf32>)"));
  EXPECT_EQ(compact, main_of(signature, R"(
    %0 = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%1) : (tensor<f32>) -> ()
    }) : (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ())"));
  EXPECT_EQ(compact, print(*read(R"("builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>, sym_name = "main"}> ({
  ^bb0(%x: tensor<2x7xf32>, %i: tensor<f32>):
    %0 = "stablehlo.reduce"(%x, %i) <{dimensions = dense<1> : tensor<1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %1 = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%1) : (tensor<f32>) -> ()
    }) : (tensor<2x7xf32>, tensor<f32>) -> tensor<2xf32>
    "func.return"(%0) : (tensor<2xf32>) -> ()
  }) : () -> ()
}) : () -> ()
)")));
}

TEST(StablehloText, BodiesUseOuterValuesAndResultsHaveNumbers) {
  EXPECT_EQ(body_of("(%n: tensor<i32>, %x: tensor<3xf32>) -> tensor<3xf32>", R"(
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<3xf32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %c_0 = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %c_0 : tensor<i32>
      %2 = stablehlo.multiply %y, %x : tensor<3xf32>
      stablehlo.return %1, %2 : tensor<i32>, tensor<3xf32>
    }
    return %0#1 : tensor<3xf32>)"),
            R"(  %7: i32[], %8: f32[3] = while<cond=graph(%"": i32[] as %0, %"": f32[3] as %1) {
    %2: bool[] = compare<compare_type="SIGNED", comparison_direction="LT">(%0, arg0)
    return %"": bool[] = %2
  }, body=graph(%"": i32[] as %3, %"": f32[3] as %4) {
    %5: i32[] = add(%3, i32 1)
    %6: f32[3] = multiply(%4, arg1)
    return %"": i32[] = %5, %"": f32[3] = %6
  }>(i32 0, arg1)
)");
}

TEST(StablehloText, FillsInDefaults) {
  EXPECT_EQ(body_of("(%x: tensor<2x3x7x11xf32>, %w: tensor<5x3x3x2xf32>) -> tensor<2x5x7x5xf32>", R"(
    %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 2], pad = [[1, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x3x7x11xf32>, tensor<5x3x3x2xf32>) -> tensor<2x5x7x5xf32>
    return %0 : tensor<2x5x7x5xf32>)"),
            "  %0: f32[2,5,7,5] = convolution<batch_group_count=1, dimension_numbers={input_batch_dimension: 0, "
            "input_feature_dimension: 1, input_spatial_dimensions: [2, 3], kernel_input_feature_dimension: 1, "
            "kernel_output_feature_dimension: 0, kernel_spatial_dimensions: [2, 3], output_batch_dimension: 0, "
            "output_feature_dimension: 1, output_spatial_dimensions: [2, 3]}, feature_group_count=1, lhs_dilation=[1, 1], "
            "padding=i64[2,2]{1,1,0,0}, rhs_dilation=[1, 1], window_reversal=[0, 0], window_strides=[1, 2]>(arg0, "
            "arg1)\n");
}

TEST(StablehloText, ReadsElements) {
  const auto holds = [&](std::string_view literal, std::string_view expected) {
    const auto m = read("func.func @main() -> tensor<1xi1> { %0 = stablehlo.constant " + std::string(literal) +
                        "\n %1 = stablehlo.constant dense<true> : tensor<1xi1>\n return %1 : tensor<1xi1> }");
    const Value* v = m->graph().constants()[0];
    const auto e = parse("graph stablehlo() { return r = " + std::string(expected) + " }");
    EXPECT_TRUE(v->constant()->equals(*e->graph().output(0)->constant())) << literal;
  };
  holds("dense<[[1, -2, 3], [4, 5, 6]]> : tensor<2x3xi8>", "i8[2,3]{1, -2, 3, 4, 5, 6}");
  holds("dense<7> : tensor<2x3xui32>", "u32[2,3]{7...}");
  holds("dense<[0xFF800000, 1.5, -2.000000e-01]> : tensor<3xf32>", "f32[3]{-inf, 1.5, -0.2}");
  holds("dense<0x7FC1> : tensor<bf16>", "bf16[]{0x7fc1}");
  holds("dense<[(1.0, -2.0), (0.5, 0x7F800000)]> : tensor<2xcomplex<f32>>", "c64[2]{(1 -2),(0.5 inf)}");
  holds("dense<[true, false, true]> : tensor<3xi1>", "bool[3]{true, false, true}");
  holds("dense<[1, -2, 3]> : tensor<3xi4>", "i4[3]{1, -2, 3}");
  holds("dense<\"0x0100FEFF0300\"> : tensor<3xi16>", "i16[3]{1, -2, 3}");
  holds("dense<\"0x010E03\"> : tensor<3xi4>", "i4[3]{1, -2, 3}");
  holds("dense<\"0x05\"> : tensor<3xi1>", "bool[3]{true, false, true}");
  holds("dense<> : tensor<0x3xf32>", "f32[0,3]{}");
  holds("dense<[[], []]> : tensor<2x0xf32>", "f32[2,0]{}");
}

TEST(StablehloText, ReadsResources) {
  const auto m = read(R"(func.func @main() -> tensor<3xf32> {
  %0 = stablehlo.constant dense_resource<w> : tensor<3xf32>
  return %0 : tensor<3xf32>
}
{-#
  dialect_resources: {
    builtin: {
      other: "0x0400000001",
      w: "0x040000000000803F0000004000004040"
    }
  }
#-}
)");
  const TensorPtr& t = m->graph().output(0)->constant();
  ASSERT_EQ(t->size(), 3);
  EXPECT_EQ(t->as_double(2), 3.0);
}

TEST(StablehloText, LeavesOutHintsOfSharding) {
  EXPECT_EQ(print(*read(R"(module @m {
  sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}]}}
  func.func @main(%x: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<2x3xf32> {
    %0 = sdy.sharding_constraint %x <@mesh, [{"x"}, {?}]> : tensor<2x3xf32>
    %1 = stablehlo.negate %0 {mhlo.frontend_attributes = {a = "b"}} : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
})")),
            R"(graph stablehlo(arg0: f32[2,3]) named "m" {
  %0: f32[2,3] = negate(arg0)
  return result: f32[2,3] = %0
}
)");
}

TEST(StablehloText, UnknownSizesAreSizesOfTheirOwn) {
  const auto m = read(R"(func.func @main(%x: tensor<?x3xf32, #stablehlo.bounds<5, ?>>) -> tensor<?x3xf32> {
  %0 = stablehlo.negate %x : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
})");
  const Dim in = m->graph().input(0)->type()->dim(0), out = m->graph().output(0)->type()->dim(0);
  EXPECT_TRUE(in.is_unknown() && !in.is_anonymous());
  EXPECT_FALSE(in == out);
}

TEST(StablehloText, RefusesWhatItCannotHold) {
  constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;
  EXPECT_EQ(message("func.func @main(%t: !stablehlo.token) { return }", kUnsupported),
            "m.mlir:1:21: values of type '!stablehlo.token' are not supported, only tensors");
  EXPECT_EQ(message("func.func @main(%t: tuple<tensor<f32>>) { return }", kUnsupported),
            "m.mlir:1:21: values of type 'tuple' are not supported, only tensors");
  EXPECT_EQ(message("func.func @main(%t: tensor<2x!quant.uniform<i8:f32, 0.5>>) { return }", kUnsupported),
            "m.mlir:1:30: element type '!quant.uniform' is not supported: dequantize the model first");
  EXPECT_EQ(message("func.func @main(%t: tensor<2xf8E3M4>) { return }", kUnsupported),
            "m.mlir:1:30: element type 'f8E3M4' is not supported");
  EXPECT_EQ(message("func.func private @f(tensor<f32>) -> tensor<f32>"),
            "m.mlir:1:22: expected an argument like %arg0, found 'tensor'");
  EXPECT_EQ(message("func.func @f() {\n^bb0:\n  return\n^bb1:\n  return\n}", kUnsupported),
            "m.mlir:4:1: regions of several blocks are not supported");
}

TEST(StablehloText, NamesTheFaultAndItsPlace) {
  const auto in_main = [](std::string_view body, ErrorCode code = ErrorCode::kParse) {
    return message("func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n" + std::string(body) + "\n}", code);
  };
  EXPECT_EQ(in_main("return %y : tensor<2x3xf32>"), "m.mlir:2:8: nothing defines '%y' up to here");
  EXPECT_EQ(in_main("return %x#1 : tensor<2x3xf32>"), "m.mlir:2:8: '%x' has 1 results and no number 1");
  EXPECT_EQ(in_main("%x = stablehlo.negate %x : tensor<2x3xf32>"), "m.mlir:2:1: '%x' is defined already");
  EXPECT_EQ(in_main("%0 = stablehlo.add %x, %x : tensor<3x2xf32>"),
            "m.mlir:2:6: operand 0 of stablehlo.add is f32[2,3] and is declared as f32[3,2]");
  EXPECT_EQ(in_main("%0 = \"stablehlo.add\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", ErrorCode::kInvalidModel),
            "m.mlir:2:6: stablehlo.add takes 2 operands, found 1");
  EXPECT_EQ(in_main("%0 = \"stablehlo.transpose\"(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>", ErrorCode::kInvalidModel),
            "m.mlir:2:6: stablehlo.transpose needs the attribute 'permutation'");
  EXPECT_EQ(
      in_main("%0 = stablehlo.transpose %x, dims = true : (tensor<2x3xf32>) -> tensor<3x2xf32>", ErrorCode::kInvalidModel),
      "m.mlir:2:6: the attribute 'permutation' of stablehlo.transpose has to be a list of integers");
  EXPECT_EQ(in_main("%0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>"), "m.mlir:2:37: a list of 2 where the type has 3");
  EXPECT_EQ(in_main("%0 = stablehlo.constant dense<[1.5]> : tensor<1xi32>"), "m.mlir:2:32: expected an element of type i32");
  EXPECT_EQ(in_main("%0 = stablehlo.constant dense<\"0x0102\"> : tensor<3xi32>", ErrorCode::kInvalidModel),
            "m.mlir:2:31: 2 bytes of elements for a constant of 3 elements of type i32");
  EXPECT_EQ(in_main("%0 = stablehlo.exponential2 %x : tensor<2x3xf32>", ErrorCode::kUnsupported),
            "m.mlir:2:6: 'stablehlo.exponential2' is not supported: its assembly form is not known");
  EXPECT_EQ(
      in_main("%0 = call @g(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32> return %0 : tensor<2x3xf32>", ErrorCode::kInvalidModel),
      "a call of 'g', which the module does not have");
  EXPECT_EQ(in_main("return"), "m.mlir:1:11: the function 'main' declares 1 results and returns 0");
  EXPECT_EQ(message("module @m {"), "m.mlir:1:12: expected 'module' or 'func.func', found the end of the text");
  EXPECT_EQ(message("", ErrorCode::kInvalidModel), "the module has no function");
  EXPECT_EQ(message("func.func @main() { return loc(#a) }\n#a = loc(#b)\n#b = loc(#a)"),
            "m.mlir:3:10: '#a' is defined by itself");
}

TEST(StablehloText, DeepNestingIsAnError) {
  const auto nested = [](int levels, std::string_view open, std::string_view close) {
    std::string text;
    for (int i = 0; i < levels; ++i) text += open;
    for (int i = 0; i < levels; ++i) text += close;
    return text;
  };
  EXPECT_NE(message("func.func @main() { stablehlo.custom_call @f() {a = " + nested(100000, "[", "]") + "} : () -> () return }",
                    ErrorCode::kLimit)
                .find("nest more than"),
            std::string::npos);
  EXPECT_NE(message("func.func @main() { return loc(" + nested(100000, "fused[", "]") + ") }", ErrorCode::kLimit)
                .find("nest more than"),
            std::string::npos);
  EXPECT_NE(message("func.func @main() { " + nested(100000, "\"t.a\"() ({ ", "}) : () -> () ") + "return }", ErrorCode::kLimit)
                .find("regions nest more than"),
            std::string::npos);
  std::string aliases = "func.func @main() { return loc(#a0) }\n";
  for (int i = 0; i < 10000; ++i) aliases += "#a" + std::to_string(i) + " = loc(#a" + std::to_string(i + 1) + ")\n";
  EXPECT_NE(message(aliases, ErrorCode::kLimit).find("nest more than"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx
