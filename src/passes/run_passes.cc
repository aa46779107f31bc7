// Turns user requests into pipelines and runs them.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "ir/infer/infer_anew.h"
#include "passes/catalog.h"
#include "passes/loading.h"
#include "rewrite/matcher.h"
#include "rewrite/values.h"
#include "sardonyx/observe.h"
#include "support/nearest.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

[[noreturn]] void unknown(std::string_view what, std::string_view name, const std::vector<std::string_view>& known) {
  std::vector<std::string> notes;
  if (auto meant = nearest(name, known); !meant.empty()) {
    notes.push_back(fmt::format("did you mean '{}'?", meant));
  } else if (known.size() <= 8) {
    notes.push_back(known.empty() ? "there is none" : fmt::format("there are: {}", fmt::join(known, ", ")));
  } else if (what == "pass" && name.find_first_of("./") != std::string_view::npos) {
    notes.push_back("nor is there such a file");
  }
  notes.push_back("help: `sardonyx passes` lists all passes and presets");
  throw Error(ErrorCode::kInvalidArgument, fmt::format("there is no {} named '{}'", what, name), std::move(notes));
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names;
  for (const Preset& p : presets()) names.push_back(p.name);
  for (const CatalogPass& p : catalog()) names.push_back(p.name);
  return names;
}

const CatalogPass& require_pass(std::string_view name) {
  const CatalogPass* p = find_pass(name);
  if (p == nullptr) unknown("pass", name, all_names());
  return *p;
}

void require_dialect(std::string_view name, DialectId wanted, DialectId found) {
  if (wanted == found) return;
  const auto what = [](DialectId d) { return d == DialectId::kMil ? "Core ML programs" : "ONNX models"; };
  throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is for {}, not for {}", name, what(wanted), what(found)));
}

// coremltools' own weight compression passes. Presets name them in coremltools' order.
bool is_compression(std::string_view name) { return name.starts_with("compression::"); }

void set_option(Pipeline& pipeline, const PassRequest& request, const std::string& spelled, const std::string& value) {
  const size_t dot = spelled.rfind('.');
  if (dot == std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an option is written pass.option=value, not '{}'", spelled));
  }
  const CatalogPass& pass = require_pass(spelled.substr(0, dot));
  const std::string option = spelled.substr(dot + 1);
  std::vector<std::string_view> known;
  for (const auto& [name, meaning] : pass.pass.options) known.push_back(name);
  if (std::find(known.begin(), known.end(), option) == known.end())
    unknown(fmt::format("option of {}", pass.name), option, known);
  bool runs = false;
  for (PipelineEntry& e : pipeline.entries) {
    if (e.pass != &pass.pass) continue;
    e.options.set(option, value);
    runs = true;
  }
  // As in coremltools' pipelines, an option of a pass that does not run is an error. ONNX presets also set
  // options for passes that a target leaves out, so this does not hold for them.
  const auto is_it = [&](const std::string& s) { return !is_compression(s) && find_pass(s) == &pass; };
  if (runs || pass.dialect != DialectId::kMil || std::ranges::any_of(request.skip, is_it)) return;
  const bool half = pass.name == "add_fp16_cast" || pass.name == "add_int16_cast";
  throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is set, and {} is not among the passes", spelled, pass.name),
              half ? std::vector<std::string>{"help: presets have it with precision f16"} : std::vector<std::string>());
}

void refuse_compression(std::string_view name, const PassRequest& request) {
  const auto skipped = [&](const std::string& s) { return s == name || s == name.substr(name.rfind(':') + 1); };
  if (std::any_of(request.skip.begin(), request.skip.end(), skipped)) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("'{}' is a pass of coremltools, which makes weights smaller in memory", name),
              {"help: run it there before (coremltools.optimize.coreml); here, leave it out with --skip"});
}

constexpr std::string_view kPrecision = "precision";

// Reads the run-wide option `precision`: whether presets of Core ML, and all pipelines of ONNX, end in half
// precision.
bool wants_half(const PassRequest& request, DialectId dialect) {
  bool half = false;
  for (const auto& [option, value] : request.options) {
    if (option != kPrecision) continue;
    if (dialect == DialectId::kJax || (value != "f16" && value != "f32"))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("precision is f16 or f32, not '{}'", value));
    half = value == "f16";
  }
  return half;
}

void skip(Pipeline& pipeline, const std::string& what) {
  for (const Preset& p : presets()) {
    for (const Preset::Item& item : p.items) {
      if (is_compression(item.pass) && (what == item.pass || what == item.pass.substr(item.pass.rfind(':') + 1))) return;
    }
  }
  const size_t slash = what.find('/');
  const CatalogPass& pass = require_pass(what.substr(0, slash));
  if (slash == std::string::npos) {
    std::erase_if(pipeline.entries, [&](const PipelineEntry& e) { return e.pass == &pass.pass; });
    return;
  }
  const std::string rule = what.substr(slash + 1);
  std::vector<std::string_view> known;
  for (const Rule& r : pass.pass.rules) known.push_back(r.name);
  if (std::find(known.begin(), known.end(), rule) == known.end()) unknown(fmt::format("rule of {}", pass.name), rule, known);
  for (PipelineEntry& e : pipeline.entries) {
    if (e.pass == &pass.pass) e.skipped_rules.push_back(rule);
  }
}

Numerics loosest(const Pipeline& pipeline) {
  Numerics found = Numerics::kExact;
  for (const PipelineEntry& e : pipeline.entries) found = std::max(found, e.pass->numerics());
  return found;
}

bool is_symbolic(const Port& input) {
  if (input.declared == nullptr || !input.declared->is_tensor() || !input.declared->ranked()) return false;
  const auto dims = input.declared->dims();
  return std::any_of(dims.begin(), dims.end(), [](Dim d) { return d.is_expr(); });
}

void allow_empty_sizes(Model& m) {
  for (const Port& p : m.graph().inputs()) {
    if (!is_symbolic(p)) continue;
    for (Dim d : p.declared->dims()) {
      for (const std::string& symbol : m.dims().symbols(d)) m.dims().set_range(symbol, {.min = 0, .max = {}});
    }
  }
}

// People make the batch of a model's inputs symbolic but leave the old size in value_info. Where inference
// from the inputs alone finds an expression and the file declares a number, the number is wrong for all sizes
// but one, so the expression replaces it.
void drop_stale_sizes(Model& m) {
  const auto inputs = m.graph().inputs();
  if (std::none_of(inputs.begin(), inputs.end(), is_symbolic)) return;
  std::vector<std::pair<Graph*, std::unordered_map<const Value*, ValueInfo>>> declared;
  for (Graph* g : graphs_in(m.graph())) {
    for (const auto& [v, info] : g->value_info) {
      if (v->kind() == ValueKind::kResult && v->def()->op().known) const_cast<Value*>(v)->set_type(nullptr);
    }
    if (!g->value_info.empty()) declared.emplace_back(g, std::move(g->value_info));
    g->value_info.clear();
  }
  if (declared.empty()) return;
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  for (auto& [graph, infos] : declared) {
    for (auto& [v, info] : infos) {
      const Type *found = v->type(), *said = info.declared;
      if (found == nullptr || said == nullptr || !found->is_tensor() || !said->is_tensor() || !found->ranked() ||
          !said->ranked() || found->rank() != said->rank())
        continue;
      std::vector<Dim> dims(said->dims().begin(), said->dims().end());
      bool stale = false;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (!dims[i].is_int() || !found->dim(i).is_expr()) continue;
        dims[i] = found->dim(i);
        stale = true;
      }
      if (stale) info.declared = m.types().with_dims(said, dims);
    }
    graph->value_info = std::move(infos);
  }
}

// Passes that make an operator other than the one in their name.
constexpr std::pair<std::string_view, std::string_view> kMakers[] = {
    {"Clip", "fuse_activations"},
    {"Conv", "fuse_affine_into_conv"},
    {"ConvTranspose", "fuse_affine_into_conv"},
    {"Einsum", "expand_einsum"},
    {"Elu", "fuse_activations"},
    {"Gather", "fuse_one_hot_into_gather"},
    {"GlobalAveragePool", "reduce_strength"},
    {"HardSigmoid", "fuse_activations"},
    {"HardSwish", "fuse_activations"},
    {"LeakyRelu", "fuse_activations"},
    {"LogSoftmax", "fuse_softmax"},
    {"MatMul", "fuse_gemm"},
    {"Mish", "fuse_activations"},
    {"PRelu", "fuse_activations"},
    {"ReduceL1", "fuse_reductions"},
    {"ReduceL2", "fuse_reductions"},
    {"ReduceLogSum", "fuse_reductions"},
    {"ReduceLogSumExp", "fuse_softmax"},
    {"ReduceMean", "fuse_reductions"},
    {"ReduceSumSquare", "fuse_reductions"},
    {"Relu", "fuse_activations"},
    {"Selu", "fuse_activations"},
    {"Sigmoid", "fuse_activations"},
    {"Softplus", "fuse_activations"},
    {"Softsign", "fuse_activations"},
    {"SpaceToDepth", "fuse_depth_to_space"},
    {"Swish", "fuse_activations"},
};

// The pass with this name, or the pass that makes the operator with this name. Null if neither exists.
const CatalogPass* explained_pass(std::string_view name) {
  const CatalogPass* found = find_pass(name);
  return found != nullptr ? found : pass_that_makes(name);
}

// Throws an error that suggests the nearest operator or pass names.
void require_explained(const std::string& name) {
  if (explained_pass(name) != nullptr) return;
  std::vector<std::string_view> known = all_names();
  for (const Op& op : dialect(DialectId::kOnnx).ops()) {
    if (op.domain.empty() && explained_pass(op.name) != nullptr) known.push_back(op.name);
  }
  unknown("pass, nor a pass that makes an operator,", name, known);
}

// Reports rules that need a newer opset than the model imports. They never reach a node, so no near miss
// would tell.
void explain_opsets(const Model& m, const PassRequest& request) {
  const auto has = m.opset_version("");
  for (const std::string& name : request.explain) {
    const CatalogPass& explained = *explained_pass(name);
    std::set<int> needed;
    for (const Rule& r : explained.pass.rules) {
      if (has && r.opset > *has) needed.insert(r.opset);
    }
    if (!needed.empty())
      request.observer->near_miss(
          explained.name, "",
          fmt::format("it makes operators of opset {}, the model imports {} (help: --opset)", fmt::join(needed, ", "), *has));
  }
}

// The runtime in which the model must stay loadable after verified passes; null if nothing is verified.
const onnx::Runtime* verified_runtime(const Model& m, const PassRequest& request) {
  if (request.verify == Verify::kOff || m.dialect() != DialectId::kOnnx) return nullptr;
  std::string_view target;
  for (const auto& [option, value] : request.options) {
    if (option == "legalize.target") target = value;
  }
  return runtime_that_loads(m, target);
}

// If `runtime` is not null, it checks each node that a pass makes.
PipelineReport run(Model& m, const PassRequest& request, const Pipeline& pipeline, ValueFacts& facts,
                   const onnx::Runtime* runtime = nullptr) {
  NodeRefusal refusal;
  if (runtime != nullptr) {
    refusal = [runtime](const Node& n) -> std::optional<std::string> {
      const auto refused = onnx::refusal(*runtime, n);
      return refused ? std::optional(fmt::format("{} refuses: {}", runtime->name, refused->text())) : std::nullopt;
    };
  }
  PassContext context(m, facts, request.fold_budget);
  context.observe_with(request.observer);
  context.calibrate_with(request.calibration);
  std::set<std::string> explained;
  if (request.observer != nullptr && !request.explain.empty()) {
    explain_opsets(m, request);
    context.log.explain_to([&](std::string_view pass, const Node& n, std::string_view why) {
      const bool wanted =
          std::ranges::any_of(request.explain, [&](const std::string& name) { return explained_pass(name)->name == pass; });
      if (!wanted) return;
      const std::string node = print(n);  // rules look at a node several times
      if (explained.insert(fmt::format("{}\n{}\n{}", pass, node, why)).second) request.observer->near_miss(pass, node, why);
    });
  }
  return run_pipeline(context, pipeline,
                      {.strict = request.strict,
                       .verify_graph = request.verify_graph,
                       .verify_rewrites = request.verify == Verify::kPass,
                       .refusal = std::move(refusal)});
}

// Throws if the runtime loads `before` but not `after`. Runs the passes again on `before` to find the one at
// fault.
void check_loading(const onnx::Runtime* runtime, Model& before, const Model& after, const PassRequest& request,
                   const Pipeline& pipeline) {
  if (runtime == nullptr) return;
  std::vector<std::string> notes = load_problems(*runtime, after);
  if (notes.empty()) return;
  ValueFacts facts;
  infer_model(before, facts, /*tolerant=*/true);
  PassRequest again = request;
  again.strict = false;
  again.observer = nullptr;
  if (auto found = run(before, again, pipeline, facts, runtime); !found.faults.empty()) notes = std::move(found.faults);
  notes.push_back("nothing was written");
  notes.push_back("help: --verify pass goes on without the pass at fault");
  throw Error(ErrorCode::kInternal, fmt::format("{} loads the original model, but not the optimized one", runtime->name),
              std::move(notes));
}

}  // namespace

const CatalogPass* pass_that_makes(std::string_view op) {
  for (const auto& [made, maker] : kMakers) {
    if (made == op) return find_pass(maker);
  }
  const auto is = [&](size_t i, auto in) { return i < op.size() && in(static_cast<unsigned char>(op[i])) != 0; };
  std::string pass = "fuse";
  for (size_t i = 0; i < op.size(); ++i) {
    const bool begins = is(i, ::isupper) && (i == 0 || !is(i - 1, ::isupper) || is(i + 1, ::islower));
    if (begins) pass += '_';
    pass += static_cast<char>(::tolower(static_cast<unsigned char>(op[i])));
  }
  return find_pass(pass);
}

Pipeline make_pipeline(const PassRequest& request, DialectId dialect) {
  Pipeline pipeline;
  const auto add = [&](std::string_view name, bool bodies, bool repeats) {
    if (is_compression(name)) return refuse_compression(name, request);
    const CatalogPass& p = require_pass(name);
    require_dialect(name, p.dialect, dialect);
    pipeline.entries.push_back({.name = p.name,
                                .pass = &p.pass,
                                .bodies = bodies && request.function_bodies,
                                .repeats = repeats,
                                .ready = &ready_pass(p)});
  };
  const bool half = wants_half(request, dialect), half_onnx = half && dialect == DialectId::kOnnx;
  // A function has one type for all of its calls.
  if ((request.inline_functions || half_onnx) && dialect == DialectId::kOnnx)
    add("inline_functions", /*bodies=*/true, /*repeats=*/false);
  const auto add_requested = [&] {
    for (const std::string& name : request.passes) {
      const auto all = presets();
      const auto preset = std::find_if(all.begin(), all.end(), [&](const Preset& p) { return p.name == name; });
      if (preset == all.end()) {
        add(name, /*bodies=*/true, /*repeats=*/false);
        continue;
      }
      if (preset->dialect) require_dialect(name, *preset->dialect, dialect);
      pipeline.entries.reserve(pipeline.entries.size() + preset->items.size() + 1);
      for (const Preset::Item& item : preset->items) {
        if (!item.half || half) add(item.pass, item.bodies, item.repeats);
      }
    }
  };
  add_requested();
  if (half_onnx) {
    add("cast_to_half", /*bodies=*/true, /*repeats=*/false);
    add_requested();  // casts meet nodes that can do without them
  }
  const auto prunes = [](const PipelineEntry& e) { return e.name == "prune_unused_graph_inputs"; };
  if (request.prune_inputs && dialect == DialectId::kOnnx &&
      std::none_of(pipeline.entries.begin(), pipeline.entries.end(), prunes))
    add("prune_unused_graph_inputs", /*bodies=*/false, /*repeats=*/false);
  for (const std::string& what : request.skip) skip(pipeline, what);
  for (const std::string& name : request.explain) require_explained(name);
  for (const auto& [option, value] : request.options) {
    if (option != kPrecision) set_option(pipeline, request, option, value);
  }
  return pipeline;
}

void check_request(const PassRequest& request, DialectId dialect) { make_pipeline(request, dialect); }

Numerics numerics_of(const PassRequest& request, DialectId dialect) { return loosest(make_pipeline(request, dialect)); }

PipelineReport run_uncompared(Model& m, const PassRequest& request) {
  const Pipeline pipeline = make_pipeline(request, m.dialect());
  if (pipeline.entries.empty()) return {};
  const bool is_checked = request.verify == Verify::kModel && m.dialect() == DialectId::kOnnx;
  const std::unique_ptr<Model> original = is_checked ? clone_model(m) : nullptr;
  if (m.dialect() == DialectId::kOnnx) {
    if (request.allow_empty) allow_empty_sizes(m);
    drop_stale_sizes(m);
  }
  ValueFacts facts;
  std::vector<std::string> ill_typed = infer_model(m, facts, /*tolerant=*/true);
  if (m.dialect() == DialectId::kOnnx) leave_ill_typed(m);
  const onnx::Runtime* runtime = verified_runtime(m, request);
  PipelineReport report = run(m, request, pipeline, facts, request.verify == Verify::kPass ? runtime : nullptr);
  report.ill_typed = std::move(ill_typed);
  if (original != nullptr) check_loading(runtime, *original, m, request, pipeline);
  if (request.verify == Verify::kPass && runtime != nullptr) {
    for (std::string& problem : load_problems(*runtime, m)) report.faults.push_back(std::move(problem));
  }
  m.compact();
  return report;
}

PipelineReport run_passes(Model& m, const PassRequest& request) {
  if (request.verify == Verify::kOff) return run_uncompared(m, request);
  const std::unique_ptr<Model> original = clone_model(m);
  PipelineReport report = run_uncompared(m, request);
  check_results(*original, m, request, numerics_of(request, m.dialect()), std::nullopt, report);
  return report;
}

ValueCheck check_results(const Model& before, const Model& after, const PassRequest& request, Numerics numerics,
                         const std::optional<Tolerance>& tolerance, PipelineReport& report) {
  Stopwatch watch;
  double seconds = 0;
  const auto say = [&](size_t done, size_t total) {
    seconds += watch.lap();
    const double left = done == 0 ? 0 : seconds * static_cast<double>(total - done) / static_cast<double>(done);
    request.observer->progress(left < 1 ? "comparing results" : fmt::format("comparing results, about {:.0f} s left", left),
                               done, total);
  };
  ValueCheck check =
      compare_whole(before, after, numerics, tolerance, request.observer != nullptr ? CompareProgress(say) : CompareProgress());
  report.evaluations += check.runs;
  if (check.runs == 0) report.not_compared = check.skipped;
  if (!check.difference) return check;
  std::vector<std::string> notes{"nothing was written"};
  if (request.verify == Verify::kModel)
    notes.emplace_back("help: --verify pass finds the rule at fault and goes on without it");
  notes.emplace_back("help: --rtol and --atol say which differences do not matter");
  throw Error(ErrorCode::kInternal, fmt::format("the passes changed what the model computes: {}", *check.difference),
              std::move(notes));
}

PipelineReport run_typed_passes(Model& m, const PassRequest& request, ValueFacts& facts) {
  return run(m, request, make_pipeline(request, m.dialect()), facts);
}

std::optional<PipelineReport> report_if_idle(const PassRequest& request, const std::function<const Graph*()>& samples_of,
                                             const std::function<bool(std::string_view)>& is_idle) {
  const Pipeline pipeline = make_pipeline(request, DialectId::kMil);
  const Graph* samples = nullptr;
  OpBits ops;
  PipelineReport report;
  for (const PipelineEntry& e : pipeline.entries) {
    report.passes.push_back({.name = std::string(e.name)});
    if (is_idle(e.name)) continue;
    const bool walks = e.pass->graph_walk || e.pass->model_walk;
    if (walks && (e.ready->needs.empty() || !e.options.empty())) return std::nullopt;
    if (samples == nullptr) {
      samples = samples_of();
      if (samples == nullptr) return std::nullopt;
      ops = op_bits(*samples);
    }
    if (walks && e.ready->may_walk(ops)) return std::nullopt;
    for (const ReadyRule& r : e.ready->rules) {
      if (r.may_match(ops) && r.matcher().can_match_like(*samples)) return std::nullopt;
    }
  }
  return report;
}

bool PipelineReport::failed() const {
  return !faults.empty() || std::any_of(passes.begin(), passes.end(), [](const PassReport& p) { return !p.error.empty(); });
}

std::vector<PassInfo> list_passes() {
  std::vector<PassInfo> all;
  for (const CatalogPass& p : catalog()) {
    PassInfo info{.name = p.name,
                  .dialect = p.dialect == DialectId::kMil ? "mil" : "onnx",
                  .about = p.about,
                  .numerics = p.pass.numerics(),
                  .options = p.pass.options,
                  .rules = {}};
    for (const Rule& r : p.pass.rules) {
      std::string text = to_string(r.match);
      if (r.replace) text += " => " + to_string(*r.replace);
      info.rules.push_back(r.name.empty() ? text : fmt::format("{}: {}", r.name, text));
    }
    all.push_back(std::move(info));
  }
  return all;
}

std::vector<PresetInfo> list_presets() {
  std::vector<PresetInfo> all;
  for (const Preset& p : presets()) {
    PresetInfo& info = all.emplace_back(PresetInfo{.name = p.name, .about = p.about, .passes = {}});
    for (const Preset::Item& item : p.items) {
      if (!item.half) info.passes.push_back(item.pass);
    }
  }
  return all;
}

std::string_view to_string(Numerics n) {
  switch (n) {
    case Numerics::kExact: return "exact";
    case Numerics::kRounds: return "rounds";
    case Numerics::kRelaxed: return "relaxed";
  }
  return "?";
}

}  // namespace sardonyx
