// Ops that compute in another element type, with casts before and behind: what add_fp16_cast and add_int16_cast share.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "passes/mil/params.h"

namespace sardonyx::mil {

// What is cast, and to what. All names are as coremltools gives them: x_to_fp16, op_cast_fp16, op_cast_fp16_to_fp32.
struct Casting {
  DType from;
  // Whether the op is to be changed at all. Asked in program order, blocks before their op.
  std::function<bool(Node&)> changes;
  // What operand i, a value of type `from`, becomes; kUndefined: it stays.
  std::function<DType(Node&, size_t i)> target;
  // Another value in place of a constant before it is cast, or null.
  std::function<Value*(Rewriter&, Value&, DType to)> prepare = {};
  // What the op reads in place of its operand i, when that is cast.
  std::function<Value*(Rewriter&, Node&, size_t i, Value* cast)> guard = {};
  // A parameter that changes beside the casts, or null.
  std::function<Value*(Rewriter&, Node&, size_t i)> parameter = {};
  // The type in the op's new name.
  std::function<DType()> named;
};

// The names in a list with commas, as options have them.
std::set<std::string, std::less<>> split_names(std::string_view list);

// Whether the op takes such values in operand i.
bool takes(const Node& n, size_t i, DType dtype);
// Whether the op of that name in the function's op set takes such values as its first operand.
bool takes(const Rewriter& b, std::string_view name, DType dtype);

// Changes the ops of a function and its blocks; returns how many. A value is cast once in a block for all its readers there.
size_t insert_casts(Graph& top, PassContext& context, const Casting& casting);

}  // namespace sardonyx::mil
