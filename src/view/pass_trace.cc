#include "view/pass_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/stopwatch.h"

namespace sardonyx::view {
namespace {

// "fuse_gelu × 12, remove_no_ops × 3": the passes whose rules fired, the busiest first.
std::string label_of(std::string_view pass, const std::vector<ChangeLog::Firing>& firings) {
  constexpr size_t kMost = 4;
  std::vector<std::pair<size_t, std::string>> counts;
  for (const ChangeLog::Firing& f : firings) {
    const auto known = std::ranges::find_if(counts, [&](const auto& c) { return c.second == f.pass; });
    if (known == counts.end()) {
      counts.emplace_back(1, f.pass);
    } else {
      ++known->first;
    }
  }
  if (counts.empty()) return std::string(pass);
  std::ranges::stable_sort(counts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string label;
  for (size_t i = 0; i < std::min(counts.size(), kMost); ++i)
    label += fmt::format("{}{}{}", i > 0 ? ", " : "", counts[i].second,
                         counts[i].first > 1 ? fmt::format(" × {}", counts[i].first) : std::string());
  if (counts.size() > kMost) label += fmt::format(" and {} more passes", counts.size() - kMost);
  return label;
}

// Adds the state of a model unless it shows no difference (constants in another place, types that say the same).
void add_step(const Model& now, std::string label, double seconds, Picture& to) {
  to.add(now, std::move(label), seconds);
  const PictureStep& last = to.steps.back();
  if (last.added + last.removed + last.changed == 0) to.drop_last_step();
}

}  // namespace

OptimizeReport trace(Model& m, const OptimizeOptions& options, Picture& to) {
  to.add(m, "as it was");
  ChangeLog log;
  Stopwatch watch;
  log.on_step = [&](const Model& now, std::string_view pass, const std::vector<ChangeLog::Firing>& firings) {
    const double seconds = watch.lap();
    add_step(now, label_of(pass, firings), seconds, to);
    watch.lap();
  };
  OptimizeOptions unhinted = options;
  unhinted.hint = false;  // it would optimize once more
  return optimize_model(m, unhinted);
}

void trace_conversion(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
                      Picture& to) {
  to.add(jax, "traced");
  ChangeLog log;
  Stopwatch watch;
  bool is_lowered = false;
  log.on_begin = [&](const Model& m) {
    if (&m != &onnx) return;
    add_step(m, is_lowered ? "between passes" : "lowered", watch.lap(), to);
    is_lowered = true;
    watch.lap();
  };
  log.on_step = [&](const Model& now, std::string_view pass, const std::vector<ChangeLog::Firing>& firings) {
    if (&now != &onnx) return;
    add_step(now, label_of(pass, firings), watch.lap(), to);
    watch.lap();
  };
  convert(jax, onnx, options, registry);
  add_step(onnx, is_lowered ? "finished" : "lowered", watch.lap(), to);
}

std::unique_ptr<Model> trace_to_coreml(const Model* jax, Model& onnx, const ToCoremlOptions& options, ToCoremlReport& report,
                                       Picture& to) {
  if (jax != nullptr) to.add(*jax, "traced");
  to.add(onnx, jax != nullptr ? "lowered to ONNX" : "as it was");
  const Model* current = &onnx;
  ChangeLog log;
  Stopwatch watch;
  log.on_step = [&](const Model& now, std::string_view pass, const std::vector<ChangeLog::Firing>& firings) {
    if (&now != current) return;
    add_step(now, label_of(pass, firings), watch.lap(), to);
    watch.lap();
  };
  ToCoremlOptions watched = options;
  watched.on_lowered = [&](const Model& mil) {
    current = &mil;
    add_step(mil, "lowered to Core ML", watch.lap(), to);
    watch.lap();
  };
  auto mil = to_coreml(onnx, watched, &report);
  add_step(*mil, "finished", watch.lap(), to);
  return mil;
}

}  // namespace sardonyx::view
