#include <fmt/format.h>

#include <algorithm>

#include "io/onnx/onnx_parts.h"
#include "ir/graph/file_record.h"
#include "support/files/inside.h"

namespace sardonyx {

std::span<const std::shared_ptr<const MappedFile>> source_files(const Model& model) {
  return model.file_record().model.sources;
}

}  // namespace sardonyx

namespace sardonyx::onnx_file {
namespace fs = std::filesystem;

std::shared_ptr<const MappedFile> ExternalFiles::open(const std::string& location) {
  if (auto known = by_location_.find(location); known != by_location_.end()) return known->second;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("external data in '{}' is refused: {}", location, why),
                {"help: keep the data files beside the model file, and name them relative to it"});
  };
  if (folder_.empty()) {
    throw Error(ErrorCode::kInvalidModel, fmt::format("the model was given as bytes, without its data in '{}'", location),
                {"help: read the model from its path, with the data beside it"});
  }
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos) refuse("this is not a file name");
  if (relative.is_absolute()) refuse("the path is absolute");
  if (std::ranges::find(relative, fs::path("..")) != relative.end()) refuse("the path leaves the model's folder");
  std::error_code error;
  if (roots_.empty()) {
    roots_.push_back(fs::canonical(folder_, error));
    // Caches store the real files elsewhere and link to them, so the folder of the real model file is allowed
    // too.
    if (!model_.empty()) roots_.push_back(fs::canonical(model_, error).parent_path());
  }
  const fs::path real = fs::canonical(folder_ / relative, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot open external data '{}': {}", location, error.message()),
                {fmt::format("looked for {}", (folder_ / relative).string())});
  }
  if (std::ranges::none_of(roots_, [&](const fs::path& root) { return !root.empty() && is_inside(root, real); })) {
    refuse("a symbolic link leads out of the model's folder");
  }
  auto& file = by_path_[real];
  if (file == nullptr) {
    if (!fs::is_regular_file(real, error)) refuse("it is not a regular file");
    file = MappedFile::open(folder_ / relative, access_);  // reported under the name given in the model
  }
  return by_location_[location] = file;
}

std::vector<std::shared_ptr<const MappedFile>> ExternalFiles::opened() const {
  std::vector<std::shared_ptr<const MappedFile>> all;
  for (const auto& [path, file] : by_path_) all.push_back(file);
  return all;
}

}  // namespace sardonyx::onnx_file
