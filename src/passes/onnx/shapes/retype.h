// Types that became more precise, and what follows from them.
#pragma once

#include <unordered_set>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// A walk that puts a value with a more precise type in the place of another notes the readers here; `run` infers them anew, and what
// reads those.
class Retyper {
 public:
  explicit Retyper(PassContext& context) : context_(context) {}

  // What reads `v` may have a type that was not known before: how many elements a ConstantOfShape or a Range has.
  void note_readers(const Value& v);

  // For a walk in order: infers n now if it was noted, and notes the readers of what became more precise.
  void refresh(Node& n);

  // In order, bodies after what holds them. A body's result that became more precise is news for its node, which stands before it: a few
  // walks follow such news.
  void run(Graph& top);

 private:
  PassContext& context_;
  std::unordered_set<const Node*> stale_;
};

}  // namespace sardonyx::onnx
