// The header for passes on ONNX graphs: rules, walks, and the builder for right sides.
#pragma once

#include "rewrite/rewriter.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx::onnx {

class Rewriter : public RewriterOf<OnnxBuilder> {
 public:
  using RewriterOf::RewriterOf;
};

}  // namespace sardonyx::onnx
