// Type and shape inference: the context of a type rule, and the driver over nodes and graphs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Elements of small integer tensors (shapes, axes, sizes), known as expressions: data propagation. Kept by
// inference for values of integer tensors of rank 0 or 1 with at most 64 elements.
struct SymbolicValue {
  bool scalar = false;        // rank 0
  std::vector<Dim> elements;  // an unknown element is an unknown Dim
};

// Facts that inference finds beside types; one object per run over a model, or per builder.
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
  int version() const { return version_; }  // of the operator: Op::since_version
  ValueFacts& facts() const { return facts_; }

  // --- operands
  size_t num_inputs() const { return node_.num_inputs(); }
  bool has_input(size_t i) const { return node_.input(i) != nullptr; }
  // Null when absent or nothing is known about it.
  const Type* input(size_t i) const { return node_.input(i) ? node_.input(i)->type() : nullptr; }
  // The same, but only when it is a tensor of known rank.
  const Type* ranked(size_t i) const { return node_.input(i) && node_.input(i)->ranked() ? node_.input(i)->type() : nullptr; }
  // Operand i as a payload, or null.
  TensorPtr constant(size_t i) const { return node_.input(i) ? node_.input(i)->constant() : nullptr; }
  // Operand i as integers or dims, from its payload or from propagated facts.
  std::optional<SymbolicValue> value(size_t i) const;
  // Operand i as integers, when all of them are known. Exact for all of i64, where Dims stop at 2^61.
  std::optional<std::vector<int64_t>> ints(size_t i) const;

  // --- attributes of the node, else the operator's default, else nullopt. Inside a function's body a
  // reference stands for the attribute of the call. An attribute of another kind throws kInvalidModel.
  const Attr* attr(std::string_view name) const;
  std::optional<int64_t> attr_int(std::string_view name) const;
  int64_t attr_int(std::string_view name, int64_t otherwise) const { return attr_int(name).value_or(otherwise); }
  std::optional<double> attr_float(std::string_view name) const;
  std::optional<std::string> attr_string(std::string_view name) const;
  std::optional<std::vector<int64_t>> attr_ints(std::string_view name) const;

  // --- results
  size_t num_results() const { return node_.num_results(); }
  // Gives result i type t (freshened). Keeps the meet with what is known; throws kInvalidModel if they
  // contradict. Ignores results that the node does not have, and null types.
  void set(size_t i, const Type* t);
  void set(size_t i, DType dtype, std::span<const Dim> dims) {
    if (i < num_results()) set(i, types().tensor(dtype, dims));
  }
  // Only the element type is known.
  void set_unranked(size_t i, DType dtype) {
    if (i < num_results() && dtype != DType::kUndefined) set(i, types().unranked(dtype));
  }
  // The elements of result i. Ignored when they are too many.
  void set_value(size_t i, SymbolicValue v);

  // Types the nodes of a body whose inputs have these types (null: as they are). Drops what was inferred for
  // it before when an input type differs.
  void infer_body(Graph& body, std::span<const Type* const> inputs) const;

  [[noreturn]] void fail(std::string message, std::vector<std::string> notes = {}) const;
  std::string show(const Type* t) const { return types().to_string(t); }

 private:
  Node& node_;
  ValueFacts& facts_;
  int version_;
};

// Applies the op's rule to one node: operand count, operand dtypes against slots, then the rule. Throws on
// ill-typed nodes; marks the node checked on success. A call of a local function types the function's body
// for these operands. Other unknown operators are not checked; their results keep their types.
void infer_node(Node& n, ValueFacts& facts);
// All nodes of a model in order, bodies and function calls included; known declared types are kept where more
// precise. Ill-typed nodes are marked unchecked and returned as messages instead of thrown when `tolerant`.
std::vector<std::string> infer_model(Model& m, ValueFacts& facts, bool tolerant);

}  // namespace sardonyx
