// Nodes computed in other element types than they were written in.
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

// For each variable the narrowest type that holds every value of the one in `types` and that `allowed` has (bits 1 << DType, by variable).
// Nothing where a variable has no such type.
std::optional<TypesByVariable> widened(const Op& op, const TypesByVariable& types,
                                       const std::function<uint64_t(std::string_view)>& allowed);

// Replaces nodes by the same operator on other element types, between Casts. Values converted once are used again while the nodes of one
// graph are visited in order.
class Widener {
 public:
  explicit Widener(PassContext& context) : context_(context) {}

  // Replaces `n`, whose types are `from`, by a node of `op` on types `to`; the types' variables are those of `op`. Erases `n`.
  void replace(Graph& g, Node& n, const Op& op, const TypesByVariable& from, const TypesByVariable& to);

  // `v` in another element type: a new constant for a small constant, else a Cast.
  Value* converted(Rewriter& b, Value& v, DType to);

  // Forgets what it converted: another graph follows.
  void clear() { converted_.clear(); }

 private:
  PassContext& context_;
  std::map<std::pair<const Value*, DType>, Value*> converted_;
};

}  // namespace sardonyx::onnx
