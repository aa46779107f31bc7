// What the rules of fuse_attention share.
#pragma once

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The node that makes v, if it is this operator of ONNX's own domain in the same graph and nobody else reads v; else null.
Node* made_by(const Value* v, const Graph* graph, std::string_view op);
// A mask without additions of axes and expansions of "true" that it passes through.
Value* bare_mask(Value* v, PassContext& c);
// Attention takes the root of its scale, and holds it in f32.
bool can_be_scale(double scale, DType t);

// Queries in groups that share keys, with an axis of their own: five axes between the products (fuse_attention_groups.cc).
Rule attention_of_groups();

}  // namespace sardonyx::onnx
