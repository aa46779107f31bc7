// Checks what comparing graphs does not show: the order of ops, names of ops and of inner values, drawings,
// and options that are refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "passes/catalog.h"
#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {
namespace {

struct Ran {
  std::string text;      // of each op, blocks after it in brackets: op=result or op@name=result
  bool changed = false;  // according to the pass
};

std::string ops_of(const Graph& g) {
  std::string out;
  for (const Node& n : g.nodes()) {
    if (!out.empty()) out += ' ';
    out += n.op().name;
    if (!n.name().empty()) out += fmt::format("@{}", n.name().view());
    for (const Value& v : n.results()) out += fmt::format("{}{}", v.index() == 0 ? "=" : ",", v.name().view());
    for (const Body& b : n.bodies()) out += fmt::format("[{}]", ops_of(*b.graph));
  }
  return out;
}

Ran run(std::string_view pass, std::string_view graph, int version = 9,
        std::vector<std::pair<std::string, std::string>> options = {}) {
  const auto m = parse(fmt::format("opset {} graph mil{}", version, graph));
  const PipelineReport report =
      run_passes(*m, {.passes = {std::string(pass)}, .options = std::move(options), .strict = true, .verify_graph = true});
  return {ops_of(m->graph()), report.passes.at(0).changed};
}
void expect(std::string_view pass, std::string_view graph, std::string_view ops, bool changed, int version = 9,
            std::vector<std::pair<std::string, std::string>> options = {}) {
  const Ran ran = run(pass, graph, version, std::move(options));
  EXPECT_EQ(ran.text, ops) << graph;
  EXPECT_EQ(ran.changed, changed) << graph;
}

TEST(MilPassOrder, UpdatesFollowTheWrittenValue) {
  const auto after = [](std::string_view body, std::string_view ops, bool changed) {
    expect("canonicalize_inplace_pattern",
           fmt::format("(s: state(f16[3]), t: state(f16[3]), x: f16[3], y: f16[3], c: bool[]) {{ {} }}", body), ops, changed);
  };
  after("a = relu(x) b = tanh(y) u = coreml_update_state(s, a) return b, u", "relu=a coreml_update_state=u tanh=b", true);
  after("a = relu(x) u = coreml_update_state(s, a) b = tanh(y) return b, u", "relu=a coreml_update_state=u tanh=b", false);
  after("a = relu(x) b = tanh(y) c2 = exp(y) u = coreml_update_state(s, a) v = coreml_update_state(t, b) return c2, u, v",
        "relu=a coreml_update_state=u tanh=b coreml_update_state=v exp=c2", true);
  after("a = relu(x) b = tanh(y) u = coreml_update_state(s, a) v = coreml_update_state(t, a) return b, u, v",
        "relu=a coreml_update_state=u coreml_update_state=v tanh=b", true);
  // Ops that read or write the state stay before the update.
  after("a = relu(x) r = read_state(s) b = tanh(y) u = coreml_update_state(s, a) return r, b, u",
        "relu=a read_state=r tanh=b coreml_update_state=u", false);
  after("r = read_state(s) a = relu(x) b = tanh(y) u = coreml_update_state(s, a) return r, b, u",
        "read_state=r relu=a coreml_update_state=u tanh=b", true);
  after("a = relu(x) b = tanh(y) v = coreml_update_state(s, b) u = coreml_update_state(s, a) return v, u",
        "relu=a tanh=b coreml_update_state=v coreml_update_state=u", false);
  after("a = relu(x) b = tanh(y) u = coreml_update_state(s, a) d = exp(y) v = coreml_update_state(s, b) return u, d, v",
        "relu=a coreml_update_state=u tanh=b coreml_update_state=v exp=d", true);
  // Another state does not matter.
  after("a = relu(x) r = read_state(t) b = tanh(y) u = coreml_update_state(s, a) return r, b, u",
        "relu=a coreml_update_state=u read_state=r tanh=b", true);
  // An update by a value that was read or written does not move.
  after("r = read_state(t) b = tanh(y) u = coreml_update_state(s, r) return b, u", "read_state=r tanh=b coreml_update_state=u",
        false);
  after("a = relu(x) u = coreml_update_state(s, a) b = tanh(y) v = coreml_update_state(t, u) return b, v",
        "relu=a coreml_update_state=u tanh=b coreml_update_state=v", false);
  after("b = tanh(y) u = coreml_update_state(s, x) return b, u", "tanh=b coreml_update_state=u", false);
  // A write and its read move together.
  after("a = relu(x) b = tanh(y) write_state(s, a) r = read_state(s) return b, r", "relu=a write_state read_state=r tanh=b",
        true);
  after("a = relu(x) b = tanh(y) write_state(s, a) r = read_state(t) return b, r", "relu=a write_state tanh=b read_state=r",
        true);
  after("a = relu(x) b = tanh(y) write_state(s, a) r = read_state(s) write_state(t, a) q = read_state(t) return b, r, q",
        "relu=a write_state read_state=r write_state read_state=q tanh=b", true);
  // Ops with blocks that read the state.
  after(
      "a = relu(x) b = cond<true_fn=graph() { r = read_state(s) return r }, false_fn=graph() { return y }>(c) "
      "u = coreml_update_state(s, a) return b, u",
      "relu=a cond=b[read_state=r][] coreml_update_state=u", false);
  after(
      "a = relu(x) b = cond<true_fn=graph() { e = tanh(y) d = exp(y) u = coreml_update_state(s, e) f = add(d, u) return f }, "
      "false_fn=graph() { return y }>(c) return a, b",
      "relu=a cond=b[tanh=e coreml_update_state=u exp=d add=f][]", true);
}

TEST(MilPassOrder, CastsAndTransposesPrecedeTheirUsers) {
  const auto after = [](std::string_view body, std::string_view ops, bool changed) {
    expect("topological_reorder", fmt::format("(x: f32[2,3], y: f32[2,3], c: bool[]) {{ {} }}", body), ops, changed);
  };
  after("a = cast(x, dtype=str \"fp16\") b = relu(y) d = tanh(a) return b, d", "relu=b cast=a tanh=d", true);
  after("b = relu(y) a = cast(x, dtype=str \"fp16\") d = tanh(a) return b, d", "relu=b cast=a tanh=d", false);
  after("a = transpose(x, perm=i32[2]{1,0}) b = relu(y) d = tanh(a) return b, d", "relu=b transpose=a tanh=d", true);
  after("a = square(x) b = relu(y) d = tanh(a) return b, d", "square=a relu=b tanh=d", false);
  // The first of several users; operands of chains.
  after("a = cast(x, dtype=str \"fp16\") b = relu(y) d = tanh(a) e = exp(y) f = sinh(a) return b, d, e, f",
        "relu=b cast=a tanh=d exp=e sinh=f", true);
  after("a = cast(x, dtype=str \"fp16\") e = transpose(a, perm=i32[2]{1,0}) b = relu(y) d = tanh(e) return b, d",
        "relu=b cast=a transpose=e tanh=d", true);
  // To the end if only the result uses it.
  after("a = cast(x, dtype=str \"fp16\") b = relu(y) return a, b", "relu=b cast=a", true);
  after("b = relu(y) a = cast(x, dtype=str \"fp16\") return a, b", "relu=b cast=a", false);
  after("a = cast(x, dtype=str \"fp16\") e = cast(y, dtype=str \"fp16\") b = relu(y) return a, b, e", "relu=b cast=e cast=a",
        true);
  after("a = cast(x, dtype=str \"fp16\") b = relu(y) d = tanh(a) e = exp(y) return a, b, d, e", "relu=b cast=a tanh=d exp=e",
        true);
  // Constants, casts and transposes between it and its place do not count.
  after("b = relu(y) a = cast(x, dtype=str \"fp16\") e = const<val=f16[]{0.5}>() d = add(a, e) return b, d",
        "relu=b cast=a const=e add=d", false);
  after("b = relu(y) e = cast(y, dtype=str \"fp16\") a = cast(x, dtype=str \"fp16\") return a, b, e", "relu=b cast=e cast=a",
        false);
  after("b = relu(y) a = cast(x, dtype=str \"fp16\") e = cast(y, dtype=str \"fp16\") return a, b, e", "relu=b cast=e cast=a",
        true);
  after(
      "a = cast(x, dtype=str \"fp16\") f = transpose(x, perm=i32[2]{1,0}) b = relu(y) e = transpose(f, perm=i32[2]{1,0}) "
      "return e, b, a",
      "relu=b cast=a transpose=f transpose=e", true);
  // Groups stand together, those of later results first.
  after(
      "f = transpose(x, perm=i32[2]{1,0}) h = transpose(y, perm=i32[2]{1,0}) e = transpose(f, perm=i32[2]{1,0}) "
      "k = transpose(h, perm=i32[2]{1,0}) a = cast(x, dtype=str \"fp16\") return a, k, e",
      "transpose=f transpose=e transpose=h transpose=k cast=a", true);
  after(
      "f = transpose(x, perm=i32[2]{1,0}) e = transpose(f, perm=i32[2]{1,0}) h = transpose(y, perm=i32[2]{1,0}) "
      "k = transpose(h, perm=i32[2]{1,0}) a = cast(x, dtype=str \"fp16\") return a, k, e",
      "transpose=f transpose=e transpose=h transpose=k cast=a", false);
  after("b = relu(y) e = cast(y, dtype=str \"fp16\") a = cast(x, dtype=str \"fp16\") d = add(e, a) return b, d",
        "relu=b cast=e cast=a add=d", false);
  after("e = cast(x, dtype=str \"fp16\") b = relu(y) a = cast(x, dtype=str \"fp16\") d = add(e, a) return b, d",
        "relu=b cast=a cast=e add=d", true);
  // A user in a block is the op with the block; so is a result of the block.
  after(
      "a = cast(x, dtype=str \"fp16\") b = relu(y) d = cond<true_fn=graph() { e = tanh(a) return e }, "
      "false_fn=graph() { return a }>(c) f = exp(a) return b, d, f",
      "relu=b cast=a cond=d[tanh=e][] exp=f", true);
  after(
      "a = cast(x, dtype=str \"fp16\") b = relu(y) d = cond<true_fn=graph() { return a }, "
      "false_fn=graph() { return a }>(c) return b, d",
      "relu=b cast=a cond=d[][]", true);
  after(
      "b = cond<true_fn=graph() { a = cast(x, dtype=str \"fp16\") e = tanh(y) d = tanh(a) f = cast(e, dtype=str \"fp16\") "
      "g = add(f, d) return g }, false_fn=graph() { h = cast(y, dtype=str \"fp16\") return h }>(c) return b",
      "cond=b[tanh=e cast=a tanh=d cast=f add=g][cast=h]", true);
}

// coremltools makes constants in the order of the operands; which argument of a call C++ evaluates first is
// left to the compiler.
TEST(MilPassOrder, ConstantsOfANormalizationFollowItsOperands) {
  const auto m = parse(R"(opset 9 graph mil(x: f32[2,3,5,7]) {
    m: f32[2,1,5,7] = reduce_mean(x, axes=i32[1]{1}, keep_dims=bool true)
    d: f32[2,3,5,7] = sub(x, m)
    w: f32[2,1,5,7] = reduce_mean(mul(d, d), axes=i32[1]{1}, keep_dims=bool true)
    n: f32[2,3,5,7] = mul(d, rsqrt(add(w, f32 0.001)))
    y = mul(add(n, f32[1,3,1,1]{1.0,2.75,1.75}), f32[3,1,1]{0.25,2.0,1.0})
    return y
  })");
  run_passes(*m, {.passes = {"fuse_layernorm_or_instancenorm"}, .strict = true});
  const Node& norm = *m->graph().output(0)->def();
  ASSERT_TRUE(norm.is("layer_norm"));
  std::vector<size_t> read;  // by slot
  for (const Value* v : m->graph().constants()) {
    for (size_t i = 1; i <= 3; ++i) {
      if (norm.input(i) == v) read.push_back(i);
    }
  }
  EXPECT_EQ(read, std::vector<size_t>({1, 2, 3}));  // axes, gamma, beta
}

TEST(MilPassNames, EachIsGivenOnce) {
  // A name occurs once in text: a' stands for a second a.
  const auto after = [](std::string_view graph, std::string_view ops, bool changed) {
    std::string text(graph);
    for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos;) text.replace(at, 1, "__");
    const auto m = parse("graph mil" + text);
    const auto rename = [&](Value& v) { v.set_name(m->name(v.name().view().substr(0, v.name().view().find("__")))); };
    for (Graph* g : graphs_in(m->graph())) {
      for (Value* v : g->constants()) rename(*v);
      for (const Port& p : g->inputs()) rename(*p.value);
      for (Node& n : g->nodes()) {
        for (Value& v : n.results()) rename(v);
      }
    }
    const PipelineReport report = run_passes(*m, {.passes = {"dedup_op_and_var_names"}, .strict = true});
    EXPECT_EQ(ops_of(m->graph()), ops) << graph;
    EXPECT_EQ(report.passes.at(0).changed, changed) << graph;
  };
  after("(x: f32[3]) { a = relu(x) @n b = tanh(a) @n c = exp(b) @m return c }", "relu@n=a tanh@n_1=b exp@m=c", true);
  after("(x: f32[3]) { a = relu(x) @n b = tanh(a) @k return b }", "relu@n=a tanh@k=b", false);
  after("(x: f32[3]) { a = relu(x) a' = tanh(a) b = exp(a') return b }", "relu=a tanh=a_1 exp=b", true);
  after("(x: f32[3]) { x' = relu(x) b = exp(x') return b }", "relu=x_1 exp=b", true);
  after("(x: f32[3]) { b = exp(tanh(relu(x))) return b }", "relu= tanh= exp=b", false);
  after("(x: f32[3]) { b' = relu(x) b = exp(b') return b }", "relu=b_1 exp=b", true);
  after(
      "(x: f32[3], c: bool[]) { a = relu(x) b = cond<true_fn=graph() { a' = tanh(x) x1 = exp(a') return x1 }, "
      "false_fn=graph() { a'' = sin(x) return a'' }>(c) return b }",
      "relu=a cond=b[tanh=a_1 exp=x1][sin=a_2]", true);
  after(
      "(x: f32[3], n: i32[]) { i, y = while_loop<cond=graph(i': i32[], v: f32[3]) { g = less(i', i32 3) return g }, "
      "body=graph(i'': i32[], v': f32[3]) { j = add(i'', i32 1) x' = exp(v') return j, x' }>(n, x) return y }",
      "while_loop=i_2,y[less=g][add=j exp=x_1]", true);
  // An input that is also a result has one name for both. No other value may take the name of an input.
  after("(x: f32[3]) { a = relu(x) return a, x }", "relu=a", false);
  const auto clash = parse("graph mil(x: f32[3]) { a = relu(x) return x = a }");
  EXPECT_THROW(run_passes(*clash, {.passes = {"dedup_op_and_var_names"}, .strict = true}), Error);
  const auto twice = parse("graph mil(x: f32[3]) { a = relu(x) b = exp(x) return y = a, y = b }");
  EXPECT_THROW(run_passes(*twice, {.passes = {"dedup_op_and_var_names"}, .strict = true}), Error);
}

TEST(MilPassNames, OfLoops) {
  // i changes; a never does; b becomes invariant in the second round, after a has left the loop.
  const auto after = [](std::string_view name) {
    return run("loop_invariant_elimination",
               fmt::format("(n: i32[], x: f32[3]) {{ i, a, b = while_loop<cond=graph(k1: i32[], a1: f32[3], b1: f32[3]) {{ "
                           "g = less(k1, i32 3) return g }}, body=graph(k2: i32[], a2: f32[3], b2: f32[3]) {{ "
                           "j = add(k2, i32 1) return j, a2, a2 }}>(n, x, x) {} r = add(a, b) return i, r }}",
                           name))
        .text;
  };
  EXPECT_EQ(after("@loop"), "while_loop@loop_renamed=i[less=g][add=j] add=r");
  EXPECT_EQ(after(""), "while_loop=i[less=g][add=j] add=r");
}

TEST(MilPassOrder, PlacesBetweenOpsRunOut) {
  // Each cast moves before the next one, and so after a, which uses the first one: the space between a and z
  // is halved each time.
  std::string chain, order = "cast=c0 relu=a";
  for (int i = 1; i <= 40; ++i) {
    chain += fmt::format("c{} = cast(c{}, dtype=str \"{}\") ", i, i - 1, i % 2 == 0 ? "fp16" : "fp32");
    order += fmt::format(" cast=c{}", i);
  }
  for (bool a_is_last : {false, true}) {
    const std::string a = "a = relu(c0) ";
    const auto text = fmt::format("(x: f32[3]) {{ c0 = cast(x, dtype=str \"fp16\") {}{} z = tanh(c40) return a, z }}",
                                  a_is_last ? chain : a + chain, a_is_last ? a : "");
    expect("topological_reorder", text, order + " tanh=z", a_is_last);
  }
}

TEST(MilPassNames, OfInputsAndResults) {
  const auto cleaned = [](std::string_view name) {
    const auto m = parse(fmt::format("graph mil(%\"{}\": f32[3]) {{ y = relu(%\"{}\") return y }}", name, name));
    const PipelineReport report =
        run_passes(*m, {.passes = {"sanitize_input_output_names"}, .strict = true, .verify_graph = true});
    const std::string now(m->graph().inputs()[0].name.view());
    EXPECT_EQ(report.passes.at(0).changed, now != name) << name;
    EXPECT_EQ(m->graph().input(0)->name().view(), now);
    return now;
  };
  for (const char* fine : {"a", "z", "A", "Z", "a0", "a9", "_", "x_1"}) EXPECT_EQ(cleaned(fine), fine);
  for (const char* odd : {"a`b", "a{b", "a@b", "a[b", "a/b", "a:b", "a.b", "a^b", "a\u00e9b", "a\u20acb", "a\U0001f600b"})
    EXPECT_EQ(cleaned(odd), "a_b") << odd;
  EXPECT_EQ(cleaned("0a"), "var_0a");
  EXPECT_EQ(cleaned("9"), "var_9");
  EXPECT_EQ(cleaned(":a"), "_a");
  EXPECT_EQ(cleaned("/a"), "_a");
  EXPECT_EQ(cleaned("."), "_");
  // A value takes the name of its result if that had to change; otherwise both keep their own names.
  const auto result = [](std::string_view graph) {
    const auto m = parse(fmt::format("graph mil{}", graph));
    run_passes(*m, {.passes = {"sanitize_input_output_names"}, .strict = true, .verify_graph = true});
    return fmt::format("{} of {}", m->graph().outputs()[0].name.view(), m->graph().output(0)->name().view());
  };
  EXPECT_EQ(result("(x: f32[3]) { r = relu(x) return %\"a/b\" = r }"), "a_b of a_b");
  EXPECT_EQ(result("(x: f32[3]) { r = relu(x) return y = r }"), "y of r");
}

TEST(MilPassNames, OfQuantizedTables) {
  const auto after = [](std::string_view look_up, std::string_view scale) {
    return run("canonicalize_quantized_lut_pattern",
               fmt::format("(x: f32[2]) {{ i: i8[3,2] = constexpr_lut_to_dense(u2[3,2]{{0,1,2,3,2,1}}, "
                           "lut=i8[1,1,4,1]{{-8,5,10,100}}) {} "
                           "w: f32[3,2] = constexpr_blockwise_shift_scale(i, scale=f32[1,1]{{0.5}}) {} y = linear(x, weight=w) "
                           "return y }}",
                           look_up, scale))
        .text;
  };
  EXPECT_EQ(after("@table", "@weight"), "constexpr_blockwise_shift_scale@table=table constexpr_lut_to_dense@weight=w linear=y");
  EXPECT_EQ(after("", ""), "constexpr_blockwise_shift_scale= constexpr_lut_to_dense=w linear=y");
  EXPECT_EQ(after("@table", ""), "constexpr_blockwise_shift_scale@table=table constexpr_lut_to_dense=w linear=y");
  EXPECT_EQ(after("@constexpr_lut_to_dense_0", "@constexpr_blockwise_shift_scale_0"),
            "constexpr_blockwise_shift_scale= constexpr_lut_to_dense=w linear=y");
  const auto back = [](std::string_view scale, std::string_view look_up) {
    return run("canonicalize_quantized_lut_pattern",
               fmt::format("(x: f32[2]) mil_opset \"CoreML9\" {{ t: f32[1,1,4,1] = "
                           "constexpr_blockwise_shift_scale(i8[1,1,4,1]{{-8,5,10,100}}, "
                           "scale=f32[1,1,1,1]{{0.5}}) {} "
                           "w: f32[3,2] = constexpr_lut_to_dense(u2[3,2]{{0,1,2,3,2,1}}, lut=t) {} y = linear(x, weight=w) "
                           "return y }}",
                           scale, look_up),
               10)
        .text;
  };
  EXPECT_EQ(back("@table", "@weight"), "constexpr_lut_to_dense@table=table constexpr_blockwise_shift_scale@weight=w linear=y");
  EXPECT_EQ(back("@constexpr_blockwise_shift_scale_0", "@constexpr_lut_to_dense_0"),
            "constexpr_lut_to_dense= constexpr_blockwise_shift_scale=w linear=y");
}

TEST(MilPassNames, OfMergedCasts) {
  const auto after = [](std::string_view name, std::string_view last) {
    return run("cast_optimization",
               fmt::format("(x: f32[3], y: f32[3]) {{ {0} = greater(x, y) a = cast({0}, dtype=str \"int32\") "
                           "b = cast(a, dtype=str \"fp32\") {1} }}",
                           name, last))
        .text;
  };
  EXPECT_EQ(after("g", "z = relu(b) return z"), "greater=g cast@g_to_fp32=g_to_fp32 relu=z");
  EXPECT_EQ(after("%0", "z = relu(b) return z"), "greater= cast=b relu=z");
  EXPECT_EQ(after("g", "return b"), "greater=g cast=b");
}

TEST(MilPassNames, OfDequantizedConstants) {
  const char* named = "(x: f32[3]) { d = dequantize(i8[3]{1,2,30}, scale=f32 0.5) @deq y = add(x, d) return y }";
  expect("dequantize_to_constexpr", named,
         "constexpr_blockwise_shift_scale@deq_affine_dequantized=deq_affine_dequantized add=y", true);
  expect("dequantize_to_constexpr",
         "(x: f32[3]) { d = dequantize(i8[3]{1,2,30}, scale=f32 0.5) @deq y = add(x, d) return y, d }",
         "constexpr_blockwise_shift_scale@deq_affine_dequantized=d add=y", true);
  expect("dequantize_to_constexpr", "(x: f32[3]) { d = dequantize(i8[3]{1,2,30}, scale=f32 0.5) y = add(x, d) return y }",
         "constexpr_blockwise_shift_scale=d add=y", true);
}

TEST(MilPassNames, OfCasts) {
  expect("add_fp16_cast", "(x: f32[3]) { y = relu(x) @act z = tanh(y) return z }",
         "cast@x_to_fp16=x_to_fp16 relu@act_cast_fp16=act_cast_fp16 cast@act_cast_fp16_to_fp32=act_cast_fp16_to_fp32 "
         "cast@act_cast_fp16_to_fp32_to_fp16=act_cast_fp16_to_fp32_to_fp16 tanh=z_cast_fp16 "
         "cast@z_cast_fp16_to_fp32=z",
         true);
  expect("add_fp16_cast", "(x: f32[2,3]) { v, i = topk(x, k=i32 1, axis=i32 1) @top return v, i }",
         "cast@x_to_fp16=x_to_fp16 topk@top_cast_fp16=top_cast_fp16_0,i cast@top_cast_fp16_0_to_fp32=v", true);
  expect("add_fp16_cast", "(x: f32[3]) { y = relu(x) @act return y }",
         "cast@x_to_fp16=x_to_fp16 relu@act_cast_fp16=act_cast_fp16 cast@act_cast_fp16_to_fp32=y", true);
  const auto kept = [](const char* what, const char* value) {
    return run("add_fp16_cast", "(x: f32[3]) { y = relu(x) @act z = tanh(y) @last return z }", 9,
               {{fmt::format("add_fp16_cast.{}", what), value}})
        .text;
  };
  const std::string first = kept("skip_ops", "act"), second = kept("skip_ops_by_type", "tanh");
  EXPECT_EQ(first, "relu@act=y cast@y_to_fp16=y_to_fp16 tanh@last_cast_fp16=last_cast_fp16 cast@last_cast_fp16_to_fp32=z");
  EXPECT_EQ(
      second,
      "cast@x_to_fp16=x_to_fp16 relu@act_cast_fp16=act_cast_fp16 cast@act_cast_fp16_to_fp32=act_cast_fp16_to_fp32 tanh@last=z");
  EXPECT_EQ(kept("skip_ops", "act,last"), "relu@act=y tanh@last=z");
  EXPECT_EQ(kept("skip_ops", ",other,,last,act"), "relu@act=y tanh@last=z");
  EXPECT_EQ(kept("skip_ops_by_type", "relu,tanh"), "relu@act=y tanh@last=z");
  EXPECT_EQ(kept("skip_ops", "other"), kept("skip_ops_by_type", "exp"));
  EXPECT_EQ(run("add_fp16_cast", "(x: f32[3]) { y = relu(x) @a return y }", 9, {{"add_fp16_cast.skip_ops", "a,b"}}).text,
            "relu@a=y");
}

TEST(MilPassOptions, RangesThatAreToldSpareTheRuns) {
  const auto after = [](std::vector<std::pair<std::string, std::string>> options) {
    options.emplace_back("add_fp16_cast.skip_ops", "auto");
    return run("add_fp16_cast", "(x: f32[3]) { a = mul(x, f32 60000) y = mul(a, f32 60000) return y }", 9, std::move(options))
        .text;
  };
  const std::string none = after({{"add_fp16_cast.calibration_runs", "0"}});
  EXPECT_NE(none, after({}));
  EXPECT_EQ(after({{"add_fp16_cast.ranges", "-0.5 0.5 x"}}), none);
}

TEST(MilPassOptions, WhatStaysInSinglePrecisionIsExplained) {
  const auto m = parse("graph mil(x: f32[3]) { s = sigmoid(x) a = add(s, f32 60000) b = add(a, f32 60000) return b }");
  struct : Observer {
    void near_miss(std::string_view pass, std::string_view node, std::string_view why) override {
      told.push_back(fmt::format("{}: {}: {}", pass, node, why));
    }
    std::vector<std::string> told;
  } observer;
  PassRequest request{.passes = {"add_fp16_cast"}, .options = {{"add_fp16_cast.skip_ops", "auto"}}, .strict = true};
  request.explain = {"add_fp16_cast"};
  request.observer = &observer;
  run_passes(*m, request);
  EXPECT_EQ(fmt::format("{}", fmt::join(observer.told, "; ")),
            "add_fp16_cast: b = add(a, f32 60000): half precision: it overflows");
}

TEST(MilPassNames, OfWhatStacksWere) {
  expect("fuse_stack_split",
         "(x: f32[2], y: f32[2]) { s = stack(axis=i32 0, values=(x, y)) a, b = split(s, num_splits=i32 2, axis=i32 0) "
         "p = squeeze(a, axes=i32[1]{0}) @first q = squeeze(b, axes=i32[1]{0}) z = add(p, q) return z }",
         "identity@first=p identity=q add=z", true);
}

TEST(MilPassDrawing, ReduceTransposesDrawsBeforeAndAfter) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "reduce_transposes_drawings";
  std::filesystem::create_directories(folder);
  const auto m = parse(R"(graph mil(x: f32[2,3], %"a\"\\b": f32[2,3]) {
    k = const<val=f32[3,2]{1,2,3,4,5,6}>()
    t = transpose(x, perm=i32[2]{1,0})
    s = add(t, k)
    y = transpose(s, perm=i32[2]{1,0})
    v, i = topk(%"a\"\\b", k=i32 1, axis=i32 1)
    return y, v, i
  })");
  run_passes(*m, {.passes = {"reduce_transposes"}, .options = {{"reduce_transposes.debug", folder.string()}}, .strict = true});
  const auto drawn = [&](const char* name) {
    std::ifstream file(folder / name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(drawn("main_before.dot"), R"(digraph {
  node [shape=box]
  i0 [shape=oval, label="x"]
  i1 [shape=oval, label="a\"\\b"]
  n0 [label="transpose
t", style=filled, fillcolor=gold]
  i0 -> n0
  n1 [label="add
s"]
  n0 -> n1
  n2 [label="transpose
y", style=filled, fillcolor=gold]
  n1 -> n2
  n3 [label="topk
v"]
  i1 -> n3
  o0 [shape=oval, label="y"]
  n2 -> o0
  o1 [shape=oval, label="v"]
  n3 -> o1
  o2 [shape=oval, label="i"]
  n3 -> o2
}
)");
  const std::string after = drawn("main_after.dot");
  EXPECT_EQ(after.find("gold"), std::string::npos);
  EXPECT_NE(after.find("n1 [label=\"topk"), std::string::npos) << after;
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "a file, and no folder";
  EXPECT_THROW(
      run_passes(*m,
                 {.passes = {"reduce_transposes"}, .options = {{"reduce_transposes.debug", folder.string()}}, .strict = true}),
      Error);
  std::filesystem::remove(folder);
}

TEST(MilPassOptions, AreRefusedWithTheReason) {
  const auto why = [](std::string_view pass, std::string_view option, std::string_view value, std::string_view graph) {
    try {
      run(pass, graph, 9, {{fmt::format("{}.{}", pass, option), std::string(value)}});
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("no error");
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text << " has no " << part;
  };
  const auto made = [&](std::string_view map) {
    return why("materialize_symbolic_shape_program", "function_name_to_materialization_map", map,
               "(x: f32[B,3,T], y: f32[B], z: f32[...]) { a = relu(x) return a }");
  };
  EXPECT_NE(made("{\"f\": "), "no error");
  EXPECT_NE(made("[1]"), "no error");
  has(made(R"({"f": [1]})"), "is not a map of inputs");
  has(made(R"({"f": {"x": 3}})"), "has 3 sizes");
  has(made(R"({"f": {"x": {"a": 1, "b": 2, "c": 3}}})"), "has 3 sizes");
  has(made(R"({"f": {"x": [2, 3]}})"), "has 3 sizes");
  has(made(R"({"f": {"x": [2, 3, 5, 7]}})"), "has 3 sizes");
  has(made(R"({"f": {"x": [2, 3, "5"]}})"), "size 2 of input 'x' is not an integer");
  has(made(R"({"f": {"x": [2, 3, 5.5]}})"), "size 2 of input 'x' is not an integer");
  has(made(R"({"f": {"x": [2, 4, 5]}})"), "is 3 already");
  has(made(R"({"f": {"x": [2, 3, 5], "y": [7]}})"), "materialized into 2 and 7");
  has(made(R"({"f": {"w": [2]}})"), "has no input 'w'");
  EXPECT_EQ(made(R"({"f": {"x": [2, 3, 5], "y": [2]}})"), "no error");

  const auto folded = [&](const char* size) {
    return why("const_elimination", "skip_const_by_size", size, "(x: f32[2]) { y = relu(x) return y }");
  };
  for (const char* wrong : {"many", "3x", "nan", "1e3,"}) has(folded(wrong), "must be a number of elements");
  for (const char* fine : {"3", "1e6", "0.5", "inf"}) EXPECT_EQ(folded(fine), "no error");
  const auto sliced = [&](const char* option, const char* value) {
    return why("scaled_dot_product_attention_sliced_q", option, value,
               "(q: f32[2,7,5], k: f32[2,11,5], v: f32[2,11,3]) { y = scaled_dot_product_attention(q, k, v) return y }");
  };
  EXPECT_NE(sliced("min_seq_length", "-1"), "no error");
  EXPECT_EQ(sliced("min_seq_length", "0"), "no error");
  EXPECT_NE(sliced("seq_length_divider", "0"), "no error");
  EXPECT_EQ(sliced("seq_length_divider", "1"), "no error");
  const auto nothing_to_slice = [&](const char* option, const char* value) {
    return why("scaled_dot_product_attention_sliced_q", option, value, "(x: f32[2]) { y = relu(x) return y }");
  };
  has(nothing_to_slice("min_seq_length", "-1"), "must be 0 or more");
  has(nothing_to_slice("min_seq_length", "many"), "must be a whole number");
  has(nothing_to_slice("seq_length_divider", "0"), "must be 1 or more");
  EXPECT_EQ(nothing_to_slice("seq_length_divider", "2"), "no error");
}

}  // namespace
}  // namespace sardonyx
