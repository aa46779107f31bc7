// Recognizes files that are not models, or are models in other formats, by their first bytes.
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

// Identifies bytes that cannot be read as a model; nullopt unless the format is certain.
std::optional<ForeignFile> foreign_file(std::span<const std::byte> bytes);

// The error for bytes on which the reader of `format` ("an ONNX model") threw `e`: one that names what they
// are, or `e`.
Error explained(const Error& e, std::span<const std::byte> bytes, const char* format);

// Throws kInvalidModel for a folder that is not a Core ML package, and names what it is.
[[noreturn]] void refuse_folder(const std::filesystem::path& folder);

}  // namespace sardonyx
