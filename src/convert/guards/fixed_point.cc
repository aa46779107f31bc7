#include "convert/guards/fixed_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "convert/guards/outside_names.h"
#include "passes/catalog.h"
#include "sardonyx/error.h"
#include "sardonyx/inspect.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

constexpr uint64_t kMostBytes = 64'000'000;

// A run that must change nothing after `request`.
struct SecondRun {
  PassRequest request;
  bool through_file;
};

// Nullopt if no pass promises that.
std::optional<SecondRun> second_run(const PassRequest& request, DialectId dialect) {
  const Pipeline pipeline = make_pipeline(request, dialect);
  if (pipeline.entries.empty()) return std::nullopt;
  PassRequest again = request;
  again.fold_budget = 0;
  again.verify = Verify::kOff;
  again.observer = nullptr;
  if (std::ranges::all_of(pipeline.entries, &PipelineEntry::repeats)) return SecondRun{again, /*through_file=*/true};
  const PipelineEntry& last = pipeline.entries.back();
  const auto is_of_another = [&](std::string_view what, char end) { return what.substr(0, what.find(end)) != last.name; };
  again.passes = {std::string(last.name)};
  again.inline_functions = again.prune_inputs = false;
  std::erase_if(again.options, [&](const auto& option) { return is_of_another(option.first, '.'); });
  std::erase_if(again.skip, [&](const std::string& what) { return is_of_another(what, '/'); });
  return SecondRun{again, /*through_file=*/false};
}

// The first differing lines of two texts.
std::string difference(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '\n') line = i + 1;
  }
  const auto at = [&](const std::string& text) { return text.substr(line, text.find('\n', line) - line); };
  return a == b ? "the same text" : fmt::format("first\n{}\nthen\n{}", at(a), at(b));
}

std::string rules_that_fired(const PipelineReport& report) {
  std::string what;
  for (const PassReport& p : report.passes) {
    for (const auto& [rule, times] : p.counts) {
      if (times > 0) what += fmt::format("{}{}/{} {}", what.empty() ? "" : ", ", p.name, rule, times);
    }
  }
  return what.empty() ? "no pass reports a change" : what;
}

std::optional<std::string> change_in_memory(const Model& m, const PassRequest& request) {
  const auto again = clone_model(m);
  OutsideNames outside(*again);
  const PipelineReport report = run_passes(*again, request);
  outside.restore();
  std::string why;
  if (!report.passes.front().changed && equal_models(m, *again, &why)) return std::nullopt;
  return fmt::format("{}\n{}", rules_that_fired(report), difference(print(m), print(*again)));
}

std::optional<std::string> change_through_file(const Model& m, const PassRequest& request) {
  const std::string once = serialize_onnx(m);
  const auto again = read_onnx_bytes(std::as_bytes(std::span(once)), nullptr);
  const std::string before = print(*again);
  OutsideNames outside(*again);
  const PipelineReport report = run_passes(*again, request);
  outside.restore();
  if (serialize_onnx(*again) == once) return std::nullopt;
  return fmt::format("{}\n{}", rules_that_fired(report), difference(before, print(*again)));
}

}  // namespace

std::optional<std::string> change_by_second_run(const Model& m, const PassRequest& request) {
  const auto second = second_run(request, m.dialect());
  if (!second || count_model(m).bytes > kMostBytes) return std::nullopt;
  return second->through_file ? change_through_file(m, second->request) : change_in_memory(m, second->request);
}

void check_fixed_point(const Model& m, const PassRequest& request) {
  const char* on = std::getenv("SARDONYX_CHECK_FIXED_POINT");
  if (on == nullptr || *on == '\0' || m.dialect() != DialectId::kOnnx) return;
  if (const auto change = change_by_second_run(m, request))
    throw Error(ErrorCode::kInternal, "a second run changed the model: " + *change);
}

}  // namespace sardonyx
