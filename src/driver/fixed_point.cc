#include "driver/fixed_point.h"

#include <fmt/format.h>

#include <cstdlib>

#include "driver/model_counts.h"
#include "driver/outside_names.h"
#include "passes/catalog.h"
#include "sardonyx/error.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

constexpr uint64_t kMostBytes = 64'000'000;

// Whether the request says that a second run changes nothing.
bool is_fixed_point(const PassRequest& request, DialectId dialect) {
  if (request.passes.size() != 1 || request.fold_budget != 0) return false;
  bool repeats = false;
  for (const PipelineEntry& e : make_pipeline(request, dialect).entries) {
    if (!e.pass->no_fixed_point.empty()) return false;
    repeats |= e.repeats;
  }
  return repeats;
}

// The first lines in which two texts differ.
std::string difference(const std::string& a, const std::string& b) {
  size_t line = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) {
    if (a[i] == '\n') line = i + 1;
  }
  const auto at = [&](const std::string& text) { return text.substr(line, text.find('\n', line) - line); };
  return a == b ? "the same text" : fmt::format("first\n{}\nthen\n{}", at(a), at(b));
}

}  // namespace

std::optional<std::string> change_by_second_run(const Model& m, const PassRequest& request) {
  if (m.dialect() != DialectId::kOnnx || !is_fixed_point(request, m.dialect()) || count_model(m).bytes > kMostBytes)
    return std::nullopt;
  const std::string once = serialize_onnx(m);
  const auto again = read_onnx_bytes(std::as_bytes(std::span(once)), nullptr);
  const std::string before = print(*again);
  PassRequest quiet = request;
  quiet.verify = Verify::kOff;
  quiet.progress = nullptr;
  quiet.on_near_miss = nullptr;
  OutsideNames outside(*again);
  const PipelineReport report = run_passes(*again, quiet);
  outside.restore();
  if (serialize_onnx(*again) == once) return std::nullopt;
  std::string what;
  for (const PassReport& p : report.passes) {
    for (const auto& [rule, times] : p.counts) {
      if (times > 0) what += fmt::format("{}{}/{} {}", what.empty() ? "" : ", ", p.name, rule, times);
    }
  }
  return fmt::format("{}\n{}", what.empty() ? "no pass says how" : what, difference(before, print(*again)));
}

void check_fixed_point(const Model& m, const PassRequest& request) {
  const char* on = std::getenv("SARDONYX_CHECK_FIXED_POINT");
  if (on == nullptr || *on == '\0') return;
  if (const auto change = change_by_second_run(m, request))
    throw Error(ErrorCode::kInternal, "a second run changed the model: " + *change);
}

}  // namespace sardonyx
