#include "convert/guards/unknown_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/graph/call.h"
#include "rewrite/pass.h"

namespace sardonyx {
namespace {

constexpr size_t kShownOperators = 8, kShownText = 200;

}  // namespace

std::vector<std::string> unknown_operators(Model& m) {
  struct Unknown {
    size_t nodes = 0;
    std::string first;
  };
  if (m.op_id_limit() <= known_op_count()) return {};  // all are in a table
  std::map<std::string, Unknown> unknown;
  size_t newer = 0;
  const int newest = dialect(DialectId::kOnnx).latest_version("");
  const auto has = m.opset_version("");
  for (const auto& function : m.functions()) {
    for (Graph* g : graphs_in(function->graph())) {
      for (const Node& n : g->nodes()) {
        const Op& op = n.op();
        if (op.known || called_function(n) != nullptr) continue;
        if (op.domain.empty() && has && *has > newest) {
          ++newer;
          continue;
        }
        Unknown& u = unknown[op.domain.empty() ? std::string(op.name) : fmt::format("{}::{}", op.domain, op.name)];
        if (u.nodes++ > 0) continue;
        u.first = print(n);
        size_t end = std::min(u.first.find('\n'), kShownText);
        if (end >= u.first.size()) continue;
        while (end > 0 && (u.first[end] & 0xC0) == 0x80) --end;  // do not cut inside a character
        u.first = u.first.substr(0, end) + (u.first[end] == '\n' ? "" : " ...");
      }
    }
  }
  std::vector<std::string> warnings;
  if (newer > 0) {
    warnings.push_back(fmt::format("opset {} is newer than {}, the last known one: {} node{} left as {}", *has, newest, newer,
                                   newer == 1 ? " is" : "s are", newer == 1 ? "it is" : "they are"));
  }
  for (const auto& [name, u] : unknown) {
    if (warnings.size() == kShownOperators && unknown.size() > kShownOperators) {
      warnings.push_back(fmt::format("and {} other unknown operators", unknown.size() - kShownOperators));
      break;
    }
    warnings.push_back(fmt::format("{} is an unknown operator: {} left as {}\n  at {}", name,
                                   u.nodes == 1 ? "its node is" : fmt::format("its {} nodes are", u.nodes),
                                   u.nodes == 1 ? "it is" : "they are", u.first));
  }
  return warnings;
}

}  // namespace sardonyx
