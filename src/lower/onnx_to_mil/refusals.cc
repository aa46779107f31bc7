// Nodes that have no lowering, and the provenance that errors show.
#include <fmt/format.h>

#include "lower/onnx_to_mil/context.h"

namespace sardonyx::to_mil {

void Context::refuse(const Node& n, std::string reason) {
  std::string types = types_text(n);
  const std::string op = n.op().domain.empty() ? std::string(n.op().name) : fmt::format("{}::{}", n.op().domain, n.op().name);
  const std::string key = fmt::format("{}\n{}\n{}\n{}", op, types, reason, source_text(n));
  auto [at, inserted] = refused_.try_emplace(key);
  if (inserted) at->second = {op, std::move(types), std::move(reason), source_text(n), 0};
  ++at->second.count;
  stand_in(n);
}

// Placeholder values of the right types let the loop continue and collect all refusals.
void Context::stand_in(const Node& n) {
  for (const Value& v : n.results()) bind(v, &mil_.new_placeholder({}, import(v.type())));
}

void Context::report_unsupported() const {
  size_t count = 0;
  std::vector<std::string> notes;
  for (const auto& [key, r] : refused_) {
    count += r.count;
    std::string line = fmt::format("{} of {}", r.op, r.types);
    if (r.count > 1) line += fmt::format(" ({} times)", r.count);
    if (!r.source.empty()) line += ", " + r.source;
    line += ": " + (r.reason.empty() ? "Core ML has no such operator, and there is no lowering for it" : r.reason);
    notes.push_back(std::move(line));
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot convert {} node{} of this model to Core ML ({})", count, count == 1 ? "" : "s",
                          coreml_target_name(options_.version)),
              std::move(notes));
}

std::string Context::types_text(const Node& n) const {
  std::string text;
  for (size_t i = 0; i < n.num_inputs(); ++i)
    text += (i ? ", " : "") + (n.input(i) ? onnx_.types().to_string(n.input(i)->type()) : std::string("_"));
  text += " -> ";
  for (size_t i = 0; i < n.num_results(); ++i) text += (i ? ", " : "") + onnx_.types().to_string(n.result(i)->type());
  return text;
}

std::string Context::source_text(const Node& n) const {
  const Provenance& p = onnx_.provenance(n.provenance());
  if (p.sources.empty() || p.sources[0].file.empty()) {
    return n.name().empty() ? std::string() : fmt::format("node '{}'", n.name().view());
  }
  const Source& s = p.sources[0];
  return fmt::format("at {}:{}{}", s.file, s.line, s.function.empty() ? "" : fmt::format(" ({})", s.function));
}

uint32_t Context::import_provenance(const Node& n) {
  if (!options_.provenance || n.provenance() == 0) return 0;
  auto [at, inserted] = provenance_.try_emplace(n.provenance(), 0);
  if (inserted) at->second = mil_.add_provenance(onnx_.provenance(n.provenance()));
  return at->second;
}

}  // namespace sardonyx::to_mil
