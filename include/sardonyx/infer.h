// Type and shape inference: what a type rule sees, and the driver over nodes and graphs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

// Elements of small integer tensors (shapes, axes, sizes), known as expressions: data propagation. Kept by inference for
// values of integer tensors of rank 0 or 1 with at most 64 elements.
struct SymbolicValue {
  bool scalar = false;     // rank 0
  std::vector<Dim> elements;  // an unknown element is an unknown Dim
};

// Facts that inference learns beside types; one per run over a model, or kept by a builder.
class ValueFacts {
 public:
  const SymbolicValue* find(const Value& v) const;
  void set(const Value& v, SymbolicValue s);

 private:
  std::unordered_map<const Value*, SymbolicValue> facts_;
};

// One application of a type rule. Rules read operands, attributes and known values, and set result types.
class InferContext {
 public:
  InferContext(Node& node, ValueFacts& facts, int opset_version) : node_(node), facts_(facts), version_(opset_version) {}

  Node& node() const { return node_; }
  Model& model() const { return node_.model(); }
  Types& types() const { return model().types(); }
  Dims& dims() const { return model().dims(); }
  int version() const { return version_; }
  ValueFacts& facts() const { return facts_; }

  size_t num_inputs() const { return node_.num_inputs(); }
  bool has_input(size_t i) const { return node_.input(i) != nullptr; }
  const Type* input(size_t i) const { return node_.input(i) ? node_.input(i)->type() : nullptr; }
  // Operand i as a payload, or null.
  TensorPtr constant(size_t i) const { return node_.input(i) ? node_.input(i)->constant() : nullptr; }
  // Operand i as integers or dims, from its payload or from propagated facts.
  std::optional<SymbolicValue> value(size_t i) const;

  // Result i has type t (freshened). Keeps what is already known: the meet of both; throws kInvalidModel if they contradict.
  void set(size_t i, const Type* t);
  void set_value(size_t i, SymbolicValue v) { facts_.set(*node_.result(i), std::move(v)); }
  [[noreturn]] void fail(std::string message, std::vector<std::string> notes = {}) const;

 private:
  Node& node_;
  ValueFacts& facts_;
  int version_;
};

// Applies the op's rule to one node: operand count, operand dtypes against slots, then the rule. Throws on ill-typed nodes; marks the
// node checked on success. Nodes of unknown ops stay unchecked only if `strict`; they get no types.
void infer_node(Node& n, ValueFacts& facts);
// All nodes of a model in order, bodies and function calls included; known declared types are kept where more precise.
// Ill-typed nodes are marked unchecked and returned as messages instead of thrown when `tolerant`.
std::vector<std::string> infer_model(Model& m, ValueFacts& facts, bool tolerant);

}  // namespace sardonyx
