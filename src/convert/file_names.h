// What the name of a file says about its format.
#pragma once

#include <filesystem>

#include "sardonyx/op.h"

namespace sardonyx {

// Whether a model of that name is read as Core ML: .mlpackage, .mlmodel, or a folder with a package's
// manifest.
bool is_coreml_name(const std::filesystem::path& path);

// Whether a model of that name is read as a StableHLO module: .mlir, .mlirbc or .stablehlo.
bool is_stablehlo_name(const std::filesystem::path& path);

// Throws kInvalidArgument where the suffix of an output is not one that models of the dialect are written
// under: .onnx, .pb and .sx, or .mlpackage, .mlmodel and .sx. Devices, pipes and what lies in /dev and /proc
// may have any name.
void require_output_name(const std::filesystem::path& output, DialectId dialect);

}  // namespace sardonyx
