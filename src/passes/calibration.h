// What values of a model are in the runs of a calibration.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "sardonyx/calibration.h"

namespace sardonyx {

// Runs a copy of the model on all runs, and calls `visit` with the number of each of `values` and what it
// is there, if that is a tensor. Values are inputs, constants and results of nodes of the main graph. Throws
// what the runs throw.
void observe_values(const Model& m, std::span<const Value* const> values, const Calibration& calibration,
                    const std::function<void(size_t number, const Array&)>& visit);

// The elements of an array of f32, f16 or bf16, which lie in `scratch` unless the array has them so.
std::span<const float> floats_of(const Array& x, std::vector<float>& scratch);

}  // namespace sardonyx
