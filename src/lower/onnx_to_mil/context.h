// The state of one lowering from the onnx dialect to the mil dialect. Knows no operator.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lower/onnx_to_mil/lower_to_mil.h"
#include "lower/onnx_to_mil/lowering.h"
#include "sardonyx/infer.h"

namespace sardonyx::to_mil {

// Null if there is none.
LowerFn find_lowering(std::string_view domain, std::string_view op);

class Context {
 public:
  Context(const Model& onnx, const ValueFacts& onnx_facts, Model& mil, const LowerToMilOptions& options);

  // The whole main function. Throws one Error for everything unsupported.
  void run();

  // The nodes of `graph` in order, written with `b`. Its inputs must be bound.
  void lower_nodes(const Graph& graph, MilBuilder& b);
  void bind(const Value& onnx, Value* mil) { values_[onnx] = mil; }
  // The lowered value of an ONNX value; constants are added on first use. Throws kUnsupported for those that do not fit.
  Value* value(const Value& onnx);

  const Model& onnx() const { return onnx_; }
  // The facts that inference has about the elements of ONNX values.
  const ValueFacts& onnx_facts() const { return onnx_facts_; }
  const LowerToMilOptions& options() const { return options_; }

  // Whether the ONNX model declares v's type more precisely than the op's type rule infers it. A program that loads the file would not
  // know that type.
  bool knows_more(const Value& v) const { return told_.contains(&v); }

  Dim import(Dim d);
  // The type in the tables of the MIL model, with the stored element type; null if unknown.
  const Type* import(const Type* t);

  // An i32[1] with the value of d at run time; null if no operand has that size. `near` are values to read it from.
  Value* size(Dim d, std::span<Value* const> near, MilBuilder& b);

 private:
  void lower_node(const Node& n, MilBuilder& b);
  void check_results(const Node& n, std::vector<Value*>& results, MilBuilder& b);
  void name(const Value& onnx, Value& mil);
  void add_input(const Port& port);
  void add_state(const Port& port, const Type& type);
  void add_image(const Port& port, const Type& type, const CoremlImage& image);
  void add_output(const Port& port, Value& onnx);
  Value* as_image(const Port& port, Value* v, const CoremlImage& image);
  DType asked(const std::vector<CoremlFloat>& types, const Port& port, DType onnx) const;
  void update_state(Value* state, Value& onnx);
  void check_states() const;
  void check_images() const;
  void check_types() const;
  TensorPtr as_stored(const Value& v, const TensorPtr& t) const;

  void refuse(const Node& n, std::string reason);
  void stand_in(const Node& n);
  [[noreturn]] void report_unsupported() const;
  std::string types_text(const Node& n) const;
  std::string source_text(const Node& n) const;
  uint32_t import_provenance(const Node& n);

  struct Refused {
    std::string op, types, reason, source;
    size_t count = 0;
  };

  const Model& onnx_;
  Model& mil_;
  const LowerToMilOptions options_;
  const ValueFacts& onnx_facts_;
  ValueFacts facts_;
  MilBuilder main_;
  ValueMap<Value*> values_;
  std::unordered_map<const Type*, const Type*> types_;
  std::unordered_map<uint64_t, Dim> dims_;
  std::unordered_map<uint32_t, uint32_t> provenance_;
  std::unordered_set<const Value*> told_;      // see knows_more()
  std::map<std::string_view, Value*> states_;  // by the name of the result that they keep
  std::map<std::string, Refused> refused_;     // by their description in the error
};

}  // namespace sardonyx::to_mil
