// Which nodes of a graph compute on codes of 8 bits.
#pragma once

#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/compress/histogram.h"
#include "passes/onnx/quantize/summed_weights.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {

// A node that multiplies its first operand by constant weights.
struct Product {
  Value *weight = nullptr, *bias = nullptr;
  int64_t axis = 0;  // of the weight, of which each index has a scale
  Sums sums;
  bool is_depthwise = false;
};

// The constant f32 tensor that v is; null if it is something else.
const Tensor* weights_of(const Value* v);
bool is_concat(const Node& n);

// Products take codes. Convolutions make codes, too; matrix products make floats, which may be rounded behind
// them. Joins make codes of codes, each with a scale of its own. Moves leave codes as they are.
class CodeChoice {
 public:
  // The size of a value, in elements.
  using Size = std::function<double(const Value*)>;

  CodeChoice(Graph& g, PassContext& context);

  bool has_products() const { return !products_.empty(); }
  // Chooses all nodes that can.
  void choose();
  // Leaves out the nodes around values that no run had.
  void leave_unseen(const std::function<bool(const Value*)>& is_seen);
  // Leaves out the nodes without which the graph is faster.
  void leave_slower(const Size& size);

  const Product* product(const Node& n) const;  // null: it computes on floats
  bool is_joined(const Node& n) const { return joins_.contains(&n); }
  bool is_moved(const Node& n) const { return moves_.contains(&n); }
  // Whether codes are the result of a kernel: all users read them, or what they stand for.
  bool is_made(const Value* v) const { return makers_.contains(v); }
  bool has_codes(const Value* v) const { return makers_.contains(v) || taken_.contains(v); }
  // Where the codes of v come from: v, or what the clamp makes v of that alone uses it.
  Value* source_of(Value* v) const;
  // What that clamp leaves; without one, all numbers.
  compress::Range bounds_of(Value* v) const;

 private:
  std::optional<Product> product_of(const Node& n);
  const Value* result_of(const Node& n) const;
  const Value* origin_of(const Value* v) const;
  bool is_slot(const Use& u) const;
  void leave(const Node& n);

  Graph& g_;
  PassContext& context_;
  std::vector<std::pair<const Node*, Product>> candidates_;  // that are not left out
  std::unordered_set<const Node*> left_out_;
  std::unordered_map<const Node*, Product> products_;
  std::unordered_set<const Node*> joins_, moves_;
  std::unordered_set<const Value*> taken_;                // by products
  std::unordered_map<const Value*, const Node*> makers_;  // of codes
};

}  // namespace sardonyx::onnx
