// The events that observers of optimizations and conversions get, and that observers change nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "convert/debug_dump.h"
#include "passes/catalog.h"
#include "sardonyx/convert.h"
#include "sardonyx/coreml.h"
#include "sardonyx/observe.h"

namespace sardonyx {
namespace {

constexpr std::string_view kText = "opset 18 graph(x: f32[3]) { a = Exp(x)  b = Identity(Neg(Neg(a)))  c = Sin(a)  return b }";

// Records events; an event that repeats is recorded once.
struct Notes final : Observer {
  explicit Notes(bool names = false) : names_rules_(names) {}

  bool names_rules() const override { return names_rules_; }
  void function(std::string_view name) override { note(fmt::format("function {}", name)); }
  void stage(std::string_view name, const Model&) override { note(std::string(name)); }
  void done(const Model& m) override {
    note("done");
    for (const Node& n : m.graph().nodes()) rules_at_the_end += m.provenance(n.provenance()).rules.size();
  }
  void progress(std::string_view, size_t, size_t) override { ++steps; }
  void begin_pipeline(const Model&, size_t) override { note("pipeline"); }
  void after_pass(const Model&, const PassStep&, bool changed) override { changes += changed ? 1 : 0; }
  void fired(const Firing& f, std::span<Node* const>, uint32_t, std::span<Value* const>) override {
    fired_passes.emplace(f.pass);
  }
  void erased(std::span<Value* const>) override { ++erasures; }

  void note(std::string what) {
    if (events.empty() || events.back() != what) events.push_back(std::move(what));
  }
  std::string text() const { return fmt::format("{}", fmt::join(events, ", ")); }

  std::vector<std::string> events;
  std::set<std::string> fired_passes;
  size_t steps = 0, changes = 0, erasures = 0, rules_at_the_end = 0;

 private:
  const bool names_rules_;
};

TEST(Observers, of_an_optimization_are_told_stages_passes_and_rules) {
  const auto plain = parse(kText), watched = parse(kText);
  Notes notes(/*names=*/true), second;
  Observers both;
  both.add(&notes);
  both.add(nullptr);
  both.add(&second);
  optimize_model(*plain, {});
  const OptimizeReport report =
      optimize_model(*watched, {.request = {.observer = both.get()}, .count_savings = true, .log_changes = true});
  EXPECT_EQ(notes.text(), "read, pipeline, optimized, done");
  EXPECT_EQ(second.events, notes.events);
  EXPECT_TRUE(notes.fired_passes.contains("simplify_arithmetic")) << fmt::format("{}", fmt::join(notes.fired_passes, " "));
  EXPECT_GT(notes.steps, 0u);
  EXPECT_GT(notes.changes, 0u);
  EXPECT_GT(notes.erasures, 0u);
  // Savings and the log of changes are kept at the same time.
  EXPECT_EQ(report.savings->by_pass.size(), report.passes.passes.size());
  EXPECT_EQ(report.changes.size(), report.passes.passes.size());
  // Names of rules are there at the end, and gone afterwards.
  EXPECT_EQ(print(*watched, {.provenance = true, .types = true}), print(*plain, {.provenance = true, .types = true}));
  for (const Node& n : watched->graph().nodes()) EXPECT_TRUE(watched->provenance(n.provenance()).rules.empty());
}

TEST(Observers, see_the_names_of_rules_until_the_run_is_over) {
  const auto m = parse("opset 18 graph(x: f32[3]) { b = Neg(Sub(x, f32 3))  return b }");
  Notes named(/*names=*/true), unnamed;
  for (Notes* notes : {&unnamed, &named}) optimize_model(*clone_model(*m), {.request = {.observer = notes}});
  EXPECT_FALSE(named.fired_passes.empty());
  EXPECT_GT(named.rules_at_the_end, 0u);
  EXPECT_EQ(unnamed.rules_at_the_end, 0u);
}

TEST(Observers, of_a_pass_that_fails_are_told_that_it_was_undone) {
  struct : Observer {
    void undone(const Model&, const PassStep& step) override { passes.emplace_back(step.pass); }
    std::vector<std::string> passes;
  } observer;
  const Pass thrower = Pass::on_graph(
      Numerics::kExact, [](Graph&, PassContext&) -> bool { throw Error(ErrorCode::kUnsupported, "this pass cannot go on"); });
  const auto m = parse(kText);
  ValueFacts facts;
  infer_model(*m, facts, /*tolerant=*/true);
  PassContext context(*m, facts);
  context.observe_with(&observer);
  Pipeline pipeline;
  pipeline.entries.push_back({.name = "thrower", .pass = &thrower});
  EXPECT_TRUE(run_pipeline(context, pipeline, {}).failed());
  EXPECT_EQ(observer.passes, std::vector<std::string>{"thrower"});
}

TEST(Observers, of_a_conversion_are_told_its_stages_and_functions) {
  const auto one = parse(kText), other = parse(kText);
  Notes notes;
  to_coreml(*one, {.observer = &notes});
  EXPECT_EQ(notes.text(), "onnx, pipeline, prepared, lowered, pipeline, optimized, done");

  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "dumped_functions";
  std::filesystem::remove_all(folder);
  DebugDump dump(folder);
  Notes of_functions;
  Observers both;
  both.add(&dump);
  both.add(&of_functions);
  std::vector<ToCoremlReport> reports;
  const auto a = parse(kText), b = parse(kText);
  functions_to_coreml({{"a", a.get()}, {"b", b.get()}}, {.target = "iOS18", .observer = both.get()}, reports);
  EXPECT_EQ(of_functions.text(),
            "function a, onnx, pipeline, prepared, lowered, pipeline, optimized, "
            "function b, onnx, pipeline, prepared, lowered, pipeline, optimized, function , joined, done");
  for (const char* file : {"a/0_onnx.sx", "a/3_optimized.sx", "b/1_prepared.sx", "b/2_lowered.sx", "0_joined.sx"})
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
}

TEST(Presets, hold_what_a_conversion_to_core_ml_runs) {
  const auto names = [](std::string_view preset) {
    std::vector<std::string> found;
    for (const PipelineEntry& e :
         make_pipeline({.passes = {std::string(preset)}}, preset == "coreml-prepare" ? DialectId::kOnnx : DialectId::kMil)
             .entries)
      found.push_back(fmt::format("{}{}", e.name, e.repeats ? "*" : ""));
    return found;
  };
  // A nested preset repeats as it does alone, without the passes that are left out.
  std::vector<std::string> onnx{"inline_functions", "dequantize_products", "stack_appended_rows"};
  for (const PipelineEntry& e : make_pipeline({.passes = {"onnx"}}, DialectId::kOnnx).entries) {
    if (e.name != "fuse_one_hot_into_gather" && e.name != "guard_fusions") onnx.push_back(fmt::format("{}*", e.name));
  }
  for (const char* last : {"carry_halves", "unpack_halves", "remove_dead_nodes"}) onnx.emplace_back(last);
  EXPECT_EQ(names("coreml-prepare"), onnx);
  const auto all = names("coreml"), own = names("default"), cleanup = names("cleanup");
  EXPECT_EQ(all.front(), "share_transposed_weights");
  EXPECT_TRUE(std::equal(own.rbegin(), own.rend(), all.rbegin()));
  EXPECT_TRUE(std::equal(cleanup.rbegin(), cleanup.rend(), own.rbegin()));
}

}  // namespace
}  // namespace sardonyx
