// Evaluator tests that the text form cannot express: limits, depth, and what folding refuses.
#include "sardonyx/eval.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <string>

#include "sardonyx/builder.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

Array f32(std::vector<int64_t> shape, std::vector<float> values) {
  return Array::of(Tensor::of<float>(DType::kF32, std::move(shape), values));
}

std::vector<EvalValue> run(std::string_view text, std::vector<EvalValue> inputs, const EvalOptions& options = {}) {
  const auto model = parse(text);
  return evaluate(model->graph(), inputs, options);
}

std::string message_of(std::string_view text, std::vector<EvalValue> inputs, const EvalOptions& options = {}) {
  try {
    run(text, std::move(inputs), options);
  } catch (const Error& e) {
    return std::string(to_string(e.code())) + ": " + e.what();
  }
  return "no error";
}

TEST(Eval, BroadcastsAreViews) {
  const auto out = run("graph(x: f32[2,1]) { y = Expand(x, i64[2]{2,1000000})  z = Gather<axis=1>(y, i64 999999)  return z }",
                       {f32({2, 1}, {1, 2})}, {.memory_cap = 1000});
  EXPECT_EQ(out[0].array()->shape(), std::vector<int64_t>{2});
  EXPECT_EQ(out[0].array()->double_at(1), 2);
}

// Data in a file may begin at any address. The undefined-behavior sanitizer checks this (make asan).
TEST(Eval, AConstantWithoutElementsMayLieAnywhere) {
  alignas(8) static constexpr std::byte kBytes[8] = {};
  const TensorPtr none = Tensor::borrow(DType::kF32, {0, 3}, std::span(kBytes).subspan(1, 0), nullptr);
  EXPECT_EQ(Array::of(none).shape(), (std::vector<int64_t>{0, 3}));
}

TEST(Eval, TransposedElementsAreWhereTheyBelong) {
  // Sizes on both sides of the square size in which elements are copied.
  const std::vector<int64_t> sizes{3, 37, 2, 67};
  std::vector<int64_t> perm{0, 1, 2, 3};
  std::vector<float> values(static_cast<size_t>(3 * 37 * 2 * 67));
  std::iota(values.begin(), values.end(), 0.0f);
  do {
    const auto out =
        run(fmt::format("graph(x: f32[3,37,2,67]) {{ y = Transpose<perm=[{}]>(x)  return y }}", fmt::join(perm, ",")),
            {f32(sizes, values)});
    const Array& y = *out[0].array();
    const TensorPtr dense = y.to_tensor();
    const std::vector<int64_t> from{37 * 2 * 67, 2 * 67, 67, 1};
    int64_t at = 0;
    for (int64_t a = 0; a < sizes[perm[0]]; ++a) {
      for (int64_t b = 0; b < sizes[perm[1]]; ++b) {
        for (int64_t c = 0; c < sizes[perm[2]]; ++c) {
          for (int64_t d = 0; d < sizes[perm[3]]; ++d) {
            const int64_t expected = a * from[perm[0]] + b * from[perm[1]] + c * from[perm[2]] + d * from[perm[3]];
            ASSERT_EQ(dense->as_double(at++), static_cast<double>(expected)) << fmt::format("{}", fmt::join(perm, ","));
          }
        }
      }
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

TEST(Eval, AResultHasToFitIntoMemory) {
  EXPECT_NE(message_of("graph(x: f32[2,1]) { y = Expand(x, i64[2]{2,1000000})  return y }", {f32({2, 1}, {1, 2})},
                       {.memory_cap = 1000})
                .find("limit: a tensor of 8000000 bytes does not fit"),
            std::string::npos);
}

TEST(Eval, AHugeRangeIsRefusedBeforeItIsMade) {
  EXPECT_NE(message_of("graph() { y = Range(i64 0, i64 4000000000, i64 1)  return y }", {})
                .find("limit: a tensor of 32000000000 bytes does not fit"),
            std::string::npos);
}

TEST(Eval, AWindowLargerThanItsAxisIsRefused) {
  const std::string text = "graph(x: f32[...], w: f32[...]) { y = Conv<strides=[2]>(x, w)  return y }";
  const EvalValue w = f32({1, 1, 3}, {1, 2, 3});
  EXPECT_EQ(message_of(text, {f32({1, 1, 3}, {1, 1, 1}), w}), "no error");
  EXPECT_NE(message_of(text, {f32({1, 1, 0}, {}), w}).find("the window is larger than axis 2 with its pads"),
            std::string::npos);
}

TEST(Eval, PatternsAreRE2s) {
  const auto graph = [](std::string_view pattern) {
    return fmt::format("graph(x: str[3]) {{ y = RegexFullMatch<pattern=\"{}\">(x)  return y }}", pattern);
  };
  const EvalValue texts(Tensor::strings({3}, {"abc", "\xce\xb1\xce\xb2", ""}));
  const auto matched = [&](std::string_view pattern) {
    const auto m = parse(graph(pattern));
    const auto y = evaluate(m->graph(), std::vector{texts});
    std::vector<int64_t> found;
    for (int64_t i = 0; i < 3; ++i) found.push_back(y[0].array()->int_at(i));
    return found;
  };
  EXPECT_EQ(matched("[a-c]+"), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(matched("ab"), (std::vector<int64_t>{0, 0, 0}));  // the whole text
  EXPECT_EQ(matched("(?m)^\\\\pL*$"), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_NE(message_of(graph("(a"), {texts}).find("RE2 refuses the pattern \"(a\": missing )"), std::string::npos);
  EXPECT_NE(message_of(graph("((a{1000}){1000})"), {texts}).find("RE2 refuses"), std::string::npos);
}

TEST(Eval, AnEndlessLoopIsStopped) {
  const std::string text =
      "graph(x: f32[]) { y = Loop<body=graph(i: i64[], c: bool[], v: f32[]) { w = Add(v, v)  d = Identity(c)  return d, w "
      "}>(_, _, "
      "x)  return y }";
  EXPECT_NE(message_of(text, {f32({}, {1})}, {.max_iterations = 1000}).find("limit: loops ran more than 1000 times"),
            std::string::npos);
  EXPECT_NE(message_of(text, {f32({}, {1})}, {.max_steps = 1000}).find("limit: more than 1000 nodes ran"), std::string::npos);
}

std::string nested_ifs(int depth) {
  std::string inner = "graph() { z = Neg(x)  return z }";
  for (int i = 0; i < depth; ++i) {
    inner = "graph() { z" + std::to_string(i) + " = If<then_branch=" + inner +
            ", else_branch=graph() { e = Identity(x)  return e }>(c)  return z" + std::to_string(i) + " }";
  }
  return "graph(x: f32[], c: bool[]) { y = If<then_branch=" + inner +
         ", else_branch=graph() { e = Identity(x)  return e }>(c) return y }";
}

TEST(Eval, ThreeHundredIfsWithinEachOtherRun) {
  const auto yes = Array::of(Tensor::full(DType::kBool, {}, 1));
  EXPECT_EQ(run(nested_ifs(300), {f32({}, {3}), yes})[0].array()->double_at(0), -3);
  EXPECT_NE(message_of(nested_ifs(300), {f32({}, {3}), yes}, {.max_depth = 100}).find("nested more than 100 deep"),
            std::string::npos);
}

TEST(Eval, AChainOfAMillionNodesRunsInLittleMemory) {
  Model m;
  m.set_opset_version("", 21);
  Graph& g = m.add_function("main").graph();
  Value* v = g.add_input("x", m.types().tensor(DType::kF32, {2, 3}));
  for (int i = 0; i < 1'000'000; ++i) {
    Node& n = m.new_node(m.op("", "Neg"), {{v}}, 1);
    g.append(n);
    v = n.result();
  }
  g.add_output(*v, "y");
  const auto out = evaluate(g, {{EvalValue(f32({2, 3}, {1, 2, 3, 4, 5, 6}))}}, {.memory_cap = 48});
  EXPECT_EQ(out[0].array()->double_at(5), 6);
}

TEST(Eval, AConstantOfABodyIsReadInEachIteration) {
  const auto out =
      run("graph(x: f32[2]) { y = Loop<body=graph(i: i64[], c: bool[], v: f32[2]) { w = Add(v, f32[2]{1,2})  d = Identity(c)  "
          "return d, "
          "w }>(i64 5, _, x)  return y }",
          {f32({2}, {0, 0})});
  EXPECT_EQ(out[0].array()->double_at(1), 10);
}

std::optional<std::vector<TensorPtr>> fold(std::string_view text, uint64_t cap = 1 << 20) {
  const auto model = parse(text);
  const Node& n = *model->graph().first();
  std::vector<TensorPtr> operands;
  for (const Use& u : n.operands()) operands.push_back(u.value ? u.value->constant() : nullptr);
  return evaluate_node(n, operands, cap);
}

TEST(Fold, GivesTensors) {
  const auto out = fold("graph() { y = Add(i64[2]{1,2}, i64 3)  return y }");
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0]->as_int(1), 5);
  const auto small = fold("graph() { y = Cast<to=22>(i64[3]{1,-2,3})  return y }");
  ASSERT_TRUE(small);
  EXPECT_EQ((*small)[0]->byte_size(), 2u);
  EXPECT_EQ((*small)[0]->as_int(1), -2);
}

TEST(Fold, KeepsSplats) {
  const auto out = fold("graph() { y = Expand(f32 2, i64[2]{1000,1000})  return y }");
  ASSERT_TRUE(out);
  EXPECT_TRUE((*out)[0]->is_splat());
}

TEST(Fold, RefusesWhatIsNotDefined) {
  EXPECT_FALSE(fold("graph() { y = Div(i64[2]{1,2}, i64 0)  return y }"));
  EXPECT_FALSE(fold("graph() { y = Cast<to=6>(f32 3e9)  return y }"));
  EXPECT_FALSE(fold("graph() { y = Cast<to=6>(f32 nan)  return y }"));
  EXPECT_FALSE(fold("graph() { y = Cast<to=7>(f32 inf)  return y }"));
  EXPECT_FALSE(fold("graph() { y = Cast<to=5>(f32 -inf)  return y }"));
  EXPECT_TRUE(fold("graph() { y = Cast<to=6>(f32 -2.75)  return y }"));
  EXPECT_FALSE(fold("graph() { y = Gather(i64[2]{1,2}, i64 2)  return y }"));
  EXPECT_TRUE(fold("opset 24 graph() { y = TensorScatter<axis=1>(f32[1,3,2]{0...}, f32[1,2,2]{1...})  return y }"));
  EXPECT_FALSE(fold("opset 24 graph() { y = TensorScatter<axis=1>(f32[1,3,2]{0...}, f32[1,2,5]{1...})  return y }"));
  EXPECT_FALSE(fold("opset 24 graph() { y = TensorScatter<axis=1>(f32[2,3,2]{0...}, f32[1,2,2]{1...})  return y }"));
  EXPECT_FALSE(
      fold("opset 24 graph() { y = TensorScatter<axis=1, mode=\"circular\">(f32[1,0,2]{}, f32[1,2,2]{1...})  return y }"));
}

TEST(Fold, TakesTheLeastIntegerForWhatIsBelow) {
  const auto out = fold("graph() { y = Cast<to=7>(f32[2]{-inf,-1e30})  return y }");
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0]->as_int(0), std::numeric_limits<int64_t>::min());
  EXPECT_EQ((*out)[0]->as_int(1), std::numeric_limits<int64_t>::min());
}

TEST(Fold, RefusesRandomNumbersLargeResultsAndF64Functions) {
  EXPECT_FALSE(fold("graph() { y = RandomNormal<shape=[3]>()  return y }"));
  EXPECT_FALSE(fold("graph() { y = Range(i64 0, i64 1000, i64 1)  return y }", 4096));
  EXPECT_FALSE(fold("graph() { y = Exp(f64 1)  return y }"));
  EXPECT_TRUE(fold("graph() { y = Exp(f32 1)  return y }"));
}

}  // namespace
}  // namespace sardonyx
