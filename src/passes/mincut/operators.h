// ONNX's operators as far as layouts are concerned: asks their families, and makes the nodes.
#pragma once

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/mincut/family.h"

namespace sardonyx::layout {

class Operators {
 public:
  explicit Operators(PassContext& context) : context_(context) {}
  PassContext& context() const { return context_; }

  // The layout in which a Transpose stores its operand; nullopt for other nodes.
  static std::optional<Layout> transposition(const Node& n);
  // The value that v is another layout of, and that layout.
  static std::pair<Value*, Layout> look_through(Value& v);

  // How the node follows when operand `slot` (or result `index`) is stored as `l`, a permutation; nullopt if
  // it cannot.
  std::optional<Move> from_operand(const Node& n, size_t slot, const Layout& l);
  std::optional<Move> from_result(const Node& n, size_t index, const Layout& l);
  // Whether the node takes that operand with its last two axes swapped at no cost, as products of floats do.
  // Runtimes multiply integers without a library that takes either order.
  static bool reads_swapped(const Node& n);

  // A node before `n` that computes what m says; operands that are not as_is() are left null for the caller.
  // *results replace the results of n.
  Node& rebuild(Node& n, const Move& m, std::vector<Value*>* results);
  // v stored as `l`, made in g (v's own graph or a nested one) before `before` (null: at the end).
  Value* store(Value& v, const Layout& l, Graph& g, Node* before);

  // Whether the constant can be stored in another layout now.
  static bool can_store(const Tensor& t);
  // A small constant: each layout is a constant of its own, which costs nothing, and its other users do not
  // matter.
  static bool is_free(const Value& v);
  // The elements in another layout.
  static TensorPtr stored(const TensorPtr& t, const Layout& l);
  // A free constant as `l`, under its name. In functions a constant is a node: it stands before `before`
  // (null: at the end).
  Value* store_constant(const Value& constant, const Layout& l, Graph& g, Node* before);

 private:
  std::optional<Move> follow(const Node& n, const Layout& l, bool forward, size_t slot);
  OnnxBuilder& builder(Graph& g, Node* before);

  PassContext& context_;
  std::unordered_map<const Graph*, OnnxBuilder> builders_;
};

}  // namespace sardonyx::layout
