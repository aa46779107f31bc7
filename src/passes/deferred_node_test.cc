#include "passes/deferred_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

// Every piece read from a deferred transposed constant equals what the evaluator computes.
TEST(DeferredNode, PiecesOfATransposedConstant) {
  const std::vector<int64_t> shape{5, 11, 37, 3};
  std::vector<float> values(5 * 11 * 37 * 3);
  std::iota(values.begin(), values.end(), 0.0f);
  const TensorPtr x = Tensor::of<float>(DType::kF32, shape, values);
  std::vector<int64_t> perm{0, 1, 2, 3};
  do {
    for (const DialectId dialect : {DialectId::kOnnx, DialectId::kMil}) {
      Model m(dialect);
      m.set_opset_version("", dialect == DialectId::kMil ? 8 : 21);
      std::vector<int64_t> sizes;
      for (int64_t p : perm) sizes.push_back(shape[static_cast<size_t>(p)]);
      const bool is_mil = dialect == DialectId::kMil;
      std::vector<TensorPtr> operands{x};
      if (is_mil) {
        const std::vector<int32_t> axes(perm.begin(), perm.end());
        operands.push_back(Tensor::of<int32_t>(DType::kI32, {4}, axes));
      }
      const std::vector<Value*> absent(operands.size(), nullptr);
      Node& n =
          m.new_node(m.op("", is_mil ? "transpose" : "Transpose"), absent, 1, is_mil ? nullptr : m.attrs({attr("perm", perm)}));
      const auto expected = evaluate_node(n, operands, 1 << 20);
      ASSERT_TRUE(expected);
      std::vector<std::byte> scratch;
      const auto bytes = expected->front()->bytes(scratch);
      const TensorPtr t = defer_node(n, operands, *m.types().tensor(DType::kF32, sizes), 1 << 20);
      EXPECT_TRUE(t->reads_in_pieces());
      EXPECT_EQ(std::vector<int64_t>(t->shape().begin(), t->shape().end()), sizes);
      for (const int64_t piece : {1, 7, 37, 100, 1221, 5000}) {
        for (int64_t first = 0; first < t->size(); first += piece) {
          std::vector<std::byte> part(static_cast<size_t>(std::min(piece, t->size() - first)) * 4);
          t->read(first, part);
          ASSERT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + first * 4)) << first << " by " << piece;
        }
      }
    }
  } while (std::next_permutation(perm.begin(), perm.end()));
}

}  // namespace
}  // namespace sardonyx
