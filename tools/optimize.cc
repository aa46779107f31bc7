// sardonyx optimize, coreml optimize, convert-opset.
#include "driver/optimize.h"
#include "driver/file_names.h"
#include "driver/pipeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "commands.h"
#include "console.h"
#include "jobs.h"
#include "output.h"
#include "sardonyx/io.h"
#include "savings.h"
#include "say.h"
#include "view/steps.h"
#include "view/steps_file.h"

namespace sardonyx::tools {
namespace {

// Parses sizes such as "10M".
int64_t bytes_of(const std::string& text) {
  size_t used = 0;
  double v = -1;
  try {
    v = std::stod(text, &used);
  } catch (const std::exception&) {}
  const std::string unit = text.substr(used);
  const double factor = unit.empty()                  ? 1
                        : unit == "k" || unit == "kB" ? 1e3
                        : unit == "M" || unit == "MB" ? 1e6
                        : unit == "G" || unit == "GB" ? 1e9
                                                      : -1;
  if (!(v >= 0) || factor < 0 || v * factor > 9e15)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a number of bytes", text),
                {"expected 65536, 64k, 10M or 2G"});
  return static_cast<int64_t>(v * factor);
}

PassRequest request_of(const OptimizeArgs& args, DialectId dialect) {
  PassRequest request{.passes = {}, .skip = args.skip};
  add_pipeline(args.passes, request);
  for (const std::string& o : args.options) {
    const size_t equals = o.find('=');
    if (equals == std::string::npos)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("expected an option as pass.option=value, found '{}'", o));
    request.options.emplace_back(o.substr(0, equals), o.substr(equals + 1));
  }
  if (!args.compute_precision.empty()) request.options.emplace_back("compute_precision", args.compute_precision);
  // One per line: names may contain commas.
  const auto list = [&](std::string_view option, const std::vector<std::string>& entries) {
    std::string lines;
    for (const std::string& e : entries) lines += e + '\n';
    if (!lines.empty()) request.options.emplace_back(std::string(option), lines);
  };
  list("image_input_preprocess.inputs", args.image_inputs);
  list("update_output_dtypes.types", args.output_dtypes);
  request.strict = args.strict;
  request.verify = args.verify == "model" ? Verify::kModel : args.verify == "pass" ? Verify::kPass : Verify::kOff;
  request.prune_inputs = args.prune_inputs;
  request.allow_empty = args.allow_empty;
  request.inline_functions = args.inline_functions;
  request.fold_budget = bytes_of(args.fold_budget);
  request.explain = args.explain;
  check_request(request, dialect);
  return request;
}

std::string change(double before, double after) {
  if (before == after || before == 0) return {};
  return fmt::format("  {:+.1f} %", 100 * (after - before) / before);
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

// What each pass did, and how long it took.
void print_passes(const OptimizeReport& r) {
  size_t width = 4, idle = 0;
  double idle_seconds = 0;
  for (const PassReport& p : r.passes.passes) width = std::max(width, p.name.size());
  for (const PassReport& p : r.passes.passes) {
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
  }
  if (idle > 0) say("  {:<{}} {:>9.1f} ms  changed nothing\n", fmt::format("{} passes", idle), width, idle_seconds * 1e3);
}

// Prints what each pass of a Core ML pipeline changed.
void print_changes(const OptimizeReport& r) {
  for (size_t i = 0; i < r.changes.size(); ++i) {
    const PassReport& p = r.passes.passes[i];
    if (!p.changed) continue;
    say("  {}  {:.1f} ms\n", p.name, p.seconds * 1e3);
    for (const auto& [op, counts] : r.changes[i].ops) say("    {:<40} {:>6} -> {}\n", op, counts.first, counts.second);
    for (const ChangeLog::Firing& f : r.changes[i].firings)
      say("    {}at {} {}\n", f.rule.empty() ? std::string() : f.rule + " ", f.op, f.name);
  }
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
    if (r.savings) one["saved"] = tools::json_of(r.savings->by_pass[i]);
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
    add_flops(j["before"], tools::json_of(r.savings->before));
    add_flops(j["after"], tools::json_of(r.savings->after));
  }
  j["seconds"] = {{"read", r.read_seconds}, {"optimize", r.optimize_seconds}, {"write", r.write_seconds}};
  j["passes"] = passes;
  if (r.savings) {
    ordered_json beside = ordered_json::array();
    for (const auto& [what, saved] : r.savings->beside) {
      beside.push_back(tools::json_of(saved));
      beside.back()["what"] = what;
    }
    j["saved_beside"] = beside;
    j["at"] = r.savings->at;
    j["nodes_without_cost"] = {{"before", r.savings->before.unknown}, {"after", r.savings->after.unknown}};
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

void require_trace_name(const std::vector<Job>& jobs, const OptimizeArgs& args) {
  if (args.trace.empty()) return;
  view::check_steps_name(args.trace);
  if (jobs.size() != 1)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("--trace takes one model, and there are {}", jobs.size()));
}

using Optimize = std::function<OptimizeReport(const std::filesystem::path& in, const std::filesystem::path& out, bool is_coreml,
                                              Observer* observer)>;

// Optimizes one model. The result of a dry run goes to a folder that is removed, and that of `-o -` through one.
OptimizeReport run_one(const Job& job, const OptimizeArgs& args, const Optimize& one, Observer* observer) {
  const bool is_coreml = is_coreml_name(job.in);
  const bool to_stdout = is_standard_output(job.out.string());
  if (!args.dry_run && !to_stdout) {
    prepare(job);
    return one(job.in, job.out, is_coreml, observer);
  }
  if (to_stdout && is_coreml && !args.dry_run)
    throw Error(ErrorCode::kInvalidArgument, "a Core ML package is a folder, and cannot go to standard output");
  if (!to_stdout) require_output_name(job.out, is_coreml ? DialectId::kMil : DialectId::kOnnx);
  const std::string suffix = to_stdout ? std::string(is_coreml ? ".mlpackage" : ".onnx") : job.out.extension().string();
  const StandardOutput place(suffix);
  OptimizeReport r = one(job.in, place.path(), is_coreml, observer);
  if (!args.dry_run) place.send();
  return r;
}

// Runs the jobs and prints the results. Continues after a model that is refused.
int run(const std::vector<Job>& jobs, const OptimizeArgs& args, const Optimize& one) {
  require_trace_name(jobs, args);
  ProgressLine progress;
  NearMissLines near_misses;
  Observers watching;
  watching.add(&near_misses);
  if (!args.quiet && !args.json && args.explain.empty()) watching.add(&progress);  // it would break the lines of other output
  ordered_json all = ordered_json::array();
  bool failed = false;
  int code = 0;
  Total total;
  for (const Job& job : jobs) {
    const std::string in = shown(job.in);
    try {
      Observers observers = watching;
      std::optional<view::Steps> steps;
      if (!args.trace.empty()) observers.add(&steps.emplace(job.in));
      const OptimizeReport r = run_one(job, args, one, observers.get());
      if (steps) view::write_steps(args.trace, steps->scene());
      for (const std::string& w : r.warnings) warn("warning: {}\n", w);
      for (const PassReport& p : r.passes.passes) {
        if (!p.error.empty()) warn("warning: {} was skipped: {}\n", p.name, p.error);
      }
      for (const std::string& f : r.passes.faults) warn("fault: {}\n", f);
      failed |= r.passes.failed();
      const std::string out = args.dry_run ? std::string() : is_standard_output(job.out.string()) ? "-" : job.out.string();
      if (args.json) all.push_back(json_of(args.command, {in, job.out, {}}, out, args.trace, r));
      if (!args.json && !args.quiet && jobs.size() > 1 && !args.verbose) {
        print_line(in, r, total);
      } else if (!args.json && !args.quiet) {
        print_report(in, out.empty() ? "(dry run: nothing is written)" : out, r, args.verbose);
      }
      if (!args.json && args.verbose) print_passes(r);
      if (!args.json && args.changes) print_changes(r);
    } catch (const Error& e) {
      progress.clear();
      if (jobs.size() == 1 && !args.json) throw;
      const bool told = std::string_view(e.what()).find(in) != std::string_view::npos;
      show_error(told ? e : e.with_note(fmt::format("in {}", in)));
      ordered_json object = json_head(args.command, in, false);
      object["error"] = tools::json_of(e);
      all.push_back(std::move(object));
      if (jobs.size() == 1) code = exit_code_of(e);
      failed = true;
      ++total.failed;
    }
  }
  if (total.models > 0) print_total(total, args.dry_run ? "(dry run: nothing is written)" : jobs.front().below.string());
  if (args.json) print_json(all);
  return code != 0 ? code : failed ? 1 : 0;
}

OptimizeOptions options_of(const OptimizeArgs& args, DialectId dialect) {
  const bool mil = dialect == DialectId::kMil;
  OptimizeArgs own = args;
  if (own.passes.empty()) own.passes = mil ? "default" : "onnx";
  std::optional<Tolerance> tolerance;
  if (args.rtol || args.atol) tolerance = Tolerance{args.rtol.value_or(0), args.atol.value_or(0)};
  return {.request = request_of(own, dialect),
          .inputs = args.cut_inputs,
          .outputs = args.cut_outputs,
          .input_shapes = args.input_shapes,
          .opset = args.opset,
          .calibrate = args.calibrate,
          .tolerance = tolerance,
          .declare_types = args.declare_types,
          .keep_names = args.keep_names,
          .hint = !mil && own.passes == "onnx" && !args.quiet && args.verify == "off",
          .count_savings = args.json || !args.quiet,
          .log_changes = args.changes || (mil && args.json),
          .link_weights = args.link_weights};
}

// What `optimize` takes for ONNX models alone.
void require_fit_for_coreml(const OutputArgs& out, const OptimizeArgs& args, const std::string& input) {
  const std::pair<std::string_view, bool> given[] = {
      {"--opset", args.opset != 0},
      {"--input-shape", !args.input_shapes.empty()},
      {"--inputs", !args.cut_inputs.empty()},
      {"--outputs", !args.cut_outputs.empty()},
      {"--prune-inputs", args.prune_inputs},
      {"--keep-names", args.keep_names},
      {"--inline", args.inline_functions},
      {"--allow-empty", args.allow_empty},
      {"--declare-types", args.declare_types},
      {"--fold-budget", args.fold_budget != "0"},
      {"--external-data", out.external},
      {"--data-file", !out.data_file.empty()},
      {"--max-data-file", out.max_data_file != 0},
  };
  for (const auto& [name, is_given] : given) {
    if (is_given)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is for ONNX models, and {} is a Core ML program", name, input),
                  {"help: `sardonyx coreml optimize --help` lists the options for Core ML"});
  }
}

std::vector<std::string> all_opened(const std::vector<std::string>& inputs) {
  std::vector<std::string> all;
  for (const std::string& i : inputs) all.push_back(opened(i));
  return all;
}

}  // namespace

OptimizeOptions optimize_options(const std::string& passes, DialectId dialect) {
  OptimizeOptions options = options_of({.passes = passes}, dialect);
  options.hint = options.count_savings = false;
  return options;
}

int optimize(const OutputArgs& out, const OptimizeArgs& args) {
  constexpr std::string_view kExtensions[] = {".onnx", ".mlpackage", ".mlmodel"};
  const bool only_onnx = args.command == "convert-opset";
  const std::vector<Job> jobs = jobs_of(all_opened(args.inputs), out.output, std::span(kExtensions).first(only_onnx ? 1 : 3));
  if (!out.data_file.empty()) require_folders_of_their_own(jobs, out.data_file);
  if (is_standard_output(out.output)) told() = stderr;
  std::optional<OptimizeOptions> onnx, coreml;  // made where a model needs them: names of passes differ
  for (const Job& job : jobs) {
    const bool is_coreml = is_coreml_name(job.in);
    if (is_coreml && only_onnx)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is a Core ML program, and opsets are ONNX's", job.in.string()));
    if (is_coreml) require_fit_for_coreml(out, args, job.in.string());
    auto& options = is_coreml ? coreml : onnx;
    if (options) continue;
    options = options_of(args, is_coreml ? DialectId::kMil : DialectId::kOnnx);
  }
  WriteOptions write = write_options(out);
  if (is_standard_output(out.output)) write.external = WriteOptions::External::kNever;
  const ReadOptions read{.map = !args.no_mmap};
  return run(jobs, args,
             [&](const std::filesystem::path& in, const std::filesystem::path& to, bool is_coreml, Observer* observer) {
               OptimizeOptions& options = is_coreml ? *coreml : *onnx;
               options.request.observer = observer;
               return is_coreml ? optimize_coreml_file(in, to, options, read) : optimize_file(in, to, options, read, write);
             });
}

int optimize_coreml(const std::string& output, const OptimizeArgs& args) {
  for (const std::string& input : args.inputs) {
    if (input.ends_with(".onnx"))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is an ONNX model", input),
                  {fmt::format("help: sardonyx optimize {} -o {}", input, output)});
  }
  OptimizeOptions options = options_of(args, DialectId::kMil);
  constexpr std::string_view kExtensions[] = {".mlpackage", ".mlmodel"};
  const ReadOptions read{.map = !args.no_mmap};
  return run(jobs_of(args.inputs, output, kExtensions), args,
             [&](const std::filesystem::path& in, const std::filesystem::path& to, bool, Observer* observer) {
               options.request.observer = observer;
               return optimize_coreml_file(in, to, options, read);
             });
}

}  // namespace sardonyx::tools
