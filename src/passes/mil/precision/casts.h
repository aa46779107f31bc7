// Casts around ops that are to compute in another element type: shared by add_fp16_cast and add_int16_cast.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "passes/mil/params.h"
#include "passes/option_lists.h"

namespace sardonyx::mil {

// Which values are cast, and to which type. All names are those of coremltools: x_to_fp16, op_cast_fp16,
// op_cast_fp16_to_fp32.
struct Casting {
  DType from;
  // Whether the op changes at all. Called in program order, for blocks before their op.
  std::function<bool(Node&)> changes;
  // The type that operand i, a value of type `from`, is cast to; kUndefined if it stays.
  std::function<DType(Node&, size_t i)> target;
  // A constant to cast instead of this one, or null.
  std::function<Value*(Rewriter&, Value&, DType to)> prepare = {};
  // The operand that the op gets, if not the cast itself.
  std::function<Value*(Rewriter&, Node&, size_t i, Value* cast)> guard = {};
  // The new value of a parameter, or null if it stays.
  std::function<Value*(Rewriter&, Node&, size_t i)> parameter = {};
  // The type in the op's new name.
  std::function<DType()> named;
};

// Whether operand i of the op may have that type.
bool takes(const Node& n, size_t i, DType dtype);
// Whether, in the function's op set, the first operand of the op of that name may have that type.
bool takes(const Rewriter& b, std::string_view name, DType dtype);

// Changes the ops of a function and its blocks; returns how many. A value is cast once per block.
size_t insert_casts(Graph& top, PassContext& context, const Casting& casting);

}  // namespace sardonyx::mil
