// The table of lowerings, read from elementwise.def and lowerings.def.
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <map>

#include "lower/mil/context.h"
#include "lower/mil/elementwise.h"
#include "lower/mil/taken_apart.h"

namespace sardonyx {
namespace to_mil {

#define SX_LOWERING(op) std::vector<Value*> lower_##op(Lowering& ctx);
#define SX_LOWERING_AS(op, function) std::vector<Value*> lower_##function(Lowering& ctx);
#define SX_LOWERING_OF(domain, op, function) std::vector<Value*> lower_##function(Lowering& ctx);
#define SX_TAKES_APART(op, version) SX_LOWERING(op)
#include "lower/mil/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF
#undef SX_TAKES_APART

namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, LowerFn>;

const Table& table() {
  static const Table all = [] {
    Table t;
#define SX_SAME(op, mil_op) t.emplace(std::pair("", #op), [](Lowering& ctx) { return lower_same(ctx, #mil_op); });
#include "lower/mil/elementwise.def"
#undef SX_SAME
#define SX_LOWERING(op) t.emplace(std::pair("", #op), lower_##op);
#define SX_LOWERING_AS(op, function) t.emplace(std::pair("", #op), lower_##function);
#define SX_LOWERING_OF(domain, op, function) t.emplace(std::pair(domain, #op), lower_##function);
#define SX_TAKES_APART(op, version) SX_LOWERING(op)
#include "lower/mil/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF
#undef SX_TAKES_APART
    return t;
  }();
  return all;
}

}  // namespace

LowerFn find_lowering(std::string_view domain, std::string_view op) {
  const auto at = table().find({domain == "ai.onnx" ? "" : domain, op});
  return at == table().end() ? nullptr : at->second;
}

}  // namespace to_mil

bool has_mil_lowering(std::string_view domain, std::string_view op) { return to_mil::find_lowering(domain, op) != nullptr; }

std::vector<std::string_view> taken_apart_for_mil(int version) {
  std::vector<std::string_view> ops;
#define SX_LOWERING(op)
#define SX_LOWERING_AS(op, function)
#define SX_LOWERING_OF(domain, op, function)
#define SX_TAKES_APART(op, below) \
  if (version < (below)) ops.emplace_back(#op);
#include "lower/mil/lowerings.def"
#undef SX_LOWERING
#undef SX_LOWERING_AS
#undef SX_LOWERING_OF
#undef SX_TAKES_APART
  return ops;
}

std::vector<std::string> mil_lowerings() {
  std::vector<std::string> names;
  for (const auto& [key, fn] : to_mil::table())
    names.push_back(key.first.empty() ? std::string(key.second) : fmt::format("{}::{}", key.first, key.second));
  std::ranges::sort(names);
  return names;
}

}  // namespace sardonyx
