// Any names of values, nodes, functions and sizes survive printing and parsing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/text/text.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

std::vector<std::string> words() {
  std::vector<std::string> all = {"_",
                                  "return",
                                  "graph",
                                  "function",
                                  "none",
                                  "true",
                                  "false",
                                  "inf",
                                  "nan",
                                  "as",
                                  "info",
                                  "raw",
                                  "doc",
                                  "meta",
                                  "named",
                                  "opset",
                                  "range",
                                  "domain",
                                  "producer",
                                  "unknown",
                                  "overload",
                                  "jax",
                                  "stablehlo",
                                  "mil",
                                  "onnx",
                                  "dim",
                                  "dims",
                                  "ints",
                                  "floats",
                                  "strings",
                                  "types",
                                  "tensors",
                                  "tensor",
                                  "type",
                                  "dtype",
                                  "opaque",
                                  "token",
                                  "seq",
                                  "map",
                                  "list",
                                  "tuple",
                                  "state",
                                  "sparse",
                                  "optional",
                                  "ir_version",
                                  "mil_opset",
                                  "min",
                                  "max",
                                  "mod",
                                  "floordiv",
                                  "",
                                  "%1",
                                  "\x01",
                                  "\x01"
                                  "1\x01x",
                                  "\x02",
                                  "\x02%1",
                                  "a b",
                                  "a::b",
                                  "x#1",
                                  "a\"b\\c",
                                  "a\nb",
                                  "//",
                                  "\xff\xfe",
                                  "1.5",
                                  ".x",
                                  "x.",
                                  "<a>",
                                  "training_info"};
  for (int i = 0; i < 256; ++i) {
    const std::string_view name = to_string(static_cast<DType>(i));
    if (text::dtype_word(name)) all.emplace_back(name);
  }
  return all;
}

// A model that uses `word` for everything that a file can name.
std::unique_ptr<Model> model_of(const std::string& word, bool constants) {
  auto m = std::make_unique<Model>(DialectId::kOnnx);
  m->set_opset_version("", 23);
  const std::string shown = word.empty() ? "x" : word;  // some names must not be empty
  const Type* t = m->types().tensor(DType::kF32, {3});
  Function& f = m->add_function(shown);
  Graph& g = f.graph();
  g.set_name(m->name(shown));
  Value* x = g.add_input("x", t);
  if (constants) {
    x = g.add_constant(Tensor::full(DType::kF32, {3}, 2));
    x->set_name(m->name(word));
    g.value_info[x].declared = t;
  }
  for (int i = 0; i < 3; ++i) {  // several values with the same name
    Value* operands[] = {x, x};
    Node& n = m->new_node(m->op("", "Add"), operands, 1);
    n.set_name(m->name(word));
    g.append(n);
    x = n.result();
    x->set_name(m->name(i == 2 ? "z" : word));
    x->set_type(t);
  }
  g.add_output(*x, shown);
  m->metadata.push_back({shown, word});
  return m;
}

TEST(TextNames, EachWordMayNameAnything) {
  for (const std::string& word : words()) {
    for (const bool constants : {false, true}) {
      const auto m = model_of(word, constants);
      const std::string printed = print(*m);
      std::unique_ptr<Model> back;
      ASSERT_NO_THROW(back = parse(printed)) << printed;
      EXPECT_EQ(print(*back), printed);
      EXPECT_TRUE(equal_models(*m, *back)) << printed;
    }
  }
}

TEST(TextNames, EachWordMayNameInputsFunctionsAndAttributes) {
  for (const std::string& word : words()) {
    if (word.empty()) continue;
    std::string quoted;
    text::quote(quoted, word);
    std::string printed = "graph(%" + quoted + ": f32[3]) { y = " + quoted + "::" + quoted + "<" + quoted + "=1>(%" + quoted +
                          ") @" + quoted + " return %" + quoted + " = y }\nfunction " + quoted + "::" + quoted + "<" + quoted +
                          ">(%" + quoted + ") opset 23 { z = Neg(%" + quoted + ") return %" + quoted + " = z }\n";
    std::unique_ptr<Model> m, back;
    ASSERT_NO_THROW(m = parse(printed)) << printed;
    printed = print(*m);
    ASSERT_NO_THROW(back = parse(printed)) << printed;
    EXPECT_EQ(print(*back), printed);
    EXPECT_TRUE(equal_models(*m, *back)) << printed;
  }
}

TEST(TextNames, AWordWithoutQuotesIsNoName) { EXPECT_ANY_THROW(parse("graph(x: f32[3]) { key = Neg(x) return key }")); }

}  // namespace
}  // namespace sardonyx
