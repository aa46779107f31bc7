#include "ir/tensor/tensor_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "ir/tensor/tensor_transform.h"

namespace sardonyx {
namespace {

// Pseudo-random bytes.
std::vector<std::byte> noise(size_t size) {
  std::vector<std::byte> out(size);
  uint32_t s = 1;
  for (std::byte& b : out) {
    s = s * 1664525u + 1013904223u;
    b = static_cast<std::byte>(s >> 24);
  }
  return out;
}

std::vector<std::byte> one_by_one(std::span<const std::byte> from, size_t width, const std::vector<int64_t>& shape,
                                  const std::vector<int64_t>& strides) {
  int64_t size = 1;
  for (int64_t d : shape) size *= d;
  std::vector<std::byte> out;
  for (int64_t i = 0; i < size; ++i) {
    int64_t place = 0;
    for (size_t d = shape.size(), k = static_cast<size_t>(i); d-- > 0; k /= static_cast<size_t>(shape[d]))
      place += static_cast<int64_t>(k % static_cast<size_t>(shape[d])) * strides[d];
    const auto element = from.subspan(static_cast<size_t>(place) * width, width);
    out.insert(out.end(), element.begin(), element.end());
  }
  return out;
}

TEST(TensorView, PiecesOfStridedElements) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{67, 53}, {1, 67}},
      {{32, 48}, {1, 32}},
      {{5, 1, 37, 19}, {1, 999, 5, 5 * 37}},
      {{19, 5, 37}, {1, 19 * 37, 19}},
      {{37, 19, 5}, {19, 1, 19 * 37}},
      {{7, 11, 13}, {13 * 22, 26, 2}},
      {{4, 6}, {0, 1}},
      {{6, 4}, {1, 0}},
      {{}, {}},
  };
  for (const size_t width : {1, 2, 4, 8, 16}) {
    const std::vector<std::byte> bytes = noise(67 * 53 * 16 + 1);
    const auto from = std::span(bytes).subspan(1);  // unaligned
    for (const auto& [shape, strides] : cases) {
      const std::vector<std::byte> expected = one_by_one(from, width, shape, strides);
      const size_t size = expected.size() / width;
      for (const size_t piece : {size_t{1}, size_t{7}, size_t{53}, size_t{54}, size_t{1000}, size}) {
        for (size_t first = 0; first < size; first += piece) {
          std::vector<std::byte> out(std::min(piece, size - first) * width);
          copy_strided(from.data(), width, shape, strides, static_cast<int64_t>(first), out);
          ASSERT_TRUE(std::equal(out.begin(), out.end(), expected.begin() + static_cast<std::ptrdiff_t>(first * width)))
              << width << " bytes, from " << first << " by " << piece;
        }
      }
    }
  }
}

TEST(TensorView, ATransposedTensorIsAViewAndBackAgainItself) {
  std::vector<float> values(211 * 307);
  std::iota(values.begin(), values.end(), 0.0f);
  const TensorPtr x = Tensor::of<float>(DType::kF32, {211, 307}, values);
  const TensorPtr y = transposed(x, {1, 0});
  ASSERT_NE(view_of(y), nullptr);
  EXPECT_EQ(view_of(y)->storage, x);
  EXPECT_EQ(view_of(y)->strides, (std::vector<int64_t>{1, 307}));
  EXPECT_TRUE(y->is_deferred());
  EXPECT_TRUE(y->reads_in_pieces());
  EXPECT_EQ(y->as_double(5), 307.0 * 5);
  EXPECT_EQ(transposed(y, {1, 0}), x);
  EXPECT_EQ(view_of(x), nullptr);
}

TEST(TensorView, EqualsAndHashesAsItsElementsInOrder) {
  const std::vector<std::byte> bytes = noise(67 * 53 * 4);
  const TensorPtr x = Tensor::own(DType::kF32, {67, 53}, bytes);
  const std::vector<int64_t> perm{1, 0};
  const TensorPtr y = transposed_view(x, perm);
  ASSERT_NE(y, nullptr);
  const TensorPtr dense = Tensor::own(DType::kF32, {53, 67}, one_by_one(bytes, 4, {53, 67}, {1, 53}));
  EXPECT_TRUE(y->equals(*dense));
  EXPECT_TRUE(dense->equals(*y));
  EXPECT_EQ(y->hash(), dense->hash());
}

TEST(TensorView, EqualsAndHashesInPieces) {
  const std::vector<int64_t> perm{1, 0}, shape{1511, 1013};  // more than one chunk
  std::vector<float> values(1511 * 1013, 1.0f);
  const TensorPtr ones = Tensor::of<float>(DType::kF32, shape, values);
  EXPECT_EQ(transposed_view(ones, perm)->hash(), Tensor::full(DType::kF32, {1013, 1511}, 1)->hash());
  EXPECT_TRUE(transposed_view(ones, perm)->equals(*Tensor::full(DType::kF32, {1013, 1511}, 1)));
  values.back() = 2;
  const TensorPtr x = Tensor::of<float>(DType::kF32, shape, values);
  const TensorPtr y = transposed_view(x, perm);
  EXPECT_NE(y->hash(), transposed_view(ones, perm)->hash());
  EXPECT_FALSE(y->equals(*transposed_view(ones, perm)));
  std::vector<std::byte> scratch;
  const TensorPtr dense = Tensor::borrow(DType::kF32, {1013, 1511}, y->bytes(scratch), nullptr);
  EXPECT_EQ(y->hash(), dense->hash());
  EXPECT_TRUE(y->equals(*dense));
}

TEST(TensorView, AxesOfOneElementDoNotCount) {
  const TensorPtr x = Tensor::own(DType::kF32, {3, 1, 5}, noise(60));
  const std::vector<int64_t> perm{1, 0, 2};
  const TensorPtr y = transposed_view(x, perm);
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(view_of(y), nullptr);
  EXPECT_EQ(y->stored_bytes().data(), x->stored_bytes().data());
  EXPECT_TRUE(std::ranges::equal(y->shape(), std::vector<int64_t>{1, 3, 5}));
}

// A deferred tensor that reads in pieces; counts the elements that were read.
TensorPtr computed(const TensorPtr& t, size_t* read = nullptr) {
  return Tensor::defer(t->dtype(), {t->shape().begin(), t->shape().end()},
                       Tensor::Fill([t, read](int64_t first, std::span<std::byte> out) {
                         t->read(first, out);
                         if (read != nullptr) *read += out.size() / (static_cast<size_t>(bit_width(t->dtype())) / 8);
                       }));
}

TEST(TensorView, AMatrixComputedInPiecesStaysSoWhenItIsTransposed) {
  const std::vector<int64_t> perm{1, 0};
  for (const DType dtype : {DType::kI8, DType::kF16, DType::kF32, DType::kF64}) {
    const auto width = static_cast<size_t>(bit_width(dtype)) / 8;
    const std::vector<std::byte> bytes = noise(67 * 53 * width);
    const std::vector<std::byte> expected = one_by_one(bytes, width, {53, 67}, {1, 53});
    size_t read = 0;
    const TensorPtr x = computed(Tensor::own(dtype, {67, 53}, bytes), &read);
    const TensorPtr y = transposed_view(x, perm);
    ASSERT_NE(y, nullptr);
    EXPECT_TRUE(y->is_deferred() && y->reads_in_pieces());
    EXPECT_TRUE(std::ranges::equal(y->shape(), std::vector<int64_t>{53, 67}));
    for (const size_t piece : {1, 7, 66, 67, 68, 1000, 67 * 53}) {
      for (size_t first = 0; first < 67 * 53; first += piece) {
        std::vector<std::byte> out(std::min(piece, 67 * 53 - first) * width);
        y->read(static_cast<int64_t>(first), out);
        ASSERT_TRUE(std::equal(out.begin(), out.end(), expected.begin() + static_cast<std::ptrdiff_t>(first * width)))
            << width << " bytes, from " << first << " by " << piece;
      }
    }
    read = 0;
    std::vector<std::byte> some(11 * width);
    y->read(3 * 67 + 5, some);
    EXPECT_EQ(read, 11u) << "elements of one row";
    EXPECT_EQ(transposed_view(y, perm), x);
  }
}

TEST(TensorView, OtherTensorsThatAreNotInMemoryAreComputedAsAWhole) {
  const std::vector<int64_t> perm{1, 0}, cube{0, 2, 1}, same{0, 1};
  const TensorPtr whole = Tensor::defer(DType::kF32, {3, 5}, [] { return std::vector<std::byte>(60); });
  EXPECT_EQ(transposed_view(whole, perm), nullptr);
  EXPECT_EQ(transposed_view(Tensor::promise(DType::kF32, {3, 5}, 7), perm), nullptr);
  EXPECT_EQ(transposed_view(computed(Tensor::own(DType::kF32, {3, 5, 7}, noise(420))), cube), nullptr);
  EXPECT_EQ(transposed_view(computed(Tensor::own(DType::kF32, {3, 5}, noise(60))), same), nullptr);
  EXPECT_EQ(transposed_view(Tensor::full(DType::kF32, {3, 5}, 1), perm), nullptr);
  EXPECT_EQ(transposed_view(Tensor::own(DType::kI4, {3, 5}, noise(8)), perm), nullptr);
}

}  // namespace
}  // namespace sardonyx
