// Inputs that take a few shapes, and no others.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sardonyx/coreml.h"

namespace sardonyx {

// The named sizes of the inputs, in one of the shapes.
using SizesByName = std::map<std::string, int64_t, std::less<>>;

// Fixes axes that have one size in all shapes, names the other open ones, and bounds their sizes. Returns the
// sizes that the names stand for: one entry for each shape. Several inputs of open size need specification
// version 9 (iOS 18) and as many shapes each; those that are not listed follow from the names. Throws
// kInvalidArgument for shapes that the model cannot have.
std::vector<SizesByName> enumerate_shapes(Model& onnx, const std::vector<EnumeratedShapes>& shapes, int version);

}  // namespace sardonyx
