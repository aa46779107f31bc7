// Shared by remove_redundant_transpose_pairs and remove_redundant_transpose_add_forests.
#pragma once

#include "passes/onnx/layout/elementwise_region.h"

namespace sardonyx::onnx {

// Removes Transposes around regions of admitted nodes that undo each other. Returns whether it found any.
bool unframe_transposes(Graph& top, PassContext& context, RegionFinder::Admits admits);

}  // namespace sardonyx::onnx
