// Files that are no models, or models of somebody else: told by their first bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "sardonyx/error.h"

namespace sardonyx {

struct ForeignFile {
  std::string what;  // "a zip archive"
  std::string help;  // what to do with it; may be empty
};

// What the bytes are, where that can be said for certain: asked for files that cannot be read as a model.
std::optional<ForeignFile> foreign_file(std::span<const std::byte> bytes);

// `e`, thrown by the reader of `format` ("an ONNX model") on these bytes; or the error that says what they are instead.
Error explained(const Error& e, std::span<const std::byte> bytes, const char* format);

// Throws kInvalidModel for a folder that is no Core ML package, and says what it is.
[[noreturn]] void refuse_folder(const std::filesystem::path& folder);

}  // namespace sardonyx
