#include "dialects/jax/dialect.h"

#include <algorithm>
#include <array>
#include <vector>

namespace sardonyx::jax {
namespace {

constexpr Traits kData = Trait::kPure | Trait::kCannotFail;
constexpr Traits kMap = kData | Trait::kElementwise | Trait::kShapePreserving;
constexpr Traits kMap1 = kMap | Trait::kUnary;
constexpr Traits kMapCommutes = kMap | Trait::kCommutative;
constexpr Traits kMapMixed = kData | Trait::kElementwise;  // some operands may be scalars beside arrays
// Bodies may loop forever or have effects: neither pure nor safe by name alone.
constexpr Traits kBodies = static_cast<Traits>(Trait::kSubgraphs);
constexpr Traits kDataBodies = kData | Trait::kSubgraphs;  // the body only combines two elements
constexpr Traits kState = static_cast<Traits>(Trait::kRandom);

struct Row {
  std::string_view name;
  int min_inputs, max_inputs, min_outputs, max_outputs;
  Traits traits;
};

constexpr Row kRows[] = {
#define JAX_OP(name, min_in, max_in, min_out, max_out, traits) {name, min_in, max_in, min_out, max_out, traits},
#include "dialects/jax/ops.def"
#undef JAX_OP
};

class JaxDialect final : public Dialect {
 public:
  explicit JaxDialect(uint32_t first_id) {
    for (const Row& row : kRows) {
      Op op;
      op.dialect = DialectId::kJax;
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
    std::ranges::sort(by_name_, {}, &Op::name);
  }

  DialectId id() const override { return DialectId::kJax; }
  std::string_view name() const override { return "jax"; }
  const Op* find(std::string_view domain, std::string_view name, int) const override {
    if (!domain.empty()) return nullptr;
    auto at = std::ranges::lower_bound(by_name_, name, {}, &Op::name);
    return at != by_name_.end() && (*at)->name == name ? *at : nullptr;
  }
  std::span<const Op> ops() const override { return ops_; }
  int latest_version(std::string_view domain) const override { return domain.empty() ? 1 : 0; }

 private:
  static constexpr std::array<Slot, 1> kOperands = {
      Slot{.name = "operands", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};
  static constexpr std::array<Slot, 1> kResults = {
      Slot{.name = "results", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};
  std::vector<Op> ops_;
  std::vector<const Op*> by_name_;
};

}  // namespace

uint32_t register_dialect(uint32_t first_id) {
  static const JaxDialect table(first_id);
  const auto count = static_cast<uint32_t>(table.ops().size());
  sardonyx::register_dialect(table, count);
  return count;
}

}  // namespace sardonyx::jax
