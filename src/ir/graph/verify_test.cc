#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "ir/graph/use_list.h"
#include "ir/text/spelling.h"
#include "sardonyx/error.h"
#include "sardonyx/infer.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

std::unique_ptr<Model> sample() {
  return parse(R"(
opset 23, "custom" 1
graph(c: bool[], x: f32[6,4]) {
  w = f32[4]{0.5...}
  a = Add(x, w)
  z = If<then_branch=graph() { s = Mul(a, w) return s }, else_branch=graph() { t = Neg(a) return t }>(c)
  y = custom::f(z)
  return y
}
function custom::f(p) { q = Relu(p) return q }
function custom::g(p) { q = Abs(p) return q }
)");
}

std::string error_of(const Model& m, const VerifyOptions& options = {}) {
  try {
    verify(m, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
    return e.what();
  }
  return "no error";
}

// Breaks the sample and expects verify() to report it.
void expect_error(std::string_view part, const std::function<void(Model&)>& break_it, const VerifyOptions& options = {}) {
  auto m = sample();
  ASSERT_EQ(error_of(*m), "no error");
  break_it(*m);
  std::string e = error_of(*m, options);
  EXPECT_NE(e.find(part), std::string::npos) << "expected: " << part << "\ngot: " << e;
}

Node& node(Model& m, size_t i) {
  Node* n = m.graph().first();
  for (; i > 0; --i) n = n->next();
  return *n;
}

TEST(Verify, AcceptsASoundModel) {
  auto m = sample();
  EXPECT_EQ(error_of(*m), "no error");
  EXPECT_EQ(error_of(*clone_model(*m)), "no error");
}

TEST(Verify, NamesWhatIsBrokenAndShowsTheNode) {
  expect_error("'y' is used before it is defined", [](Model& m) { node(m, 0).set_input(0, node(m, 2).result()); });
  expect_error("a = Add(y, w)", [](Model& m) { node(m, 0).set_input(0, node(m, 2).result()); });
  expect_error("'s' is used outside its scope",
               [](Model& m) { node(m, 2).set_input(0, node(m, 1).body("then_branch")->first()->result()); });
  expect_error("'s' is used outside its scope", [](Model& m) {
    node(m, 1).body("else_branch")->first()->set_input(0, node(m, 1).body("then_branch")->first()->result());
  });
  expect_error("a placeholder was never filled", [](Model& m) { node(m, 0).set_input(0, &m.new_placeholder("later")); });
  expect_error("in no graph", [](Model& m) {
    Value* x[] = {m.graph().input(1)};
    node(m, 0).set_input(0, m.new_node(m.op("", "Neg"), x, 1).result());
  });
  expect_error("in graph 'main', inside If", [](Model& m) {
    Graph& g = *node(m, 1).body("else_branch");
    g.first()->set_input(0, node(m, 2).result());
  });
}

TEST(Verify, UseListsAreChecked) {
  // A slot missing from the use list.
  expect_error("use list", [](Model& m) {
    Use& u = node(m, 0).operands()[0];
    Value* v = u.value;
    UseList::unlink(u);
    u.value = v;
    u.link = &u.next;
  });
  // A slot with another value than the list that it is in.
  expect_error("use list of 'x' is broken", [](Model& m) { node(m, 0).operands()[0].value = m.graph().constants()[0]; });
}

TEST(Verify, InterfaceNamesAreUnique) {
  expect_error("two inputs of function 'main' are called 'c'", [](Model& m) { m.graph().input_port(1).name = m.name("c"); });
  expect_error("two results of function 'main' are called 'y'",
               [](Model& m) { m.graph().add_output(*m.graph().input(1), "y"); });
  expect_error("two functions are called 'custom::f'", [](Model& m) { m.find_function("custom", "g")->name = "f"; });
  expect_error("declares attribute 'a' twice", [](Model& m) { m.find_function("custom", "g")->attributes = {"a", "a"}; });
}

TEST(Verify, ImportsAndCalls) {
  expect_error("imports no opset of domain 'ai.onnx'", [](Model& m) { m.opset_imports.clear(); });
  expect_error("imports no opset of domain 'other'", [](Model& m) {
    Value* x[] = {m.graph().input(1)};
    m.graph().append(m.new_node(m.op("other", "F"), x, 1));
  });
  expect_error("imported twice", [](Model& m) { m.opset_imports.push_back({"ai.onnx", 22}); });
  expect_error("has 2 operands and 1 results, its function has 1 and 1", [](Model& m) {
    Value* x[] = {m.graph().input(1), m.graph().input(1)};
    m.graph().append(m.new_node(m.op("custom", "f"), x, 1));
  });
  auto call = [](Model& m, std::string_view from, std::string_view to) {
    Graph& g = m.find_function("custom", from)->graph();
    Value* x[] = {g.input(0)};
    g.append(m.new_node(m.op("custom", to), x, 1));
  };
  expect_error("functions call each other in a cycle: custom::f -> custom::g -> custom::f", [&](Model& m) {
    call(m, "f", "g");
    call(m, "g", "f");
  });
  expect_error("cycle: custom::g -> custom::g", [&](Model& m) { call(m, "g", "g"); });
}

TEST(Verify, TypesFollowTheOperators) {
  auto typed = [](Model& m, const Op& op, std::vector<Value*> in, const Type* result) {
    Node& n = m.new_node(op, in, 1);
    m.graph().append(n);
    n.result()->set_type(result);
    n.set_unchecked(false);
  };
  expect_error("operand 0 of Add ('A') cannot be bool[]",
               [&](Model& m) { typed(m, m.op("", "Add"), {m.graph().input(0), m.graph().input(0)}, nullptr); });
  expect_error("but others of type T are f32", [&](Model& m) {
    typed(m, m.op("", "Add"), {m.graph().input(1), m.graph().add_constant(Tensor::scalar(1))}, nullptr);
  });
  expect_error("result 0 of Add is i64[]", [&](Model& m) {
    typed(m, m.op("", "Add"), {m.graph().input(1), m.graph().input(1)}, m.types().scalar(DType::kI64));
  });
  expect_error("has 1 operands and 1 results", [&](Model& m) { typed(m, m.op("", "Add"), {m.graph().input(1)}, nullptr); });
  expect_error("absent but required", [&](Model& m) { typed(m, m.op("", "Add"), {nullptr, m.graph().input(1)}, nullptr); });
  expect_error("its payload is i64[]",
               [&](Model& m) { m.graph().add_constant(Tensor::scalar(1))->set_type(m.types().scalar(DType::kF32)); });
  expect_error("result 'y' is declared", [&](Model& m) {
    m.graph().output_port(0).declared = m.types().tensor(DType::kF32, {7});
    m.graph().output(0)->set_type(m.types().tensor(DType::kF32, {8}));
  });
  expect_error("were not checked",
               [&](Model& m) {
                 Value* x[] = {m.graph().input(1)};
                 m.graph().append(m.new_node(m.op("", "Neg"), x, 1));
               },
               {.allow_unchecked = false});
}

TEST(Verify, ChangesNothing) {
  auto m = sample();
  std::string before = print(*m);
  uint32_t ids = m->value_id_limit();
  verify(*m, {.shapes = true});
  EXPECT_EQ(print(*m), before);
  EXPECT_EQ(m->value_id_limit(), ids);
}

TEST(Verify, WarnsOfWhatIsLegalButUnlikely) {
  auto m = parse("graph(x: f32[3]) { y = Softmax<axes=1>(x) z = Neg(y) %1 = Add(x) return z }");
  m->graph().first()->next()->result()->set_name(m->name("x"));
  auto list = warnings(*m);
  auto has = [&](std::string_view part) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& w) { return w.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(has("has no attribute 'axes': did you mean 'axis'?"));
  EXPECT_TRUE(has("two values are called 'x'"));
  EXPECT_TRUE(has("not checked, or ill-typed: %0 = Add(x)"));
  EXPECT_TRUE(warnings(*sample()).empty());
}

TEST(Spelling, UnknownNames) {
  auto spelling_error = [](const char* text) -> std::string {
    try {
      check_spelling(*parse(text));
    } catch (const Error& e) {
      return fmt::format("{} | {}", e.message(), fmt::join(e.notes(), " | "));
    }
    return {};
  };
  EXPECT_EQ(
      spelling_error("opset 23\ngraph(x: f32[3]) { y = Tann(x) return y }"),
      "there is no operator Tann in opset 23 | at y = Tann(x) | help: did you mean 'Tan' or 'Tanh'? | help: an operator of a "
      "runtime's own has a domain: pass domain=");
  EXPECT_EQ(
      spelling_error("opset 18\ngraph(x: f32[3]) { y = Swish(x) return y }"),
      "there is no operator Swish in opset 18 | at y = Swish(x) | help: Swish exists since opset 24: export with that one or a "
      "later one");
  EXPECT_EQ(spelling_error("opset 23\ngraph(x: f32[3]) { y = Elu<alhpa=2.0>(x) return y }"),
            "Elu-22 has no attribute 'alhpa' | at y = Elu<alhpa=2.0>(x) | help: did you mean 'alpha'?");
  EXPECT_EQ(spelling_error("opset 23\ngraph(x: f32[3]) { y = Upsample(x) return y }"),
            "Upsample is deprecated since opset 10 | at y = Upsample(x)");
  // Bodies are checked too. Other domains may have unknown operators, and functions belong to the model.
  EXPECT_NE(spelling_error("opset 23\ngraph(c: bool[], x: f32[3]) { y = If<then_branch=graph() { a = Tann(x) return a }, "
                           "else_branch=graph() { b = Neg(x) return b }>(c) return y }"),
            "");
  EXPECT_EQ(spelling_error("opset 23, \"com.microsoft\" 1, \"my\" 1\ngraph(x: f32[3]) { y = com.microsoft::Tann(x) z = "
                           "my::Elu<alhpa=2.0>(y) return z }"),
            "");
}

TEST(Verify, AMillionNodes) {
  Model m;
  m.set_opset_version("", 23);
  Graph& g = m.add_function("main").graph();
  Value* v = g.add_input("x", m.types().tensor(DType::kF32, {3}));
  const Type* t = v->type();
  const Op& op = m.op("", "Neg");
  for (int i = 0; i < 1000000; ++i) {
    Node& n = m.new_node(op, {&v, 1}, 1);
    g.append(n);
    v = n.result();
    v->set_type(t);
    n.set_unchecked(false);
  }
  g.add_output(*v, "y");
  EXPECT_EQ(error_of(m), "no error");
}

}  // namespace
}  // namespace sardonyx
