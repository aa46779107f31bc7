// Source locations of equations, for errors and for the provenance of nodes.
#include "lower/onnx/context.h"

#include <fmt/format.h>

namespace sardonyx {

uint32_t LoweringContext::source_of(const Node& eqn) const {
  auto known = [&](const Node& n) {
    const Provenance& p = jax_.provenance(n.provenance());
    return !p.sources.empty() && !p.sources[0].file.empty();
  };
  if (known(eqn)) return eqn.provenance();
  for (size_t i = callers_.size(); i-- > 0;) {
    if (known(*callers_[i])) return callers_[i]->provenance();
  }
  return eqn.provenance();
}

void LoweringContext::refuse(const Node& eqn, std::string reason) {
  std::string types = types_text(eqn);
  const std::string key = fmt::format("{}\n{}\n{}\n{}", eqn.op().name, types, reason, source_text(eqn));
  auto [at, inserted] = unsupported_.try_emplace(key);
  if (inserted) at->second = {std::string(eqn.op().name), std::move(types), std::move(reason), source_text(eqn), 0};
  ++at->second.count;
  // Placeholders of the right types let the loop continue and find everything else that is missing.
  for (const Value& v : eqn.results()) bind(v, &onnx_.new_placeholder({}, stored(import(v.type()))));
}

void LoweringContext::report_unsupported() const {
  size_t count = 0;
  std::vector<std::string> notes;
  bool missing = false;
  for (const auto& [key, u] : unsupported_) {
    count += u.count;
    missing |= u.reason.empty();
    std::string line = fmt::format("{} of {}", u.primitive, u.types);
    if (u.count > 1) line += fmt::format(" ({} times)", u.count);
    if (!u.source.empty()) line += ", " + u.source;
    if (!u.reason.empty()) line += ": " + u.reason;
    notes.push_back(std::move(line));
  }
  if (missing)
    notes.emplace_back(
        "help: add a lowering with @sardonyx.lowering(\"primitive\"), or map it to a node of your own domain with "
        "custom_ops={\"primitive\": \"my.domain::MyOp\"}; see docs/inside/lowerings.md");
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot convert {} equation{} of this program", count, count == 1 ? "" : "s"), std::move(notes));
}

std::string LoweringContext::types_text(const Node& eqn) const {
  std::string text;
  for (size_t i = 0; i < eqn.num_inputs(); ++i) {
    text += (i ? ", " : "") + (eqn.input(i) ? jax_.types().to_string(eqn.input(i)->type()) : std::string("_"));
  }
  text += " -> ";
  for (size_t i = 0; i < eqn.num_results(); ++i) text += (i ? ", " : "") + jax_.types().to_string(eqn.result(i)->type());
  return text;
}

std::string LoweringContext::source_text(const Node& eqn) const {
  const Provenance& p = jax_.provenance(source_of(eqn));
  if (p.sources.empty() || p.sources[0].file.empty()) return {};
  const Source& s = p.sources[0];
  return fmt::format("at {}:{}{}", s.file, s.line, s.function.empty() ? "" : fmt::format(" ({})", s.function));
}

void LoweringContext::mark(const Node& eqn, OnnxBuilder& b) {
  const uint32_t provenance = import_provenance(eqn, primitive(eqn.op()).origin);
  b.set_provenance(provenance);
  main_.set_provenance(provenance);
}

uint32_t LoweringContext::import_provenance(const Node& eqn, std::string_view origin) {
  if (options_.provenance == LowerOptions::Provenance::kOff) return 0;
  const uint32_t source = source_of(eqn);
  const uint64_t key = (static_cast<uint64_t>(eqn.op().id) << 32) | source;
  auto [at, inserted] = provenance_.try_emplace(key, 0);
  if (inserted) {
    Provenance p = jax_.provenance(source);
    if (p.sources.empty()) p.sources.emplace_back();
    for (Source& s : p.sources) {
      s.primitive = eqn.op().name;
      s.lowering = origin == "builtin" ? std::string("lower_").append(eqn.op().name) : std::string(origin);
    }
    at->second = onnx_.add_provenance(std::move(p));
  }
  return at->second;
}

}  // namespace sardonyx
