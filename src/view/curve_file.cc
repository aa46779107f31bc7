#include "view/curve_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sardonyx/error.h"
#include "support/files/mapped_file.h"

namespace sardonyx::view {
namespace {

using nlohmann::json;

bool is_curve(const json& points, const json& chosen) {
  if (!points.is_array() || !chosen.is_number_unsigned() || chosen.get<size_t>() >= points.size()) return false;
  return std::ranges::all_of(points, [](const json& p) {
    return p.is_object() && p.contains("types") && p["types"].is_string() && p.contains("bytes") &&
           p["bytes"].is_number_unsigned() && p.contains("error") && (p["error"].is_number() || p["error"].is_null());
  });
}

bool has_curve(const json& j) {
  return j.is_object() && j.contains("precision_curve") && j.contains("precision_chosen") &&
         is_curve(j["precision_curve"], j["precision_chosen"]);
}

bool was_written_to(const json& j, const std::filesystem::path& model) {
  return j.contains("output") && j["output"].is_string() &&
         std::filesystem::path(j["output"].get<std::string>()).lexically_normal() == model.lexically_normal();
}

}  // namespace

Curve read_curve(const std::filesystem::path& report, const std::filesystem::path& model) {
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("{} {}", report.string(), what),
                {fmt::format("help: `sardonyx optimize MODEL -o {} --max-error 1% --json > {}` writes it", model.string(),
                             report.string())});
  };
  const auto file = MappedFile::open(report, MappedFile::Access::kRead);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->size());
  json all = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (all.is_discarded()) refuse("is not the JSON that `optimize --json` prints");
  if (!all.is_array()) all = json::array({all});
  std::vector<const json*> found;
  for (const json& j : all) {
    if (has_curve(j)) found.push_back(&j);
  }
  if (found.empty()) refuse("has no errors of an optimization with --max-error");
  if (found.size() > 1) std::erase_if(found, [&](const json* j) { return !was_written_to(*j, model); });
  if (found.size() != 1) refuse(fmt::format("has several models, and not one that was written to {}", model.string()));
  Curve curve{.points = {}, .chosen = (*found[0])["precision_chosen"].get<size_t>()};
  for (const json& p : (*found[0])["precision_curve"]) {
    const double error = p["error"].is_null() ? std::numeric_limits<double>::infinity() : p["error"].get<double>();
    curve.points.push_back({p["types"].get<std::string>(), p["bytes"].get<uint64_t>(), error});
  }
  return curve;
}

}  // namespace sardonyx::view
