#include "sx_test_fuzz.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "passes/catalog.h"
#include "random/grow.h"
#include "rewrite/ready_rule.h"
#include "rewrite/values.h"

namespace sardonyx {
namespace {

struct Tally {
  size_t grown = 0, varied = 0, compared = 0, tries = 0, wrong = 0;
};

uint64_t seed_of(std::string_view name, uint64_t seed) {
  uint64_t h = 1469598103934665603u ^ seed;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

// Rewrites the model if the rule fires. Returns whether it did.
bool fires(Model& m, const Rule& rule, std::string_view pass) {
  ValueFacts facts;
  infer_model(m, facts, /*tolerant=*/true);
  PassContext context(m, facts);
  const PassOptions none;
  const ReadyRule ready(rule, m.dialect());
  const AppliedRule applied{.ready = &ready, .pass_name = pass, .options = &none};
  Graph* graphs[] = {&m.graph()};
  std::vector<size_t> fired;
  apply_rules({&applied, 1}, graphs, context, &fired);
  return fired.front() > 0;
}

// Runs the rule on the graph. Returns whether it fired.
bool try_rule(const Model& input, const Rule& rule, std::string_view pass, std::string_view name, Tally& tally) {
  try {
    verify(input, {.allow_unchecked = false});
  } catch (const Error&) {  // a type that the operator does not support
    return false;
  }
  auto got = clone_model(input);
  std::string wrong;
  try {
    if (!fires(*got, rule, pass)) return false;
    verify(*got, {.allow_unchecked = false, .shapes = true});
    const ValueCheck check = compare_values(input, *got, rule.numerics, /*backwards=*/true);
    if (check.difference) wrong = *check.difference;
    tally.compared += check.runs > 0;
  } catch (const Error& e) {
    if (compare_values(input, input, rule.numerics).runs == 0) return false;  // the input does not run either
    wrong = e.what();
  }
  if (!wrong.empty() && ++tally.wrong <= 2) {
    std::cout << fmt::format("{} goes wrong: {}\nfrom:\n{}to:\n{}\n", name, wrong, print(input, {.full_constants = true}),
                             print(*got, {.full_constants = true}));
  }
  return true;
}

}  // namespace

size_t fuzz_rules(const std::map<std::string, std::vector<std::unique_ptr<Model>>>& cases, const FuzzOptions& options) {
  const size_t enough = 40 * options.effort, most_grown = 4000 * options.effort, most_varied = 600 * options.effort;
  size_t rules = 0, failed = 0;
  Tally all;
  std::set<std::string_view> reached;
  for (const CatalogPass& p : catalog()) {
    if (p.dialect != DialectId::kOnnx) continue;
    // The graph before each firing of each of the pass's rules, per rule.
    std::vector<std::vector<std::unique_ptr<Model>>> seeds(p.pass.rules.size());
    if (const auto own = cases.find(std::string(p.name)); own != cases.end()) {
      for (const auto& input : own->second) {
        auto now = clone_model(*input);
        for (size_t i = 0; i < p.pass.rules.size(); ++i) {
          auto before = clone_model(*now);
          if (fires(*now, p.pass.rules[i], p.name)) seeds[i].push_back(std::move(before));
        }
      }
    }
    for (size_t i = 0; i < p.pass.rules.size(); ++i) {
      const Rule& rule = p.pass.rules[i];
      const std::string name = rule.name.empty() ? std::string(p.name) : fmt::format("{}/{}", p.name, rule.name);
      if (name.find(options.filter) == std::string::npos) continue;
      ++rules;
      Tally tally;
      fuzz::Dice dice(seed_of(name, options.seed));
      dice.odd_numbers = rule.numerics == Numerics::kExact;
      for (size_t k = 0; k < most_grown && tally.grown < enough && tally.wrong < 3; ++k, ++tally.tries) {
        const auto input = fuzz::grow(rule, dice);
        tally.grown += input != nullptr && try_rule(*input, rule, p.name, name, tally);
      }
      for (size_t k = 0; k < most_varied && tally.varied < enough && !seeds[i].empty() && tally.wrong < 3; ++k, ++tally.tries) {
        const auto input = fuzz::vary(*dice.one_of(seeds[i]), dice);
        tally.varied += input != nullptr && try_rule(*input, rule, p.name, name, tally);
      }
      const bool fired = tally.grown + tally.varied > 0;
      if (tally.wrong > 0) std::cout << fmt::format("{}: {} graphs go wrong\n", name, tally.wrong);
      if (!fired) std::cout << fmt::format("{} never fired in {} tries\n", name, tally.tries);
      failed += tally.wrong > 0 || !fired;
      if (options.report) {
        std::cout << fmt::format(
            "{:50} fired on {:3} graphs from its pattern, {:3} from its cases, {:4} compared; {:5} tries\n", name, tally.grown,
            tally.varied, tally.compared, tally.tries);
      }
      all.grown += tally.grown;
      all.varied += tally.varied;
      all.compared += tally.compared;
    }
  }
  std::cout << fmt::format(
      "{} rules on random graphs: {} fail; fired {} times on graphs from their patterns, {} on graphs from their "
      "cases, {} compared\n",
      rules, failed, all.grown, all.varied, all.compared);
  return failed;
}

}  // namespace sardonyx
