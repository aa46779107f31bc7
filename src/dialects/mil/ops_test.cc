#include "dialects/mil/ops.h"

#include <gtest/gtest.h>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

std::string round_trip(const char* text) {
  const auto m = parse(text);
  const std::string printed = print(*m);
  EXPECT_EQ(print(*parse(printed)), printed);
  return printed;
}

TEST(MilOps, TheNewestVersionThatATargetHas) {
  const Dialect& d = dialect(DialectId::kMil);
  EXPECT_EQ(d.find("", "gather", 6)->since_version, 4);
  EXPECT_EQ(d.find("", "gather", 7)->since_version, 7);
  EXPECT_EQ(d.find("", "gather", 9)->since_version, 8);
  EXPECT_EQ(d.find("", "scaled_dot_product_attention", 8), nullptr);
  EXPECT_EQ(mil::find(mil::kFamily_gather, 9), d.find("", "gather", 9));
  EXPECT_TRUE(mil::is(*d.find("", "gather", 6), mil::kFamily_gather));
  EXPECT_FALSE(mil::is(*d.find("", "gather_nd", 6), mil::kFamily_gather));
  EXPECT_EQ(mil::opset_version(mil::opset_name(9)), 9);
  EXPECT_EQ(mil::opset_version("CoreML9"), 10);  // iOS 26
  EXPECT_EQ(mil::opset_version("CoreML10"), 0);
  EXPECT_EQ(mil::opset_name(3), "");
}

TEST(MilOps, ParametersAreSlotsAndListsComeLast) {
  const Op& concat = *dialect(DialectId::kMil).find("", "concat", 9);
  ASSERT_EQ(concat.inputs.size(), 3u);
  EXPECT_TRUE(concat.inputs[0].parameter);
  EXPECT_EQ(concat.inputs[2].name, "values");
  EXPECT_EQ(slot_of(concat, 0, 5)->name, "axis");
  EXPECT_EQ(slot_of(concat, 4, 5)->name, "values");
  const Op& like = *dialect(DialectId::kMil).find("", "reshape_like", 9);
  EXPECT_EQ(slot_of(like, 3, 9)->name, "begins");
  EXPECT_EQ(slot_of(like, 8, 9)->name, "end_masks");
}

TEST(MilOps, DefaultsThatDependOnNothing) {
  const Op& pool = *dialect(DialectId::kMil).find("", "avg_pool", 9);
  EXPECT_TRUE(std::any_of(pool.attrs.begin(), pool.attrs.end(),
                          [](const AttrSpec& a) { return a.name == "ceil_mode" && a.has_default && a.default_int == 0; }));
}

TEST(MilText, OperandsHaveNames) {
  const std::string text = round_trip(R"(
graph mil(x: f32[2,3,5,7], w: f32[4,3,1,1]) {
  y: f32[2,4,5,7] = conv(x, w, strides=i32[2]{1,1}, pad_type=str "valid")
  z: f32[4,4,5,7] = concat(y, y, axis=i32 0)
  t: f32[4,7,5,4] = transpose(perm=i32[4]{0,3,2,1}, x=z)
  return t
})");
  EXPECT_NE(text.find("conv(x, w, strides=i32[2]{1,1}, pad_type=str \"valid\")"), std::string::npos) << text;
  EXPECT_NE(text.find("concat(axis=i32 0, values=(y, y))"), std::string::npos) << text;
  EXPECT_NE(text.find("transpose(z, perm=i32[4]{0,3,2,1})"), std::string::npos) << text;
}

TEST(MilText, UnknownOpsKeepTheNamesOfTheirOperands) {
  const std::string text = round_trip(R"(
graph mil(a: f32[2], b: f32[3]) {
  y: f32[5] = blend<mode="soft">(first=a, rest=(b, a), last=b)
  return y
})");
  EXPECT_NE(text.find("(first=a, rest=(b, a), last=b)"), std::string::npos) << text;
  std::string why;
  EXPECT_FALSE(equal_models(*parse("graph mil(a: f32[2]) { y: f32[2] = f(p=a)  return y }"),
                            *parse("graph mil(a: f32[2]) { y: f32[2] = f(q=a)  return y }"), &why));
  EXPECT_NE(why.find("otherwise"), std::string::npos) << why;
  const auto copy = clone_model(*parse(text));
  EXPECT_EQ(print(*copy), text);
}

TEST(MilText, BlocksAndVersions) {
  round_trip(R"(
opset 7
graph mil "main"(p: bool[], x: f32[3], i: i32[2]) mil_opset "CoreML6" {
  c = const<val=f32[3]{1,2,3}>() @c_op
  y: f32[3] = cond<true_fn=graph() {
    a: f32[3] = add(x, c)
    return a
  }, false_fn=graph() {
    b: f32[3] = gather!4(c, i)
    return b
  }>(p)
  n: f32[3] = while_loop<cond=graph(v: f32[3]) {
    q: bool[] = less(v, f32 0.5)
    return q
  }, body=graph(v: f32[3]) {
    w: f32[3] = sub(v, f32 1)
    return w
  }>(y)
  return n
})");
}

TEST(MilText, WrongOperands) {
  const auto fault = [](const char* call) {
    try {
      parse(std::string("graph mil(x: f32[2]) { y = ") + call + "  return y }");
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  EXPECT_NE(fault("relu(z=x)").find("has no operand 'z'"), std::string::npos);
  EXPECT_NE(fault("add(x=x, x=x)").find("given twice"), std::string::npos);
  EXPECT_NE(fault("relu(x, x)").find("fewer operands"), std::string::npos);
  EXPECT_NE(fault("relu(x=(x, x))").find("not a list"), std::string::npos);
  EXPECT_NE(fault("unheard_of(x, y=x)").find("all its operands need names"), std::string::npos);
}

TEST(MilTypes, SubByteElements) {
  std::vector<std::byte> bytes(6);
  for (int64_t i = 0; i < 8; ++i) encode_element(DType::kU3, bytes.data(), i, static_cast<double>(7 - i));
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(decode_element(DType::kU3, bytes.data(), i), 7 - i);
  for (int64_t i = 0; i < 8; ++i) encode_element(DType::kU6, bytes.data(), i, static_cast<double>(63 - 5 * i));
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(decode_element(DType::kU6, bytes.data(), i), 63 - 5 * i);
  for (int64_t i = 0; i < 8; ++i) encode_element(DType::kU1, bytes.data(), i, static_cast<double>(i % 2));
  EXPECT_EQ(bytes[0], std::byte{0xaa});
  EXPECT_EQ(byte_size(DType::kU3, 8), 3u);
  EXPECT_EQ(parse_dtype("u6"), DType::kU6);
}

}  // namespace
}  // namespace sardonyx
