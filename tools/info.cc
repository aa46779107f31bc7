// sardonyx info: summarizes a model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "commands.h"
#include "driver/model_counts.h"
#include "output.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "say.h"
#include "support/mapped_file.h"

namespace sardonyx::tools {
namespace {

std::string type_of(const Model& m, const Port& p) {
  const Value* v = p.value != nullptr ? p.value : p.use->value;
  return m.types().to_string(p.declared != nullptr ? p.declared : v->type());
}

void print_json(const Model& m, const FileArgs& files, const ModelCounts& c, uint64_t file_bytes) {
  ordered_json j = json_head("info", files.input, true);
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
  j["outputs"] = ports(m.graph().outputs());
  j["nodes"] = c.nodes;
  j["nested_nodes"] = c.nested;
  j["functions"] = m.functions().size() - 1;
  j["tensors"] = c.tensors;
  j["tensor_bytes"] = c.bytes;
  j["values"] = c.values;
  j["values_without_type"] = c.untyped;
  j["ops"] = c.ops;
  print_one(std::move(j));
}

}  // namespace

int info(const FileArgs& files, const InfoArgs& args) {
  const auto model = read_model(opened(files.input), {.map = !files.no_mmap});
  const Model& m = *model;
  if (args.infer) {
    ValueFacts facts;
    for (const std::string& message : infer_model(*model, facts, /*tolerant=*/true)) warn("warning: {}\n", message);
  }
  if (args.text) {
    fmt::print("{}", print(m));
    return 0;
  }
  const ModelCounts c = count_model(m);
  uint64_t file_bytes = 0;
  for (const auto& f : source_files(m)) file_bytes += f->size();
  if (source_files(m).empty()) file_bytes = std::filesystem::file_size(files.input);  // a text file
  if (args.json) {
    print_json(m, files, c, file_bytes);
    return 0;
  }
  std::string opsets;
  for (const OpsetImport& i : m.opset_imports) {
    opsets += fmt::format("{}{} {}", opsets.empty() ? "" : ", ", i.domain.empty() ? "ai.onnx" : i.domain, i.version);
  }
  say("{}  {}\n", files.input, human_bytes(file_bytes));
  if (source_files(m).size() > 1)
    say("  data      {} file{} beside it\n", source_files(m).size() - 1, source_files(m).size() > 2 ? "s" : "");
  if (!m.producer_name.empty()) say("  made by   {} {}\n", m.producer_name, m.producer_version);
  if (m.specification_version) {
    say("  format    Core ML specification version {}, op set {}\n", *m.specification_version, m.main().mil_opset);
  } else {
    say("  format    IR version {}, opset {}\n", m.ir_version, opsets.empty() ? "1 (none given)" : opsets);
  }
  const auto ports = [&](const char* title, std::span<const Port> list) {
    for (const Port& p : list) say("  {:<9} {}: {}\n", &p == list.data() ? title : "", p.name.view(), type_of(m, p));
  };
  ports("inputs", m.graph().inputs());
  ports("outputs", m.graph().outputs());
  say("  nodes     {}", c.nodes);
  if (c.nested != 0) say(", {} of them in nested graphs", c.nested);
  if (m.functions().size() > 1) say(", in {} functions", m.functions().size());
  say("\n  tensors   {}, {}", c.tensors, human_bytes(c.bytes));
  if (c.weight_bytes.size() > 1) {
    std::string split;
    for (const auto& [t, bytes] : c.weight_bytes)
      split += fmt::format("{}{} {}", split.empty() ? "" : ", ", to_string(t), human_bytes(bytes));
    say(" ({})", split);
  }
  say("\n");
  std::vector<std::pair<std::string, size_t>> ops(c.ops.begin(), c.ops.end());
  std::ranges::sort(ops, {}, [](const auto& e) { return std::pair(~e.second, e.first); });  // most frequent first, then by name
  size_t width = 10;
  for (const auto& [op, count] : ops) width = std::max(width, op.size());
  if (!ops.empty()) say("\n  {:<{}}  {:>8}\n", "operator", width, "nodes");
  for (const auto& [op, count] : ops) say("  {:<{}}  {:>8}\n", op, width, count);
  return 0;
}

}  // namespace sardonyx::tools
