// Infers types again after values became more precise.
#pragma once

#include <unordered_set>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// A walk that replaces a value by one with a more precise type calls note_readers. `run` then infers the
// users again, and everything that depends on them.
class Retyper {
 public:
  explicit Retyper(PassContext& context) : context_(context) {}

  // Notes the users of `v`, whose results may now have a known type: the element count of a ConstantOfShape
  // or Range, for example.
  void note_readers(const Value& v);

  // For walks in graph order: infers `n` now if it was noted, and notes the users of results that became more
  // precise.
  void refresh(Node& n);

  // Infers all noted nodes, in graph order, with bodies after their node. A body result that became more
  // precise affects its node, which comes earlier, so up to three walks follow.
  void run(Graph& top);

 private:
  PassContext& context_;
  std::unordered_set<const Node*> stale_;
};

}  // namespace sardonyx::onnx
