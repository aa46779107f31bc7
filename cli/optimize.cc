// sardonyx optimize, and conversions that stay in one format.
#include "convert/file_names.h"
#include "convert/pipeline_text.h"
#include "inspect/model_summary.h"
#include "sardonyx/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "cli/options/coreml_texts.h"
#include "cli/options/shape_texts.h"
#include "cli/options/value_texts.h"
#include "cli/print/console.h"
#include "cli/print/output.h"
#include "cli/print/savings.h"
#include "cli/print/say.h"
#include "commands.h"
#include "jobs.h"
#include "sardonyx/io.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::cli {
namespace {

PassRequest request_of(const Given& given, const std::string& passes, DialectId dialect) {
  PassRequest request{.passes = {}, .skip = given.list("skip"), .options = pass_options(given)};
  add_pipeline(passes, request);
  const bool is_coreml = dialect == DialectId::kMil, is_int8 = given.text("precision") == "int8";
  if (is_int8 && !is_coreml) {
    if (given.has("calibrate")) request.passes.emplace_back("quantize_values");
    request.passes.emplace_back("quantize_products");
  } else if (!is_int8 && given.has("precision")) {
    request.options.emplace_back("precision", coreml_precision(given) == CoremlPrecision::kF16 ? "f16" : "f32");
  }
  if (given.has("keep-f32"))
    request.options.emplace_back(is_coreml ? "add_fp16_cast.skip_ops" : "cast_to_half.keep", given.text("keep-f32"));
  std::string types;  // one per line: names may contain commas
  for (const std::string& type : given.list("output-type")) types += long_type(type) + '\n';
  if (!types.empty()) request.options.emplace_back("update_output_dtypes.types", types);
  if (given.has("weights")) {
    const std::string_view pass = is_coreml ? "compress_weights" : "quantize_weights";
    request.passes.emplace_back(pass);
    request.options.emplace_back(fmt::format("{}.type", pass), given.text("weights"));
  }
  if (is_int8 && is_coreml) {
    if (!given.has("calibrate"))
      refuse("--precision int8 of Core ML learns ranges from runs of the model", {"help: --calibrate run.npz"});
    request.passes.emplace_back("quantize_activations");  // the weights are narrow by then
  }
  for (const char* other : {"precision", "weights"}) {
    if (given.has("max-error") && given.has(other) && given.text(other) != "f32")
      refuse(fmt::format("--max-error chooses the types, which --{} names", other),
             {"help: leave one of them out; --precision f32 is allowed, and only weights get other types"});
  }
  request.strict = given.has("strict");
  const std::string verify = given.text("verify");
  request.verify = verify == "model" ? Verify::kModel : verify == "pass" ? Verify::kPass : Verify::kOff;
  request.prune_inputs = given.has("prune-inputs");
  request.allow_empty = given.has("allow-empty");
  request.inline_functions = given.text("functions") == "inline";
  request.fold_budget = bytes_of(given.text("fold-budget", "0"));
  request.explain = given.list("explain");
  check_request(request, dialect);
  return request;
}

std::string change(double before, double after) {
  if (before == after || before == 0) return {};
  return fmt::format("  {:+.1f} %", 100 * (after - before) / before);
}

// What got another precision, and why other nodes stayed.
void print_precision(const OptimizeReport& r) {
  for (const PassReport& pass : r.passes.passes) {
    if (pass.name != "cast_to_half" && pass.name != "quantize_activations") continue;
    for (const auto& [what, times] : pass.counts) {
      if (what.starts_with("in ")) say("  {:<12} {:>12} {:>12}  {}\n", "", "", times, what);
    }
  }
}

// What --max-error tried, and what it chose.
void print_curve(const OptimizeReport& r) {
  if (r.precision_curve.empty()) return;
  say("  {:<12} {:>12} {:>12}\n", "", "constants", "error");
  for (size_t i = 0; i < r.precision_curve.size(); ++i) {
    const PrecisionPoint& p = r.precision_curve[i];
    say("  {:<12} {:>12} {:>10.3g} %  {}\n", i == r.precision_chosen ? "chosen" : "", human_bytes(p.bytes), 100 * p.error,
        p.types);
  }
  say("  {:<12} {:>12} {:>10.3g} %  at most on these inputs, as others may be off by more\n", "", "", 100 * r.precision_bound);
}

void print_report(const std::string& in, const std::string& out, const OptimizeReport& r, bool is_verbose) {
  say("{} -> {}\n", in, out);
  const auto line = [](std::string_view what, const std::string& before, const std::string& after, const std::string& by) {
    say("  {:<12} {:>12} {:>12}{}\n", what, before, after, by);
  };
  line("", "before", "after", "");
  line("nodes", std::to_string(r.before.nodes), std::to_string(r.after.nodes),
       change(static_cast<double>(r.before.nodes), static_cast<double>(r.after.nodes)));
  line("parameters", std::to_string(r.before.parameters), std::to_string(r.after.parameters),
       change(static_cast<double>(r.before.parameters), static_cast<double>(r.after.parameters)));
  line("file", human_bytes(r.file_before), human_bytes(r.file_after),
       change(static_cast<double>(r.file_before), static_cast<double>(r.file_after)));
  if (r.savings && r.savings->has_comparable_flops()) {
    const double before = *r.savings->before.at_flops, after = *r.savings->after.at_flops;
    const std::string at = r.savings->at.empty() ? std::string() : fmt::format("  at {}", r.savings->at);
    line("FLOP", short_count(before), short_count(after), change(before, after) + at);
  }
  std::set<std::string> names;
  for (const auto& [op, count] : r.before.ops) names.insert(op);
  for (const auto& [op, count] : r.after.ops) names.insert(op);
  size_t same = 0;
  const auto count_in = [](const ModelCounts& c, const std::string& op) {
    const auto at = c.ops.find(op);
    return at == c.ops.end() ? size_t{0} : at->second;
  };
  for (const std::string& op : names) {
    const size_t before = count_in(r.before, op), after = count_in(r.after, op);
    if (before == after) {
      ++same;
    } else {
      line(op, before ? std::to_string(before) : "-", after ? std::to_string(after) : "-", "");
    }
  }
  if (same > 0) say("  {} operator{} as before\n", same, same == 1 ? "" : "s");
  print_precision(r);
  print_curve(r);
  constexpr size_t kFewRows = 12;
  if (r.savings) print_savings(r, is_verbose ? SIZE_MAX : kFewRows);
  if (r.passes.evaluations > 0) say("  {} evaluations before and after compared\n", r.passes.evaluations);
  if (r.largest_error) say("  largest error {:.3g}{}{}\n", *r.largest_error, r.largest_at.empty() ? "" : ": ", r.largest_at);
  say("  {:.3f} s: {:.3f} reading, {:.3f} optimizing, {:.3f} writing\n", r.read_seconds + r.optimize_seconds + r.write_seconds,
      r.read_seconds, r.optimize_seconds, r.write_seconds);
  if (r.hint) {
    const std::string made =
        r.hint->operators.empty() ? std::string() : fmt::format(" ({})", fmt::join(r.hint->operators, ", "));
    say("  hint: --opset {} leaves {} node{} instead of {}{}\n", r.hint->opset, r.hint->nodes, r.hint->nodes == 1 ? "" : "s",
        r.after.nodes, made);
  }
}

// One of several models in a line.
struct Total {
  size_t models = 0, failed = 0, nodes_before = 0, nodes_after = 0;
  uint64_t file_before = 0, file_after = 0;
  double seconds = 0;
};

std::string short_report(size_t nodes_before, size_t nodes_after, uint64_t file_before, uint64_t file_after, double seconds) {
  return fmt::format("nodes {} -> {}{}, file {} -> {}{}, {:.2f} s", nodes_before, nodes_after,
                     change(static_cast<double>(nodes_before), static_cast<double>(nodes_after)), human_bytes(file_before),
                     human_bytes(file_after), change(static_cast<double>(file_before), static_cast<double>(file_after)),
                     seconds);
}

void print_line(const std::string& in, const OptimizeReport& r, Total& total) {
  const double seconds = r.read_seconds + r.optimize_seconds + r.write_seconds;
  say("{}: {}\n", in, short_report(r.before.nodes, r.after.nodes, r.file_before, r.file_after, seconds));
  ++total.models;
  total.nodes_before += r.before.nodes;
  total.nodes_after += r.after.nodes;
  total.file_before += r.file_before;
  total.file_after += r.file_after;
  total.seconds += seconds;
}

void print_total(const Total& t, const std::string& to) {
  say("{} models -> {}: {}{}\n", t.models, to,
      short_report(t.nodes_before, t.nodes_after, t.file_before, t.file_after, t.seconds),
      t.failed > 0 ? fmt::format("; {} failed", t.failed) : std::string());
}

// What each pass did, and how long it took; of Core ML pipelines also where.
void print_passes(const OptimizeReport& r) {
  size_t width = 4, idle = 0;
  double idle_seconds = 0;
  for (const PassReport& p : r.passes.passes) width = std::max(width, p.name.size());
  for (size_t i = 0; i < r.passes.passes.size(); ++i) {
    const PassReport& p = r.passes.passes[i];
    if (!p.changed) {
      ++idle;
      idle_seconds += p.seconds;
      continue;
    }
    std::string did;
    for (const auto& [what, times] : p.counts) {
      if (times > 0) did += fmt::format("{}{} {}", did.empty() ? "" : ", ", what, times);
    }
    say("  {:<{}} {:>9.1f} ms  {}\n", p.name, width, p.seconds * 1e3, did.empty() ? "changed" : did);
    if (i >= r.changes.size()) continue;
    for (const auto& [op, counts] : r.changes[i].ops) say("    {:<40} {:>6} -> {}\n", op, counts.first, counts.second);
    for (const ChangeLog::Firing& f : r.changes[i].firings)
      say("    {}at {} {}\n", f.rule.empty() ? std::string() : f.rule + " ", f.op, f.name);
  }
  if (idle > 0) say("  {:<{}} {:>9.1f} ms  changed nothing\n", fmt::format("{} passes", idle), width, idle_seconds * 1e3);
}

ordered_json json_of(std::string_view command, const Job& job, const std::string& output, const std::string& trace,
                     const OptimizeReport& r) {
  const auto counts = [](const ModelCounts& c, uint64_t file) {
    return ordered_json{
        {"nodes", c.nodes}, {"parameters", c.parameters}, {"tensor_bytes", c.bytes}, {"file_bytes", file}, {"ops", c.ops}};
  };
  ordered_json passes = ordered_json::array();
  for (size_t i = 0; i < r.passes.passes.size(); ++i) {
    const PassReport& p = r.passes.passes[i];
    ordered_json one{{"name", p.name}, {"changed", p.changed}, {"seconds", p.seconds}};
    ordered_json counted = ordered_json::object();
    for (const auto& [what, times] : p.counts) counted[what] = times;
    one["counts"] = counted;
    if (r.savings) one["saved"] = cli::json_of(r.savings->by_pass[i]);
    if (i < r.changes.size()) {
      one["ops"] = r.changes[i].ops;
      one["at"] = ordered_json::array();
      for (const ChangeLog::Firing& f : r.changes[i].firings)
        one["at"].push_back({{"rule", f.rule.empty() ? p.name : f.rule}, {"op", f.op}, {"name", f.name}});
    }
    if (!p.error.empty()) one["error"] = p.error;
    passes.push_back(std::move(one));
  }
  ordered_json j = json_head(command, job.in.string(), !r.passes.failed());
  j["output"] = output.empty() ? ordered_json() : ordered_json(output);
  if (!trace.empty()) j["trace"] = trace;
  j["before"] = counts(r.before, r.file_before);
  j["after"] = counts(r.after, r.file_after);
  if (r.savings) {
    const auto add_flops = [](ordered_json& to, const ordered_json& counted) {
      to["flops"] = counted["flops"];
      to["flops_at"] = counted["flops_at"];
    };
    add_flops(j["before"], cli::json_of(r.savings->before));
    add_flops(j["after"], cli::json_of(r.savings->after));
  }
  j["seconds"] = {{"read", r.read_seconds}, {"optimize", r.optimize_seconds}, {"write", r.write_seconds}};
  j["passes"] = passes;
  if (r.savings) {
    ordered_json beside = ordered_json::array();
    for (const auto& [what, saved] : r.savings->beside) {
      beside.push_back(cli::json_of(saved));
      beside.back()["what"] = what;
    }
    j["saved_beside"] = beside;
    j["at"] = r.savings->at;
    j["nodes_without_cost"] = {{"before", r.savings->before.unknown}, {"after", r.savings->after.unknown}};
  }
  if (!r.precision_curve.empty()) {
    ordered_json curve = ordered_json::array();
    for (const PrecisionPoint& p : r.precision_curve)
      curve.push_back({{"types", p.types}, {"bytes", p.bytes}, {"error", p.error}});
    j["precision_curve"] = curve;
    j["precision_chosen"] = r.precision_chosen;
    j["precision_bound"] = r.precision_bound;
  }
  j["evaluations"] = r.passes.evaluations;
  if (r.largest_error) j["largest_error"] = *r.largest_error;
  if (!r.largest_at.empty()) j["largest_error_at"] = r.largest_at;
  j["faults"] = r.passes.faults;
  j["warnings"] = r.warnings;
  if (r.hint) j["hint"] = {{"opset", r.hint->opset}, {"nodes", r.hint->nodes}, {"operators", r.hint->operators}};
  return j;
}

std::string shown(const std::filesystem::path& in) { return in == "/dev/stdin" ? "-" : in.string(); }

void require_trace_name(const std::vector<Job>& jobs, const Given& given) {
  if (!given.has("trace")) return;
  view::check_steps_name(given.text("trace"));
  if (jobs.size() != 1)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--trace takes one model, and there are {}", jobs.size()));
}

using Optimize = std::function<OptimizeReport(const Job& job, const std::filesystem::path& out, Observer* observer)>;

// Optimizes one model. The result of a dry run goes to a folder that is removed, and that of `-o -` through
// one.
OptimizeReport run_one(const Job& job, bool dry_run, const Optimize& one, Observer* observer) {
  const bool to_stdout = is_standard_output(job.out.string());
  if (!dry_run && !to_stdout) {
    prepare(job);
    return one(job, job.out, observer);
  }
  if (to_stdout && job.is_coreml && !dry_run)
    throw Error(ErrorCode::kInvalidArgument, "a Core ML package is a folder, and cannot go to standard output");
  if (!to_stdout) require_output_name(job.out, job.is_coreml ? DialectId::kMil : DialectId::kOnnx);
  const std::string suffix = to_stdout ? std::string(job.is_coreml ? ".mlpackage" : ".onnx") : job.out.extension().string();
  const StandardOutput place(suffix);
  OptimizeReport r = one(job, place.path(), observer);
  if (!dry_run) place.send();
  return r;
}

// Runs the jobs and prints the results. Continues after a model that is refused.
int run(const std::vector<Job>& jobs, const Given& given, const Optimize& one) {
  require_trace_name(jobs, given);
  const std::string trace = given.text("trace");
  const bool json = given.has("json"), verbose = given.has("verbose"), dry_run = given.has("dry-run");
  const bool tells = !json && !given.has("quiet");
  ProgressLine progress;
  NearMissLines near_misses;
  Observers watching;
  watching.add(&near_misses);
  if (tells && !given.has("explain")) watching.add(&progress);  // it would break the lines of other output
  ordered_json all = ordered_json::array();
  bool failed = false;
  int code = 0;
  Total total;
  for (const Job& job : jobs) {
    const std::string in = shown(job.in);
    try {
      Observers observers = watching;
      std::optional<view::Steps> steps;
      if (!trace.empty()) observers.add(&steps.emplace(job.in));
      const OptimizeReport r = run_one(job, dry_run, one, observers.get());
      if (steps) view::write_steps(trace, steps->scene());
      for (const std::string& w : r.warnings) warn("warning: {}\n", w);
      for (const PassReport& p : r.passes.passes) {
        if (!p.error.empty()) warn("warning: {} was skipped: {}\n", p.name, p.error);
      }
      for (const std::string& f : r.passes.faults) warn("fault: {}\n", f);
      failed |= r.passes.failed();
      const std::string out = dry_run ? std::string() : is_standard_output(job.out.string()) ? "-" : job.out.string();
      if (json) all.push_back(json_of(given.command(), {.in = in, .out = job.out, .below = {}}, out, trace, r));
      if (tells && jobs.size() > 1 && !verbose) {
        print_line(in, r, total);
      } else if (tells) {
        print_report(in, out.empty() ? "(dry run: nothing is written)" : out, r, verbose);
      }
      if (!json && verbose) print_passes(r);
    } catch (const Error& e) {
      progress.clear();
      if (jobs.size() == 1 && !json) throw;
      const bool names_file = std::string_view(e.what()).find(in) != std::string_view::npos;
      show_error(names_file ? e : e.with_note(fmt::format("in {}", in)));
      ordered_json object = json_head(given.command(), in, false);
      object["error"] = cli::json_of(e);
      all.push_back(std::move(object));
      if (jobs.size() == 1) code = exit_code_of(e);
      failed = true;
      ++total.failed;
    }
  }
  if (total.models > 0) print_total(total, dry_run ? "(dry run: nothing is written)" : jobs.front().below.string());
  if (json) print_json(all);
  return code != 0 ? code : failed ? 1 : 0;
}

OptimizeOptions options_of(const Given& given, DialectId dialect) {
  const bool mil = dialect == DialectId::kMil;
  const std::string passes = given.text("passes", given.command() == "convert" ? "none" : mil ? "default" : "onnx");
  return {.request = request_of(given, passes, dialect),
          .inputs = given.list("inputs"),
          .outputs = given.list("outputs"),
          .input_shapes = input_shapes_of(given.list("input-shape")),
          .opset = static_cast<int>(given.count("opset", 0)),
          .max_error = given.number("max-error").value_or(0),
          .tolerance = tolerance_of(given),
          .declare_types = given.has("declare-types"),
          .keep_names = given.has("keep-names"),
          .hint = !mil && passes == "onnx" && !given.has("quiet") && given.text("verify", "off") == "off",
          .count_savings = given.has("json") || !given.has("quiet"),
          .log_changes = mil && (given.has("verbose") || given.has("json")),
          .link_weights = given.has("link-weights")};
}

std::vector<std::string> all_opened(const std::vector<std::string>& inputs) {
  std::vector<std::string> all;
  for (const std::string& i : inputs) all.push_back(opened(i));
  return all;
}

}  // namespace

OptimizeOptions optimize_options(const std::string& passes, DialectId dialect) {
  OptimizeOptions options = options_of(Given("optimize", {"", "-o", "", "--passes", passes}), dialect);
  options.hint = options.count_savings = false;
  return options;
}

int optimize(const Given& given) {
  constexpr std::string_view kExtensions[] = {".onnx", ".mlpackage", ".mlmodel"};
  const std::string output = given.text("output");
  std::vector<Job> jobs = jobs_of(all_opened(given.list("models")), output, kExtensions);
  WriteOptions write = write_options(given);
  if (!write.data_file.empty()) require_folders_of_their_own(jobs, write.data_file);
  if (is_standard_output(output)) message_stream() = stderr;
  std::optional<OptimizeOptions> onnx, coreml;  // made where a model needs them: names of passes differ
  for (Job& job : jobs) {
    job.is_coreml = dialect_of(job.in) == DialectId::kMil;
    given.require_fit(job.is_coreml ? Kind::kCoreml : Kind::kOnnx, job.in.string());
    auto& options = job.is_coreml ? coreml : onnx;
    if (options) continue;
    options = options_of(given, job.is_coreml ? DialectId::kMil : DialectId::kOnnx);
  }
  if (is_standard_output(output)) write.external = WriteOptions::External::kNever;
  const ReadOptions read = read_options(given);
  return run(jobs, given, [&](const Job& job, const std::filesystem::path& to, Observer* observer) {
    OptimizeOptions& how = job.is_coreml ? *coreml : *onnx;
    how.request.observer = observer;
    if (given.has("calibrate")) how.calibrate = inputs_of_runs(read_model(job.in, read)->graph(), given.list("calibrate"));
    return job.is_coreml ? optimize_coreml_file(job.in, to, how, read) : optimize_file(job.in, to, how, read, write);
  });
}

}  // namespace sardonyx::cli
