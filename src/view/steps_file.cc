#include "view/steps_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sardonyx/error.h"
#include "support/files/atomic_file.h"
#include "support/files/mapped_file.h"

namespace sardonyx::view {
namespace {

constexpr std::string_view kMagic = "sardonyx steps ";
constexpr int kVersion = 1;
constexpr uint64_t kMostBytes = 1'000'000'000;

uint64_t hash_of(std::string_view scene) { return XXH3_64bits(scene.data(), scene.size()); }

// The next word of the first line, as a number.
template <class T>
bool read_number(std::string_view& line, T& to, int base) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), to, base);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  return true;
}

// What the page reads without asking whether it is there.
bool is_scene(std::string_view text) {
  const auto j = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!j.is_object()) return false;
  for (const char* list : {"types", "typeBytes", "ops", "attrs", "origins", "groups", "blocks", "steps", "edits", "facts"}) {
    if (!j.contains(list) || !j[list].is_array()) return false;
  }
  for (const char* object : {"nodes", "constants", "measures", "sources"}) {
    if (!j.contains(object) || !j[object].is_object()) return false;
  }
  return j.contains("title") && j["title"].is_string();
}

}  // namespace

void check_steps_name(const std::filesystem::path& path) {
  if (path.extension() == ".sxt") return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' does not end in .sxt, the suffix of steps", path.string()),
              {fmt::format("help: name it '{}.sxt'", path.string())});
}

void write_steps(const std::filesystem::path& path, const std::string& scene) {
  AtomicFile file(path);
  file.append(fmt::format("{}{} {} {:016x}\n", kMagic, kVersion, scene.size(), hash_of(scene)));
  file.append(scene);
  file.commit();
}

std::string read_steps(const std::filesystem::path& path) {
  const auto refuse = [&](ErrorCode code, const std::string& what, const char* help) {
    throw Error(code, fmt::format("{} {}", path.string(), what), {help});
  };
  constexpr const char* kAgain = "help: `sardonyx optimize MODEL -o FILE --trace STEPS.sxt` writes such a file";
  const auto file = MappedFile::open(path, MappedFile::Access::kRead);
  const std::string_view all(reinterpret_cast<const char*>(file->bytes().data()), file->size());
  constexpr size_t kLongestLine = 80;
  const size_t end = all.substr(0, kLongestLine).find('\n');
  if (!all.starts_with(kMagic) || end == std::string_view::npos)
    refuse(ErrorCode::kInvalidModel, "does not hold the steps of an optimization", kAgain);
  std::string_view line = all.substr(kMagic.size(), end - kMagic.size());
  int version = 0;
  uint64_t size = 0, hash = 0;
  if (!read_number(line, version, 10)) refuse(ErrorCode::kInvalidModel, "does not hold the steps of an optimization", kAgain);
  if (version != kVersion)
    refuse(ErrorCode::kUnsupported, fmt::format("has version {} of its format, and this build reads {}", version, kVersion),
           "help: read it with the version of sardonyx that wrote it");
  if (!read_number(line, size, 10) || !read_number(line, hash, 16) || !line.empty())
    refuse(ErrorCode::kInvalidModel, "is damaged: its first line has no size and hash", kAgain);
  const std::string_view scene = all.substr(end + 1);
  if (size > kMostBytes)
    refuse(ErrorCode::kLimit, fmt::format("has {} bytes of steps; the limit is {}", size, kMostBytes), kAgain);
  if (scene.size() != size)
    refuse(ErrorCode::kInvalidModel, fmt::format("is damaged: it has {} bytes of steps instead of {}", scene.size(), size),
           kAgain);
  if (hash_of(scene) != hash) refuse(ErrorCode::kInvalidModel, "is damaged: its content does not have its hash", kAgain);
  // Made by hand: '<' could end the element of the page that holds it.
  if (scene.find('<') != std::string_view::npos || !is_scene(scene))
    refuse(ErrorCode::kInvalidModel, "does not hold the steps of an optimization", kAgain);
  return std::string(scene);
}

}  // namespace sardonyx::view
