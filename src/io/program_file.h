// Programs as text (x.sx) with their constants beside them (x.sxw): the saved form of a jaxpr, and of any model.
#pragma once

#include <filesystem>
#include <memory>

#include "sardonyx/ir.h"

namespace sardonyx {

// Writes the text to `path` and, if constants print as digests, their bytes to `path` with the extension .sxw. Both appear only
// when complete, the sidecar first. Constants stream from where they lie; equal ones are written once. Throws kIo.
void save_program(const Model& model, const std::filesystem::path& path);

// Reads the text, and maps the sidecar if there is one. Without it, a digest is a promise whose elements nobody can read: a
// program that needs them says so. Throws kIo, kParse, and kInvalidModel when the sidecar is damaged.
std::unique_ptr<Model> load_program(const std::filesystem::path& path, bool map = true);

}  // namespace sardonyx
