// Replaces nodes by the same operator on other element types.
//
//   x: bf16 ── Exp ── y     =>   x ── Cast<f32> ── Exp ── Cast<bf16> ── y
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "dialects/onnx/node_types.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {

// For each type variable, the narrowest allowed type that holds every value of its type in `types`; nullopt
// if a variable has none. `allowed` maps a variable to a mask of bits 1 << DType.
std::optional<TypesByVariable> widened(const Op& op, const TypesByVariable& types,
                                       const std::function<uint64_t(std::string_view)>& allowed);

// Replaces nodes by the same operator on other element types, between Casts. Reuses converted values within
// one graph, whose nodes it must visit in order.
class Widener {
 public:
  explicit Widener(PassContext& context) : context_(context) {}

  // Replaces `n` by a node of `op` and erases `n`. The types change from `from` to `to`, by type variable of
  // `op`.
  void replace(Graph& g, Node& n, const Op& op, const TypesByVariable& from, const TypesByVariable& to);

  // `v` in another element type: a new constant if `v` is a small constant, else a Cast.
  Value* converted(Rewriter& b, Value& v, DType to);

  // Forgets converted values. Call it before another graph.
  void clear() { converted_.clear(); }

 private:
  PassContext& context_;
  std::map<std::pair<const Value*, DType>, Value*> converted_;
};

}  // namespace sardonyx::onnx
