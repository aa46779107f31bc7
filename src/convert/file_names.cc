#include "convert/file_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

namespace fs = std::filesystem;

fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

std::string suffix_of(const fs::path& path) {
  std::string suffix = without_slash(path).extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

bool is_device(const fs::path& path) {
  std::error_code none;
  const fs::file_status at = fs::status(path, none);
  if (fs::exists(at) && !fs::is_regular_file(at) && !fs::is_directory(at)) return true;
  const auto first = path.has_root_directory() ? std::next(path.begin()) : path.begin();
  return path.has_root_directory() && first != path.end() && (*first == "dev" || *first == "proc");
}

}  // namespace

bool is_coreml_name(const fs::path& path) {
  const std::string suffix = suffix_of(path);
  std::error_code none;
  return suffix == ".mlpackage" || suffix == ".mlmodel" || fs::is_regular_file(path / "Manifest.json", none);
}

bool is_stablehlo_name(const fs::path& path) {
  const std::string suffix = suffix_of(path);
  return suffix == ".mlir" || suffix == ".mlirbc" || suffix == ".stablehlo";
}

void require_output_name(const fs::path& output, DialectId dialect) {
  const bool mil = dialect == DialectId::kMil;
  const std::string suffix = suffix_of(output);
  const bool fits =
      suffix == ".sx" || (mil ? suffix == ".mlpackage" || suffix == ".mlmodel" : suffix == ".onnx" || suffix == ".pb");
  if (fits || is_device(output)) return;
  const std::string what = mil ? "a Core ML program" : "an ONNX model";
  const std::string ends = mil ? ".mlpackage, .mlmodel or .sx" : ".onnx, .pb or .sx";
  const std::string shown = without_slash(output).string();
  fs::path better = without_slash(output);
  const bool is_other = suffix == ".mlpackage" || suffix == ".mlmodel" || suffix == ".onnx";
  // "model.txt", but not "model.v2".
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  if (suffix.size() > 1 && std::all_of(suffix.begin() + 1, suffix.end(), is_letter)) better.replace_extension();
  better += mil ? ".mlpackage" : ".onnx";
  const std::string found = suffix.empty() ? fmt::format("'{}' has no suffix", shown)
                                           : fmt::format("'{}' ends in {}", shown, without_slash(output).extension().string());
  std::vector<std::string> notes{fmt::format("help: name the output '{}'", better.string())};
  if (is_other && !mil)
    notes.push_back(fmt::format("help: a Core ML package is written by `sardonyx convert MODEL.onnx -o {}`", shown));
  if (suffix.empty()) notes.emplace_back("help: a name that ends in '/' is a folder");
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}, and {} is written to {}", found, what, ends), std::move(notes));
}

}  // namespace sardonyx
