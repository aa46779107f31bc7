// The state of one lowering from the onnx dialect to the mil dialect. It knows no operator: see
// lower/engine/engine.h.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lower/engine/engine.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "lower/onnx_to_mil/lowering.h"
#include "sardonyx/infer.h"

namespace sardonyx::onnx_to_mil {

// Of all operators that have a lowering.
const lower::Table<Lowering>& table();

class Context : public lower::EngineOf<Lowering> {
 public:
  Context(const Model& onnx, const ValueFacts& onnx_facts, Model& mil, const LowerToMilOptions& options);

  // Lowers the main function.
  void run();

  // What inference knows about the elements of ONNX values.
  const ValueFacts& onnx_facts() const { return onnx_facts_; }

  // Whether the ONNX model declares v's type more precisely than the op's type rule infers it. A program that
  // loads the file would not know that type.
  bool knows_more(const Value& v) const { return declared_.contains(&v); }

  // With the stored element type; null if MIL has no such tensor type.
  const Type* stored(const Type* t) override;

  // An i32[1] with the value of d at run time; null if no operand has that size. `near` are values to read it
  // from.
  Value* size(Dim d, std::span<Value* const> near, MilBuilder& b);

 private:
  void add_input(const Port& port, size_t i) override;
  void add_output(const Port& port, Value& onnx, size_t i) override;
  Value* add_constant(const Value& onnx, Builder& b) override;
  void on_result(const Value& onnx, Value& v, Builder& b, bool knows_more) override;

  void add_state(const Port& port, const Type& type);
  void add_image(const Port& port, const Type& type, const CoremlImage& image);
  Value* as_image(const Port& port, Value* v, const CoremlImage& image);
  DType interface_type(const std::vector<CoremlFloat>& types, const Port& port, DType onnx) const;
  void update_state(Value* state, Value& onnx);
  void check_states() const;
  void check_images() const;
  void check_types() const;

  const LowerToMilOptions options_;
  const ValueFacts& onnx_facts_;
  std::unordered_set<const Value*> declared_;  // see knows_more()
  std::map<std::string_view, Value*> states_;  // by the name of the result that they keep
};

}  // namespace sardonyx::onnx_to_mil
