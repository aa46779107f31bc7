// What remove_redundant_transpose_pairs and remove_redundant_transpose_add_forests share.
#pragma once

#include "passes/onnx/specified/elementwise_region.h"

namespace sardonyx::onnx {

// Takes Transposes away that stand around regions of admitted nodes and undo each other. Returns whether there were any.
bool unframe_transposes(Graph& top, PassContext& context, RegionFinder::Admits admits);

}  // namespace sardonyx::onnx
