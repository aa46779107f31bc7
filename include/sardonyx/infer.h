// Type and shape inference: the context of a type rule, and the driver over nodes and graphs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Known elements of a small integer tensor (shape, axes, sizes) as expressions, for data propagation.
// Inference keeps them for integer tensors of rank 0 or 1 with at most 64 elements.
struct SymbolicValue {
  bool scalar = false;        // rank 0
  std::vector<Dim> elements;  // an unknown element is an unknown Dim
};

// Facts that inference finds besides types; one object per run over a model, or per builder.
class ValueFacts {
 public:
  const SymbolicValue* find(const Value& v) const;
  void set(const Value& v, SymbolicValue s);
  void erase(const Value& v);

 private:
  friend class InferContext;
  friend class InferRun;
  std::unordered_map<const Value*, SymbolicValue> facts_;
  class InferRun* run_ = nullptr;            // of infer_model(), while it runs
  const struct CallFrame* frame_ = nullptr;  // the function call whose body is being typed
};

// One application of a type rule. Rules read operands, attributes and known values, and set result types.
class InferContext {
 public:
  InferContext(Node& node, ValueFacts& facts, int opset_version) : node_(node), facts_(facts), version_(opset_version) {}

  Node& node() const { return node_; }
  const Op& op() const { return node_.op(); }
  Model& model() const { return node_.model(); }
  Types& types() const { return model().types(); }
  Dims& dims() const { return model().dims(); }
  int version() const { return version_; }  // the operator's Op::since_version
  ValueFacts& facts() const { return facts_; }

  // --- operands
  size_t num_inputs() const { return node_.num_inputs(); }
  bool has_input(size_t i) const { return node_.input(i) != nullptr; }
  // Null if absent or untyped.
  const Type* input(size_t i) const { return node_.input(i) ? node_.input(i)->type() : nullptr; }
  // The same, but null unless it is a tensor of known rank.
  const Type* ranked(size_t i) const { return node_.input(i) && node_.input(i)->ranked() ? node_.input(i)->type() : nullptr; }
  // Operand i as a payload, or null.
  TensorPtr constant(size_t i) const { return node_.input(i) ? node_.input(i)->constant() : nullptr; }
  // Operand i as integers or dims, from its payload or from propagated facts.
  std::optional<SymbolicValue> value(size_t i) const;
  // Operand i as integers if all are known. Exact for all of i64, whereas Dims stop at 2^61.
  std::optional<std::vector<int64_t>> ints(size_t i) const;

  // --- attributes: the node's, else the operator's default, else nullopt. Inside a function's body a
  // reference resolves to the attribute of the call. An attribute of another kind throws kInvalidModel.
  const Attr* attr(std::string_view name) const;
  std::optional<int64_t> attr_int(std::string_view name) const;
  int64_t attr_int(std::string_view name, int64_t otherwise) const { return attr_int(name).value_or(otherwise); }
  std::optional<double> attr_float(std::string_view name) const;
  std::optional<std::string> attr_string(std::string_view name) const;
  std::optional<std::vector<int64_t>> attr_ints(std::string_view name) const;

  // --- results
  size_t num_results() const { return node_.num_results(); }
  // Gives result i the meet of t (freshened) and its present type; throws kInvalidModel if they contradict.
  // Ignores null types and results that the node does not have.
  void set(size_t i, const Type* t);
  void set(size_t i, DType dtype, std::span<const Dim> dims) {
    if (i < num_results()) set(i, types().tensor(dtype, dims));
  }
  // Sets only the element type.
  void set_unranked(size_t i, DType dtype) {
    if (i < num_results() && dtype != DType::kUndefined) set(i, types().unranked(dtype));
  }
  // Sets the known elements of result i; ignored if there are too many.
  void set_value(size_t i, SymbolicValue v);

  // Types the nodes of a body, given its input types (null: unchanged). If an input type differs, first drops
  // what was inferred for the body before.
  void infer_body(Graph& body, std::span<const Type* const> inputs) const;

  [[noreturn]] void fail(std::string message, std::vector<std::string> notes = {}) const;
  std::string show(const Type* t) const { return types().to_string(t); }

 private:
  Node& node_;
  ValueFacts& facts_;
  int version_;
};

// Type-checks one node: operand count, operand dtypes against slots, then the op's rule. Throws if the node
// is ill-typed; otherwise marks it checked. A call of a local function types the function's body for these
// operands. Other unknown operators are not checked and their results keep their types.
void infer_node(Node& n, ValueFacts& facts);
// Types all nodes of a model in order, including bodies and function calls; declared types are kept if more
// precise. With `tolerant`, ill-typed nodes are marked unchecked and reported in the result instead of
// thrown.
std::vector<std::string> infer_model(Model& m, ValueFacts& facts, bool tolerant);

}  // namespace sardonyx
