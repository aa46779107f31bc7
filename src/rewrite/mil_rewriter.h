// The header for passes on Core ML programs: rules, walks, and the builder for right sides.
#pragma once

#include "rewrite/rewriter.h"
#include "sardonyx/mil_builder.h"

namespace sardonyx::mil {

class Rewriter : public RewriterOf<MilBuilder> {
 public:
  using MilBuilder::like;
  using RewriterOf::like;
  using RewriterOf::RewriterOf;
};

}  // namespace sardonyx::mil
