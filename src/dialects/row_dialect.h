// Dialects that are a list of operators without versions and type rules: jax, stablehlo.
#pragma once

#include <string_view>
#include <vector>

#include "sardonyx/op.h"

namespace sardonyx {

// Traits of such rows.
namespace row_traits {
inline constexpr Traits kData = Trait::kPure | Trait::kCannotFail;
inline constexpr Traits kMap = kData | Trait::kElementwise | Trait::kShapePreserving;
inline constexpr Traits kMap1 = kMap | Trait::kUnary;
inline constexpr Traits kMapCommutes = kMap | Trait::kCommutative;
inline constexpr Traits kMapMixed = kData | Trait::kElementwise;  // some operands may be scalars beside arrays
// Bodies may loop forever or have effects: neither pure nor safe by name alone.
inline constexpr Traits kBodies = static_cast<Traits>(Trait::kSubgraphs);
inline constexpr Traits kDataBodies = kData | Trait::kSubgraphs;  // the body only combines elements
inline constexpr Traits kState = static_cast<Traits>(Trait::kRandom);
inline constexpr Traits kOpaque = {};  // what it does is defined elsewhere
}  // namespace row_traits

struct OpRow {
  std::string_view domain, name;
  int min_inputs, max_inputs, min_outputs, max_outputs;  // -1: no bound
  Traits traits;
};

// One op per row, with lists of operands and results of any types.
class RowDialect final : public Dialect {
 public:
  // Op ids begin at `first_id`.
  RowDialect(DialectId id, std::string_view name, std::span<const OpRow> rows, uint32_t first_id);

  DialectId id() const override { return id_; }
  std::string_view name() const override { return name_; }
  const Op* find(std::string_view domain, std::string_view name, int version) const override;
  std::span<const Op> ops() const override { return ops_; }
  int latest_version(std::string_view domain) const override;  // 1 for domains of rows

 private:
  DialectId id_;
  std::string_view name_;
  std::vector<Op> ops_;
  std::vector<const Op*> by_name_;  // by domain, then name
};

}  // namespace sardonyx
