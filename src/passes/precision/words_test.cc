// The translation of ONNX's operators: each names an op of MIL with these slots, or a word of its own.
#include "passes/precision/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

#include "passes/precision/operands.h"
#include "sardonyx/infer.h"
#include "sardonyx/op.h"

namespace sardonyx::precision {
namespace {

// What MIL has no op for, or has with other slots.
const std::set<std::string_view> kOwn{"neg", "gemm"};

const Op* mil_op(std::string_view word) {
  const Dialect& mil = dialect(DialectId::kMil);
  return mil.find("", word, mil.latest_version(""));
}

TEST(Words, AreOpsOfMil) {
  size_t translated = 0;
  for (const Op& op : dialect(DialectId::kOnnx).ops()) {
    const std::string_view word = word_of(op);
    if (word.empty()) continue;
    ++translated;
    EXPECT_TRUE(op.domain.empty()) << op.domain << "." << op.name;
    EXPECT_TRUE(kOwn.contains(word) || mil_op(word) != nullptr) << op.name << " is called " << word;
  }
  EXPECT_GT(translated, 100);
}

TEST(Words, OfEachOperandThatMustBeExactExist) {
  std::set<std::string_view> words;
  for (const Op& op : dialect(DialectId::kOnnx).ops()) words.insert(word_of(op));
  for (const OperandPrecision& row : kPrecisions) {
    const auto has_slot = [&](const Op& op) {
      return op.name == row.op && std::ranges::any_of(op.inputs, [&](const Slot& s) { return s.name == row.operand; });
    };
    EXPECT_TRUE(std::ranges::any_of(dialect(DialectId::kMil).ops(), has_slot)) << row.op << " has no " << row.operand;
  }
  for (std::string_view word :
       {"sin", "floor", "cast", "exp", "log", "pow", "mul", "reduce_sum_square", "quantize", "resample"})
    EXPECT_TRUE(words.contains(word)) << word;
}

TEST(Words, OperandsAndNumbersHaveTheNamesOfMil) {
  const auto model = parse(R"(
graph(x: f32[3,5], m: f32[5,7]) {
  c = Clip(x, f32 -2, f32 7)
  r = Clip(x, _, f32 7)
  l = LeakyRelu<alpha=0.25>(x)
  g = Gemm<transB=1>(x, m)
  p = Pad(x, i64[4]{1,1,1,1})
  return c, r, l, g, p
}
)");
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);
  KnownValues known(*model, facts);
  std::vector<Node*> nodes;
  for (Node& n : model->graph().nodes()) nodes.push_back(&n);
  EXPECT_EQ(operand(*nodes[0], known, "x"), model->graph().input(0));
  EXPECT_EQ(number(*nodes[0], known, "alpha"), -2);
  EXPECT_EQ(number(*nodes[0], known, "beta"), 7);
  EXPECT_EQ(number(*nodes[1], known, "alpha"), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(number(*nodes[2], known, "alpha"), 0.25);
  EXPECT_EQ(slot_word(*nodes[3], 2), "bias");
  EXPECT_TRUE(is_transposed(*nodes[3], known, 1));
  EXPECT_EQ(number(*nodes[4], known, "constant_val"), 0);
}

TEST(Words, ValuesComeFromOutsideAndFromTheEndOfABody) {
  const auto model = parse(R"(
graph(x: f32[3], n: i64[]) {
  y, s = Loop<body=graph(i: i64[], c: bool[], h: f32[3]) { k = Neg(h)  return c, k, h }>(n, _, x)
  return y, s
}
)");
  Node& loop = *model->graph().first();
  Graph& body = *loop.bodies()[0].graph;
  EXPECT_EQ(taken_by(*body.input(2)), (std::vector<const Value*>{model->graph().input(0), body.output(1)}));
  EXPECT_EQ(taken_by(*loop.result(0)), (std::vector<const Value*>{model->graph().input(0), body.output(1)}));
  EXPECT_EQ(taken_by(*loop.result(1)), (std::vector<const Value*>{body.output(2)}));
  EXPECT_TRUE(taken_by(*body.input(0)).empty() && taken_by(*model->graph().input(0)).empty());
}

TEST(Words, RowsOfScanAreNoVariables) {
  const auto model = parse(R"(
graph(x: f32[3], r: f32[5,3]) {
  y, s = Scan<body=graph(h: f32[3], t: f32[3]) { k = Add(h, t)  u = Neg(t)  return k, u }, num_scan_inputs=1>(x, r)
  return y, s
}
)");
  Node& scan = *model->graph().first();
  Graph& body = *scan.bodies()[0].graph;
  EXPECT_EQ(taken_by(*body.input(0)), (std::vector<const Value*>{model->graph().input(0), body.output(0)}));
  EXPECT_EQ(taken_by(*body.input(1)), (std::vector<const Value*>{model->graph().input(1)}));
  EXPECT_EQ(taken_by(*scan.result(1)), (std::vector<const Value*>{body.output(1)}));
}

}  // namespace
}  // namespace sardonyx::precision
