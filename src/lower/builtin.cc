// The table of built-in lowerings, read from elementwise.def, lowerings.def and complex.def.
#include <algorithm>

#include "lower/complex.h"
#include "lower/kernels.h"
#include "lower/narrow.h"
#include "lower/pairs.h"

namespace sardonyx {

#define SX_LOWERING(primitive, function) std::vector<Value*> function(Lowering& at);
#include "lower/lowerings.def"
#undef SX_LOWERING

#define SX_COMPLEX(primitive, function) std::vector<Value*> function(Lowering& at);
#define SX_LINEAR(primitive)
#define SX_MOVES(primitive)
#define SX_BILINEAR(primitive)
#include "lower/complex.def"
#undef SX_COMPLEX
#undef SX_LINEAR
#undef SX_MOVES
#undef SX_BILINEAR

namespace {

LowerFn elementwise(std::string_view op, std::string_view bool_op) {
  return [op, bool_op](Lowering& at) -> std::vector<Value*> {
    return {via(at, at.in_dtype(0) == DType::kBool ? bool_op : op, operands(at))};
  };
}

bool has_types(const Node& eqn, bool (*is_wanted)(DType)) {
  auto is_found = [&](const Type* t) { return t->is_tensor() && is_wanted(t->dtype()); };
  return std::ranges::any_of(eqn.operands(), [&](const Use& u) { return u.value != nullptr && is_found(u.value->type()); }) ||
         std::ranges::any_of(eqn.results(), [&](const Value& v) { return is_found(v.type()); });
}

// `complex` for equations with complex operands or results, what is registered for others.
void add_complex(LoweringRegistry& r, std::string_view primitive,
                 const std::function<std::vector<Value*>(Lowering&, const LowerFn&)>& complex) {
  const LowerFn* known = r.find(primitive);
  LowerFn real =
      known != nullptr ? *known : LowerFn([](Lowering& at) -> std::vector<Value*> { at.unsupported("not of real numbers"); });
  std::string origin(known != nullptr ? r.origin(primitive) : "complex numbers");
  r.add(primitive, [=](Lowering& at) { return has_types(at.eqn, is_complex) ? complex(at, real) : real(at); }, origin);
}

// What JAX does with arrays of keys, beside random numbers. Keys of four words are moved half by half; those of two are one number each.
constexpr std::string_view kMovesKeys[] = {"broadcast_in_dim",
                                           "compress",
                                           "concatenate",
                                           "dynamic_slice",
                                           "dynamic_update_slice",
                                           "expand_dims",
                                           "gather",
                                           "pad",
                                           "reshape",
                                           "rev",
                                           "scatter",
                                           "select_n",
                                           "slice",
                                           "split",
                                           "squeeze",
                                           "stack",
                                           "tile",
                                           "transpose",
                                           "unstack"};

void add_wide_keys(LoweringRegistry& r, std::string_view primitive) {
  LowerFn others = *r.find(primitive);
  auto is_wide = [](DType t) { return t == DType::kKey4; };
  std::string origin(r.origin(primitive));
  r.add(primitive, [=](Lowering& at) { return has_types(at.eqn, is_wide) ? part_by_part(at, others) : others(at); }, origin);
}

void add_narrow(LoweringRegistry& r, const std::string& primitive) {
  LowerFn others = *r.find(primitive);
  std::string origin(r.origin(primitive));
  auto lower = [=](Lowering& at) { return has_types(at.eqn, is_narrow) ? in_wider_types(at, primitive, others) : others(at); };
  r.add(primitive, lower, origin);
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
#define SX_COMPLEX(primitive, function) add_complex(r, primitive, [](Lowering& at, const LowerFn&) { return function(at); });
#define SX_LINEAR(primitive) add_complex(r, primitive, part_by_part);
#define SX_MOVES(primitive) add_complex(r, primitive, moved);
#define SX_BILINEAR(primitive) add_complex(r, primitive, product_of_parts);
#include "lower/complex.def"
#undef SX_COMPLEX
#undef SX_LINEAR
#undef SX_MOVES
#undef SX_BILINEAR
    for (std::string_view primitive : kMovesKeys) add_wide_keys(r, primitive);
    for (std::string_view primitive : {"eq", "ne"}) {
      LowerFn others = *r.find(primitive), of_pairs = primitive == "eq" ? complex_eq : complex_ne;
      auto lower = [=](Lowering& at) { return at.in_dtype(0) == DType::kKey4 ? of_pairs(at) : others(at); };
      r.add(primitive, lower, std::string(r.origin(primitive)));
    }
    for (const std::string& primitive : r.primitives()) {
      if (!keeps_narrow(primitive)) add_narrow(r, primitive);
    }
    return r;
  }();
  return registry;
}

}  // namespace sardonyx
