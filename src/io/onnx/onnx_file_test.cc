// ONNX files that the text form cannot express: damaged bytes, shared files, clashing names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "io/onnx/test_messages.h"
#include "io/onnx/write_parts.h"
#include "io/wire_writer.h"
#include "sardonyx/io.h"
#include "support/files/test_folder.h"
#include "support/name_table.h"

namespace sardonyx {
namespace {

namespace fs = std::filesystem;

// The text of the read error; "" if there is none.
std::string fault(const std::string& bytes, const fs::path& folder = {}) {
  try {
    read(bytes, folder);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}
#define EXPECT_FAULT(bytes, text) EXPECT_NE(fault(bytes).find(text), std::string::npos) << fault(bytes)

class Folder : public TestFolder {
 public:
  void write(const std::string& name, std::string_view bytes) const { std::ofstream(*this / name, std::ios::binary) << bytes; }
  std::string read(const std::string& name) const {
    std::ifstream in(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

// x -> Relu -> y, with a weight.
std::string small_model() {
  return model(node("Add", {"x", "w"}, {"t"}) + node("Relu", {"t"}, {"y"}, {}, "last") + field(2, "g") +
               initializer("w", raw_floats(2)) + port(11, "x") + port(12, "y"));
}

// ---------------------------------------------------------------------------------------------------------------------

TEST(OnnxReader, ReadsAndWritesTheSameBytes) {
  // Fields in protobuf's order must come out unchanged.
  const std::string bytes = small_model();
  const auto m = read(bytes);
  EXPECT_EQ(m->num_nodes(), 2u);
  EXPECT_EQ(m->graph().input(0)->name().view(), "x");
  EXPECT_EQ(m->types().to_string(m->graph().input(0)->type()), "f32[2]");
  EXPECT_EQ(serialize_onnx(*m), bytes);
}

TEST(OnnxReader, EveryPrefixIsAnErrorAndNoCrash) {
  const std::string bytes = small_model();
  size_t accepted = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    try {
      read(bytes.substr(0, n));
      ++accepted;
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::kInternal) << n << ": " << e.what();
    }
  }
  // Without the last field, opset_import, the rest is intact, but its operators have no version.
  EXPECT_EQ(accepted, 0u);
}

TEST(OnnxReader, EveryChangedByteIsReadOrRefused) {
  const std::string bytes = small_model();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int v : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(v);
      try {
        const auto m = read(changed);
        (void)serialize_onnx(*m);
      } catch (const Error& e) {
        EXPECT_NE(e.code(), ErrorCode::kInternal) << at << ": " << e.what();
      }
    }
  }
}

TEST(OnnxReader, HostileLengthsAreRefused) {
  EXPECT_FAULT(std::string("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10), "has only 0 left");
  EXPECT_FAULT(std::string(11, '\xff'), "more than ten bytes");
  EXPECT_FAULT(std::string("\x03"), "field number is out of range");
  EXPECT_FAULT(std::string("\x3b\x01"), "unknown wire type 3");
  EXPECT_FAULT(std::string(), "this is an empty file, not an ONNX model");
  EXPECT_FAULT(std::string("# A title\n"), "this is text, not an ONNX model");
  EXPECT_FAULT(field(1, 10), "it has no graph");
  EXPECT_FAULT(field(7, ""), "it has no ir_version");
  // A shape of 2^60 elements with eight bytes of data must be refused.
  std::string dims;
  for (int i = 0; i < 60; ++i) dims += field(1, 2);
  EXPECT_FAULT(model(field(5, dims + field(2, 1) + field(8, "w") + raw_floats(2))),
               "has 8 bytes, expected 4611686018427387904");
  for (int i = 0; i < 6; ++i) dims += field(1, 2);
  EXPECT_FAULT(model(field(5, dims + field(2, 1) + field(8, "w") + raw_floats(2))), "too many elements");
  EXPECT_FAULT(model(field(5, dims + field(2, 7) + field(8, "w") + field(7, "\1\2"))), "too many elements");
}

TEST(OnnxReader, CyclesAreNamed) {
  EXPECT_FAULT(model(node("Relu", {"b"}, {"a"}, {}, "first") + node("Relu", {"a"}, {"b"}, {}, "second")), "cycle");
  EXPECT_FAULT(model(node("Relu", {"a"}, {"a"}, {}, "own")), "'own' (Relu) uses its own result");
}

TEST(OnnxReader, NodesOutOfOrderAreSorted) {
  const auto m = read(model(node("Relu", {"t"}, {"y"}) + node("Abs", {"x"}, {"t"}) + port(11, "x") + port(12, "y")));
  EXPECT_EQ(m->graph().first()->op().name, "Abs");
  EXPECT_EQ(m->graph().last()->op().name, "Relu");
  EXPECT_EQ(m->graph().last()->input(0), m->graph().first()->result());
}

std::string if_node(const std::string& then_graph, const std::string& else_graph, const char* output) {
  const auto branch = [](const char* name, const std::string& g) {
    return field(5, field(1, name) + field(6, g) + field(20, 5));
  };
  return node("If", {"c"}, {output}, branch("then_branch", then_graph) + branch("else_branch", else_graph));
}

TEST(OnnxReader, BodiesReadOuterValuesDefinedLaterInTheFile) {
  const std::string body = node("Relu", {"late"}, {"r"}) + port(12, "r");
  const auto m =
      read(model(if_node(body, body, "y") + node("Abs", {"x"}, {"late"}) + port(11, "x") + port(11, "c") + port(12, "y")));
  const Node& abs = *m->graph().first();
  EXPECT_EQ(abs.op().name, "Abs");
  const Node& branch = *m->graph().last();
  ASSERT_EQ(branch.bodies().size(), 2u);
  EXPECT_EQ(branch.body("then_branch")->first()->input(0), abs.result());
}

TEST(OnnxReader, DefinitionsMustBeUniqueAndPresent) {
  EXPECT_FAULT(model(node("Relu", {"x"}, {"y"}) + node("Abs", {"x"}, {"y"}) + port(11, "x")), "the name 'y' is defined twice");
  EXPECT_FAULT(model(port(11, "x") + port(11, "x")), "the name 'x' is defined twice");
  EXPECT_FAULT(model(initializer("w", raw_floats(2)) + initializer("w", raw_floats(2))),
               "the initializer 'w' is defined twice");
  EXPECT_FAULT(model(node("Relu", {"nowhere"}, {"y"}, {}, "n")), "node 'n' (Relu) reads 'nowhere', which is not defined");
  EXPECT_FAULT(model(port(12, "y")), "the graph returns 'y', which is not defined");
  EXPECT_FAULT(model(node("", {}, {"y"})), "has no op_type");
  // Values defined in a body are not visible outside.
  const std::string body = node("Relu", {"x"}, {"inner"}) + port(12, "inner");
  EXPECT_FAULT(model(port(11, "x") + port(11, "c") + if_node(body, body, "y") + node("Abs", {"inner"}, {"z"})), "'inner'");
}

TEST(OnnxReader, FunctionsMustBeUniqueAndOpsetsReal) {
  const std::string f = field(25, field(1, "f") + field(10, "local"));
  const std::string other = field(25, field(1, "f") + field(10, "local") + field(13, "overload"));
  EXPECT_EQ(fault(model("", f + other)), "");
  EXPECT_FAULT(model("", f + other + f), "the function 'local.f' is defined twice");
  const std::string graph = node("Relu", {"x"}, {"y"}) + port(11, "x");
  EXPECT_FAULT(field(1, 10) + field(7, graph), "imports no opset");
  EXPECT_FAULT(field(1, 10) + field(7, graph) + field(8, field(2, 0)), "there is no opset 0");
  EXPECT_FAULT(field(1, 10) + field(7, graph) + field(8, field(2, -3)), "opset version -3 of domain '' is out of range");
  EXPECT_EQ(fault(field(1, 2) + field(7, graph)), "");  // predates opset imports
}

TEST(OnnxReader, OperatorsOfUnknownOpsetsPassThrough) {
  const std::string later = field(1, 10) + field(7, node("Relu", {"x"}, {"y"}) + port(11, "x")) + field(8, field(2, 9999));
  const auto m = read(later);
  EXPECT_FALSE(m->graph().first()->op().known);
  EXPECT_EQ(serialize_onnx(*m), later);
}

TEST(OnnxReader, NestingIsBounded) {
  std::string body = node("Relu", {"x"}, {"r"}) + port(12, "r");
  for (int i = 0; i < 1010; ++i) body = if_node(body, body.substr(0, 0) + port(12, "x"), "r") + port(12, "r");
  EXPECT_FAULT(model(body + port(11, "x") + port(11, "c")), "nested more than 1000 deep");
  std::string type = f32_type({2});
  for (int i = 0; i < 40; ++i) type = field(4, field(1, type));
  EXPECT_FAULT(model(field(11, field(1, "s") + field(2, type))), "nested more than 32 deep");
}

TEST(OnnxReader, UnknownElementTypesAreRefused) {
  EXPECT_FAULT(model(field(5, field(2, 27) + field(8, "w") + raw_floats(1))), "its element type 27 is unknown");
  EXPECT_FAULT(model(field(11, field(1, "x") + field(2, field(1, field(1, 99))))), "the element type 99 is unknown");
  EXPECT_FAULT(model(field(5, field(1, 2) + field(2, 1) + field(3, field(1, 0)) + field(8, "w") + raw_floats(2))), "segment");
}

TEST(OnnxReader, TensorsMayBeEncodedInAnyWay) {
  const auto tensor = [](const std::string& content) {
    const auto m = read(model(field(5, content + field(8, "w"))));
    return m->graph().constants()[0]->constant();
  };
  // 300 and -2: packed, one by one, and mixed.
  const std::string packed = varint(300) + varint(~uint64_t{1});
  const std::string single = varint(7 << 3) + varint(300) + varint(7 << 3) + varint(~uint64_t{1});
  const std::vector<int64_t> both{300, -2};
  EXPECT_EQ(tensor(field(1, 2) + field(2, 7) + field(7, packed))->to_ints(), both);
  EXPECT_EQ(tensor(field(1, 2) + field(2, 7) + single)->to_ints(), both);
  EXPECT_EQ(tensor(field(1, 2) + field(2, 7) + field(7, varint(300)) + varint(7 << 3) + varint(~uint64_t{1}))->to_ints(), both);
  // Packed dims, and the tensor's fields in another order.
  EXPECT_EQ(tensor(field(7, packed) + field(2, 7) + field(1, "\1\2"))->shape()[1], 2);
  // Small types in int32_data; negative numbers take ten bytes.
  EXPECT_EQ(tensor(field(1, 2) + field(2, 3) + field(5, varint(127) + varint(~uint64_t{0})))->to_ints(),
            (std::vector<int64_t>{127, -1}));
  // Floats as raw bytes and one by one.
  const float f[2] = {1.5f, -2.0f};
  const std::string bytes(reinterpret_cast<const char*>(f), 8);
  const std::string one_by_one = varint(4 << 3 | 5) + bytes.substr(0, 4) + varint(4 << 3 | 5) + bytes.substr(4);
  for (const std::string& data :
       {field(4, bytes), one_by_one, field(4, bytes.substr(0, 4)) + field(4, bytes.substr(4)), field(9, bytes)}) {
    const TensorPtr t = tensor(field(1, 2) + field(2, 1) + data);
    EXPECT_EQ(t->as_double(0), 1.5);
    EXPECT_EQ(t->as_double(1), -2.0);
  }
  // Four-bit integers: two per byte, one byte per number.
  EXPECT_EQ(tensor(field(1, 3) + field(2, 22) + field(5, varint(0x7f) + varint(8)))->to_ints(),
            (std::vector<int64_t>{-1, 7, -8}));
}

TEST(OnnxReader, MessagesMayComeInPieces) {
  // The graph in two occurrences, which protobuf merges.
  const std::string first = node("Relu", {"x"}, {"y"});
  const std::string second = port(11, "x") + port(12, "y");
  const auto m = read(field(1, 10) + field(7, first) + field(8, field(2, 21)) + field(7, second));
  EXPECT_EQ(m->num_nodes(), 1u);
  EXPECT_EQ(m->graph().output(0)->def(), m->graph().first());
}

TEST(OnnxReader, TensorsOutliveTheModelTheyCameWith) {
  TensorPtr t;
  {
    // A weight in the second part of a split graph is in memory allocated by the reader.
    const auto m =
        read(field(1, 10) + field(7, field(2, "g")) + field(7, initializer("w", raw_floats(2))) + field(8, field(2, 21)));
    t = m->graph().constants()[0]->constant();
  }
  EXPECT_EQ(static_cast<int>(t->stored_bytes()[7]), 1);
}

TEST(OnnxReader, UnknownFieldsSurviveAtEveryLevel) {
  const std::string later = field(900, "from the future");
  const std::string bytes =
      field(1, 10) +
      field(7, node("Relu", {"x"}, {"y"}, field(9, field(1, "key") + field(2, "value")) + later) + field(2, "g") +
                   field(5, field(1, 2) + field(2, 1) + field(8, "w") + raw_floats(2) + later) +
                   field(11, field(1, "x") + field(2, f32_type({2})) + later) + field(12, field(1, "y") + later) +
                   field(13, field(1, "nobody") + later) + field(14, field(1, "w") + later) + later) +
      field(8, field(2, 21)) + field(14, field(1, "a") + field(2, "b")) + field(20, later) +
      field(25, field(1, "f") + field(4, "a") + field(5, "b") +
                    field(7, field(1, "a") + field(2, "b") + field(4, "Relu") + later) + field(9, field(2, 21)) +
                    field(10, "local") + later) +
      later;
  EXPECT_EQ(serialize_onnx(*read(bytes)), bytes);
}

TEST(OnnxReader, InitializersOfOldFilesAreConstants) {
  const std::string bytes = model(
      node("Add", {"x", "w"}, {"y"}) + initializer("w", raw_floats(2)) + port(11, "w") + port(11, "x") + port(12, "y"), {}, 3);
  const auto m = read(bytes);
  ASSERT_EQ(m->graph().inputs().size(), 1u);
  EXPECT_TRUE(m->graph().first()->input(1)->is_constant());
  EXPECT_EQ(serialize_onnx(*m), bytes);
}

TEST(OnnxReader, OldFilesThatDoNotListTheirInitializersStayAsTheyAre) {
  const std::string bytes =
      model(node("Add", {"x", "w"}, {"y"}) + initializer("w", raw_floats(2)) + port(11, "x") + port(12, "y"), {}, 3);
  const auto m = read(bytes);
  EXPECT_EQ(serialize_onnx(*m), bytes);
  m->graph().add_constant(Tensor::full(DType::kF32, {2}, 1), "added");  // this one is listed
  EXPECT_NE(serialize_onnx(*m).find(port(11, "added")), std::string::npos);
  EXPECT_FAULT(model(initializer("w", raw_floats(2)) + port(11, "w") + port(11, "w"), {}, 3), "the name 'w' is defined twice");
}

TEST(OnnxReader, FromVersion4TheyAreDefaultsOfInputs) {
  const std::string bytes = model(node("Add", {"x", "w"}, {"y"}) + initializer("v", raw_floats(2)) +
                                  initializer("w", raw_floats(2)) + port(11, "w") + port(11, "x") + port(12, "y"));
  const auto m = read(bytes);
  ASSERT_EQ(m->graph().inputs().size(), 2u);
  EXPECT_FALSE(m->graph().first()->input(1)->is_constant());
  EXPECT_NE(m->graph().inputs()[0].default_value, nullptr);
  EXPECT_EQ(serialize_onnx(*m), bytes);
}

// ---------------------------------------------------------------------------------------------------------------------
// External data

std::string external(const char* location, const char* offset = nullptr, const char* length = nullptr) {
  std::string s = field(13, field(1, "location") + field(2, location));
  if (offset != nullptr) s += field(13, field(1, "offset") + field(2, offset));
  if (length != nullptr) s += field(13, field(1, "length") + field(2, length));
  return model(field(5, field(1, 2) + field(2, 1) + field(8, "w") + s + field(14, 1)));
}

// False where symbolic links cannot be made, as by most users of Windows.
bool link_to(const fs::path& target, const fs::path& link) {
  std::error_code none;
  fs::create_symlink(target, link, none);
  return fs::is_symlink(fs::symlink_status(link, none));
}

TEST(ExternalData, IsFoundOnlyInsideTheFolder) {
  const Folder outside;
  const Folder folder;
  outside.write("secret", "12345678");
  folder.write("data", "12345678");
  fs::create_directory(folder / "sub");
  folder.write("sub/data", "12345678");
  const bool links = link_to(outside / "secret", folder / "link") && link_to(folder / "data", folder / "inner_link");
  const auto says = [&](const std::string& bytes) { return fault(bytes, folder.path()); };
  EXPECT_EQ(says(external("data")), "");
  EXPECT_EQ(says(external("sub/data", "0", "8")), "");
  if (links) {
    EXPECT_EQ(says(external("inner_link")), "");
    EXPECT_NE(says(external("link")).find("leads out of the model's folder"), std::string::npos);
  }
  EXPECT_NE(says(external("../data")).find("leaves the model's folder"), std::string::npos);
  EXPECT_NE(says(external("sub/../../data")).find("leaves the model's folder"), std::string::npos);
  EXPECT_NE(says(external((outside / "secret").string().c_str())).find("the path is absolute"), std::string::npos);
  EXPECT_NE(says(external("sub")).find("not a regular file"), std::string::npos);
  EXPECT_NE(says(external("")).find("not a file name"), std::string::npos);
  EXPECT_NE(says(external("gone")).find("cannot open external data 'gone'"), std::string::npos);
  EXPECT_NE(fault(external("data")).find("was given as bytes, without its data"), std::string::npos);
}

TEST(ExternalData, IsFoundInDownloadCaches) {
  // Files of a snapshot are links to blobs stored together elsewhere.
  const Folder folder;
  fs::create_directory(folder / "blobs");
  fs::create_directory(folder / "snapshot");
  folder.write("blobs/1234", external("weights"));
  folder.write("blobs/5678", "12345678");
  if (!link_to("../blobs/1234", folder / "snapshot/model.onnx") || !link_to("../blobs/5678", folder / "snapshot/weights"))
    GTEST_SKIP() << "symbolic links cannot be made here";
  const auto m = read_onnx(folder / "snapshot/model.onnx");
  EXPECT_EQ(static_cast<char>(m->graph().constants()[0]->constant()->stored_bytes()[7]), '8');
  const auto unmapped = read_onnx(folder / "snapshot/model.onnx", {.map = false});
  EXPECT_TRUE(unmapped->graph().constants()[0]->constant()->equals(*m->graph().constants()[0]->constant()));
}

TEST(ExternalData, SizesAreChecked) {
  const Folder folder;
  folder.write("data", "123456789");
  const auto says = [&](const std::string& bytes) { return fault(bytes, folder.path()); };
  EXPECT_EQ(says(external("data", "1", "8")), "");
  EXPECT_NE(says(external("data", "2", "8")).find("too short: it has 9 bytes, and 2 to 10 are needed"), std::string::npos);
  EXPECT_NE(says(external("data", "9223372036854775807")).find("too short"), std::string::npos);
  EXPECT_NE(says(external("data", "0", "4")).find("has length 4, but f32[2] takes 8 bytes"), std::string::npos);
  EXPECT_NE(says(external("data", "-1")).find("which is not a size"), std::string::npos);
  EXPECT_NE(says(external("data", "99999999999999999999")).find("which is not a size"), std::string::npos);
}

// ---------------------------------------------------------------------------------------------------------------------
// Writing

std::string constant_bytes(const Model& m, size_t i) {
  std::vector<std::byte> scratch;
  const auto b = m.graph().constants()[i]->constant()->bytes(scratch);
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

std::unique_ptr<Model> model_of_constants(std::initializer_list<TensorPtr> tensors) {
  auto m = std::make_unique<Model>(DialectId::kOnnx);
  m->add_function("g");
  m->set_opset_version("", 21);
  int n = 0;
  for (const TensorPtr& t : tensors) m->graph().add_constant(t, "c" + std::to_string(n++));
  return m;
}

// Small tensors among large ones are copied, and the file's pages are released while it is read and written.
TEST(OnnxReader, LargeWeightsAreNotHeld) {
  const Folder folder;
  std::string graph = node("Add", {"x", "s0"}, {"t0"});
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    graph += node("Add", {("t" + n).c_str(), ("w" + n).c_str()}, {("t" + next).c_str()});
  }
  graph += node("Relu", {"t4"}, {"y"}) + field(2, "g");
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    graph += initializer(("s" + n).c_str(), field(9, std::string(8, static_cast<char>('a' + i))));
    graph +=
        field(5, field(1, 3 << 19) + field(2, 1) + field(8, "w" + n) + field(9, std::string(6 << 20, static_cast<char>(i))));
  }
  const std::string bytes = model(graph + port(11, "x") + port(12, "y"));
  folder.write("m.onnx", bytes);
  const auto m = read_onnx(folder / "m.onnx");
  EXPECT_FALSE(m->graph().constants()[0]->constant()->file());
  EXPECT_TRUE(m->graph().constants()[1]->constant()->file());
  write_onnx(*m, folder / "n.onnx");
  const std::string once = folder.read("n.onnx");
  EXPECT_EQ(once.size(), bytes.size());
  write_onnx(*read_onnx(folder / "n.onnx"), folder / "o.onnx");
  EXPECT_TRUE(folder.read("o.onnx") == once);
  for (size_t i = 0; i < 8; ++i) {
    std::vector<std::byte> scratch;
    const auto payload = m->graph().constants()[i]->constant()->bytes(scratch);
    const auto expected = static_cast<std::byte>(i % 2 == 0 ? 'a' + i / 2 : i / 2);
    EXPECT_TRUE(std::all_of(payload.begin(), payload.end(), [&](std::byte b) { return b == expected; })) << i;
    EXPECT_EQ(m->graph().constants()[i]->name().view(), (i % 2 == 0 ? "s" : "w") + std::to_string(i / 2));
  }
}

TEST(OnnxWriter, DataFilesAreAlignedDenseAndTied) {
  const Folder folder;
  const auto small = Tensor::own(DType::kU8, {100}, std::vector<std::byte>(100, std::byte{1}));
  const auto large = Tensor::own(DType::kU8, {5000}, std::vector<std::byte>(5000, std::byte{2}));
  const auto tiny = Tensor::scalar(3);
  const auto splat = Tensor::full(DType::kF32, {300}, 1.5);
  const auto m = model_of_constants({small, large, tiny, splat, large->reshaped({50, 100})});
  write_onnx(*m, folder / "m.onnx", {.external = WriteOptions::External::kAlways, .external_threshold = 64});
  // small at 0, large at 4096, splat at the next multiple of 64; the reshaped tensor shares large's bytes.
  EXPECT_EQ(folder.read("m.onnx.data").size(), 9152u + 1200);
  const auto back = read_onnx(folder / "m.onnx");
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(constant_bytes(*back, i), constant_bytes(*m, i)) << i;
  EXPECT_EQ(back->graph().constants()[1]->constant()->file()->offset, 4096u);
  EXPECT_EQ(back->graph().constants()[4]->constant()->file()->offset, 4096u);
  EXPECT_FALSE(fs::exists(folder / "m.onnx.data.1"));
}

TEST(OnnxWriter, DataFilesCanBeSplit) {
  const Folder folder;
  const auto a = Tensor::own(DType::kU8, {3000}, std::vector<std::byte>(3000, std::byte{1}));
  const auto b = Tensor::own(DType::kU8, {3000}, std::vector<std::byte>(3000, std::byte{2}));
  const auto c = Tensor::own(DType::kU8, {9000}, std::vector<std::byte>(9000, std::byte{3}));
  const auto m = model_of_constants({a, b, c});
  write_onnx(*m, folder / "m.onnx",
             {.external = WriteOptions::External::kAlways, .data_file = "w", .max_data_file_bytes = 4000});
  EXPECT_EQ(fs::file_size(folder / "w"), 3000u);
  EXPECT_EQ(fs::file_size(folder / "w.1"), 3000u);
  EXPECT_EQ(fs::file_size(folder / "w.2"), 9000u);
  const auto back = read_onnx(folder / "m.onnx");
  EXPECT_EQ(constant_bytes(*back, 2), constant_bytes(*m, 2));
}

TEST(OnnxWriter, NeverReplacesDataOfAnotherModel) {
  const Folder folder;
  const auto m = model_of_constants({Tensor::own(DType::kU8, {9000}, std::vector<std::byte>(9000, std::byte{3}))});
  const WriteOptions always{.external = WriteOptions::External::kAlways, .data_file = "w"};
  write_onnx(*m, folder / "a.onnx", always);
  const auto a = read_onnx(folder / "a.onnx");
  try {
    write_onnx(*a, folder / "b.onnx", always);
    FAIL() << "b.onnx took the data of a.onnx";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("belongs to the model that was read"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder / "b.onnx"));
  write_onnx(*a, folder / "a.onnx", always);  // the same model may replace it
  EXPECT_EQ(constant_bytes(*read_onnx(folder / "a.onnx"), 0), constant_bytes(*m, 0));
  EXPECT_THROW(write_onnx(*m, folder / "a.onnx", {.external = WriteOptions::External::kAlways, .data_file = "../w"}), Error);
  EXPECT_THROW(write_onnx(*m, folder / "a.onnx", {.external = WriteOptions::External::kAlways, .data_file = "a.onnx"}), Error);
}

TEST(OnnxWriter, TellsWhatToDoBeyondTwoGigabytes) {
  const Folder folder;
  const auto m = model_of_constants({Tensor::full(DType::kF32, {1 << 30}, 1)});
  const auto says = [](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  };
  EXPECT_NE(says([&] { (void)serialize_onnx(*m); }).find("return_mode=\"file\""), std::string::npos);
  const auto never = [&] { write_onnx(*m, folder / "m.onnx", {.external = WriteOptions::External::kNever}); };
  EXPECT_NE(says(never).find("allow external data"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(OnnxWriter, ChoosesADataFileBeyondTwoGigabytes) {
  const auto choice = [](int64_t elements, WriteOptions::External external) {
    const auto m = model_of_constants({Tensor::full(DType::kF32, {elements}, 1)});  // a splat: takes no memory
    return onnx_file::writes_data_file(*m, {.external = external});
  };
  using External = WriteOptions::External;
  constexpr int64_t kTwoGigabytes = int64_t{1} << 29;  // of f32
  EXPECT_TRUE(choice(kTwoGigabytes, External::kAuto));
  EXPECT_FALSE(choice(kTwoGigabytes - 1000, External::kAuto));
  EXPECT_TRUE(choice(3, External::kAlways));
  EXPECT_FALSE(choice(3, External::kNever));
  EXPECT_THROW(choice(kTwoGigabytes, External::kNever), Error);
}

TEST(OnnxWriter, TheModelNeverReplacesItsOwnData) {
  const Folder folder;
  const auto m = model_of_constants({Tensor::own(DType::kU8, {9000}, std::vector<std::byte>(9000, std::byte{3}))});
  write_onnx(*m, folder / "a.onnx", {.external = WriteOptions::External::kAlways});
  const auto a = read_onnx(folder / "a.onnx");
  EXPECT_THROW(write_onnx(*a, folder / "a.onnx.data"), Error);
}

TEST(OnnxWriter, AFailedRunLeavesTheOldFiles) {
  const Folder folder;
  folder.write("m.onnx", "old");
  const auto m = model_of_constants(
      {Tensor::defer(DType::kU8, {200000}, []() -> std::vector<std::byte> { throw Error(ErrorCode::kInternal, "no"); })});
  EXPECT_THROW(write_onnx(*m, folder / "m.onnx"), Error);
  EXPECT_EQ(folder.read("m.onnx"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(OnnxWriter, AModelMayReplaceItself) {
  const Folder folder;
  const auto m = model_of_constants({Tensor::own(DType::kU8, {300000}, std::vector<std::byte>(300000, std::byte{3}))});
  for (const auto external :
       {WriteOptions::External::kAlways, WriteOptions::External::kNever, WriteOptions::External::kAlways}) {
    write_onnx(*m, folder / "m.onnx", {.external = external});
    const auto read_back = read_onnx(folder / "m.onnx");
    write_onnx(*read_back, folder / "m.onnx", {.external = external});
    EXPECT_EQ(constant_bytes(*read_onnx(folder / "m.onnx"), 0), constant_bytes(*m, 0));
  }
}

TEST(OnnxWriter, RefusesSourcesThatChangedMeanwhile) {
  const Folder folder;
  folder.write("m.onnx", small_model());
  const auto m = read_onnx(folder / "m.onnx");
  std::ofstream(folder / "m.onnx", std::ios::app) << "x";
  EXPECT_THROW(write_onnx(*m, folder / "out.onnx"), Error);
  EXPECT_FALSE(fs::exists(folder / "out.onnx"));
}

// The graph's nodes as "Op(in) -> out", read back from the bytes.
std::string written(const Model& m) {
  const auto back = read(serialize_onnx(m));
  std::string s;
  for (const Node& n : back->graph().nodes()) {
    s += fmt::format("{}(", n.op().name);
    for (const Use& u : n.operands())
      s += fmt::format("{}{}", &u == n.operands().data() ? "" : ",", u.value ? u.value->name().view() : "");
    s += fmt::format(") -> {}; ", n.num_results() ? n.result()->name().view() : "");
  }
  for (const Port& p : back->graph().outputs()) s += fmt::format("[{}]", p.name.view());
  return s;
}

struct Small {
  Model m{DialectId::kOnnx};
  Graph& g;
  Value* x;
  Small() : g(m.add_function("g").graph()), x(nullptr) {
    m.set_opset_version("", 21);
    x = g.add_input("x", m.types().tensor(DType::kF32, {2}));
  }
  Value* relu(Value* v, std::string_view name = {}) {
    Node& n = m.new_node(m.op("", "Relu"), std::array{v}, 1);
    g.append(n);
    if (!name.empty()) n.result()->set_name(m.name(name));
    return n.result();
  }
};

TEST(OnnxWriter, ReturnedValuesTakeTheirPortsNames) {
  Small s;
  Value* t = s.relu(s.relu(s.x));
  s.g.add_output(*t, "y");
  EXPECT_EQ(written(s.m), "Relu(x) -> Relu_0; Relu(Relu_0) -> y; [y]");
}

TEST(OnnxWriter, IdentityOnlyWhereTheFormatNeedsIt) {
  Small s;
  Value* t = s.relu(s.x);
  Value* c = s.g.add_constant(Tensor::full(DType::kF32, {2}, 1), "c");
  s.g.add_output(*t, "y");
  s.g.add_output(*t, "z");
  s.g.add_output(*s.x, "same");
  s.g.add_output(*c, "k");
  EXPECT_EQ(written(s.m), "Relu(x) -> y; Identity(y) -> z; Identity(x) -> same; [y][z][same][k]");
  EXPECT_EQ(s.m.graph().constants().size(), 1u) << "c is written as k: an initializer may be a result";
  Small direct;
  Value* d = direct.g.add_constant(Tensor::full(DType::kF32, {2}, 1), "d");
  Value* unnamed = direct.g.add_constant(Tensor::full(DType::kF32, {2}, 3), "");
  direct.g.add_output(*direct.x, "x");
  direct.g.add_output(*d, "d");
  direct.g.add_output(*unnamed, "e");
  EXPECT_EQ(written(direct.m), "[x][d][e]");
}

TEST(OnnxWriter, GeneratedNamesAvoidThoseThatExist) {
  Small s;
  Value* a = s.relu(s.x);
  Value* b = s.relu(a, "Relu_0");
  Value* c = s.relu(b, "Relu_0");  // a duplicate, as cloning makes
  s.g.add_output(*c, "y");
  EXPECT_EQ(written(s.m), "Relu(x) -> Relu_1; Relu(Relu_1) -> Relu_0; Relu(Relu_0) -> y; [y]");
}

TEST(OnnxWriter, InnerNamesDoNotHideWhatIsReadFromInside) {
  const std::string body = node("Relu", {"x"}, {"r"}) + node("Neg", {"r"}, {"q"}) + port(12, "q");
  const auto m =
      read(model(node("Abs", {"x"}, {"t"}) + if_node(body, body, "y") + port(11, "x") + port(11, "c") + port(12, "y")));
  // An inner result takes the name of an outer value that the node after it uses: it must not keep it.
  Graph& inner = *m->graph().last()->body("then_branch");
  inner.first()->result()->set_name(m->name("t"));
  inner.last()->set_input(0, m->graph().first()->result());
  const auto back = read(serialize_onnx(*m));
  const Graph& written_inner = *back->graph().last()->body("then_branch");
  EXPECT_EQ(written_inner.last()->input(0), back->graph().first()->result());
  EXPECT_NE(written_inner.first()->result()->name().view(), "t");
}

// onnxruntime refuses bodies that return an outer value directly, whatever the result's name.
TEST(OnnxWriter, BodiesReturnOuterValuesThroughIdentity) {
  const std::string body = node("Relu", {"x"}, {"r"}) + port(12, "r");
  const auto m =
      read(model(node("Abs", {"x"}, {"t"}) + if_node(body, body, "y") + port(11, "x") + port(11, "c") + port(12, "y")));
  Graph& inner = *m->graph().last()->body("then_branch");
  Value* outer = m->graph().first()->result();
  outer->set_name(m->name("r"));
  inner.replace_uses(*inner.first()->result(), *outer);
  inner.erase(*inner.first());
  const auto back = read(serialize_onnx(*m));
  const Graph& written_inner = *back->graph().last()->body("then_branch");
  ASSERT_NE(written_inner.first(), nullptr);
  EXPECT_TRUE(written_inner.first()->is("Identity"));
  EXPECT_EQ(written_inner.first()->input(0), back->graph().first()->result());
}

TEST(OnnxWriter, BodiesReturnTheirOwnConstantsDirectly) {
  const std::string body = node("Relu", {"x"}, {"r"}) + port(12, "r");
  for (const char* name : {"", "own"}) {
    const auto m = read(model(if_node(body, body, "y") + port(11, "x") + port(11, "c") + port(12, "y")));
    Graph& inner = *m->graph().last()->body("then_branch");
    Value* one = inner.add_constant(Tensor::full(DType::kF32, {2}, 1), name);
    inner.replace_uses(*inner.first()->result(), *one);
    inner.erase(*inner.first());
    inner.output_port(0).name = Name();
    const std::string once = serialize_onnx(*m);
    const auto back = read(once);
    EXPECT_EQ(back->graph().last()->body("then_branch")->first(), nullptr) << "a constant called '" << name << "'";
    EXPECT_EQ(serialize_onnx(*back), once);
  }
}

// A branch with a known condition moves out and keeps its result's name, which bodies of other nodes use too.
TEST(OnnxWriter, InnerNamesAreNotThoseOfOuterValuesThatAreThereBefore) {
  const std::string body = node("Relu", {"x"}, {"r"}) + port(12, "r"), nested = if_node(body, body, "z") + port(12, "z");
  for (const bool is_first : {true, false}) {
    const std::string outer = node("Abs", {"x"}, {"t"}), both = if_node(body, nested, "y");
    const auto m =
        read(model((is_first ? outer + both : both + outer) + port(11, "x") + port(11, "c") + port(12, "y") + port(12, "t")));
    Graph& g = m->graph();
    (is_first ? g.first() : g.last())->result()->set_name(m->name("r"));
    g.output_port(1).name = m->name("r");
    const auto back = read(serialize_onnx(*m));
    const Node& branches = is_first ? *back->graph().last() : *back->graph().first();
    const Graph *direct = branches.body("then_branch"), *inside = branches.body("else_branch")->first()->body("then_branch");
    for (const Graph* inner : {direct, inside}) {
      EXPECT_EQ(inner->outputs()[0].name.view() == "r", !is_first);
      EXPECT_EQ(inner->output(0)->name(), inner->outputs()[0].name);
    }
    EXPECT_EQ(back->graph().outputs()[1].name.view(), "r");
  }
}

TEST(OnnxWriter, ClashesOfTheSignatureAreErrors) {
  Small s;
  s.g.add_output(*s.relu(s.x), "x");
  EXPECT_THROW(serialize_onnx(s.m), Error);
  Small t;
  t.g.add_output(*t.relu(t.x), "y");
  t.g.add_output(*t.relu(t.x), "y");
  EXPECT_THROW(serialize_onnx(t.m), Error);
}

TEST(OnnxWriter, ProvenanceBecomesMetadata) {
  Small s;
  Value* y = s.relu(s.x);
  s.g.add_output(*y, "y");
  Provenance p;
  p.sources.push_back({.file = "model.py", .line = 41, .function = "forward", .scope = "Net/layer", .lowering = "lower_max"});
  p.rules = {"fuse_a", "fuse_b/c"};
  y->def()->set_provenance(s.m.add_provenance(p));
  const auto back = read(serialize_onnx(s.m));
  const Metadata expected{{"namespace", "Net/layer"},
                          {"pkg.sardonyx.callsite", "forward:41"},
                          {"pkg.sardonyx.source", "model.py:41"},
                          {"pkg.sardonyx.rules", "fuse_a; fuse_b/c"},
                          {"pkg.sardonyx.plugin", "lower_max"}};
  EXPECT_EQ(back->graph().first()->extra()->metadata, expected);
  const auto without = read(serialize_onnx(s.m, {.provenance = WriteOptions::Provenance::kOff}));
  EXPECT_EQ(without->graph().first()->extra(), nullptr);
}

TEST(OnnxWriter, FunctionsHoldConstantsAsNodes) {
  Small s;
  s.g.add_output(*s.relu(s.x), "y");
  Function& f = s.m.add_function("f");
  f.domain = "local";
  Value* a = f.graph().add_input("a", nullptr);
  Value* c = f.graph().add_constant(Tensor::full(DType::kF32, {}, 2), "two");
  Node& mul = s.m.new_node(s.m.op("", "Mul"), std::array{a, c}, 1);
  f.graph().append(mul);
  f.graph().add_output(*mul.result(), "b");
  const auto back = read(serialize_onnx(s.m));
  const Graph& g = back->functions()[1]->graph();
  EXPECT_EQ(g.first()->op().name, "Constant");
  EXPECT_EQ(g.first()->result()->constant()->as_double(0), 2);
  EXPECT_EQ(back->functions()[1]->opset_imports.size(), 1u);
}

TEST(NameTable, FindsWhatWasPutInAcrossGrowth) {
  Model m;
  NameTable<const Value> table;
  std::vector<Value*> values;
  for (int i = 0; i < 5000; ++i) {
    values.push_back(&m.new_placeholder("v" + std::to_string(i)));
    EXPECT_EQ(table.insert(values.back()->name(), values.back()), nullptr);
  }
  EXPECT_EQ(table.insert(m.name("v77"), values[0]), values[77]);
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(table.find("v" + std::to_string(i)), values[static_cast<size_t>(i)]);
  EXPECT_EQ(table.find("v5000"), nullptr);
}

}  // namespace
}  // namespace sardonyx
