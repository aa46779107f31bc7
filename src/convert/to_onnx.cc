#include "convert/to_onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/guards/fixed_point.h"
#include "convert/optimize.h"
#include "dialects/onnx/runtimes/runtimes.h"
#include "ir/text/spelling.h"
#include "passes/catalog.h"
#include "rewrite/fired_rules.h"
#include "rewrite/pass.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

// The passes that fuse the arithmetic of a normalization into one operator.
constexpr std::string_view kNormalizationPasses[] = {"fuse_layer_normalization", "fuse_rms_normalization"};

void choose_normalization(PassRequest& request, Normalization mode) {
  if (mode == Normalization::kForceDecomposed) {
    request.skip.insert(request.skip.end(), std::begin(kNormalizationPasses), std::end(kNormalizationPasses));
  } else if (mode == Normalization::kPreferNative) {
    // They match one shared x - mean, and the program may contain two. If the pipeline has run them already,
    // they are no-ops here.
    request.passes.emplace_back("common_subexpression_elimination");
    request.passes.insert(request.passes.end(), std::begin(kNormalizationPasses), std::end(kNormalizationPasses));
  }
}

void check_opset(const LowerOptions& options) {
  const onnx::Runtime& runtime = onnx::runtime_named(options.target);
  if (options.opset <= runtime.opset) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} loads opset {} at most, and {} was asked for", runtime.name, runtime.opset, options.opset),
              {"help: leave the opset out, and the target chooses it"});
}

// The oldest opset that lowerings write. For older ones convert_opset rewrites the result before any pass
// looks for operators to fuse.
constexpr int kOldestLowered = 17;

// The IR version that was current with the opset, which runtimes of that time load. Version 3 requires
// initializers among the inputs, and functions need version 8.
int ir_version_of(int opset, const Model& m) {
  constexpr std::pair<int, int> kSince[] = {{15, 8}, {12, 7}, {11, 6}, {10, 5}};
  if (m.functions().size() > 1) return 8;
  for (const auto& [since, version] : kSince) {
    if (opset >= since) return version;
  }
  return 4;
}

void make_older(Model& m, int opset, Observer* observer) {
  run_passes(m, conversion_to(m, opset, observer));
  m.ir_version = ir_version_of(opset, m);
}

// Functions of one name are numbered by their domains: net.block.1, net.block.2. Renumbers them if passes
// removed some.
void close_gaps_in_functions(Model& m) {
  std::map<std::pair<std::string, std::string>, std::map<int, Function*>> groups;  // by name and the domain before the number
  for (const auto& f : m.functions().subspan(1)) {
    const size_t dot = f->domain.rfind('.');
    int number = 0;
    if (dot == std::string::npos) continue;
    const char *begin = f->domain.data() + dot + 1, *end = f->domain.data() + f->domain.size();
    const auto [stop, code] = std::from_chars(begin, end, number);
    std::string group = f->domain.substr(0, dot);
    const bool named = group.ends_with("." + f->name) || group.ends_with("." + f->name + ".unique");
    if (stop == end && code == std::errc() && named) groups[{f->name, std::move(group)}].emplace(number, f.get());
  }
  std::map<std::string, std::string, std::less<>> renamed;  // domains
  for (auto& [key, functions] : groups) {
    const bool unique = key.second.ends_with(".unique");  // the first of these has no number
    const auto is_first = [&](const auto& f) { return f->name == key.first && f->domain == key.second; };
    int next = std::ranges::any_of(m.functions(), is_first) ? 2 : 1;
    for (auto& [number, f] : functions) {
      std::string domain = unique && next == 1 ? key.second : fmt::format("{}.{}", key.second, next);
      ++next;
      if (domain == f->domain) continue;
      renamed.emplace(f->domain, domain);
      f->domain = std::move(domain);
    }
  }
  if (renamed.empty()) return;
  const auto rename = [&](std::vector<OpsetImport>& imports) {
    for (OpsetImport& i : imports) {
      if (const auto now = renamed.find(i.domain); now != renamed.end()) i.domain = now->second;
    }
  };
  rename(m.opset_imports);
  for (const auto& f : m.functions()) {
    rename(f->opset_imports);
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& n : g->nodes()) {
        if (const auto now = renamed.find(n.op().domain); now != renamed.end())
          n.set_op(m.opaque_op(now->second, n.op().name, n.op().since_version));
      }
    }
  }
}

}  // namespace

void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report) {
  check_request(options.passes, onnx.dialect());  // before the work, not after it
  if (!options.lower.target.empty()) check_opset(options.lower);
  Observers observers;
  observers.add(options.passes.observer);
  Stopwatch watch;
  observers.stage("program", jax);
  LowerOptions lower = options.lower;
  lower.opset = std::max(lower.opset, kOldestLowered);
  lower_to_onnx(jax, onnx, lower, registry);
  if (lower.opset != options.lower.opset) make_older(onnx, options.lower.opset, observers.get());
  observers.stage("lowered", onnx);
  check_spelling(onnx);
  verify(onnx, {.allow_unchecked = false});  // reports a faulty lowering here instead of to whoever loads the file
  const double lower_seconds = watch.lap();
  PassRequest request = options.passes;
  request.skip.emplace_back("prune_unused_graph_inputs");  // the inputs are the signature of the user's function
  choose_normalization(request, options.normalization);
  PipelineReport passes = run_passes(onnx, request);
  check_fixed_point(onnx, request);
  if (options.outline)
    run_passes(onnx, {.passes = {"outline_functions"}, .strict = request.strict, .observer = observers.get()});
  if (options.after_passes) options.after_passes(onnx);
  close_gaps_in_functions(onnx);
  check_spelling(onnx);
  observers.stage("optimized", onnx);
  if (!options.lower.target.empty()) {
    // Names the nodes: onnxruntime 1.20 gives two nodes the same name if it fuses unnamed ones.
    run_passes(onnx, {.passes = {"legalize", "name_fix"},
                      .options = {{"legalize.target", options.lower.target}},
                      .strict = true,
                      .observer = observers.get()});
    observers.stage("legal", onnx);
    verify(onnx, {.allow_unchecked = false});
  }
  end_run(observers.get(), onnx);
  if (report != nullptr) {
    report->lower_seconds = lower_seconds;
    report->optimize_seconds = watch.lap();
    report->passes = std::move(passes);
  }
}

void check_nesting(const Model& onnx) {
  constexpr int kMost = 31;
  std::vector<std::pair<const Graph*, int>> todo;
  for (const auto& f : onnx.functions()) todo.emplace_back(&f->graph(), 0);
  int deepest = 0;
  while (!todo.empty()) {
    const auto [g, depth] = todo.back();
    todo.pop_back();
    deepest = std::max(deepest, depth);
    for (const Node& n : g->nodes()) {
      for (const Body& b : n.bodies()) todo.emplace_back(b.graph, depth + 1);
    }
  }
  if (deepest <= kMost) return;
  throw Error(
      ErrorCode::kLimit,
      fmt::format("branches and loops are nested {} deep, and readers of ONNX files accept at most {}", deepest, kMost),
      {"help: nested conds that choose one of many are one jax.lax.switch; the body of a function that @sardonyx.onnx_function "
       "marks counts from its own beginning"});
}

void prepare_conversion() {
  LoweringRegistry::builtin();
  // The first query of any operator builds the table of kernels.
  const Op* any = dialect(DialectId::kOnnx).find("", "Identity", 1);
  if (any != nullptr) onnx::kernels(onnx::newest_runtime(), *any);
  prepare_passes(DialectId::kOnnx);
}

std::unique_ptr<Model> convert(const Model& jax, const ConvertOptions& options, const LoweringRegistry& registry,
                               ConvertReport* report) {
  auto onnx = std::make_unique<Model>(DialectId::kOnnx);
  convert(jax, *onnx, options, registry, report);
  return onnx;
}

}  // namespace sardonyx
