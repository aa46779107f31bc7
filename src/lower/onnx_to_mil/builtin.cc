// The table of lowerings, read from elementwise.def and lowerings.def.
#include <fmt/format.h>

#include <climits>

#include "lower/onnx_to_mil/arithmetic/elementwise.h"
#include "lower/onnx_to_mil/context.h"
#include "lower/onnx_to_mil/taken_apart.h"

namespace sardonyx {
namespace onnx_to_mil {

#define SX_LOWERING(op) std::vector<Value*> lower_##op(Lowering& ctx);
#define SX_LOWERING_AS(op, function) std::vector<Value*> lower_##function(Lowering& ctx);
#define SX_LOWERING_OF(domain, op, function) std::vector<Value*> lower_##function(Lowering& ctx);
#define SX_TAKES_APART(op, version) SX_LOWERING(op)
#include "lower/onnx_to_mil/lowerings.def"
#undef SX_TAKES_APART
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF

const lower::Table<Lowering>& table() {
  static const lower::Table<Lowering> all = [] {
    lower::Table<Lowering> t;
#define SX_SAME(op, mil_op) t.add(#op, [](Lowering& ctx) { return lower_same(ctx, #mil_op); }, "elementwise " #mil_op);
#include "lower/onnx_to_mil/arithmetic/elementwise.def"
#undef SX_SAME
#define SX_LOWERING(op) t.add(#op, lower_##op, "lower_" #op);
#define SX_LOWERING_AS(op, function) t.add(#op, lower_##function, "lower_" #function);
#define SX_LOWERING_OF(domain, op, function) t.add(domain "::" #op, lower_##function, "lower_" #function);
#define SX_TAKES_APART(op, version) SX_LOWERING(op)
#include "lower/onnx_to_mil/lowerings.def"
#undef SX_TAKES_APART
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF
    return t;
  }();
  return all;
}

}  // namespace onnx_to_mil

bool has_mil_lowering(std::string_view domain, std::string_view op) {
  const bool is_default = domain.empty() || domain == "ai.onnx";
  return onnx_to_mil::table().find(is_default ? std::string(op) : fmt::format("{}::{}", domain, op)) != nullptr;
}

std::vector<std::string_view> taken_apart_for_mil(int version) {
  std::vector<std::string_view> ops;
#define SX_LOWERING(op)
#define SX_LOWERING_AS(op, function)
#define SX_LOWERING_OF(domain, op, function)
#define SX_TAKES_APART(op, below) \
  if (version < (below)) ops.emplace_back(#op);
#include "lower/onnx_to_mil/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF
#undef SX_TAKES_APART
  return ops;
}

std::vector<std::string> mil_lowerings() { return onnx_to_mil::table().names(); }

}  // namespace sardonyx
