#include "passes/mincut/layout.h"

#include <gtest/gtest.h>

namespace sardonyx::layout {
namespace {

using Ints = std::vector<int64_t>;

Layout of(const Ints& perm) { return *Layout::permutation(perm); }
Layout with_new(Layout l, size_t at) {
  for (size_t i = l.rank++; i > at; --i) l.from[i] = l.from[i - 1];
  l.from[at] = Layout::kNew;
  return l;
}

TEST(Layout, Permutations) {
  EXPECT_FALSE(Layout::permutation(Ints{0, 0}));
  EXPECT_FALSE(Layout::permutation(Ints{1, 1}));
  EXPECT_FALSE(Layout::permutation(Ints{0, 2}));
  EXPECT_FALSE(Layout::permutation(Ints{-1, 0}));
  EXPECT_FALSE(Layout::permutation(Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  const Ints most{14, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 0};
  ASSERT_TRUE(Layout::permutation(most));
  EXPECT_EQ(of(most).perm(), most);
  EXPECT_EQ(Layout::permutation(Ints{})->rank, 0);

  EXPECT_TRUE(of({0, 1, 2}).is_identity());
  EXPECT_EQ(of({0, 1, 2}), Layout::identity(3));
  EXPECT_FALSE(of({0, 2, 1}).is_identity());
  EXPECT_FALSE(of({1, 0}).is_identity());
  EXPECT_TRUE(Layout::as_is().is_identity());
  EXPECT_TRUE(Layout::as_is().is_as_is());
  EXPECT_FALSE(of({}).is_as_is());
  EXPECT_FALSE(Layout::as_is().is_permutation());
  EXPECT_TRUE(of({1, 0}).is_permutation());
  EXPECT_FALSE(with_new(of({1, 0}), 1).is_permutation());
  EXPECT_EQ(of({2, 0, 1}).position(2), 0);
  EXPECT_EQ(of({2, 0, 1}).position(1), 2);
  EXPECT_THROW(with_new(of({}), 0).position(0), Error);
}

TEST(Layout, Composition) {
  EXPECT_EQ(then(of({2, 0, 1}), of({1, 0, 2})), of({0, 2, 1}));
  EXPECT_EQ(then(Layout::as_is(), of({1, 0})), of({1, 0}));
  EXPECT_EQ(then(of({1, 0}), Layout::as_is()), of({1, 0}));
  EXPECT_EQ(then(of({1, 0}), with_new(of({1, 0}), 0)), with_new(of({0, 1}), 0));
  EXPECT_EQ(inverse(of({2, 0, 1})), of({1, 2, 0}));
  EXPECT_TRUE(inverse(Layout::as_is()).is_as_is());
}

TEST(Layout, SwapsOfTheLastTwoAxes) {
  EXPECT_TRUE(swaps_last_two(of({1, 0})));
  EXPECT_TRUE(swaps_last_two(of({0, 1, 3, 2})));
  EXPECT_FALSE(swaps_last_two(of({0, 1})));
  EXPECT_FALSE(swaps_last_two(of({1, 0, 2})));
  EXPECT_FALSE(swaps_last_two(of({1, 0, 3, 2})));
  EXPECT_FALSE(swaps_last_two(of({0})));
  EXPECT_FALSE(swaps_last_two(of({})));
  EXPECT_FALSE(swaps_last_two(with_new(of({1, 0}), 0)));
  EXPECT_FALSE(swaps_last_two(Layout::as_is()));
}

TEST(Layout, TypesAndWhatMoves) {
  Model m(DialectId::kOnnx);
  Types& types = m.types();
  const Type* t = types.tensor(DType::kF32, {2, 1, 5});
  EXPECT_EQ(stored_type(types, t, of({2, 0, 1})), types.tensor(DType::kF32, {5, 2, 1}));
  EXPECT_EQ(stored_type(types, t, with_new(of({2, 0, 1}), 1)), types.tensor(DType::kF32, {5, 1, 2, 1}));
  EXPECT_EQ(stored_type(types, t, Layout::as_is()), t);
  EXPECT_EQ(stored_type(types, nullptr, of({1, 0})), nullptr);
  const Type* open = types.parse("f32[...]");
  EXPECT_EQ(stored_type(types, open, of({1, 0})), open);
  const Type* list = types.parse("seq(f32[2,3])");
  EXPECT_EQ(stored_type(types, list, of({1, 0})), list);

  EXPECT_TRUE(moves_nothing(*t, Layout::as_is()));
  EXPECT_TRUE(moves_nothing(*t, of({0, 1, 2})));
  EXPECT_TRUE(moves_nothing(*t, of({0, 2, 1})));
  EXPECT_TRUE(moves_nothing(*t, of({1, 0, 2})));
  EXPECT_FALSE(moves_nothing(*t, of({2, 1, 0})));
  EXPECT_FALSE(moves_nothing(*t, of({1, 2, 0})));
  EXPECT_TRUE(moves_nothing(*t, with_new(of({0, 1, 2}), 1)));
  EXPECT_FALSE(moves_nothing(*t, with_new(of({2, 0, 1}), 1)));
  EXPECT_FALSE(moves_nothing(*types.tensor(DType::kF32, {2, 2}), of({1, 0})));
  EXPECT_TRUE(moves_nothing(*types.tensor(DType::kF32, {1, 2}), of({1, 0})));
  EXPECT_TRUE(moves_nothing(*types.tensor(DType::kF32, {2, 1}), of({1, 0})));
}

}  // namespace
}  // namespace sardonyx::layout
