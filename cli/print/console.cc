#include "cli/print/console.h"

#include "cli/print/say.h"

namespace sardonyx::cli {
namespace {

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t' || s.back() == '\r')) s.remove_suffix(1);
  return s;
}

}  // namespace

void NearMissLines::near_miss(std::string_view pass, std::string_view node, std::string_view why) {
  warn("{}: skipped a near match: {}\n", pass, why);
  if (!node.empty()) warn("  at {}\n", trimmed(node));
}

}  // namespace sardonyx::cli
