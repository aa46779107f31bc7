// The table of built-in lowerings, read from elementwise.def, lowerings.def and complex.def.
#include <algorithm>

#include "lower/jax_to_onnx/arrays/movements.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/complex.h"
#include "lower/jax_to_onnx/lib/narrow.h"
#include "lower/jax_to_onnx/lib/pairs.h"

namespace sardonyx::jax_to_onnx {

#define SX_LOWERING(primitive) std::vector<Value*> lower_##primitive(Lowering& ctx);
#define SX_LOWERING_AS(primitive, function) std::vector<Value*> function(Lowering& ctx);
#include "lower/jax_to_onnx/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS

#define SX_COMPLEX(primitive, function) std::vector<Value*> function(Lowering& ctx);
#define SX_LINEAR(primitive)
#define SX_MOVES(primitive)
#define SX_BILINEAR(primitive)
#include "lower/jax_to_onnx/lib/complex.def"
#undef SX_COMPLEX
#undef SX_LINEAR
#undef SX_MOVES
#undef SX_BILINEAR

namespace {

LowerFn elementwise(std::string_view op, std::string_view bool_op) {
  return [op, bool_op](Lowering& ctx) -> std::vector<Value*> {
    return {ctx.via(ctx.in_dtype(0) == DType::kBool ? bool_op : op, ctx.operands())};
  };
}

bool has_types(const Node& eqn, bool (*is_wanted)(DType)) {
  auto is_found = [&](const Type* t) { return t->is_tensor() && is_wanted(t->dtype()); };
  return std::ranges::any_of(eqn.operands(), [&](const Use& u) { return u.value != nullptr && is_found(u.value->type()); }) ||
         std::ranges::any_of(eqn.results(), [&](const Value& v) { return is_found(v.type()); });
}

using OwnLowering = std::function<std::vector<Value*>(Lowering&, const LowerFn& others)>;

// Uses `own` for equations with an operand or a result whose type `is_wanted`; all others keep the registered
// lowering.
void add_for(LoweringRegistry& r, std::string_view primitive, bool (*is_wanted)(DType), const OwnLowering& own) {
  const LowerFn* known = r.find(primitive);
  LowerFn others = known != nullptr ? *known : LowerFn([](Lowering& ctx) -> std::vector<Value*> {
    ctx.unsupported("real operands are not supported");
  });
  std::string origin(known != nullptr ? r.origin(primitive) : "complex numbers");
  r.add(primitive, [=](Lowering& ctx) { return has_types(ctx.node, is_wanted) ? own(ctx, others) : others(ctx); }, origin);
}

void add_complex(LoweringRegistry& r, std::string_view primitive, const OwnLowering& own) {
  add_for(r, primitive, is_complex, own);
}

bool is_wide_key(DType t) { return t == DType::kKey4; }

LoweringRegistry all_lowerings() {
  LoweringRegistry r;
#define SX_ELEMENTWISE(primitive, op) r.add(primitive, elementwise(#op, #op), "elementwise " #op);
#define SX_ELEMENTWISE_BOOL(primitive, op, bool_op) r.add(primitive, elementwise(#op, #bool_op), "elementwise " #op);
#include "lower/jax_to_onnx/arithmetic/elementwise.def"
#undef SX_ELEMENTWISE
#undef SX_ELEMENTWISE_BOOL
#define SX_LOWERING(primitive) r.add(#primitive, lower_##primitive, "lower_" #primitive);
#define SX_LOWERING_AS(primitive, function) r.add(primitive, function, #function);
#include "lower/jax_to_onnx/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
#define SX_COMPLEX(primitive, function) add_complex(r, primitive, [](Lowering& ctx, const LowerFn&) { return function(ctx); });
#define SX_LINEAR(primitive) add_complex(r, primitive, part_by_part);
#define SX_MOVES(primitive) add_complex(r, primitive, moved);
#define SX_BILINEAR(primitive) add_complex(r, primitive, product_of_parts);
#include "lower/jax_to_onnx/lib/complex.def"
#undef SX_COMPLEX
#undef SX_LINEAR
#undef SX_MOVES
#undef SX_BILINEAR
  // Keys of four words move as two halves; keys of two words are one number.
  for (std::string_view primitive : kMovements) add_for(r, primitive, is_wide_key, part_by_part);
  add_for(r, "eq", is_wide_key, [](Lowering& ctx, const LowerFn&) { return complex_eq(ctx); });
  add_for(r, "ne", is_wide_key, [](Lowering& ctx, const LowerFn&) { return complex_ne(ctx); });
  for (const std::string& primitive : r.names()) {
    if (keeps_narrow(primitive)) continue;
    add_for(r, primitive, is_narrow,
            [=](Lowering& ctx, const LowerFn& others) { return in_wider_types(ctx, primitive, others); });
  }
  return r;
}

}  // namespace
}  // namespace sardonyx::jax_to_onnx

namespace sardonyx {

const LoweringRegistry& LoweringRegistry::builtin() {
  static const LoweringRegistry registry = jax_to_onnx::all_lowerings();
  return registry;
}

}  // namespace sardonyx
