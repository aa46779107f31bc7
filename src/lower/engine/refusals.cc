// Nodes that cannot be lowered, and the source lines of nodes, for errors and for provenance.
#include <fmt/format.h>

#include "lower/engine/engine.h"

namespace sardonyx::lower {

void Engine::refuse(const Node& n, std::string reason) {
  Refusal r{spelled(n.op()), types_text(n), std::move(reason), source_text(n)};
  std::string key = fmt::format("{}\n{}\n{}\n{}", r.op, r.types, r.reason, r.source);
  ++refused_.try_emplace(std::move(key), std::move(r)).first->second.count;
  stand_in(n);
}

// Placeholders of the right types let the loop continue and find everything else that is refused.
void Engine::stand_in(const Node& n) {
  for (const Value& v : n.results()) bind(v, &target_.new_placeholder({}, stored_type(v.type())));
}

void Engine::take(const Engine& other) {
  for (const auto& [key, r] : other.refused_) {
    auto [at, is_new] = refused_.try_emplace(key, r);
    if (!is_new) at->second.count += r.count;
  }
  for (uint32_t start : other.batches_) {
    if (start > batches_.back()) batches_.push_back(start);
  }
}

void Engine::report_refusals() const {
  if (refused_.empty()) return;
  size_t count = 0;
  std::vector<std::string> notes;
  bool missing = false;
  for (const auto& [key, r] : refused_) {
    count += r.count;
    missing |= r.reason.empty();
    std::string line = fmt::format("{} of {}", r.op, r.types);
    if (r.count > 1) line += fmt::format(" ({} times)", r.count);
    if (!r.source.empty()) line += ", " + r.source;
    const std::string& reason = r.reason.empty() ? pair_.no_lowering : r.reason;
    if (!reason.empty()) line += ": " + reason;
    notes.push_back(std::move(line));
  }
  if (missing && !pair_.help.empty()) notes.push_back(pair_.help);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot convert {} {}{} of {}", count, pair_.node, count == 1 ? "" : "s", pair_.task),
              std::move(notes));
}

std::string Engine::types_text(const Node& n) const {
  const Types& types = source_.types();
  std::string text;
  for (size_t i = 0; i < n.num_inputs(); ++i)
    text += (i ? ", " : "") + (n.input(i) ? types.to_string(n.input(i)->type()) : std::string("_"));
  text += " -> ";
  for (size_t i = 0; i < n.num_results(); ++i) text += (i ? ", " : "") + types.to_string(n.result(i)->type());
  return text;
}

std::string Engine::source_text(const Node& n) const {
  const Provenance& p = source_.provenance(source_of(n));
  if (p.sources.empty() || p.sources[0].file.empty())
    return n.name().empty() ? std::string() : fmt::format("node '{}'", n.name().view());
  const Source& s = p.sources[0];
  return fmt::format("at {}:{}{}", s.file, s.line, s.function.empty() ? "" : fmt::format(" ({})", s.function));
}

uint32_t Engine::source_of(const Node& n) const {
  const auto known = [&](const Node& node) {
    const Provenance& p = source_.provenance(node.provenance());
    return !p.sources.empty() && !p.sources[0].file.empty();
  };
  if (known(n)) return n.provenance();
  for (size_t i = callers_.size(); i-- > 0;) {
    if (known(*callers_[i])) return callers_[i]->provenance();
  }
  return n.provenance();
}

void Engine::mark(const Node& n, Builder& b) {
  const uint32_t provenance = import_provenance(n);
  b.set_provenance(provenance);
  main().set_provenance(provenance);
}

uint32_t Engine::import_provenance(const Node& n) {
  if (!pair_.provenance) return 0;
  const uint32_t source = source_of(n);
  auto [at, inserted] = provenance_.try_emplace((static_cast<uint64_t>(n.op().id) << 32) | source, 0);
  if (inserted) {
    Provenance p = source_.provenance(source);
    describe(n, p);
    at->second = target_.add_provenance(std::move(p));
  }
  return at->second;
}

}  // namespace sardonyx::lower
