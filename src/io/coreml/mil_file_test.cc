// Writes new and changed programs: const ops, names, identities. tests/python/coreml/test_coreml_roundtrip.py
// covers files of coremltools.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "ir/graph/file_record.h"
#include "sardonyx/io.h"
#include "support/files/test_folder.h"

namespace sardonyx {
namespace {

std::unique_ptr<Model> reread(const Model& m, const std::filesystem::path& weights = {}) {
  auto bytes = std::make_shared<std::string>(serialize_mil_program(m, weights));
  const auto* at = reinterpret_cast<const std::byte*>(bytes->data());
  return read_mil_program({at, bytes->size()}, bytes, 9, weights);
}

std::string written(const char* text) { return print(*reread(*parse(text))); }

void expect_lines(const std::string& text, std::initializer_list<const char*> lines) {
  size_t at = 0;
  for (const char* line : lines) {
    const size_t found = text.find(line, at);
    ASSERT_NE(found, std::string::npos) << "no line '" << line << "' (in this order) in\n" << text;
    at = found;
  }
}

TEST(MilFile, ConstantsBecomeConstOpsBeforeTheirFirstReader) {
  expect_lines(written(R"(
graph mil(x: f32[2,3]) {
  a: f32[2,3] = relu(x) @first
  b: f32[3,2] = transpose(a, perm=i32[2]{1,0}) @second
  c: f32[3,2] = clip(b, alpha=f32 0, beta=f32 6)
  return c
})"),
               {"a = relu(x) @first", "second_perm_0 = const<val=i32[2]{1,0}>() @second_perm_0",
                "b = transpose(a, perm=second_perm_0) @second", "clip_alpha_0 = const<val=f32 0", "return c"});
}

TEST(MilFile, ConstexprOpsContainTheirConstants) {
  const auto m = parse(R"(
graph mil(x: f32[2,3]) {
  w: f32[2,3] = constexpr_cast(source_val=f16[2,3]{1...}, output_dtype=str "fp32") @w_op
  y: f32[2,3] = add(x, w)
  return y
})");
  const auto again = reread(*m);
  EXPECT_EQ(again->graph().num_nodes(), 2u) << print(*again);
  EXPECT_EQ(print(*reread(*again)), print(*again));
}

TEST(MilFile, IdentityWhereAResultsNameWouldBeLost) {
  expect_lines(written(R"(
graph mil(x: f32[2]) {
  y: f32[2] = relu(x)
  return out = y, also = y, same = x, x
})"),
               {"out = relu(x)", "also = identity(out)", "same = identity(x)", "return out, also, same, x"});
}

TEST(MilFile, ANameMeansItsLatestDefinition) {
  const auto second_called_as_first = [](const char* text) {
    const auto m = parse(text);
    Node& second = *m->graph().first()->next();
    second.result()->set_name(m->graph().first()->result()->name());
    return reread(*m);
  };
  // The first y has no later users, so the second may take its name.
  auto again = second_called_as_first(R"(
graph mil(x: f32[2]) {
  y: f32[2] = relu(x)
  t: f32[2] = sign(y)
  z: f32[2] = exp(t)
  return z
})");
  EXPECT_EQ(again->graph().first()->next()->result()->name().view(), "y");
  // Here it has later users.
  again = second_called_as_first(R"(
graph mil(x: f32[2]) {
  y: f32[2] = relu(x)
  t: f32[2] = sign(y)
  z: f32[2] = add(y, t)
  return z
})");
  EXPECT_EQ(again->graph().first()->next()->result()->name().view(), "y_0");
  EXPECT_EQ(again->graph().last()->input(0), again->graph().first()->result()) << print(*again);
  EXPECT_EQ(again->graph().last()->input(1), again->graph().first()->next()->result()) << print(*again);
}

TEST(MilFile, BlocksSeeWhatIsAroundThem) {
  expect_lines(written(R"(
graph mil(p: bool[], x: f32[3]) {
  y: f32[3] = cond<true_fn=graph() {
    a: f32[3] = add(x, f32 1)
    return a
  }, false_fn=graph() {
    a: f32[3] = sub(x, f32 2)
    return a
  }>(p)
  a: f32[3] = relu(y)
  return a
})"),
               {"const<val=f32 1", "a = add(x, ", "a = sub(x, ", "relu(y)"});
}

TEST(MilFile, TiedWeightsStayTied) {
  const TestFolder folder;
  const std::filesystem::path& at = folder.path();
  auto m = parse("graph mil(x: f32[32]) { y: f32[32] = relu(x)  return y }");
  const TensorPtr shared = Tensor::full(DType::kF32, {32}, 0.25);
  std::vector<std::byte> bytes;
  const TensorPtr dense = Tensor::own(DType::kF32, {32}, {shared->bytes(bytes).begin(), shared->bytes(bytes).end()});
  Graph& g = m->graph();
  Value* last = g.output(0);
  for (int i = 0; i < 3; ++i) {
    Value* operands[] = {last, g.add_constant(i < 2 ? dense : Tensor::full(DType::kF32, {32}, 0.5))};
    Node& n = m->new_node(m->op("", "add"), operands, 1);
    g.append(n);
    n.result()->set_type(last->type());
    last = n.result();
  }
  g.set_output(0, *last);
  write_coreml(*m, at / "x.mlpackage");
  const auto weights = at / "x.mlpackage/Data/com.apple.CoreML/weights/weight.bin";
  EXPECT_EQ(std::filesystem::file_size(weights), 64u + 2 * (64 + 128));
  const auto again = read_coreml(at / "x.mlpackage");
  write_coreml(*again, at / "y.mlpackage");
  EXPECT_EQ(std::filesystem::file_size(at / "y.mlpackage/Data/com.apple.CoreML/weights/weight.bin"),
            std::filesystem::file_size(weights));
  EXPECT_EQ(print(*again), print(*read_coreml(at / "y.mlpackage")));
}

// {number: content} of a message with only string and message fields.
std::string message(std::initializer_list<std::pair<uint32_t, std::string>> fields) {
  std::string out;
  for (const auto& [number, content] : fields) {
    out += static_cast<char>(number << 3 | 2);
    out += static_cast<char>(content.size());
    out += content;
  }
  return out;
}

TEST(MilFile, TheDescriptionHasTheNamesOfTheProgram) {
  const TestFolder folder;
  const std::filesystem::path& at = folder.path();
  const auto m = parse(R"(
graph mil(x: f32[2], z: f32[2]) {
  y: f32[2] = add(x, z)
  return y, other = relu(z)
})");
  const std::string array("\x08\x02\x10\xa0\x80\x04", 6);  // f32[2]
  const auto feature = [&](const char* name) { return message({{1, name}, {2, "what it is"}, {3, message({{5, array}})}}); };
  const std::string description =
      message({{1, feature("x")}, {1, feature("z")}, {10, feature("y")}, {10, feature("other")}, {11, "y"}});
  m->specification_version = 8;
  m->edit_file_record().model.description = description;
  write_coreml(*m, at / "same.mlpackage");
  EXPECT_EQ(read_coreml(at / "same.mlpackage")->file_record().model.description, description);
  Graph& g = m->graph();
  g.input_port(1).name = m->name("z_2");
  g.input(1)->set_name(m->name("z_2"));
  g.output_port(0).name = m->name("sum");
  g.output(0)->set_name(m->name("sum"));
  g.output(0)->set_type(m->types().tensor(DType::kF16, {2}));
  write_coreml(*m, at / "renamed.mlpackage");
  const std::string half("\x08\x02\x10\x90\x80\x04", 6);
  const std::string sum = message({{1, "sum"}, {2, "what it is"}, {3, message({{5, half}})}});
  EXPECT_EQ(read_coreml(at / "renamed.mlpackage")->file_record().model.description,
            message({{1, feature("x")}, {1, feature("z_2")}, {10, sum}, {10, feature("other")}, {11, "sum"}}));
}

TEST(MilFile, EqualWeightsOfFunctionsAreWrittenOnce) {
  const TestFolder folder;
  const std::filesystem::path& at = folder.path();
  const auto m = parse(R"(
graph mil(x: f32[101]) {
  y: f32[101] = relu(x)
  return y
}
function other(x: f32[101]) {
  y: f32[101] = relu(x)
  return y
})");
  std::vector<float> elements(101);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i * i);
  std::vector<float> almost = elements;
  almost[29] = 18;  // outside the first sample
  for (const auto& f : m->functions()) {
    Graph& g = f->graph();
    for (const auto& values : {elements, almost}) {
      Value* operands[] = {g.output(0), g.add_constant(Tensor::of<float>(DType::kF32, {101}, values))};
      Node& add = m->new_node(m->op("", "add"), operands, 1);
      g.append(add);
      add.result()->set_type(operands[0]->type());
      g.set_output(0, *add.result());
    }
  }
  write_coreml(*m, at / "m.mlpackage");
  // A header, then for each weight 64 bytes of metadata and the weight itself, padded to 64.
  EXPECT_EQ(std::filesystem::file_size(at / "m.mlpackage/Data/com.apple.CoreML/weights/weight.bin"), 64u + 64 + 448 + 64 + 404);
  const auto back = read_coreml(at / "m.mlpackage");
  for (const auto& f : back->functions()) {
    std::vector<double> sum;
    for (const Node& n : f->graph().nodes()) {
      if (n.op().name == "const" && n.result()->constant()->size() == 101) sum.push_back(n.result()->constant()->as_double(29));
    }
    EXPECT_EQ(sum, (std::vector<double>{841, 18})) << print(*back);
  }
}

TEST(MilFile, WhatCannotBeWritten) {
  const auto fault = [](const char* text) {
    try {
      (void)serialize_mil_program(*parse(text));
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  EXPECT_NE(fault("graph mil(x: f32[2]) { y = unheard_of(x=x)  return y }").find("has no type"), std::string::npos);
  EXPECT_NE(fault("graph mil(x: c64[2]) { y: c64[2] = identity(x)  return y }").find("no element type c64"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx
