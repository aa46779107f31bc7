// Tests of the .sx text form: a printed model reads back as the same model and prints the same bytes.
#include "ir/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// Reads `text`, prints it and reads that again: the model and the bytes must be the same. Returns the printed
// text.
std::string roundtrip(std::string_view text, const PrintOptions& options = {}) {
  auto first = parse(text);
  std::string printed = print(*first, options);
  std::unique_ptr<Model> second;
  try {
    second = parse(printed);
  } catch (const Error& e) {
    ADD_FAILURE() << e.what() << "\nin\n" << printed;
    return printed;
  }
  std::string why;
  EXPECT_TRUE(equal_models(*first, *second, &why)) << why << "\n" << printed;
  EXPECT_EQ(print(*second, options), printed);
  return printed;
}

std::string error_of(std::string_view text) {
  try {
    parse(text, "case.sx");
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Text, NestedExpressionsKeepTheirShape) {
  EXPECT_EQ(roundtrip("graph(x: f32[B,3], y: f32[B,3]) { z = Div(x, Sqrt(y))  return z }"),
            "graph(x: f32[B,3], y: f32[B,3]) {\n"
            "  z = Div(x, Sqrt(y))\n"
            "  return z\n"
            "}\n");
}

TEST(Text, OrderOfNodesDecidesWhatNests) {
  // Operands nest in operand order; in the opposite order, the first one keeps its own line.
  EXPECT_EQ(roundtrip("graph(x: f32[3]) { z = Add(Neg(x), Abs(x)) return z }"),
            "graph(x: f32[3]) {\n  z = Add(Neg(x), Abs(x))\n  return z\n}\n");
  EXPECT_EQ(roundtrip("graph(x: f32[3]) { %7 = Abs(x) z = Add(Neg(x), %7) return z }"),
            "graph(x: f32[3]) {\n  %0 = Abs(x)\n  %1 = Neg(x)\n  z = Add(%1, %0)\n  return z\n}\n");
  // A value with two uses, or used by the signature, keeps its line.
  EXPECT_EQ(roundtrip("graph(x: f32[3]) { %0 = Neg(x) return z = Mul(%0, %0), y = %0 }"),
            "graph(x: f32[3]) {\n  %0 = Neg(x)\n  %1 = Mul(%0, %0)\n  return z = %1, y = %0\n}\n");
}

TEST(Text, Constants) {
  EXPECT_EQ(
      roundtrip("graph(x: f32[3]) { c = f32[3]{1,2.5,-0.0} w = i64[2] { 4, 8 } return z = Mul(Add(x, c), f32 0.5), w }"),
      "graph(x: f32[3]) {\n  c = f32[3]{1,2.5,-0}\n  w = i64[2]{4,8}\n  %0 = Mul(Add(x, c), f32 0.5)\n  return z = %0, w\n}\n");
  for (const char* c : {"f32[8]{0.5...}",
                        "f32[0]{}",
                        "f32[2,2]{1,2,3,4}",
                        "bool[2]{true,false}",
                        "str[2]{\"a\\\"b\",\"\\x00\\xff\"}",
                        "c64[2]{(1 -2),(nan inf)}",
                        "c128 (0.1 0.2)",
                        "i8[2]{-128,127}",
                        "u64[1]{18446744073709551615}",
                        "i4[3]{-8,7,1}",
                        "u2[5]{0,1,2,3,3}",
                        "bf16 0.1",
                        "f16[2]{65504,6e-08}",
                        "f8e4m3fn[2]{448,nan}",
                        "f8e5m2 inf",
                        "f4e2m1[3]{0.5,-6,3}",
                        "f8e8m0 1",
                        "f32[3]{nan,inf,-inf}",
                        "f32[2]{0x7fc00001,0xffc00000}",
                        "f64 1e-320",
                        "f32[1]{1e-45}",
                        "bool[8]{true...}",
                        "i64 -9223372036854775808",
                        "f32[64]{#0123456789abcdef}"}) {
    std::string printed = roundtrip(std::string("graph() { c = ") + c + " return c }");
    EXPECT_EQ(printed, std::string("graph() {\n  c = ") + c + "\n  return c\n}\n");
  }
  EXPECT_NE(error_of("graph() { c = u8[1]{256} }").find("1:21: this does not fit u8"), std::string::npos)
      << error_of("graph() { c = u8[1]{256} }");
  EXPECT_NE(error_of("graph() { c = f32[3]{1,2} }").find("has 2 elements, its shape asks for 3"), std::string::npos);
}

TEST(Text, FloatsKeepEveryBit) {
  std::mt19937_64 random(7);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2,
                      DType::kF8E5M2FNUZ, DType::kF8E8M0, DType::kF4E2M1, DType::kI64, DType::kI4, DType::kU2, DType::kC64}) {
    std::vector<std::byte> bytes(byte_size(dtype, 600));
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    TensorPtr t = Tensor::own(dtype, {600}, bytes);
    Model m;
    m.add_function("main").graph().add_constant(t, "c");
    auto back = parse(print(m, {.full_constants = true}));
    EXPECT_TRUE(back->graph().constants()[0]->constant()->equals(*t)) << to_string(dtype);
  }
}

TEST(Text, DigestsStandForLongConstants) {
  Model m;
  std::vector<float> values(1000, 1.0f);
  values[7] = 2;
  TensorPtr t = Tensor::of<float>(DType::kF32, {1000}, values);
  Graph& g = m.add_function("main").graph();
  g.add_output(*g.add_constant(t, "w"), "w");
  m.set_opset_version("", 23);
  std::string printed = print(m);
  EXPECT_LT(printed.size(), 100u) << printed;
  auto without = parse(printed);
  EXPECT_TRUE(equal_models(m, *without)) << "a digest compares by its hash";
  EXPECT_THROW(without->graph().constants()[0]->constant()->as_double(0), Error);
  auto with = parse(printed, "m.sx", [&](uint64_t digest) { return digest == t->hash() ? t : nullptr; });
  EXPECT_EQ(with->graph().constants()[0]->constant(), t);
  EXPECT_THROW(parse(printed, "m.sx", [](uint64_t) { return TensorPtr(); }), Error);
}

TEST(Text, AttributesOfEveryKind) {
  const char* kinds[] = {"none",
                         "true",
                         "3",
                         "-7",
                         "0.5",
                         "2.0",
                         "1e+300",
                         "inf",
                         "-inf",
                         "nan",
                         "\"text \\\"quoted\\\"\\n\"",
                         "f32",
                         "f32[B,3]",
                         "type(seq(f32[3]))",
                         "type(?)",
                         "f32 0.5",
                         "i64[2]{4,8}",
                         "tensor(none)",
                         "2*B + 1",
                         "B",
                         "dim(3)",
                         "dim(?)",
                         "dim(f32)",
                         "[1, 2]",
                         "[]",
                         "[0.5, 1.0]",
                         "floats[]",
                         "[\"a\", \"b\"]",
                         "strings[]",
                         "tensors[f32 1, i64 2]",
                         "types[f32[3], bool[]]",
                         "[B, 3]",
                         "dims[2, 3]",
                         "dims[B, ?]",
                         "(1, none, \"x\", (f32, ()))",
                         "{a: 1, \"b c\": [1]}",
                         "opaque(\"<function f at 0x1>\")",
                         "@alpha",
                         "@alpha:1",
                         "f32[...]",
                         "floordiv(H, 2)",
                         "max(B, T)"};
  for (const char* kind : kinds) {
    std::string text =
        std::string("graph jax(x: f32[3]) {\n  y: f32[3] = made_up<a=") + kind + ", b=1 doc \"why\">(x)\n  return y\n}\n";
    if (kind == std::string("2*B + 1")) text.replace(text.find(kind), 7, "dim(2*B + 1)");
    EXPECT_EQ(roundtrip(text), text);
  }
}

TEST(Text, AttributeKindsAreTheRightOnes) {
  auto m = parse(
      "graph jax(x: f32[3]) { y: f32[3] = f<i=3, d=2.0, dims=[B, 3], ints=[1], floats=[1, 0.5], t=f32, u=f32[3], "
      "c=f32[3]{0...}, s=2*B>(x) return y }");
  const Node& n = *m->graph().first();
  EXPECT_TRUE(n.attr("i")->get<int64_t>());
  EXPECT_TRUE(n.attr("d")->get<double>());
  EXPECT_TRUE(n.attr("dims")->get<Attr::DimList>());
  EXPECT_TRUE(n.attr("ints")->get<Attr::Ints>());
  EXPECT_TRUE(n.attr("floats")->get<Attr::Floats>());
  EXPECT_TRUE(n.attr("t")->get<DType>());
  EXPECT_TRUE(n.attr("u")->get<const Type*>());
  EXPECT_TRUE(n.attr("c")->get<TensorPtr>());
  EXPECT_TRUE(n.attr("s")->get<Dim>());
}

TEST(Text, BodiesCapturesAndSeveralResults) {
  roundtrip(R"(
graph(c: bool[], x: f32[6,4]) {
  w = f32[4]{0.5...}
  a, b = Split<axis=0, num_outputs=2>(x)
  z = If<then_branch=graph "then"() { s = Add(a, w) return s }, else_branch=graph() { return t = Mul(Neg(b), w) }>(c)
  _x = Clip(z, _, f32 6) @clip doc "why" meta {"k": "v"}
  return z, last: f32[3,4] = _x
}
)");
  auto m = parse(
      "graph(c: bool[]) { z = If<then_branch=graph() { return a = f32 1 }, else_branch=graph() { return a = f32 2 }>(c) return "
      "z }");
  EXPECT_EQ(m->graph().first()->body("else_branch")->output(0)->constant()->as_double(0), 2);
}

TEST(Text, NamesThatAreNoIdentifiers) {
  EXPECT_EQ(roundtrip("graph(%\"onnx::Gather_1\": f32[3], %\"f32\": f32[3]) { %\"a b\" = Add(%\"onnx::Gather_1\", %\"f32\") "
                      "@\"/n\" return %\"a b\" }"),
            "graph(%\"onnx::Gather_1\": f32[3], %\"f32\": f32[3]) {\n  %\"a b\" = Add(%\"onnx::Gather_1\", %\"f32\") @\"/n\"\n "
            " return %\"a b\"\n}\n");
  roundtrip("graph(%\"%1\": f32[3], %\"\\x01\": f32[3]) { %1 = Neg(%\"%1\") return y = Add(%1, %1) }");
}

TEST(Text, OneNameForTwoValuesStaysApart) {
  Model m;
  m.set_opset_version("", 23);
  Graph& g = m.add_function("main").graph();
  Value* x[] = {g.add_input("x", m.types().tensor(DType::kF32, {3}))};
  for (int i = 0; i < 2; ++i) {
    Node& n = m.new_node(m.op("", "Neg"), x, 1);
    g.append(n);
    n.result()->set_name(m.name("x"));
    g.add_output(*n.result(), i == 0 ? "a" : "x");
    x[0] = n.result();
  }
  std::string printed = print(m);
  EXPECT_EQ(printed, "graph(x: f32[3]) {\n  x#1 = Neg(x)\n  x#2 = Neg(x#1)\n  return a = x#1, x = x#2\n}\n");
  auto back = parse(printed);
  EXPECT_TRUE(equal_models(m, *back));
  EXPECT_EQ(print(*back), printed);
  EXPECT_EQ(back->graph().output(0)->name().view(), "x");
}

TEST(Text, WholeModels) {
  std::string text = R"(opset 18, "com.microsoft" 1, "custom" 2
ir_version 8
producer "me" "1.0"
domain "org"
model_version 3
doc "a model"
meta {"a": "b", "c": "d"}
training_info "0a00"
unknown "ff01"
range n 0..8

graph "net"(x: f32[n,3] doc "the input", y as %0) doc "main" {
  z = com.microsoft::Gelu(x)
  h = custom::twice<alpha=0.5>(z)
  old = Relu!6(h)
  info h: f32[n,3] doc "hidden"
  raw quantization_annotation "0102"
  return old: f32[n,3]
}

function custom::twice<alpha, beta=1>(a) opset 18, "custom" 2 function_doc "doubles" {
  b = Mul<k=@alpha:1>(a, a)
  return b
}
)";
  std::string printed = roundtrip(text);
  EXPECT_NE(printed.find("\n  h = custom::twice"), std::string::npos) << "the function says the type: " << printed;
  auto m = parse(printed);
  EXPECT_EQ(m->opset_version("com.microsoft"), 1);
  EXPECT_EQ(m->functions().size(), 2u);
  EXPECT_EQ(m->dims().symbol_range("n").max, 8);
  EXPECT_EQ(m->graph().last()->op().since_version, 6);
  EXPECT_EQ(m->graph().input(1)->name().view(), "");
  EXPECT_EQ(m->find_function("custom", "twice")->attributes, std::vector<std::string>{"alpha"});
}

TEST(Text, ConstantNodesKeepTheirForm) {
  std::string text = "graph() {\n  a = Constant<value=f32[2]{1,2}>()\n  b = Constant<value_ints=[1, 2]>()\n  return a, b\n}\n";
  EXPECT_EQ(roundtrip(text), text);
  auto m = parse(text);
  EXPECT_TRUE(m->graph().output(1)->is_constant());
  EXPECT_EQ(m->types().to_string(m->graph().output(1)->type()), "i64[2]");
}

TEST(Text, PrintsProvenanceAndTypesAsComments) {
  auto m = parse("graph(x: f32[B,3]) { y = Neg(x) return y }");
  m->graph().first()->set_provenance(
      m->add_provenance({.sources = {{.file = "model.py", .line = 41, .function = "loss", .scope = "net/a"}}}));
  std::string printed = print(*m, {.provenance = true, .types = true});
  EXPECT_NE(printed.find("y = Neg(x)  // f32["), std::string::npos) << printed;
  EXPECT_NE(printed.find("]; model.py:41 (loss) net/a\n"), std::string::npos) << printed;
  EXPECT_EQ(print(*parse(printed)), print(*m)) << "comments are no part of the model";
}

TEST(Text, ErrorsShowThePlaceAndWhatWasExpected) {
  EXPECT_EQ(error_of("graph(x: f32[3]) {\n  z = Mul(x y)\n}\n"),
            "case.sx:2:13: expected ',' or ')', found 'y'\n  2 |   z = Mul(x y)\n    |             ^");
  auto has = [](std::string_view text, std::string_view part) {
    std::string e = error_of(text);
    EXPECT_NE(e.find(part), std::string::npos) << text << "\n" << e;
  };
  has("graph(x) { return y }", "no value is called 'y'");
  has("graph(x) { y = Neg(x) y = Neg(x) }", "'y' is defined already");
  has("graph(x, x) { }", "'x' is defined already");
  has("graph(x: f33[3]) { }", "1:10: expected a type like f32[B,3]");
  has("graph(x: f32[B+]) { }", "expected an integer, a name or '('");
  has("graph(x) { y = Neg(x }", "expected ',' or ')', found '}'");
  has("graph(x) { y = Neg<axis=>(x) }", "expected an attribute, found '>'");
  has("graph(x) { y = Neg<a=1, a=2>(x) }", "attribute 'a' is given twice");
  has("graph(x) { y = Neg(x)", "found the end of the text");
  has("graph(x) { y = \"abc }", "has no end on its line");
  has("graph(x) { return f32 }", "no value is called 'f32'");
  has("graph(x) { return _ }", "cannot return an absent value");
  has("graph(x) { f32 = Neg(x) }", "is a word of the text form");
  has("graph(x) {} graph(y) {}", "has a main graph already");
  has("", "expected a graph, found the end");
  has("graph(x) { y = N<a=[1, f32]>(x) }", "a list in brackets holds");
  has("graph(x) { return x x }", "expected '}' after return");
  has("range n 3", "expected a range like 0..8");
  has("opset x", "expected an opset version");
}

TEST(Text, RandomDamageIsAnErrorAndNothingWorse) {
  const std::string text = R"(opset 18, "m" 1
graph "g"(c: bool[], x: f32[2*B + 1,3], y = f32 1) {
  w = f32[4]{0.5...}
  k = i64[2]{4,-8} 
  a, b = Split<axis=0, o=@r:1, d={a: (1, none)}, s="x\x00">(x)
  z = If<then_branch=graph "t"() { s = Add(a, w) return s }, e[]=graph() { return t = Mul(Neg(b), w) }>(c)
  info z: seq(f32[B]) doc "d"
  return z, %"q r": f32[3,4] = m::F(z, _) @n meta {"k": "v"}
}
)";
  parse(text);
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string damaged = text;
    for (uint32_t k = 1 + random() % 3; k > 0; --k) {
      size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0: damaged.erase(at, 1 + random() % 5); break;
        case 1: damaged[at] = static_cast<char>(random()); break;
        case 2: damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20)); break;
        case 3: damaged.resize(at); break;
      }
      if (damaged.empty()) break;
    }
    try {
      auto m = parse(damaged);
      print(*m);
    } catch (const Error& e) {
      EXPECT_NE(e.code(), ErrorCode::kInternal) << e.what() << "\n" << damaged;
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

// The guide's examples parse and survive printing.
TEST(Text, ExamplesOfTheGuide) {
  std::ifstream in("docs/reference/text_form.md");  // tests run in the source folder
  ASSERT_TRUE(in);
  std::string line, example;
  bool inside = false;
  int count = 0;
  while (std::getline(in, line)) {
    if (inside && line == "```") {
      SCOPED_TRACE(example);
      roundtrip(example);
      inside = false;
      ++count;
    } else if (inside) {
      example += line + '\n';
    } else if (line == "```sx") {
      inside = true;
      example.clear();
    }
  }
  EXPECT_EQ(count, 8);
}

TEST(Text, NestingHasABound) {
  auto nested = [](int depth) {
    std::string text = "graph(c: bool[], x: f32[3]) {\n";
    for (int i = 0; i < depth; ++i) text += "y = If<else_branch=graph() { return r = Neg(x) }, then_branch=graph() {\n";
    text += "y = Abs(x)\n";
    for (int i = 0; i < depth; ++i) text += "return y }>(c)\n";
    return text + "return y }";
  };
  auto m = parse(nested(300));
  std::string printed = print(*m);
  EXPECT_EQ(print(*parse(printed)), printed);
  EXPECT_NE(error_of(nested(2000)).find("graphs nest more than 500 levels"), std::string::npos);
  std::string deep = "graph(x: f32[3]) { y = ";
  for (int i = 0; i < 100000; ++i) deep += "Neg(";
  EXPECT_NE(error_of(deep).find("expressions nest more than 200 levels"), std::string::npos);
  std::string brackets = "graph(x: f32[3]) { y = Neg<a=" + std::string(100000, '(');
  EXPECT_NE(error_of(brackets).find("nest too deeply"), std::string::npos);
}

TEST(Text, AMillionNodesInALine) {
  for (bool named : {true, false}) {
    Model m;
    m.set_opset_version("", 23);
    Graph& g = m.add_function("main").graph();
    Value* v = g.add_input("x", m.types().tensor(DType::kF32, {3}));
    const Op& op = m.op("", "Neg");
    for (int i = 0; i < 1000000; ++i) {
      Node& n = m.new_node(op, {&v, 1}, 1);
      g.append(n);
      v = n.result();
      n.set_unchecked(false);
      if (named) v->set_name(m.name("v" + std::to_string(i)));
    }
    g.add_output(*v, "y");
    std::string printed = print(m);
    auto back = parse(printed);
    EXPECT_EQ(back->num_nodes(), 1000000u);
    EXPECT_TRUE(!named || print(*back) == printed);
  }
}

}  // namespace
}  // namespace sardonyx
