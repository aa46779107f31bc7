#include "dialects/stablehlo/dialect.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

namespace sardonyx::stablehlo {
namespace {

constexpr Traits kData = Trait::kPure | Trait::kCannotFail;
constexpr Traits kMap = kData | Trait::kElementwise | Trait::kShapePreserving;
constexpr Traits kMap1 = kMap | Trait::kUnary;
constexpr Traits kMapCommutes = kMap | Trait::kCommutative;
constexpr Traits kMapMixed = kData | Trait::kElementwise;  // some operands may be scalars beside arrays
// Bodies may loop forever or have effects: neither pure nor safe by name alone.
constexpr Traits kBodies = static_cast<Traits>(Trait::kSubgraphs);
constexpr Traits kDataBodies = kData | Trait::kSubgraphs;  // the body only combines elements
constexpr Traits kState = static_cast<Traits>(Trait::kRandom);
constexpr Traits kOpaque = {};  // what it does is defined elsewhere

struct Row {
  std::string_view domain, name;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  Traits traits;
};

constexpr Row kRows[] = {
#define STABLEHLO_OP(domain, name, min_in, max_in, min_out, max_out, traits) \
  {domain, name, min_in, max_in, min_out, max_out, traits},
#include "dialects/stablehlo/ops.def"
#undef STABLEHLO_OP
};

class StablehloDialect final : public Dialect {
 public:
  explicit StablehloDialect(uint32_t first_id) {
    for (const Row& row : kRows) {
      Op op;
      op.dialect = DialectId::kStablehlo;
      op.domain = row.domain;
      op.name = row.name;
      op.known = true;
      op.traits = row.traits;
      op.id = first_id++;
      op.min_inputs = row.min_inputs;
      op.max_inputs = row.max_inputs;
      op.min_outputs = row.min_outputs;
      op.max_outputs = row.max_outputs;
      op.inputs = kOperands;
      op.outputs = kResults;
      ops_.push_back(op);
    }
    for (const Op& op : ops_) by_name_.push_back(&op);
    std::ranges::sort(by_name_, {}, key);
  }

  DialectId id() const override { return DialectId::kStablehlo; }
  std::string_view name() const override { return "stablehlo"; }
  const Op* find(std::string_view domain, std::string_view name, int) const override {
    const auto wanted = std::tuple(domain, name);
    auto at = std::ranges::lower_bound(by_name_, wanted, {}, key);
    return at != by_name_.end() && key(*at) == wanted ? *at : nullptr;
  }
  std::span<const Op> ops() const override { return ops_; }
  int latest_version(std::string_view domain) const override {
    return domain.empty() || domain == "chlo" || domain == "func" ? 1 : 0;
  }

 private:
  static std::tuple<std::string_view, std::string_view> key(const Op* op) { return {op->domain, op->name}; }

  static constexpr std::array<Slot, 1> kOperands = {
      Slot{.name = "operands", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};
  static constexpr std::array<Slot, 1> kResults = {
      Slot{.name = "results", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};
  std::vector<Op> ops_;
  std::vector<const Op*> by_name_;
};

}  // namespace

uint32_t register_dialect(uint32_t first_id) {
  static const StablehloDialect table(first_id);
  const auto count = static_cast<uint32_t>(table.ops().size());
  sardonyx::register_dialect(table, count);
  return count;
}

}  // namespace sardonyx::stablehlo
