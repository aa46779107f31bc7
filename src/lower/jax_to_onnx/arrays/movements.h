// Primitives that move elements and compute nothing, so that a lowering for one element type, or for a part
// of one, serves all.
#pragma once

#include <string_view>

namespace sardonyx::jax_to_onnx {

inline constexpr std::string_view kMovements[] = {"broadcast_in_dim",
                                                  "compress",
                                                  "concatenate",
                                                  "dynamic_slice",
                                                  "dynamic_update_slice",
                                                  "expand_dims",
                                                  "gather",
                                                  "pad",
                                                  "reshape",
                                                  "rev",
                                                  "scatter",
                                                  "select_n",
                                                  "slice",
                                                  "split",
                                                  "squeeze",
                                                  "stack",
                                                  "tile",
                                                  "transpose",
                                                  "unstack"};

}  // namespace sardonyx::jax_to_onnx
