#include "convert/debug_dump.h"

#include <fmt/format.h>

#include <span>

#include "sardonyx/ir.h"
#include "support/files/atomic_file.h"

namespace sardonyx {

void DebugDump::function(std::string_view name) {
  folder_ = top_ / name;
  count_ = 0;
}

void DebugDump::stage(std::string_view name, const Model& m) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw Error(ErrorCode::kIo, fmt::format("cannot create the folder {}: {}", folder_.string(), error.message()));
  AtomicFile file(folder_ / fmt::format("{}_{}.sx", count_++, name));
  const std::string text = print(m, {.provenance = true, .types = true});
  file.append(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace sardonyx
