// sardonyx info: what a model consists of.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "support/mapped_file.h"

namespace sardonyx::tools {
namespace {

struct Counts {
  std::map<std::string, size_t> ops;
  std::map<DType, uint64_t> weight_bytes;
  size_t nodes = 0, nested = 0, tensors = 0, untyped = 0, values = 0;
  uint64_t bytes = 0;
  std::set<const std::byte*> seen;  // tied weights count once
};

void count_tensor(const Tensor& t, Counts& c) {
  ++c.tensors;
  if (!t.is_deferred() && !t.stored_bytes().empty() && !c.seen.insert(t.stored_bytes().data()).second) return;
  uint64_t size = t.is_splat() ? t.stored_bytes().size() : t.byte_size();
  for (const std::string& s : t.string_values()) size += s.size();
  c.bytes += size;
  c.weight_bytes[t.dtype()] += size;
}

void count_graph(const Graph& g, bool nested, Counts& c) {
  for (const Value* v : g.constants()) count_tensor(*v->constant(), c);
  for (const Port& p : g.inputs()) {
    if (p.default_value) count_tensor(*p.default_value, c);
  }
  for (const Node& n : g.nodes()) {
    ++c.nodes;
    c.nested += nested ? 1 : 0;
    ++c.ops[n.op().domain.empty() ? std::string(n.op().name) : fmt::format("{}.{}", n.op().domain, n.op().name)];
    if (n.extra() != nullptr && n.extra()->payload) count_tensor(*n.extra()->payload, c);
    for (const Value& v : n.results()) {
      ++c.values;
      c.untyped += v.type() == nullptr ? 1 : 0;
    }
    for (const Body& b : n.bodies()) count_graph(*b.graph, true, c);
  }
}

std::string human(uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    v /= 1000;
    if (v < 1000) return fmt::format("{:.1f} {}", v, unit);
  }
  return fmt::format("{:.1f} TB", v / 1000);
}

std::string type_of(const Model& m, const Port& p) {
  const Value* v = p.value != nullptr ? p.value : p.use->value;
  return m.types().to_string(p.declared != nullptr ? p.declared : v->type());
}

void print_json(const Model& m, const FileArgs& files, const Counts& c, uint64_t file_bytes) {
  using nlohmann::ordered_json;
  ordered_json j;
  j["file"] = files.input;
  j["file_bytes"] = file_bytes;
  j["ir_version"] = m.ir_version;
  j["producer"] = {{"name", m.producer_name}, {"version", m.producer_version}};
  j["opsets"] = ordered_json::object();
  for (const OpsetImport& i : m.opset_imports) j["opsets"][i.domain.empty() ? "ai.onnx" : i.domain] = i.version;
  const auto ports = [&](std::span<const Port> list) {
    ordered_json out = ordered_json::array();
    for (const Port& p : list) out.push_back({{"name", p.name.view()}, {"type", type_of(m, p)}});
    return out;
  };
  j["inputs"] = ports(m.graph().inputs());
  j["outputs"] = ports(m.graph().outputs());
  j["nodes"] = c.nodes;
  j["nested_nodes"] = c.nested;
  j["functions"] = m.functions().size() - 1;
  j["tensors"] = c.tensors;
  j["tensor_bytes"] = c.bytes;
  j["values"] = c.values;
  j["values_without_type"] = c.untyped;
  j["ops"] = c.ops;
  fmt::print("{}\n", j.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

}  // namespace

int info(const FileArgs& files, const InfoArgs& args) {
  const auto model = read_onnx(files.input, {.map = !files.no_mmap});
  const Model& m = *model;
  if (args.infer) {
    ValueFacts facts;
    for (const std::string& message : infer_model(*model, facts, /*tolerant=*/true))
      fmt::print(stderr, "warning: {}\n", message);
  }
  if (args.text) {
    fmt::print("{}", print(m));
    return 0;
  }
  Counts c;
  for (const auto& f : m.functions()) count_graph(f->graph(), false, c);
  uint64_t file_bytes = 0;
  for (const auto& f : m.source_files) file_bytes += f->size();
  if (args.json) {
    print_json(m, files, c, file_bytes);
    return 0;
  }
  std::string opsets;
  for (const OpsetImport& i : m.opset_imports) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", i.domain.empty() ? "ai.onnx" : i.domain, i.version);
  }
  fmt::print("{}  {}\n", files.input, human(file_bytes));
  if (m.source_files.size() > 1)
    fmt::print("  data      {} file{} beside it\n", m.source_files.size() - 1, m.source_files.size() > 2 ? "s" : "");
  if (!m.producer_name.empty()) fmt::print("  made by   {} {}\n", m.producer_name, m.producer_version);
  fmt::print("  format    IR version {}, opset {}\n", m.ir_version, opsets.empty() ? "1 (none given)" : opsets);
  const auto ports = [&](const char* title, std::span<const Port> list) {
    for (const Port& p : list) fmt::print("  {:<9} {}: {}\n", &p == list.data() ? title : "", p.name.view(), type_of(m, p));
  };
  ports("inputs", m.graph().inputs());
  ports("outputs", m.graph().outputs());
  fmt::print("  nodes     {}", c.nodes);
  if (c.nested != 0) fmt::print(", {} of them in nested graphs", c.nested);
  if (m.functions().size() > 1) fmt::print(", in {} functions", m.functions().size());
  fmt::print("\n  tensors   {}, {}", c.tensors, human(c.bytes));
  if (c.weight_bytes.size() > 1) {
    std::string split;
    for (const auto& [t, bytes] : c.weight_bytes)
      split += fmt::format("{}{} {}", split.empty() ? "" : ", ", to_string(t), human(bytes));
    fmt::print(" ({})", split);
  }
  fmt::print("\n");
  std::vector<std::pair<std::string, size_t>> ops(c.ops.begin(), c.ops.end());
  std::ranges::sort(ops, {}, [](const auto& e) { return std::pair(~e.second, e.first); });  // most first, then by name
  size_t width = 10;
  for (const auto& [op, count] : ops) width = std::max(width, op.size());
  if (!ops.empty()) fmt::print("\n  {:<{}}  {:>8}\n", "operator", width, "nodes");
  for (const auto& [op, count] : ops) fmt::print("  {:<{}}  {:>8}\n", op, width, count);
  return 0;
}

}  // namespace sardonyx::tools
