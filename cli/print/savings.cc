#include "cli/print/savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/print/say.h"
#include "inspect/model_summary.h"

namespace sardonyx::cli {
namespace {

template <class Spell>
std::string cell(double n, const Spell& spell) {
  if (n == 0) return "-";
  return (n < 0 ? "-" : "") + spell(std::abs(n));
}

struct Row {
  std::string what;
  const Saved* saved;
};

void print_row(const std::string& what, size_t width, const Saved& s) {
  const auto bytes = [](double n) { return human_bytes(static_cast<uint64_t>(n)); };
  say("  {:<{}} {:>8} {:>12} {:>12}\n", what, width, s.nodes == 0 ? "-" : std::to_string(s.nodes),
      cell(static_cast<double>(s.bytes), bytes),
      s.at_flops        ? cell(*s.at_flops, short_count)
      : s.flops.empty() ? "?"
                        : s.flops);
}

void print_unknown(const Savings& s) {
  if (s.before.unknown + s.after.unknown == 0) return;
  say("  without the arithmetic of {} node{} before and {} after, which is not known\n", s.before.unknown,
      s.before.unknown == 1 ? "" : "s", s.after.unknown);
}

}  // namespace

std::string short_count(double n) {
  const std::string text = human_count(n, "");
  return text.ends_with(' ') ? text.substr(0, text.size() - 1) : text;
}

void print_savings(const OptimizeReport& r, size_t most) {
  const Savings& s = *r.savings;
  std::vector<Row> rows;
  size_t idle = 0;  // passes that changed something and saved nothing
  for (size_t i = 0; i < s.by_pass.size(); ++i) {
    const PassReport& p = r.passes.passes[i];
    if (!s.by_pass[i].is_nothing()) {
      rows.push_back({p.name, &s.by_pass[i]});
    } else if (p.changed) {
      ++idle;
    }
  }
  if (rows.empty() && s.beside.empty()) return print_unknown(s);
  // The smallest ones are left out; the order stays.
  const auto weight = [](const Row& row) {
    return std::tuple(std::abs(row.saved->nodes), std::abs(row.saved->bytes), std::abs(row.saved->at_flops.value_or(0)));
  };
  size_t left_out = 0;
  if (rows.size() > most) {
    std::vector<Row> by_weight = rows;
    std::ranges::stable_sort(by_weight, std::greater(), weight);
    const auto least = weight(by_weight[most - 1]);
    left_out = std::erase_if(rows, [&](const Row& row) { return weight(row) < least; });
  }
  for (const auto& [what, saved] : s.beside) rows.push_back({what, &saved});
  size_t width = 20;
  for (const Row& row : rows) width = std::max(width, row.what.size());
  say("  {:<{}} {:>8} {:>12} {:>12}{}\n", "saved by", width, "nodes", "constants", "FLOP", s.at.empty() ? "" : " at " + s.at);
  for (const Row& row : rows) print_row(row.what, width, *row.saved);
  if (left_out > 0) say("  and {} more pass{}, which saved less\n", left_out, left_out == 1 ? "" : "es");
  if (idle > 0) say("  {} pass{} changed something and saved nothing\n", idle, idle == 1 ? "" : "es");
  print_unknown(s);
}

ordered_json json_of(const Saved& s) {
  return {{"nodes", s.nodes},
          {"tensor_bytes", s.bytes},
          {"flops", s.flops.empty() ? ordered_json() : ordered_json(s.flops)},
          {"flops_at", s.at_flops ? ordered_json(*s.at_flops) : ordered_json()}};
}

}  // namespace sardonyx::cli
