// The table of built-in lowerings, read from elementwise.def and lowerings.def.
#include "lower/kernels.h"

namespace sardonyx {

#define SX_LOWERING(primitive, function) std::vector<Value*> function(Lowering& at);
#include "lower/lowerings.def"
#undef SX_LOWERING

namespace {

LowerFn elementwise(std::string_view op, std::string_view bool_op) {
  return [op, bool_op](Lowering& at) -> std::vector<Value*> {
    return {via(at, at.in_dtype(0) == DType::kBool ? bool_op : op, operands(at))};
  };
}

}  // namespace

const LoweringRegistry& LoweringRegistry::builtin() {
  static const LoweringRegistry registry = [] {
    LoweringRegistry r;
#define SX_ELEMENTWISE(primitive, op) r.add(primitive, elementwise(#op, #op), "elementwise " #op);
#define SX_ELEMENTWISE_BOOL(primitive, op, bool_op) r.add(primitive, elementwise(#op, #bool_op), "elementwise " #op);
#include "lower/elementwise.def"
#undef SX_ELEMENTWISE
#undef SX_ELEMENTWISE_BOOL
#define SX_LOWERING(primitive, function) r.add(primitive, function, #function);
#include "lower/lowerings.def"
#undef SX_LOWERING
    return r;
  }();
  return registry;
}

}  // namespace sardonyx
