#include "convert/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "convert/file_names.h"
#include "convert/guards/fixed_point.h"
#include "convert/guards/kept_names.h"
#include "convert/guards/kept_origins.h"
#include "convert/guards/outside_names.h"
#include "convert/guards/unknown_operators.h"
#include "convert/half_report.h"
#include "convert/interface/input_shapes.h"
#include "convert/interface/op_names.h"
#include "convert/interface/submodel.h"
#include "convert/opset_hint.h"
#include "convert/precision/precision_choice.h"
#include "convert/run_inputs.h"
#include "inspect/compare_models.h"
#include "inspect/savings.h"
#include "io/added_nodes.h"
#include "io/text/program_file.h"
#include "ir/graph/file_record.h"
#include "passes/catalog.h"
#include "passes/onnx/quantize/quantize_weights.h"
#include "rewrite/fired_rules.h"
#include "rewrite/values.h"
#include "sardonyx/infer.h"
#include "sardonyx/observe.h"
#include "support/files/atomic_file.h"
#include "support/files/mapped_file.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

void append(PipelineReport& report, const PipelineReport& later) {
  const auto add = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(report.passes, later.passes);
  add(report.faults, later.faults);
  add(report.not_converged, later.not_converged);
  report.ill_typed = later.ill_typed;
  report.evaluations += later.evaluations;
  if (report.not_compared.empty()) report.not_compared = later.not_compared;
  report.seconds += later.seconds;
}

void add_nodes(ModelCounts& counts, const char* op, size_t count) {
  if (count == 0) return;
  counts.nodes += count;
  counts.ops[op] += count;
}

// Moves passes that run after verification out of the end of a request. It has no passes if the request does
// not end so.
PassRequest take_last(PassRequest& request) {
  const auto is_last = [](std::string_view name) {
    const CatalogPass* pass = name == "none" ? nullptr : find_pass(name);  // for which no catalog is built
    return pass != nullptr && pass->pass.is_after_verification;
  };
  PassRequest last{.passes = {}, .strict = true, .explain = request.explain, .observer = request.observer};
  while (!request.passes.empty() && is_last(request.passes.back())) {
    last.passes.insert(last.passes.begin(), std::move(request.passes.back()));
    request.passes.pop_back();
  }
  if (last.passes.empty()) return last;
  const auto [first, end] = std::ranges::stable_partition(
      request.options, [&](const auto& option) { return !is_last(option.first.substr(0, option.first.find('.'))); });
  last.options.assign(first, end);
  request.options.erase(first, end);
  return last;
}

// Whether an ONNX model gets half precision.
bool makes_half(const PassRequest& request) {
  const std::pair<std::string, std::string> half("precision", "f16");
  return std::ranges::find(request.options, half) != request.options.end();
}

// The opset to convert to first: the one that is asked for, or the one that narrow weights need.
int first_opset(Model& m, int asked, const PassRequest& request, const PassRequest& quantization, bool chooses) {
  if (m.dialect() != DialectId::kOnnx) return asked;
  if (quantization.passes.empty() && (!chooses || asked != 0)) return asked;
  PassOptions given;
  if (chooses) given.set("type", "uint4");
  for (const auto& [name, value] : quantization.options) {
    if (name.starts_with("quantize_weights.")) given.set(name.substr(name.find('.') + 1), value);
  }
  const auto runs = [&](std::string_view pass) {
    return std::ranges::find(quantization.passes, pass) != quantization.passes.end();
  };
  const bool narrows = chooses || runs("quantize_weights");
  const int needed = std::max({narrows ? onnx::opset_of_narrow_weights(m, given, makes_half(request)) : 0,
                               runs("quantize_products") ? onnx::kDynamicQuantization : 0,
                               runs("quantize_values") ? onnx::kStaticQuantization : 0});
  if (asked != 0 && asked < needed)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("opset {} cannot hold such {}: they need opset {}", asked,
                                                         narrows ? "weights" : "products", needed));
  const auto has = m.opset_version("");
  return asked == 0 && has && *has < needed ? needed : asked;
}

// What the narrowing of weights left alone although it could not know that this is wanted.
void add_warnings(const PassReport& pass, std::vector<std::string>& warnings) {
  for (const auto& [what, times] : pass.counts) {
    const bool is_infinite = what == "not finite";
    if ((is_infinite || what.starts_with("beyond ")) && times > 0)
      warnings.push_back(fmt::format("{} weight{} {} and stay{} as {} (help: --explain {})", times,
                                     times == 1 ? " has" : "s have",
                                     is_infinite ? "infinite or NaN elements" : "elements " + what, times == 1 ? "s" : "",
                                     times == 1 ? "it is" : "they are", pass.name));
  }
}

}  // namespace

PassRequest conversion_to(const Model& m, int opset, Observer* observer) {
  PassRequest request{.passes = {}, .strict = true, .observer = observer};
  const auto add = [&](std::string pass) {
    request.options.emplace_back(pass + ".opset", std::to_string(opset));
    request.passes.push_back(std::move(pass));
  };
  if (opset < m.opset_version("").value_or(0)) add("write_out_operators");
  add("convert_opset");
  return request;
}

namespace {

// Throws if the option names what the model lacks.
void check_kept(const Model& m, const PassRequest& request) {
  for (const auto& [key, value] : request.options) {
    if (key != "cast_to_half.keep") continue;
    if (const auto unknown = names_not_in(m, value); !unknown.empty()) refuse_kept(*unknown.begin(), m);
  }
}

// Adds what values are on the given inputs, by their names, to the options of the passes that cast.
void add_ranges(Model& m, const std::vector<NamedTensors>& runs, PassRequest& request) {
  std::string ranges = half_report(m, runs, /*random_runs=*/0, /*seed=*/0).ranges;
  if (m.dialect() == DialectId::kMil) {
    request.options.emplace_back("add_fp16_cast.skip_ops", "auto");
    request.options.emplace_back("add_fp16_cast.ranges", std::move(ranges));
  } else {
    request.options.emplace_back("cast_to_half.ranges", std::move(ranges));
  }
}

bool has_nan(const Tensor& t) {
  for (int64_t i = 0; is_float(t.dtype()) && i < t.size(); ++i) {
    if (std::isnan(t.as_double(i))) return true;
  }
  return false;
}

// Throws if the model cannot run on these inputs, or nothing can be learned from one.
void check_runs(const Model& m, const std::vector<NamedTensors>& runs) {
  for (const NamedTensors& run : runs) {
    check_inputs(m.graph(), inputs_by_name(m.graph(), run));
    for (const auto& [name, tensor] : run) {
      if (has_nan(*tensor))
        throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' of a calibration run has elements that are NaN", name),
                    {"expected numbers"});
    }
  }
}

Calibration calibration_of(const Model& m, const OptimizeOptions& options) {
  Calibration calibration{.runs = {}, .runner = options.runner};
  for (const NamedTensors& run : options.calibrate) calibration.runs.push_back(inputs_by_name(m.graph(), run));
  return calibration;
}

}  // namespace

OptimizeReport optimize_model(Model& m, const OptimizeOptions& options) {
  OptimizeReport report;
  check_request(options.request, m.dialect());
  report.before = count_model(m);
  Observers observers;
  observers.add(options.request.observer);
  const bool is_cut = !options.inputs.empty() || !options.outputs.empty() || !options.input_shapes.empty();
  observers.stage(is_cut ? "whole" : "read", m);
  keep_between(m, options.inputs, options.outputs);
  fix_input_shapes(m, options.input_shapes);
  if (is_cut) observers.stage("cut", m);
  std::unique_ptr<SavingsAccount> account;
  if (options.count_savings) {
    account = SavingsAccount::of(m, report.before);
    if (is_cut) account->cut();
    observers.add(account.get());
  }
  ChangeLog log;
  if (options.log_changes) observers.add(&log);
  std::vector<std::string> unknown;
  if (m.dialect() == DialectId::kOnnx && options.request.passes != std::vector<std::string>{"none"})
    unknown = unknown_operators(m);
  Stopwatch watch;
  std::optional<KeptNames> names;
  if (options.keep_names) names.emplace(m);
  OutsideNames outside(m);
  PassRequest request = options.request, quantization = take_last(request);
  const bool chooses = options.max_error > 0;
  const int opset = first_opset(m, options.opset, request, quantization, chooses);
  KeptOrigins origins(m, /*all=*/opset != 0);
  observers.add(&origins);
  request.observer = quantization.observer = observers.get();
  check_kept(m, request);
  if (chooses || !quantization.passes.empty()) check_runs(m, options.calibrate);
  const bool casts = chooses || makes_half(request) || (m.dialect() == DialectId::kMil && quantization.passes.empty());
  if (casts && !options.calibrate.empty()) add_ranges(m, options.calibrate, request);
  const bool is_verified = request.verify != Verify::kOff;
  constexpr size_t kHinted = 50000;  // nodes, beyond which another run takes seconds
  const bool is_hinted = options.hint && opset == 0 && quantization.passes.empty() && !chooses && m.num_nodes() <= kHinted;
  const std::unique_ptr<Model> original = is_verified || is_hinted ? clone_model(m) : nullptr;
  Numerics numerics = numerics_of(request, m.dialect());
  if (opset != 0) {
    PassRequest conversion = conversion_to(m, opset, request.observer);
    conversion.verify = options.request.verify == Verify::kOff ? Verify::kOff : Verify::kModel;
    for (const auto& option : options.request.options) {
      if (option.first == "legalize.target") conversion.options.push_back(option);  // verification uses it
    }
    numerics = std::max(numerics, numerics_of(conversion, m.dialect()));
    report.passes = run_uncompared(m, conversion);
    observers.stage("raised", m);
  }
  append(report.passes, run_uncompared(m, request));
  outside.restore();
  origins.restore();
  if (is_verified && !report.passes.passes.empty()) {
    std::optional<Tolerance> bound = options.tolerance;
    const auto made_half = [](const PassReport& p) { return p.name == "cast_to_half" && p.changed; };
    if (!bound && std::ranges::any_of(report.passes.passes, made_half)) bound = half_tolerance();
    const ValueCheck check = check_results(*original, m, request, numerics, bound, report.passes);
    if (check.runs > 0) report.largest_error = check.largest_error;
    report.largest_at = check.largest_at;
    observers.progress({}, 1, 1);
  }
  std::vector<PassRequest> narrowing;
  if (!quantization.passes.empty()) narrowing.push_back(std::move(quantization));
  Calibration calibration = calibration_of(m, options);
  if (chooses) {
    PrecisionChoice choice = choose_precision(m, options, request, std::move(calibration));
    report.precision_curve = std::move(choice.curve);
    report.precision_chosen = choice.chosen;
    report.precision_bound = choice.bound;
    report.has_metric = options.metric != nullptr;
    report.warnings = std::move(choice.warnings);
    narrowing = std::move(choice.passes);
    calibration = std::move(choice.learned);
  }
  for (PassRequest& last : narrowing) {
    last.calibration = calibration.runs.empty() ? nullptr : &calibration;
    last.observer = observers.get();
    last.explain = options.request.explain;
    OutsideNames of_floats(m);
    append(report.passes, run_uncompared(m, last));
    of_floats.restore();
  }
  if (names) names->drop_changed(m);
  check_fixed_point(m, options.request);
  const std::vector<std::string>& repairs = m.file_record().model.repairs;
  report.is_repaired = !repairs.empty();
  report.warnings.insert(report.warnings.end(), repairs.begin(), repairs.end());
  report.warnings.insert(report.warnings.end(), report.passes.ill_typed.begin(), report.passes.ill_typed.end());
  report.warnings.insert(report.warnings.end(), unknown.begin(), unknown.end());
  report.warnings.insert(report.warnings.end(), report.passes.not_converged.begin(), report.passes.not_converged.end());
  if (!narrowing.empty()) add_warnings(report.passes.passes.back(), report.warnings);
  if (options.request.verify == Verify::kModel && report.passes.evaluations == 0 && !report.passes.passes.empty())
    report.warnings.push_back("nothing was compared: " + report.passes.not_compared);
  report.optimize_seconds = watch.lap();
  report.after = count_model(m);
  const AddedNodes added = added_nodes(m);
  if (account) report.savings = account->finish(report.after, added.identities + added.constants);
  add_nodes(report.after, m.dialect() == DialectId::kMil ? "identity" : "Identity", added.identities);
  add_nodes(report.after, "const", added.constants);
  report.changes = std::move(log.entries);
  observers.stage("optimized", m);
  end_run(options.request.observer, m);
  if (is_hinted) report.hint = opset_hint(*original, options.request, report.after.nodes);
  return report;
}

bool is_only_larger(const OptimizeReport& report, const OptimizeOptions& options, uint64_t before, uint64_t after) {
  const PassRequest& r = options.request;
  if (r.passes != std::vector<std::string>{"onnx"} || r.fold_budget != 0 || r.prune_inputs || r.inline_functions ||
      !options.input_shapes.empty() || !options.inputs.empty() || !options.outputs.empty() || options.opset != 0 ||
      options.declare_types || options.keep_names || report.is_repaired)
    return false;
  // This pass takes nothing away: it makes the model right where runtimes have faults.
  for (const PassReport& p : report.passes.passes) {
    if (p.name == "guard_fusions" && p.changed) return false;
  }
  const ModelCounts &was = report.before, &is = report.after;
  return after > before && is.nodes >= was.nodes && is.ops == was.ops && is.parameters >= was.parameters &&
         is.bytes >= was.bytes;
}

void keep_as_it_was(OptimizeReport& report) {
  report.after = report.before;
  report.file_after = report.file_before;
  if (report.savings) {
    report.savings->after = report.savings->before;
    report.savings->beside.clear();
    for (Saved& s : report.savings->by_pass) s = {.flops = "0", .at_flops = 0};
  }
  for (PassReport& p : report.passes.passes) {
    p.changed = false;
    p.counts.clear();
    p.nodes_after = p.nodes_before = report.before.nodes;
  }
}

namespace {

uint64_t bytes_at(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

}  // namespace

OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read, const WriteOptions& write) {
  check_request(options.request, DialectId::kOnnx);
  Stopwatch watch;
  const bool is_text = in.extension() == ".sx";
  const auto model = is_text ? load_program(in, read.map) : read_onnx(in, read);
  if (model->dialect() != DialectId::kOnnx) {
    const bool mil = model->dialect() == DialectId::kMil;
    throw Error(ErrorCode::kUnsupported, fmt::format("{} is a program of the {} dialect", in.string(), mil ? "mil" : "jax"),
                {mil ? "help: `sardonyx optimize` optimizes it" : "help: `sardonyx convert` converts it to ONNX"});
  }
  require_output_name(out, DialectId::kOnnx);
  verify(*model);
  const double read_seconds = watch.lap();
  uint64_t file_before = is_text ? bytes_at(in) : 0;
  for (const auto& f : source_files(*model)) file_before += f->size();
  OptimizeReport report = optimize_model(*model, options);
  report.read_seconds = read_seconds;
  report.file_before = file_before;
  if (options.declare_types) {
    ValueFacts facts;
    infer_model(*model, facts, /*tolerant=*/true);
  }
  WriteOptions how = write;
  how.inferred_types |= options.declare_types;
  watch.lap();
  if (out.extension() == ".sx") {
    save_program(*model, out);
    report.file_after = bytes_at(out);
  } else {
    report.file_after = write_onnx(*model, out, how);
  }
  if (source_files(*model).size() == 1 && write.external == WriteOptions::External::kAuto &&
      is_only_larger(report, options, file_before, report.file_after)) {
    const MappedFile& source = *source_files(*model)[0];
    AtomicFile file(out, AtomicFile::Options{.sync = write.sync});
    if (const auto range = source.range_of(source.bytes())) {
      file.append(*range, source.size());
    } else {
      file.append(source.bytes());
    }
    source.check_unchanged();
    file.commit();
    keep_as_it_was(report);
  }
  report.write_seconds = watch.lap();
  return report;
}

OptimizeReport optimize_program(Model& m, const OptimizeOptions& options, const std::filesystem::path& file) {
  OptimizeReport report = optimize_model(m, options);
  if (const std::vector<std::string>& ill_typed = report.passes.ill_typed; !ill_typed.empty()) {
    const size_t more = ill_typed.size() - 1;
    std::vector<std::string> notes;
    if (more > 0) notes.push_back(fmt::format("and {} more op{}", more, more == 1 ? "" : "s"));
    notes.push_back("help: `sardonyx check` lists what is wrong with a program");
    if (!file.empty()) notes.push_back(fmt::format("in file {}", file.string()));
    throw Error(ErrorCode::kInvalidModel, fmt::format("the program is ill-typed: {}", ill_typed[0]), std::move(notes));
  }
  return report;
}

void write_program(const Model& m, const std::filesystem::path& out, const OptimizeOptions& options) {
  if (out.extension() == ".sx") {
    save_program(m, out);
  } else {
    write_coreml(m, out, {.link_weights = options.link_weights});
  }
}

OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read) {
  check_request(options.request, DialectId::kMil);
  Stopwatch watch;
  const auto model = in.extension() == ".sx" ? load_program(in, read.map) : read_coreml(in, read);
  if (model->dialect() != DialectId::kMil)
    throw Error(ErrorCode::kUnsupported, fmt::format("{} is not a program of the mil dialect", in.string()),
                {"help: `sardonyx optimize` is for ONNX"});
  require_output_name(out, DialectId::kMil);
  verify(*model);
  const double read_seconds = watch.lap();
  const uint64_t file_before = bytes_at(in);
  OptimizeReport report = optimize_program(*model, options, in);
  report.read_seconds = read_seconds;
  report.file_before = file_before;
  watch.lap();
  write_program(*model, out, options);
  report.write_seconds = watch.lap();
  report.file_after = bytes_at(out);
  return report;
}

}  // namespace sardonyx
