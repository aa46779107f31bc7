// Models for commands that run or describe one, whatever it was saved as.
#pragma once

#include <filesystem>
#include <memory>

#include "sardonyx/io.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// What read_model() reads; or a StableHLO module, as the ONNX model that it is converted to. Throws what
// those throw.
std::unique_ptr<Model> read_source(const std::filesystem::path& path, const ReadOptions& options = {});

}  // namespace sardonyx
