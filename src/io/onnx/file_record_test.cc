// FileRecord: parts of a file outside the graph survive whatever happens to the objects that they describe.
#include "ir/graph/file_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/onnx/test_messages.h"
#include "ir/graph/journal.h"

namespace sardonyx {
namespace {

// Fields that no version of ONNX defines.
std::string unknown(const char* text) { return field(900, text); }

struct Case {
  const char* what;
  std::string bytes;
};

std::string relu_graph(std::string_view more, std::string_view ports) {
  return node("Relu", {"x"}, {"y"}) + field(2, "g") + std::string(more) + std::string(ports);
}
const std::string kPorts = port(11, "x") + port(12, "y");

// A model for each part of the record, with fields in the writers' order.
std::vector<Case> cases() {
  const std::string plain = relu_graph({}, kPorts);
  const std::string info = field(1, "t") + field(2, f32_type({2})) + field(3, "doc of t") + unknown("of t");
  const std::string two = node("Relu", {"x"}, {"t"}) + node("Relu", {"t"}, {"y"}) + field(2, "g") + kPorts;
  const std::string wide = field(1, "w") + field(2, f32_type({2})) + field(3, "doc of w") + unknown("of w");
  const std::string body = field(1, "then_branch") +
                           field(6, node("Relu", {"x"}, {"r"}) + field(2, "b") + port(12, "r") + unknown("b")) + field(20, 5) +
                           field(13, "doc of the attribute");
  const std::string other =
      field(1, "else_branch") + field(6, node("Neg", {"x"}, {"n"}) + field(2, "c") + port(12, "n")) + field(20, 5);
  const std::string sparse_w = field(1, field(1, 2) + field(2, 1) + field(8, "w") + raw_floats(2)) +
                               field(2, field(1, 2) + field(2, 7) + field(7, std::string("\0\1", 2))) +
                               field(3, std::string("\2", 1));
  const std::string function = field(1, "f") + field(4, "a") + field(5, "b") +
                               node("Relu", {"a"}, {"b"}).replace(0, 1, "\x3a") + field(9, field(2, 21)) + field(10, "d") +
                               unknown("of f");
  return {
      {"the model", model(plain, field(20, field(1, field(2, "training"))) + unknown("of the model"))},
      {"the graph",
       model(plain + field(14, field(1, "x") + field(2, field(1, "SCALE_TENSOR") + field(2, "s"))) + unknown("of the graph"))},
      {"a node", model(node("Relu", {"x"}, {"y"}, unknown("of the node")) + field(2, "g") + kPorts)},
      {"a body and its attribute",
       model(node("If", {"c"}, {"y"}, field(5, body) + field(5, other)) + field(2, "g") + port(11, "x") +
             field(11, field(1, "c") + field(2, field(1, field(1, 9) + field(2, "")))) + port(12, "y"))},
      {"an initializer", model(node("Add", {"x", "w"}, {"y"}) + field(2, "g") +
                               initializer("w", raw_floats(2) + field(12, "doc of w")) + kPorts)},
      {"a sparse initializer", model(node("Add", {"x", "w"}, {"y"}) + field(2, "g") + kPorts + field(15, sparse_w))},
      {"a default value",
       model(node("Add", {"x", "w"}, {"y"}) + field(2, "g") + initializer("v", raw_floats(2)) +
             initializer("w", raw_floats(2) + field(12, "doc of w")) + port(11, "x") + port(11, "w") + port(12, "y"))},
      {"a listed input",
       model(node("Add", {"x", "w"}, {"y"}) + field(2, "g") + initializer("w", raw_floats(2)) + field(11, wide) + kPorts, {},
             3)},
      {"a port", model(node("Add", {"w", "w"}, {"y"}) + field(2, "g") + field(11, wide) + port(12, "y"))},
      {"a value", model(two + field(13, info))},
      {"a value that nothing defines", model(plain + field(13, info))},
      {"a function", model(node("f", {"x"}, {"y"}, field(7, "d")) + field(2, "g") + kPorts,
                           field(8, field(1, "d") + field(2, 1)) + field(25, function))},
  };
}

TEST(FileRecord, WhatWasReadIsWritten) {
  for (const Case& c : cases()) EXPECT_EQ(serialize_onnx(*read(c.bytes)), c.bytes) << c.what;
}

TEST(FileRecord, ACopyIsWrittenAsTheOriginal) {
  for (const Case& c : cases()) {
    auto original = read(c.bytes);
    const auto copy = clone_model(*original);
    original.reset();
    EXPECT_EQ(serialize_onnx(*copy), c.bytes) << c.what;
  }
}

TEST(FileRecord, AGraphTakesItsPartToAnotherModel) {
  // The target model has its own record, so entry numbers differ.
  for (const Case& c : cases()) {
    const auto from = read(c.bytes);
    if (from->functions().size() > 1 || !from->file_record().model.fields.empty()) continue;  // belongs to the model
    const auto to =
        read(model(relu_graph(field(13, field(1, "y") + unknown("of y")), kPorts), {}, static_cast<int>(from->ir_version)));
    Function& main = to->add_function("g");
    to->erase_function(to->main());
    main.graph().set_name(to->name("g"));
    clone_graph(from->graph(), main.graph());
    EXPECT_EQ(serialize_onnx(*to), c.bytes) << c.what;
  }
}

TEST(FileRecord, ACopyWithinAModelIsSaidTheSame) {
  for (const Case& c : cases()) {
    const auto m = read(c.bytes);
    if (m->functions().size() > 1) continue;
    Graph& twin = m->new_graph("g");
    clone_graph(m->graph(), twin);
    m->add_function("g", twin);
    m->erase_function(m->main());
    EXPECT_EQ(serialize_onnx(*m), c.bytes) << c.what;
  }
}

TEST(FileRecord, WhatIsSaidOfAFunctionStaysWithIt) {
  const auto m = read(cases().back().bytes);  // a function
  Graph& twin = m->new_graph("twin");
  clone_graph(m->find_function("d", "f")->graph(), twin);
  m->add_function("twin", twin).domain = "d";
  const std::string out = serialize_onnx(*m);
  EXPECT_EQ(out.find(unknown("of f")), out.rfind(unknown("of f")));
  EXPECT_NE(out.find(unknown("of f")), std::string::npos);
}

TEST(FileRecord, ErasedPartsAreNotWrittenAndComeBackWithARollback) {
  for (const Case& c : cases()) {
    const auto m = read(c.bytes);
    Graph& g = m->graph();
    {
      Journal journal(*m);
      Value& y = *g.output(0);
      g.set_output(0, *g.input(0));
      g.erase(*y.def());
      while (g.last() != nullptr) g.erase(*g.last());
      g.erase_unused_constants();
      const std::string less = serialize_onnx(*m);
      EXPECT_EQ(less.find("of the node"), std::string::npos) << c.what;
      EXPECT_EQ(less.find("doc of the attribute"), std::string::npos) << c.what;
      if (c.what == std::string_view("a listed input")) {
        EXPECT_EQ(less.find("doc of w"), std::string::npos);
      }
      (void)serialize_onnx(*clone_model(*m));
      journal.rollback();
    }
    EXPECT_EQ(serialize_onnx(*m), c.bytes) << c.what;
  }
}

TEST(FileRecord, AnEntryIsWrittenOnlyWhileItIsTrue) {
  const auto find = [](const char* what) {
    for (const Case& c : cases()) {
      if (c.what == std::string_view(what)) return read(c.bytes);
    }
    throw std::logic_error(what);
  };
  {
    const auto m = find("a value");
    Graph& g = m->graph();
    const Value& t = *g.first()->result();
    g.edit_value_info(t).declared = m->types().parse("f32[3]");
    const std::string out = serialize_onnx(*m);
    EXPECT_EQ(out.find("of t", out.find("doc of t") + 8), std::string::npos) << "another type: the entry is made anew";
    EXPECT_NE(out.find("doc of t"), std::string::npos);
  }
  {
    const auto m = find("a value");
    m->graph().first()->result()->set_name(m->name("u"));
    EXPECT_EQ(serialize_onnx(*m).find(unknown("of t")), std::string::npos) << "another name";
  }
  {
    const auto m = find("a port");
    m->graph().input_port(0).declared = m->types().parse("f32[3]");
    EXPECT_EQ(serialize_onnx(*m).find(unknown("of w")), std::string::npos);
  }
  {
    const auto m = find("a sparse initializer");
    m->graph().set_constant(*m->graph().constants()[0], Tensor::full(DType::kF32, {2}, 1));
    EXPECT_EQ(read(serialize_onnx(*m))->file_record().sparse.size(), 0u) << "another payload";
  }
}

TEST(FileRecord, ReplacementsKeepTheRecord) {
  const auto m = read(cases()[2].bytes);  // a node
  Graph& g = m->graph();
  Node& old = *g.first();
  Value* operands[] = {old.input(0)};
  Node& made = m->new_node(old.op(), operands, 1, &old.attrs());
  g.insert_before(old, made);
  made.result()->set_name(old.result()->name());
  made.result()->set_type(old.result()->type());
  g.replace_uses(*old.result(), *made.result());
  m->keep_file_record(old, made);
  g.erase(old);
  EXPECT_EQ(serialize_onnx(*m), cases()[2].bytes);

  const auto infos = read(cases()[9].bytes);  // a value
  Graph& h = infos->graph();
  Node& first = *h.first();
  Value* x[] = {first.input(0)};
  Node& other = infos->new_node(first.op(), x, 1);
  h.insert_before(first, other);
  other.result()->set_name(first.result()->name());
  h.move_value_info(*first.result(), *other.result(), h);
  h.replace_uses(*first.result(), *other.result());
  h.erase(first);
  EXPECT_EQ(serialize_onnx(*infos), cases()[9].bytes);
}

TEST(FileRecord, TheTextShowsIt) {
  for (const Case& c : cases()) {
    const std::string text = print(*read(c.bytes), {.full_constants = true});
    EXPECT_EQ(print(*parse(text), {.full_constants = true}), text) << c.what;
  }
  EXPECT_NE(print(*read(cases()[2].bytes))
                .find("unknown \"" +
                      [] {
                        std::string hex;
                        for (const char byte : unknown("of the node")) hex += fmt::format("{:02x}", static_cast<uint8_t>(byte));
                        return hex;
                      }()),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx
