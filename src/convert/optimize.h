// Parts of an optimization that others use: results that are only larger, conversions to an opset.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sardonyx/convert.h"

namespace sardonyx {

// Whether the result is larger with no reported improvement: only the default preset ran, no column of the
// report became smaller, and no pass guarded against faults of runtimes. Then the input is kept, byte for
// byte, and the report says that nothing changed.
bool is_only_larger(const OptimizeReport& report, const OptimizeOptions& options, uint64_t before, uint64_t after);
void keep_as_it_was(OptimizeReport& report);

// Optimizes a program of Core ML that is in memory, or was read from `file`. Throws kInvalidModel if it is
// ill-typed.
OptimizeReport optimize_program(Model& m, const OptimizeOptions& options, const std::filesystem::path& file = {});

// As a package, a model file or text, by the suffix of `out`.
void write_program(const Model& m, const std::filesystem::path& out, const OptimizeOptions& options);

// The passes that convert the model to another opset, newer or older.
PassRequest conversion_to(const Model& m, int opset, Observer* observer = nullptr);

}  // namespace sardonyx
