// The files of conversions to Core ML.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "sardonyx/coreml.h"

namespace sardonyx {

// Throws kInvalidArgument: the text describes no CoremlImage.
[[noreturn]] void refuse_image(std::string_view text);
// Throws kInvalidArgument unless `out` can be the name of what a conversion writes.
void check_coreml_name(const std::filesystem::path& out);
// An ONNX model, or a program in text form. A StableHLO module is converted to ONNX.
std::unique_ptr<Model> read_for_coreml(const std::filesystem::path& in, const ReadOptions& read = {});
// `sources`: the models that it was converted from. Throws kIo if a file of theirs changed meanwhile.
void write_converted(const Model& mil, const std::filesystem::path& out, std::span<const Model* const> sources);

}  // namespace sardonyx
