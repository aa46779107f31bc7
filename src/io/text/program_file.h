// Saves programs as text (x.sx) with constants in a sidecar (x.sxw): the saved form of a jaxpr, and of any
// model.
#pragma once

#include <filesystem>
#include <memory>

#include "sardonyx/ir.h"

namespace sardonyx {

// Writes the text to `path` and, if constants print as digests, their bytes to `path` with the extension
// .sxw. Both appear only when complete, the sidecar first. Constants are streamed, and equal ones written
// once. Throws kIo.
void save_program(const Model& model, const std::filesystem::path& path);

// Reads the text, and maps the sidecar if there is one. Without a sidecar, digests become promises, and a
// program that reads their elements throws. Throws kIo, kParse, and kInvalidModel if the sidecar is damaged.
std::unique_ptr<Model> load_program(const std::filesystem::path& path, bool map = true);

}  // namespace sardonyx
