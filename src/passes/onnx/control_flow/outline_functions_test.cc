// Covers what the text of a graph does not show: names of outlined functions, which come from scopes and
// functions of the program.
#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

constexpr std::string_view kTwice = R"(
graph(x: f32[2,3]) {
  a = Mul(x, x)
  b = Tanh(a)
  c = Add(b, x)
  d = Mul(c, c)
  e = Tanh(d)
  f = Add(e, c)
  return f
}
)";

void outline(Model& m) {
  PassRequest request{.passes = {"outline_functions"}, .strict = true, .verify_graph = true};
  request.options.emplace_back("outline_functions.min_nodes", "3");
  run_passes(m, request);
}

const Function* outlined(const Model& m) {
  for (const auto& f : m.functions()) {
    if (f->domain.starts_with("custom.")) return f.get();
  }
  return nullptr;
}

// The name of the function outlined from three nodes with these scopes that occur twice.
std::string name_of(std::vector<std::vector<Source>> sources) {
  const auto m = parse(kTwice);
  size_t i = 0;
  for (Node& n : m->graph().nodes()) {
    n.set_provenance(m->add_provenance({.sources = sources[i % sources.size()], .source_count = 1}));
    ++i;
  }
  outline(*m);
  const Function* f = outlined(*m);
  if (f == nullptr) return "none";
  EXPECT_EQ(f->domain, "custom." + std::string(f->name) + ".1");
  return std::string(f->name);
}
std::string name_of(std::string scope, std::string function = "") {
  return name_of({{Source{.function = std::move(function), .scope = std::move(scope)}}});
}

TEST(OutlineFunctions, scopes_name_them) {
  EXPECT_EQ(name_of("Net/Block_3"), "Block");
  EXPECT_EQ(name_of("Block_3"), "Block");
  EXPECT_EQ(name_of("net/layers[13]"), "layers");
  EXPECT_EQ(name_of("net/layers.3."), "layers");
  EXPECT_EQ(name_of("Net/transpose(jvp(eqx.nn.Linear))/vmap()"), "Linear");
  EXPECT_EQ(name_of("Net/jvp(Block)"), "Block");
  EXPECT_EQ(name_of("Net/"), "Net");
  EXPECT_EQ(name_of("Net/3d_conv"), "d_conv");
  EXPECT_EQ(name_of("Net/_Inner2"), "_Inner");
  EXPECT_EQ(name_of("Net/vmap(BNTS,BSNH->BTNH)"), "part");
  EXPECT_EQ(name_of("Net/blocks/17"), "blocks");
  EXPECT_EQ(name_of("17"), "part");
  EXPECT_EQ(name_of(""), "part");
  EXPECT_EQ(name_of("Net/my block"), "my_block");
  EXPECT_EQ(name_of("Net/f(x"), "part");
  EXPECT_EQ(name_of("Net/x)"), "part");
}

TEST(OutlineFunctions, functions_of_the_program_name_them_where_no_scope_does) {
  EXPECT_EQ(name_of("", "Net.<locals>.block"), "block");
  EXPECT_EQ(name_of("", "Block.__call__"), "Block");
  EXPECT_EQ(name_of("", "step"), "step");
  EXPECT_EQ(name_of("", "<lambda>"), "part");
  EXPECT_EQ(name_of("", "outer.<lambda>"), "outer");
  EXPECT_EQ(name_of("Scope", "function"), "Scope");
  // The last node's function decides.
  const auto by = [](std::string f) { return std::vector<Source>{Source{.function = std::move(f)}}; };
  EXPECT_EQ(name_of({by("first"), by("second"), by("third")}), "third");
  EXPECT_EQ(name_of({by("first"), by("second"), by("")}), "second");
  EXPECT_EQ(name_of({{Source{.function = "one"}, Source{.function = "two"}}}), "one");
  // The function of the list element's own module decides, not that of a submodule.
  const auto in = [](std::string s, std::string f) {
    return std::vector<Source>{Source{.function = std::move(f), .scope = std::move(s)}};
  };
  EXPECT_EQ(name_of("Net/blocks/17", "Block.__call__"), "Block");
  EXPECT_EQ(name_of("Net/blocks17", "Block.__call__"), "blocks");
  EXPECT_EQ(name_of("Net/b17", "Block.__call__"), "b");
  EXPECT_EQ(name_of({in("One/Net", "one"), in("Two/Net", "two"), in("Three/Net", "three")}), "three");
  EXPECT_EQ(name_of({in("Net/blocks/17/up", "Linear"), in("Net/blocks/17", "Block"), in("Net/blocks/17/down", "Linear")}),
            "Block");
  EXPECT_EQ(name_of({in("Net/blocks/17/up", "Linear"), in("Net/blocks/17/down", "Linear")}), "blocks");
}

TEST(OutlineFunctions, what_the_scopes_of_all_nodes_begin_with_counts) {
  const auto in = [](std::string s) { return std::vector<Source>{Source{.scope = std::move(s)}}; };
  EXPECT_EQ(name_of({in("Net/Block_1/Dense_0"), in("Net/Block_1/Dense_1"), in("Net/Block_1")}), "Block");
  EXPECT_EQ(name_of({in("Net/Block_1"), in("Net/Block_12"), in("Net/Block_1")}), "Net");
  EXPECT_EQ(name_of({in("Net/Block_12"), in("Net/Block_1"), in("Net/Block_12")}), "Net");
  EXPECT_EQ(name_of({in("Net/Block"), in(""), in("Net/Block")}), "Block");
  EXPECT_EQ(name_of({in("One/Block"), in("Two/Block"), in("One/Block")}), "part");
  EXPECT_EQ(name_of({in("Net/Alpha/x"), in("Net/Alpha/y"), in("Net/Alphabet")}), "Net");
  EXPECT_EQ(name_of({in("Net/Alphabet"), in("Net/Alpha"), in("Net/Alpha")}), "Net");
  EXPECT_EQ(name_of({in("Net/Block_1/Dense"), in("Net/Block_1"), in("Net/Block_1")}), "Block");
  EXPECT_EQ(name_of({in("Net/Alpha/x"), in("Net/Other/x"), in("Net/Alpha/x")}), "Net");
  EXPECT_EQ(name_of({in("O/Block"), in("P/Block"), in("O/Block")}), "part");
  // Names come from the first occurrence.
  const auto one = in("Net/One"), other = in("Net/Other");
  EXPECT_EQ(name_of({one, one, one, other, other, other}), "One");
}

TEST(OutlineFunctions, weights_are_called_what_their_names_end_in) {
  const auto named = [](std::string_view first, std::string_view second, std::string_view third, std::string_view fourth) {
    const auto m = parse(R"(
graph(x: f32[2,3]) {
  a = MatMul(Add(x, f32[3]{7,8,9}), f32[3,3]{1,2,0,0.5,1,0,0,0,1})
  b = Tanh(a)
  c = MatMul(Add(b, f32[3]{4,5,6}), f32[3,3]{0,1,0,1,0,0,0,0,2})
  d = Tanh(c)
  return d
}
)");
    const auto constants = m->graph().constants();
    EXPECT_EQ(constants.size(), 4u);
    const std::string_view names[] = {first, second, third, fourth};
    for (size_t i = 0; i < 4; ++i) constants[i]->set_name(m->name(names[i]));
    outline(*m);
    std::string all;
    for (const Port& p : outlined(*m)->graph().inputs()) all += std::string(p.name.view()) + " ";
    return all;
  };
  EXPECT_EQ(named("a[0].bias", "a[0].kernel", "a[1].bias", "a[1].kernel"), "input_0 bias kernel ");
  EXPECT_EQ(named("bias", "kernel", "bias", "kernel"), "input_0 bias kernel ");
  EXPECT_EQ(named("a/bias", "0.w/kernel", "b/bias", "1.w/kernel"), "input_0 bias w/kernel ");
  EXPECT_EQ(named("one", "two", "three", "four"), "input_0 weight_1 weight_2 ");
  EXPECT_EQ(named("xbias", "kernel", "ybias", "kernel"), "input_0 weight_1 kernel ");
  EXPECT_EQ(named("a.w", "b.w", "c.w", "d.w"), "input_0 w weight_2 ");
  EXPECT_EQ(named("", "k", "", "k"), "input_0 weight_1 k ");
  EXPECT_EQ(named("bias", "0.kernel", "x.bias", "kernel"), "input_0 bias weight_2 ");
  EXPECT_EQ(named("a.w1", "k1", "a.w2", "k2"), "input_0 weight_1 weight_2 ");
}

TEST(OutlineFunctions, calls_take_names_and_provenance_and_the_model_a_version_that_has_functions) {
  const auto m = parse(kTwice);
  m->ir_version = 7;
  Graph& g = m->graph();
  const uint32_t from = m->add_provenance({.sources = {Source{.function = "f"}}, .source_count = 1});
  g.last()->set_provenance(from);
  Value& c = *g.first()->next()->next()->result();
  ASSERT_EQ(c.name().view(), "c");
  g.edit_value_info(c).notes = std::make_shared<const Notes>(Notes{"halfway", {}});
  outline(*m);
  EXPECT_EQ(m->ir_version, 8);
  ASSERT_EQ(g.num_nodes(), 2u);
  EXPECT_EQ(g.last()->provenance(), from);
  const Value& made = *g.first()->result();
  EXPECT_EQ(made.name().view(), "c");
  ASSERT_TRUE(g.value_info.contains(&made));
  EXPECT_EQ(g.value_info.at(&made).notes->doc, "halfway");
  // Names that only one occurrence uses do not appear in the function.
  for (const Node& n : outlined(*m)->graph().nodes()) {
    EXPECT_TRUE(n.name().empty());
    EXPECT_TRUE(n.result()->name().empty());
  }
}

TEST(OutlineFunctions, domains_of_functions_that_only_functions_call_are_taken) {
  const auto m = parse(kTwice);
  m->add_function("other").domain = "custom.part.1";
  outline(*m);
  EXPECT_EQ(m->graph().first()->op().domain, "custom.part.2");
}

TEST(OutlineFunctions, parts_do_not_stretch_far) {
  // 304 occurrences of three nodes. The nodes between the occurrences all stand in the middle of the first
  // one.
  const auto functions = [](int between) {
    std::string text = "graph(x: f32[3], z: f32[3]) {\n  a = Exp(x)\n", all;
    for (int i = 0; i < between; ++i) {
      text += "  s" + std::to_string(i) + " = Sin(z)\n";
      all += (i == 0 ? "s" : ", s") + std::to_string(i);
    }
    text += "  b = Tanh(Neg(a))\n  c = Tanh(Neg(Exp(b)))\n  m = Max(" + all + ")\n  return c, m\n}\n";
    const auto m = parse(text);
    outline(*m);
    return m->functions().size() - 1;
  };
  EXPECT_EQ(functions(302), 1u);
  EXPECT_EQ(functions(303), 0u);
}

}  // namespace
}  // namespace sardonyx
