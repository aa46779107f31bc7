// Core ML packages: a folder whose Manifest.json locates the model and the weights.
#include <fmt/format.h>
#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>

#include "io/coreml/mil_parts.h"
#include "io/foreign_files.h"
#include "support/files/mapped_file.h"
#include "support/files/regular_file.h"
#include "support/system/os_error.h"
#include "support/system/system.h"

namespace sardonyx::mil_file {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kModelItem = "com.apple.CoreML/model.mlmodel";

// Items are named by UUIDs, which only have to differ. Deriving them from their content makes runs
// reproducible.
std::string uuid(std::string_view what) {
  const XXH128_hash_t h = XXH3_128bits(what.data(), what.size());
  return fmt::format("{:08X}-{:04X}-4{:03X}-8{:03X}-{:012X}", h.high64 >> 32, h.high64 >> 16 & 0xffff, h.high64 & 0xfff,
                     h.low64 >> 48 & 0xfff, h.low64 & 0xffffffffffff);
}

ordered_json parse_manifest(const std::string& text) {
  try {
    ordered_json j = ordered_json::parse(text);
    if (j.is_object() && j.contains("itemInfoEntries") && j["itemInfoEntries"].is_object()) return j;
  } catch (const ordered_json::exception&) {
    // reported below
  }
  throw Error(ErrorCode::kInvalidModel, "Manifest.json of the package is damaged: it lists no items");
}

}  // namespace

Package open_package(const fs::path& folder) {
  Package p;
  p.folder = folder.filename().empty() ? folder.parent_path() : folder;
  const fs::path manifest = p.folder / "Manifest.json";
  std::error_code none;
  if (!fs::exists(manifest, none) && p.folder.extension() != ".mlpackage") refuse_folder(p.folder);
  if (!fs::exists(manifest, none))
    throw Error(ErrorCode::kInvalidModel, "this folder is not a Core ML package: it has no Manifest.json");
  require_regular(manifest);
  const auto file = MappedFile::open(manifest, MappedFile::Access::kRead);
  p.manifest.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const ordered_json j = parse_manifest(p.manifest);
  try {
    const auto root = j.at("rootModelIdentifier").get<std::string>();
    const fs::path item = j.at("itemInfoEntries").at(root).at("path").get<std::string>();
    if (item.is_absolute() || std::ranges::find(item, fs::path("..")) != item.end() || item.empty())
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("the package's model is declared to be at '{}', outside it", item.string()));
    p.model_path = (fs::path("Data") / item).generic_string();
  } catch (const ordered_json::exception&) {
    throw Error(ErrorCode::kInvalidModel, "Manifest.json of the package is damaged: it does not say which item is the model");
  }
  p.model = p.folder / p.model_path;
  if (!fs::exists(p.model, none)) throw Error(ErrorCode::kIo, fmt::format("the package has no model at {}", p.model_path));
  require_regular(p.model);
  return p;
}

std::string make_manifest(const std::string& old, bool weights, std::string* model_path) {
  ordered_json j = ordered_json::object();
  if (!old.empty()) j = parse_manifest(old);
  if (model_path->empty()) *model_path = "Data/" + std::string(kModelItem);
  const fs::path folder = fs::path(*model_path).parent_path().lexically_relative("Data");
  const std::string weights_item = (folder / "weights").generic_string();
  bool has_weights = false;
  for (const auto& item : old.empty() ? ordered_json::object() : j["itemInfoEntries"])
    has_weights |= item.value("path", "") == weights_item;
  if (!old.empty() && (has_weights || !weights)) return old;
  const auto item = [&](std::string_view path, std::string_view name, std::string_view what) {
    const std::string id = uuid(path);
    j["itemInfoEntries"][id] = {{"author", "com.apple.CoreML"}, {"description", what}, {"name", name}, {"path", path}};
    return id;
  };
  j["fileFormatVersion"] = j.value("fileFormatVersion", "1.0.0");
  if (weights) item(weights_item, "weights", "CoreML Model Weights");
  if (old.empty()) j["rootModelIdentifier"] = item(kModelItem, "model.mlmodel", "CoreML Model Specification");
  return j.dump(4, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

AtomicFolder::AtomicFolder(fs::path target) : target_(std::move(target)) {
  std::error_code error;
  if (fs::exists(target_, error) &&
      !(fs::is_directory(target_, error) && (fs::exists(target_ / "Manifest.json", error) || fs::is_empty(target_, error)))) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} already exists and is not a package", target_.string()),
                {"help: write under another name"});
  }
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  if (!fs::exists(fs::symlink_status(parent, error))) fs::create_directories(parent, error);
  error.clear();
  static std::atomic<unsigned> count{0};
  for (int attempt = 0; temporary_.empty(); ++attempt) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    const fs::path name = parent / fmt::format(".sardonyx-{:x}-{:x}-{:x}.tmp", sys::process_id(), now, count++);
    if (fs::create_directory(name, error)) temporary_ = name;
    if (temporary_.empty() && (error || attempt == 100))
      throw os_error("create a folder for", target_, error ? error.default_error_condition().value() : EEXIST);
  }
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target_, error))) {
    fs::rename(temporary_, target_);
    temporary_.clear();
    return;
  }
  if (sys::exchange(temporary_, target_)) {
    fs::remove_all(temporary_);  // the old package by now, or a link to one; only the link is removed
    temporary_.clear();
    return;
  }
  // Two steps if the system cannot exchange names: for a moment nothing is at the target.
  const fs::path old = temporary_.string() + ".old";
  fs::rename(target_, old);
  fs::rename(temporary_, target_);
  temporary_.clear();
  fs::remove_all(old);
}

}  // namespace sardonyx::mil_file
