// The commands sardonyx optimize and sardonyx passes.
#include "driver/optimize.h"
#include "driver/pipeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.h"
#include "jobs.h"
#include "say.h"
#include "support/progress.h"

namespace sardonyx::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

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
  if (!args.explain.empty()) {
    request.on_near_miss = [](std::string_view pass, std::string_view node, std::string_view why) {
      warn("{}: skipped a near match: {}\n", pass, why);
      if (!node.empty()) warn("  at {}\n", trimmed(node));
    };
  }
  check_request(request, dialect);
  return request;
}

std::string change(double before, double after) {
  if (before == after || before == 0) return {};
  return fmt::format("  {:+.1f} %", 100 * (after - before) / before);
}

void print_report(const Job& job, const OptimizeReport& r) {
  say("{} -> {}\n", job.in.string(), job.out.string());
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
  if (r.passes.evaluations > 0) say("  {} evaluations before and after compared\n", r.passes.evaluations);
  say("  {:.3f} s: {:.3f} reading, {:.3f} optimizing, {:.3f} writing\n", r.read_seconds + r.optimize_seconds + r.write_seconds,
      r.read_seconds, r.optimize_seconds, r.write_seconds);
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

ordered_json json_of(const Job& job, const OptimizeReport& r) {
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
    if (i < r.changes.size()) {
      one["ops"] = r.changes[i].ops;
      one["at"] = ordered_json::array();
      for (const ChangeLog::Firing& f : r.changes[i].firings)
        one["at"].push_back({{"rule", f.rule.empty() ? p.name : f.rule}, {"op", f.op}, {"name", f.name}});
    }
    if (!p.error.empty()) one["error"] = p.error;
    passes.push_back(std::move(one));
  }
  return {{"input", job.in.string()},
          {"output", job.out.string()},
          {"before", counts(r.before, r.file_before)},
          {"after", counts(r.after, r.file_after)},
          {"seconds", {{"read", r.read_seconds}, {"optimize", r.optimize_seconds}, {"write", r.write_seconds}}},
          {"passes", passes},
          {"evaluations", r.passes.evaluations},
          {"faults", r.passes.faults},
          {"warnings", r.warnings}};
}

// Shows progress on a terminal, unless other output would break the line.
void watch(PassRequest& request, const OptimizeArgs& args, Progress& progress) {
  if (args.quiet || args.json || !args.explain.empty()) return;
  request.progress = [&](std::string_view pass, size_t done, size_t total) { progress.show(pass, done, total); };
}

// Runs the jobs and prints the results. Continues after a model that is refused. `one` optimizes one file.
int run(const std::vector<Job>& jobs, const OptimizeArgs& args, const std::function<OptimizeReport(const Job&)>& one) {
  ordered_json all = ordered_json::array();
  bool failed = false;
  for (const Job& job : jobs) {
    try {
      prepare(job);
      const OptimizeReport r = one(job);
      for (const std::string& w : r.warnings) warn("warning: {}\n", w);
      for (const PassReport& p : r.passes.passes) {
        if (!p.error.empty()) warn("warning: {} was skipped: {}\n", p.name, p.error);
      }
      for (const std::string& f : r.passes.faults) warn("fault: {}\n", f);
      failed |= r.passes.failed();
      if (args.json) all.push_back(json_of(job, r));
      if (!args.json && !args.quiet) print_report(job, r);
      if (!args.json && args.changes) print_changes(r);
    } catch (const Error& e) {
      if (jobs.size() == 1) throw;
      const std::string in = job.in.string();
      const bool told = std::string_view(e.what()).find(in) != std::string_view::npos;
      show_error(told ? e : e.with_note(fmt::format("in {}", in)));
      if (args.json) all.push_back({{"input", job.in.string()}, {"error", e.what()}});
      failed = true;
    }
  }
  if (args.json) {
    const ordered_json& shown = jobs.size() == 1 ? all.front() : all;
    fmt::print("{}\n", shown.dump(2, ' ', false, ordered_json::error_handler_t::replace));
  }
  return failed ? 1 : 0;
}

}  // namespace

int optimize(const OutputArgs& out, const OptimizeArgs& args) {
  OptimizeOptions options{.request = request_of(args, DialectId::kOnnx),
                          .input_shapes = args.input_shapes,
                          .opset = args.opset,
                          .declare_types = args.declare_types,
                          .keep_names = args.keep_names};
  Progress progress;
  watch(options.request, args, progress);
  constexpr std::string_view kExtensions[] = {".onnx"};
  const std::vector<Job> jobs = jobs_of(args.inputs, out.output, kExtensions);
  if (!out.data_file.empty()) require_folders_of_their_own(jobs, out.data_file);
  return run(jobs, args, [&](const Job& job) {
    return optimize_file(job.in, job.out, options, {.map = !args.no_mmap}, write_options(out));
  });
}

int optimize_coreml(const std::string& output, const OptimizeArgs& args) {
  OptimizeOptions options{.request = request_of(args, DialectId::kMil),
                          .calibrate = args.calibrate,
                          .log_changes = args.changes || args.json,
                          .link_weights = args.link_weights};
  Progress progress;
  watch(options.request, args, progress);
  constexpr std::string_view kExtensions[] = {".mlpackage", ".mlmodel"};
  return run(jobs_of(args.inputs, output, kExtensions), args,
             [&](const Job& job) { return optimize_coreml_file(job.in, job.out, options, {.map = !args.no_mmap}); });
}

namespace {

// Wraps `text` at spaces into lines of at most `width` columns. Lines after the first are indented by
// `indent` spaces.
std::string wrapped(std::string_view text, size_t indent, size_t width = 110) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > width) {
      out += '\n' + std::string(column = indent, ' ');
    } else if (column > indent) {
      out += ' ', ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

int passes(const std::string& name, bool json) {
  const std::vector<PassInfo> all = list_passes();
  const std::vector<PresetInfo> presets = list_presets();
  if (json) {
    ordered_json j{{"passes", ordered_json::array()}, {"presets", ordered_json::array()}};
    for (const PassInfo& p : all) {
      ordered_json options = ordered_json::object();
      for (const auto& [option, meaning] : p.options) options[std::string(option)] = meaning;
      j["passes"].push_back({{"name", p.name},
                             {"dialect", p.dialect},
                             {"about", p.about},
                             {"numerics", to_string(p.numerics)},
                             {"options", options},
                             {"rules", p.rules}});
    }
    for (const PresetInfo& p : presets) j["presets"].push_back({{"name", p.name}, {"about", p.about}, {"passes", p.passes}});
    fmt::print("{}\n", j.dump(2));
    return 0;
  }
  if (name.empty()) {
    size_t width = 0;
    for (const PassInfo& p : all) width = std::max(width, p.name.size());
    say("presets\n");
    for (const PresetInfo& p : presets) say("  {:<{}}  {}\n", p.name, width, p.about);
    say("passes\n");
    for (const PassInfo& p : all) say("  {:<{}}  {}\n", p.name, width, p.about);
    return 0;
  }
  for (const PresetInfo& p : presets) {
    if (p.name != name) continue;
    say("{}: {}\n", p.name, p.about);
    for (std::string_view pass : p.passes) say("  {}\n", pass);
    return 0;
  }
  const size_t prefix = name.rfind("::");
  const std::string bare = prefix == std::string::npos ? name : name.substr(prefix + 2);
  const auto found = std::find_if(all.begin(), all.end(), [&](const PassInfo& i) { return i.name == bare; });
  if (found == all.end()) check_request({.passes = {name}}, DialectId::kOnnx);  // names the nearest pass
  const PassInfo& p = *found;
  say("{}::{}: {}\n  numerics  {}\n", p.dialect, p.name, p.about, to_string(p.numerics));
  for (const auto& [option, meaning] : p.options) say("  option    {}: {}\n", option, meaning);
  for (const std::string& rule : p.rules) say("  rule      {}\n", wrapped(rule, 12));
  return 0;
}

}  // namespace sardonyx::tools
