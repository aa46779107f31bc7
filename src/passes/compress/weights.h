// Weights of a graph that a pass stores in fewer bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "passes/option_lists.h"
#include "sardonyx/ir.h"

namespace sardonyx::compress {

// By which axes an op reads a weight.
struct Axes {
  bool is_table = false;  // products decide first where a table is shared with them
  size_t summed = 0;      // the axis for blocks
  size_t channel = 0;     // the axis for one scale each

  auto order() const { return std::tuple(is_table, summed, channel); }
};

// Which constants could be weights.
struct Filter {
  int64_t min_elements = 0;
  NameSet only;  // empty: all
};

// Whether v is a constant of f32, f16 or bf16 with two axes or more and that many elements.
bool is_large(const Value& v, int64_t min_elements);
// Such constants that a node uses, in the order of their first users, bodies included.
std::vector<Value*> large_constants(Graph& top, const Filter& filter);
// Whether all elements of a tensor of f32, f16 or bf16 are nearer to zero than `limit`; NaN is not.
bool are_below(const Tensor& t, float limit);
// Erases a constant without users: of the graph, or a node's result.
void erase_constant(Value& constant);
// Gives the users of a constant `by`, and erases it.
void replace_constant(Value& constant, Value& by);

}  // namespace sardonyx::compress
