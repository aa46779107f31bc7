#include "dialects/jax/dialect.h"

#include <gtest/gtest.h>

#include <set>

namespace sardonyx {
namespace {

TEST(JaxDialect, FindsEachPrimitiveOnce) {
  const Dialect& jax = dialect(DialectId::kJax);
  std::set<std::string_view> names;
  for (const Op& op : jax.ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name << " has two rows";
    EXPECT_EQ(jax.find("", op.name, 1), &op);
    EXPECT_LE(op.min_inputs, op.max_inputs < 0 ? op.min_inputs : op.max_inputs) << op.name;
    EXPECT_LE(op.min_outputs, op.max_outputs < 0 ? op.min_outputs : op.max_outputs) << op.name;
  }
  EXPECT_GT(names.size(), 150u);
  EXPECT_EQ(jax.find("", "no_such_primitive", 1), nullptr);
  EXPECT_EQ(jax.find("ai.onnx", "add", 1), nullptr);
}

TEST(JaxDialect, IdsContinueThoseOfOtherDialects) {
  const Dialect& jax = dialect(DialectId::kJax);
  EXPECT_EQ(dialect(DialectId::kMil).ops().front().id, dialect(DialectId::kOnnx).ops().back().id + 1);
  EXPECT_EQ(jax.ops().front().id, dialect(DialectId::kMil).ops().back().id + 1);
}

TEST(JaxDialect, MarksLoopsAndRandomNumbers) {
  const Dialect& jax = dialect(DialectId::kJax);
  EXPECT_TRUE(jax.find("", "while", 1)->has(Trait::kSubgraphs));
  EXPECT_FALSE(jax.find("", "while", 1)->has(Trait::kCannotFail));
  EXPECT_TRUE(jax.find("", "random_bits", 1)->has(Trait::kPure)) << "the key decides, and nothing else";
  EXPECT_TRUE(jax.find("", "add", 1)->has(Trait::kCommutative));
  EXPECT_FALSE(jax.find("", "sub", 1)->has(Trait::kCommutative));
}

}  // namespace
}  // namespace sardonyx
