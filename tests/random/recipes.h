// Helpers shared by the recipes of both dialects.
#pragma once

#include <algorithm>
#include <span>

#include "random/generator.h"

namespace sardonyx::fuzz {

constexpr uint64_t bits(std::initializer_list<DType> types) {
  uint64_t set = 0;
  for (DType t : types) set |= bit(t);
  return set;
}
inline int64_t rank_of(const Value& v) { return static_cast<int64_t>(v.type()->rank()); }
inline Dim dim(const Value& v, int64_t axis) { return v.type()->dim(static_cast<size_t>(axis)); }
inline std::vector<Dim> dims_of(const Value& v) { return {v.type()->dims().begin(), v.type()->dims().end()}; }

inline const Recipe* find_in(std::span<const Recipe> recipes, std::string_view op) {
  const auto at = std::ranges::find(recipes, op, &Recipe::op);
  return at == recipes.end() ? nullptr : &*at;
}

}  // namespace sardonyx::fuzz
