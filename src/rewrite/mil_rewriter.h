// The header for passes on Core ML programs: rules, walks, and the builder for right sides.
#pragma once

#include "dialects/mil/mil_builder.h"
#include "rewrite/rewriter.h"

namespace sardonyx::mil {

class Rewriter : public RewriterOf<MilBuilder> {
 public:
  using MilBuilder::like;
  using RewriterOf::like;
  using RewriterOf::RewriterOf;
};

}  // namespace sardonyx::mil
