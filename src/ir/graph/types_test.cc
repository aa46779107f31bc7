#include "sardonyx/type.h"

#include <gtest/gtest.h>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

struct TypesTest : testing::Test {
  Dims dims;
  Types types{dims};
  const Type* f32(std::initializer_list<const char*> d) {
    std::vector<Dim> v;
    for (const char* s : d) v.push_back(dims.parse(s));
    return types.tensor(DType::kF32, v);
  }
  std::string text(const Type* t) { return types.to_string(t); }
};

TEST_F(TypesTest, EqualTypesAreOnePointer) {
  EXPECT_EQ(f32({"B", "3"}), f32({"B", "3"}));
  EXPECT_EQ(f32({"2*B"}), f32({"B + B"}));
  EXPECT_NE(f32({"B", "3"}), f32({"3", "B"}));
  EXPECT_NE(f32({"?"}), f32({"?"}));
  EXPECT_NE(types.tensor(DType::kF32, {2}), types.tensor(DType::kI64, {2}));
  EXPECT_NE(types.unranked(DType::kF32), types.scalar(DType::kF32));
  EXPECT_EQ(types.sequence(f32({"2"})), types.sequence(f32({"2"})));
  EXPECT_NE(types.sequence(f32({"2"})), types.optional(f32({"2"})));
  EXPECT_FALSE(Types::equal(nullptr, nullptr));
  EXPECT_EQ(types.with_dtype(f32({"B"}), DType::kI8), types.tensor(DType::kI8, f32({"B"})->dims()));
}

TEST_F(TypesTest, Prints) {
  EXPECT_EQ(text(f32({"B", "3"})), "f32[B,3]");
  EXPECT_EQ(text(f32({"2*B + 1", "?"})), "f32[2*B + 1,?]");
  EXPECT_EQ(text(types.scalar(DType::kBF16)), "bf16[]");
  EXPECT_EQ(text(types.unranked(DType::kF32)), "f32[...]");
  EXPECT_EQ(text(nullptr), "?");
  EXPECT_EQ(text(types.sequence(f32({"3"}))), "seq(f32[3])");
  EXPECT_EQ(text(types.optional(types.sequence(f32({"3"})))), "optional(seq(f32[3]))");
  const Type* element = f32({"3"});
  EXPECT_EQ(text(types.make(TypeKind::kMap, DType::kI64, {&element, 1})), "map(i64, f32[3])");
  EXPECT_EQ(text(types.make(TypeKind::kToken, DType::kUndefined, {})), "token");
  EXPECT_EQ(text(types.make(TypeKind::kOpaque, DType::kUndefined, {}, {}, false, "d/n")), "opaque(\"d/n\")");
}

TEST_F(TypesTest, MeetKeepsTheMorePrecisePart) {
  EXPECT_EQ(types.meet(f32({"B", "?"}), f32({"?", "3"})), f32({"B", "3"}));
  EXPECT_EQ(types.meet(f32({"B"}), f32({"7"})), f32({"7"}));
  EXPECT_EQ(types.meet(types.unranked(DType::kF32), f32({"B"})), f32({"B"}));
  EXPECT_EQ(types.meet(types.unranked(DType::kUndefined), f32({"B"})), f32({"B"}));
  EXPECT_EQ(types.meet(nullptr, f32({"B"})), f32({"B"}));
  EXPECT_EQ(types.meet(f32({"B"}), nullptr), f32({"B"}));
  EXPECT_EQ(types.meet(f32({"2"}), f32({"3"})), nullptr);
  EXPECT_EQ(types.meet(f32({"B"}), f32({"B + 1"})), nullptr);
  EXPECT_EQ(types.meet(f32({"2"}), f32({"2", "2"})), nullptr);
  EXPECT_EQ(types.meet(f32({"2"}), types.tensor(DType::kI64, {2})), nullptr);
  EXPECT_EQ(types.meet(f32({"2"}), types.sequence(f32({"2"}))), nullptr);
  EXPECT_EQ(types.meet(types.sequence(f32({"?"})), types.sequence(f32({"2"}))), types.sequence(f32({"2"})));
  EXPECT_EQ(types.meet(types.sequence(f32({"2"})), types.sequence(f32({"3"}))), nullptr);
}

TEST_F(TypesTest, JoinKeepsWhatHoldsForBoth) {
  EXPECT_EQ(types.join(f32({"2", "3"}), f32({"2", "3"})), f32({"2", "3"}));
  const Type* j = types.join(f32({"2", "3"}), f32({"2", "5"}));
  EXPECT_EQ(text(j), "f32[2,?]");
  EXPECT_FALSE(j->dim(1) == types.join(f32({"2", "3"}), f32({"2", "5"}))->dim(1));
  EXPECT_EQ(text(types.join(f32({"2"}), f32({"2", "3"}))), "f32[...]");
  EXPECT_EQ(types.join(f32({"2"}), nullptr), nullptr);
  EXPECT_EQ(text(types.join(f32({"2"}), types.tensor(DType::kI64, {2}))), "?[2]");
  EXPECT_EQ(types.join(f32({"2"}), types.sequence(f32({"2"}))), nullptr);
  EXPECT_EQ(text(types.join(types.sequence(f32({"2"})), types.sequence(f32({"3"})))), "seq(f32[?])");
}

TEST_F(TypesTest, FreshenNamesAnonymousUnknowns) {
  Dim d[] = {Dim::of(2), Dim()};
  const Type* anonymous = types.tensor(DType::kF32, d);
  EXPECT_EQ(anonymous, types.tensor(DType::kF32, d));
  const Type *a = types.freshen(anonymous), *b = types.freshen(anonymous);
  EXPECT_NE(a, b);
  EXPECT_FALSE(a->dim(1).is_anonymous());
  EXPECT_EQ(types.freshen(a), a);
  const Type* s = types.freshen(types.sequence(anonymous));
  EXPECT_FALSE(s->element()->dim(1).is_anonymous());
}

TEST_F(TypesTest, ImportsFromAnotherTable) {
  Dims other_dims;
  Types other(other_dims);
  const Type* t = types.sequence(f32({"2*B + 1", "?"}));
  const Type* moved = other.import(t, types);
  EXPECT_EQ(other.to_string(moved), "seq(f32[2*B + 1,?])");
  EXPECT_EQ(other.import(t, types), moved);
  EXPECT_TRUE(moved->element()->dim(0) == other_dims.parse("2*B + 1"));
}

TEST_F(TypesTest, StaticSize) {
  EXPECT_EQ(f32({"2", "3"})->static_size(), 6);
  EXPECT_EQ(f32({})->static_size(), 1);
  EXPECT_EQ(f32({"2", "B"})->static_size(), std::nullopt);
  EXPECT_EQ(types.unranked(DType::kF32)->static_size(), std::nullopt);
  EXPECT_EQ(f32({"0", "2000000000000", "2000000000000"})->static_size(), 0);
  EXPECT_THROW(f32({"2000000000000", "2000000000000"})->static_size(), Error);
}

}  // namespace
}  // namespace sardonyx
