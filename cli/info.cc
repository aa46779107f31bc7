// sardonyx info: summarizes a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/options/habits.h"
#include "cli/options/shape_texts.h"
#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/file_names.h"
#include "convert/interface/input_shapes.h"
#include "convert/read_source.h"
#include "inspect/model_summary.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "support/files/mapped_file.h"

namespace sardonyx::cli {
namespace {

constexpr size_t kMostModules = 20;  // listed in the text; --json has all

template <class T>
ordered_json number_or_null(const std::optional<T>& n) {
  return n ? ordered_json(*n) : ordered_json();
}

std::string type_of(const Model& m, const Port& p) {
  const Value* v = p.value != nullptr ? p.value : p.use->value;
  return m.types().to_string(p.declared != nullptr ? p.declared : v->type());
}

ordered_json json_of(const ModelSummary::Work& w) {
  return {{"flops", w.flops},
          {"flops_at", number_or_null(w.at_flops)},
          {"bytes", w.bytes},
          {"bytes_at", number_or_null(w.at_bytes)}};
}

void print_json(const Model& m, const std::string& input, const ModelSummary& s, uint64_t file_bytes) {
  const ModelCounts& c = s.counts;
  ordered_json j = json_head("info", input, true);
  j["file_bytes"] = file_bytes;
  if (m.specification_version) {
    j["specification_version"] = *m.specification_version;
  } else {
    j["ir_version"] = m.ir_version;
  }
  j["producer"] = {{"name", m.producer_name}, {"version", m.producer_version}};
  j["opsets"] = ordered_json::object();
  if (!m.specification_version) {
    for (const OpsetImport& i : m.opset_imports) j["opsets"][i.domain.empty() ? "ai.onnx" : i.domain] = i.version;
  } else {
    for (const auto& f : m.functions()) j["opsets"][f->name] = f->mil_opset;
  }
  const auto ports = [&](std::span<const Port> list) {
    ordered_json out = ordered_json::array();
    for (const Port& p : list) out.push_back({{"name", p.name.view()}, {"type", type_of(m, p)}});
    return out;
  };
  j["inputs"] = ports(m.graph().inputs());
  for (ordered_json& port : j["inputs"]) {
    const auto image = s.images.find(port["name"].get<std::string>());
    if (image != s.images.end()) port["image"] = image->second;
  }
  j["outputs"] = ports(m.graph().outputs());
  j["nodes"] = c.nodes;
  j["nested_nodes"] = c.nested;
  j["functions"] = m.functions().size() - 1;
  j["tensors"] = c.tensors;
  j["parameters"] = c.parameters;
  j["tensor_bytes"] = c.bytes;
  j["tensor_bytes_by_type"] = ordered_json::object();
  for (const auto& [t, bytes] : c.weight_bytes) j["tensor_bytes_by_type"][std::string(to_string(t))] = bytes;
  j["values"] = c.values;
  j["values_without_type"] = c.untyped;
  j["ops"] = c.ops;
  j["sizes"] = ordered_json::array();
  for (const ModelSummary::Size& size : s.sizes)
    j["sizes"].push_back(
        {{"name", size.name}, {"min", number_or_null(size.range.min)}, {"max", number_or_null(size.range.max)}});
  j["at"] = s.at;
  j["work"] = json_of(s.all);
  j["nodes_without_cost"] = s.unknown;
  j["loops_counted_once"] = s.open_loops;
  j["costly_nodes"] = ordered_json::array();
  for (const ModelSummary::CostlyNode& n : s.costly) {
    j["costly_nodes"].push_back({{"name", n.name}, {"op", n.op}});
    j["costly_nodes"].back().update(json_of(n));
  }
  j["peak_bytes"] = s.peak_bytes;
  j["peak_node"] = s.peak_node;
  j["values_without_size"] = s.unsized;
  j["largest_tensors"] = ordered_json::array();
  for (const auto& t : s.largest) j["largest_tensors"].push_back({{"name", t.name}, {"type", t.type}, {"bytes", t.bytes}});
  j["modules"] = ordered_json::array();
  for (const auto& one : s.modules)
    j["modules"].push_back({{"path", one.path}, {"nodes", one.nodes}, {"parameters", one.parameters}, {"bytes", one.bytes}});
  j["runtimes"] = {{"oldest", s.oldest_runtime}, {"newest", s.newest_runtime}};
  j["places"] = ordered_json::array();
  for (const auto& p : s.places)
    j["places"].push_back({{"name", p.name}, {"source", p.source}, {"refused_nodes", p.refused}, {"reasons", p.reasons}});
  print_one(std::move(j));
}

std::string range_text(const ModelSummary::Size& s) {
  if (s.range.max) return fmt::format("{} {}..{}", s.name, s.range.min.value_or(0), *s.range.max);
  return fmt::format("{} >= {}", s.name, s.range.min.value_or(0));
}

// "8.2 G: 4100*B", or only the number where no sizes are open.
std::string amount(const std::string& expression, const std::optional<double>& at, const std::string& where, const char* unit) {
  if (!at) return fmt::format("{} {}", expression, unit);
  const std::string number = human_count(*at, unit);
  return where.empty() ? number : fmt::format("{} at {}:  {}", number, where, expression);
}

void say_work(const ModelSummary& s) {
  for (const ModelSummary::Size& size : s.sizes) say("  {:<9} {}\n", &size == s.sizes.data() ? "sizes" : "", range_text(size));
  say("  work      {}\n", amount(s.all.flops, s.all.at_flops, s.at, "FLOP"));
  say("  traffic   {}\n", amount(s.all.bytes, s.all.at_bytes, s.at, "B"));
  say("  peak      {} of activations", human_bytes(s.peak_bytes));
  if (!s.at.empty()) say(" at {}", s.at);
  if (!s.peak_node.empty()) say(", at node '{}'", s.peak_node);
  say("\n");
  if (s.unknown > 0) say("  left out  {} nodes of unknown sizes or cost\n", s.unknown);
  if (s.open_loops > 0) say("  loops     {} run an unknown number of times, and count once\n", s.open_loops);
}

void say_places(const ModelSummary& s) {
  if (s.places.empty() && s.newest_runtime.empty()) return;
  if (s.newest_runtime.empty()) {
    say("  runs in   no release of onnxruntime that Sardonyx knows\n");
  } else {
    say("  runs in   {} to {} (CPU)\n", s.oldest_runtime, s.newest_runtime);
  }
  for (const ModelSummary::Place& p : s.places) {
    const std::string first = p.reasons.empty() ? "" : ": " + fmt::format("{}", fmt::join(p.reasons, "; "));
    if (p.source.empty()) {
      say("            not in {}{}\n", p.name, first);
    } else if (p.refused == 0) {
      say("            {}: all nodes ({})\n", p.name, p.source);
    } else {
      say("            {}: {} nodes stay on the CPU ({}){}\n", p.name, p.refused, p.source, first);
    }
  }
}

void say_lists(const ModelSummary& s) {
  if (!s.costly.empty()) say("\n  {:<40}  {:<22}  {:>10}  {:>10}\n", "most arithmetic", "operator", "FLOP", "bytes");
  for (const ModelSummary::CostlyNode& n : s.costly) {
    const auto shown = [](const std::optional<double>& at, const std::string& text) {
      return at ? human_count(*at, "") : text;
    };
    say("  {:<40}  {:<22}  {:>10}  {:>10}\n", n.name, n.op, shown(n.at_flops, n.flops), shown(n.at_bytes, n.bytes));
  }
  if (!s.largest.empty()) say("\n  {:<40}  {:<22}  {:>10}\n", "largest tensors", "type", "bytes");
  for (const ModelSummary::NamedTensor& t : s.largest) say("  {:<40}  {:<22}  {:>10}\n", t.name, t.type, human_bytes(t.bytes));
  if (!s.modules.empty()) say("\n  {:<40}  {:>8}  {:>12}  {:>10}\n", "module", "nodes", "parameters", "bytes");
  for (const ModelSummary::Module& m : folded(s.modules, kMostModules))
    say("  {:<40}  {:>8}  {:>12}  {:>10}\n", m.path.empty() ? "(none)" : m.path, m.nodes, m.parameters, human_bytes(m.bytes));
}

}  // namespace

int info(const Given& given) {
  const std::string input = given.text("model");
  if (is_function(input)) {
    given.require_fit(Kind::kFunction, input);
    run_python(given);
  }
  given.require_fit(is_coreml_name(input) ? Kind::kCoreml : Kind::kOnnx, input);
  if (given.has("node") || given.has("line")) return where(given);
  const auto model = read_source(opened(input), read_options(given));
  const Model& m = *model;
  fix_input_shapes(*model, input_shapes_of(given.list("input-shape")));
  const ModelSummary summary = summarize(*model, {.most_listed = given.count("most", 5)});
  const ModelCounts& c = summary.counts;
  uint64_t file_bytes = 0;
  for (const auto& f : source_files(m)) file_bytes += f->size();
  if (source_files(m).empty()) file_bytes = std::filesystem::file_size(input);  // a text file
  if (given.has("json")) {
    print_json(m, input, summary, file_bytes);
    return 0;
  }
  std::string opsets;
  for (const OpsetImport& i : m.opset_imports) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", i.domain.empty() ? "ai.onnx" : i.domain, i.version);
  }
  say("{}  {}\n", input, human_bytes(file_bytes));
  if (source_files(m).size() > 1)
    say("  data      {} file{} beside it\n", source_files(m).size() - 1, source_files(m).size() > 2 ? "s" : "");
  if (!m.producer_name.empty()) say("  made by   {} {}\n", m.producer_name, m.producer_version);
  if (m.specification_version) {
    say("  format    Core ML specification version {}, op set {}\n", *m.specification_version, m.main().mil_opset);
  } else {
    say("  format    IR version {}, opset {}\n", m.ir_version, opsets.empty() ? "1 (none given)" : opsets);
  }
  const auto ports = [&](const char* title, std::span<const Port> list) {
    for (const Port& p : list) {
      const auto image = summary.images.find(std::string(p.name.view()));
      const bool is_image = image != summary.images.end() && p.value != nullptr;
      say("  {:<9} {}: {}{}\n", &p == list.data() ? title : "", p.name.view(), type_of(m, p),
          is_image ? "  " + image->second : std::string());
    }
  };
  ports("inputs", m.graph().inputs());
  ports("outputs", m.graph().outputs());
  say("  nodes     {}", c.nodes);
  if (c.nested != 0) say(", {} of them in nested graphs", c.nested);
  if (m.functions().size() > 1) say(", in {} functions", m.functions().size());
  say("\n  tensors   {}, {} parameters, {}", c.tensors, c.parameters, human_bytes(c.bytes));
  if (c.weight_bytes.size() > 1) {
    std::string split;
    for (const auto& [t, bytes] : c.weight_bytes)
      split += fmt::format("{}{} {}", split.empty() ? "" : ", ", to_string(t), human_bytes(bytes));
    say(" ({})", split);
  }
  say("\n");
  say_work(summary);
  say_places(summary);
  std::vector<std::pair<std::string, size_t>> ops(c.ops.begin(), c.ops.end());
  std::ranges::sort(ops, {}, [](const auto& e) { return std::pair(~e.second, e.first); });  // most frequent first, then by name
  size_t width = 10;
  for (const auto& [op, count] : ops) width = std::max(width, op.size());
  if (!ops.empty()) say("\n  {:<{}}  {:>8}\n", "operator", width, "nodes");
  for (const auto& [op, count] : ops) say("  {:<{}}  {:>8}\n", op, width, count);
  say_lists(summary);
  return 0;
}

}  // namespace sardonyx::cli
