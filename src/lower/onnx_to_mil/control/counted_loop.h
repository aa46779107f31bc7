// A while_loop that counts its iterations, with variables and stacked results: for Loop, Scan, and operators
// that Core ML can only compute step by step.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {

struct Counted {
  Value* most = nullptr;       // maximum number of iterations, i32[]; null: no maximum
  Value* condition = nullptr;  // bool[] before the first iteration; null: true, and the body has none
  std::vector<Value*> vars;
  std::vector<const Type*> types;  // the type of each variable in all iterations; empty: its initial type
  size_t stacked = 0;
  std::vector<const Type*> rows;  // of stacked results: the type of one row
  // Writes one iteration into `block`. Returns the next condition (if there is one), the next variables, the
  // rows.
  std::function<std::vector<Value*>(MilBuilder& block, Value* i, std::span<Value* const> vars)> step;
};

// The variables after the loop, then the stacked results.
std::vector<Value*> run(Lowering& ctx, const Counted& loop);

}  // namespace sardonyx::onnx_to_mil
