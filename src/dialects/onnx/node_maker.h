// NodeMaker: the implementation of OnnxBuilder's methods. It gathers operands, attributes and bodies, and
// makes one node.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dialects/onnx/ops.h"
#include "sardonyx/onnx_builder.h"

namespace sardonyx {

class NodeMaker {
 public:
  // Throws kUnsupported when the model's opset does not have the operator.
  NodeMaker(OnnxBuilder& b, onnx::Family family);

  void in(Value* v) { inputs_.push_back(v); }
  void in(std::span<Value* const> vs) { inputs_.insert(inputs_.end(), vs.begin(), vs.end()); }
  void body(std::string_view name, Graph& graph);

  // Sets an attribute unless it equals the default of the operator's version. `newest` is the default of the
  // newest version, for attributes that an older version lacks.
  void put(std::string_view name, bool v, bool newest) { integer(name, v, newest); }
  void put(std::string_view name, int64_t v, int64_t newest) { integer(name, v, newest); }
  void put(std::string_view name, DType v, DType newest) {
    integer(name, static_cast<int64_t>(v), static_cast<int64_t>(newest));
  }
  void put(std::string_view name, double v, double newest);
  void put(std::string_view name, std::string_view v, std::string_view newest);
  // Attributes without a default: set if given.
  void put(std::string_view name, std::optional<bool> v);
  void put(std::string_view name, std::optional<int64_t> v);
  void put(std::string_view name, std::optional<double> v);
  void put(std::string_view name, std::string_view v);
  void put(std::string_view name, DType v);
  void put(std::string_view name, const TensorPtr& v);
  void put(std::string_view name, const Type* v);
  void put(std::string_view name, const std::vector<int64_t>& v);
  void put(std::string_view name, const std::vector<double>& v);
  void put(std::string_view name, const std::vector<std::string>& v);
  void require(std::string_view name, int64_t v) { write(name, v); }
  void require(std::string_view name, DType v) { write(name, static_cast<int64_t>(v)); }
  void require(std::string_view name, std::string_view v) { write(name, v); }
  void require(std::string_view name, const std::vector<int64_t>& v) { write(name, v); }

  Value* one() { return many(1).result(0); }
  Node& many(size_t num_results);

 private:
  const AttrSpec* spec(std::string_view name) const;
  void integer(std::string_view name, int64_t v, int64_t newest);
  void write(std::string_view name, Attr value);

  OnnxBuilder& builder_;
  const Op* op_;
  std::vector<Value*> inputs_;
  AttrInit attrs_;
  std::vector<Body> bodies_;
};

}  // namespace sardonyx
