// What passes on ONNX graphs include: rules, walks, and the builder that their right sides use.
#pragma once

#include "rewrite/rewriter.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx::onnx {

class Rewriter : public RewriterOf<OnnxBuilder> {
 public:
  using RewriterOf::RewriterOf;
};

}  // namespace sardonyx::onnx
