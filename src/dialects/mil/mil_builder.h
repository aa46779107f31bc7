// MilBuilder: one method per Core ML op, typed and checked.
//
//   Value* y = b.conv(x, weight, {.bias = bias, .pad_type = "same", .strides = {2, 2}});
//   Value* z = b.concat({y, b.mul(y, 0.5)}, {.axis = 1});
//
// Required operands that may be computed come first, then lists, blocks, and the number of results where it
// varies. All other operands are named, in alphabetical order. Operands that are not given are not written:
// Core ML uses the default, which builder_params.gen.inc notes. Numbers, strings and flags become constants
// of the slot's type (operand.h), created in slot order. The function's op set decides the version of the op.
// Slots are those of the newest version; giving one that the chosen version lacks is an error.
#pragma once

#include "dialects/mil/operand.h"
#include "sardonyx/builder.h"

namespace sardonyx {

namespace mil_params {
#include "dialects/mil/generated/builder_params.gen.inc"
}  // namespace mil_params

class MilBuilder : public Builder {
 public:
  using Builder::Builder;
  using Flags = mil_params::Flags;
  using Ints = mil_params::Ints;
  using Numbers = mil_params::Numbers;
  using Operand = mil_params::Operand;
  using Text = mil_params::Text;

  // The specification version of the function's op set (8 is iOS 17); the newest if the function names none.
  int version() const;
  // The op's version in this op set, or null. For ops named by data; pass it to make().
  const Op* find(std::string_view op) const;
  // Constants as values, for setting an operand in place.
  Value* i32(int32_t v) { return scalar_int(DType::kI32, v); }
  Value* i32s(std::span<const int64_t> v);
  // The same op with other operands in some slots; nullptr leaves a slot empty. Not for ops with blocks.
  Value* like(const Node& n, std::initializer_list<mil_params::Change> changes);

#include "dialects/mil/generated/builder_declarations.gen.inc"
};

}  // namespace sardonyx
