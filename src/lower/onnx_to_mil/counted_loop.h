// A while_loop that counts, with variables and stacked results: of Loop, Scan and what Core ML has no op for.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::to_mil {

struct Counted {
  Value* most = nullptr;       // maximum number of iterations, i32[]; null: no maximum
  Value* condition = nullptr;  // bool[] before the first iteration; null: true, and the body has none
  std::vector<Value*> vars;
  std::vector<const Type*> held;  // what each variable may become; empty: the type that it begins with
  size_t stacked = 0;
  std::vector<const Type*> rows;  // of stacked results: the type of one row
  // One iteration, written into `block`: the next condition (if there is one), the next variables, the rows.
  std::function<std::vector<Value*>(MilBuilder& block, Value* i, std::span<Value* const> vars)> step;
};

// The variables after the loop, then the stacked results.
std::vector<Value*> run(Lowering& ctx, const Counted& loop);

}  // namespace sardonyx::to_mil
