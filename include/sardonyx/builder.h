// Builder: makes nodes of known operators at an insertion point, typed and checked.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/infer.h"
#include "sardonyx/ir.h"

namespace sardonyx {

// Appends to a graph, or inserts before a node. The rule of the operator types each new node: an ill-typed
// one throws Error(kInvalidModel) and leaves the graph as it was. OnnxBuilder (sardonyx/onnx_builder.h) adds
// one method per operator.
class Builder {
 public:
  Builder(Graph& graph, ValueFacts& facts) : graph_(&graph), facts_(&facts) {}

  Graph& graph() const { return *graph_; }
  Model& model() const { return graph_->model(); }
  ValueFacts& facts() const { return *facts_; }
  Types& types() const { return model().types(); }
  Dims& dims() const { return model().dims(); }
  // Null = append at the end.
  void set_insertion_point(Node* before) { before_ = before; }
  // The provenance of new nodes (Model::add_provenance).
  void set_provenance(uint32_t p) { provenance_ = p; }
  uint32_t provenance() const { return provenance_; }

  // Any operator by name, at the model's opset version of its domain.
  Value* op(std::string_view name, std::span<Value* const> inputs, AttrInit attrs = {}, std::string_view domain = {});
  Value* op(std::string_view name, std::initializer_list<Value*> inputs, AttrInit attrs = {}, std::string_view domain = {}) {
    return op(name, std::span<Value* const>(inputs.begin(), inputs.size()), std::move(attrs), domain);
  }
  // For several results, or bodies. `bodies` are graphs from Model::new_graph, already filled.
  Node& node(std::string_view name, std::span<Value* const> inputs, size_t num_results, AttrInit attrs = {},
             std::string_view domain = {}, std::span<const Body> bodies = {});

  // Constants: initializers of the graph (or Constant nodes inside ONNX functions). Equal small ones (<= 1
  // KiB) without a name are one value per graph.
  Value* constant(TensorPtr payload, std::string_view name = {});
  Value* i64(int64_t v);                    // i64[]
  Value* i64s(std::span<const int64_t> v);  // i64[n]
  Value* i64s(std::initializer_list<int64_t> v) { return i64s(std::span<const int64_t>(v.begin(), v.size())); }
  Value* scalar(DType dtype, double v);                            // dtype[]; v rounded to dtype
  Value* scalar_int(DType dtype, int64_t v);                       // dtype[] for integers and bool, exact for 64 bits
  Value* full(DType dtype, std::vector<int64_t> shape, double v);  // a lazy splat

  // Makes a node of exactly this operator version; the other functions call it and throw the same errors.
  Node& make(const Op& op, std::span<Value* const> inputs, size_t num_results, AttrInit attrs,
             std::span<const Body> bodies = {});

 protected:
  // A Constant node at the insertion point.
  Value* constant_node(TensorPtr payload, std::string_view name = {});
  // Whether constants must be nodes here: ONNX functions have no initializers.
  bool constants_are_nodes() const;

  Graph* graph_;
  ValueFacts* facts_;
  Node* before_ = nullptr;
  uint32_t provenance_ = 0;

 private:
  std::unordered_multimap<uint64_t, Value*> small_constants_;  // by hash of the payload
  size_t constants_seen_ = 0;                                  // number of the graph's initializers already in the table
};

}  // namespace sardonyx
