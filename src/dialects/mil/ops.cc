#include "dialects/mil/ops.h"

#include <string_view>
#include <unordered_map>

#include "dialects/mil/infer/rules.h"
#include "dialects/onnx/ops.h"

namespace sardonyx::mil {
namespace {

constexpr TypeSet kTypeSets[] = {
#include "dialects/mil/generated/ops_types.gen.inc"
};

constexpr Slot kSlots[] = {
#include "dialects/mil/generated/ops_slots.gen.inc"
};

using Ints = std::span<const int64_t>;
[[maybe_unused]] constexpr int64_t kInts[] = {
#include "dialects/mil/generated/ops_ints.gen.inc"
    0,
};

constexpr AttrSpec kSpecs[] = {
#include "dialects/mil/generated/ops_defaults.gen.inc"
};

using Slots = std::span<const Slot>;
using Specs = std::span<const AttrSpec>;
using enum Trait;
constexpr uint32_t kFirstId = onnx::kOpCount;

// A row has one trait, or several joined by |.
struct RowTraits {
  constexpr RowTraits(int) {}
  constexpr RowTraits(Trait t) : bits(static_cast<Traits>(t)) {}
  constexpr RowTraits(Traits t) : bits(t) {}
  Traits bits = 0;
};

struct Row : Op {
  constexpr Row(std::string_view op_name, int since, RowTraits row_traits, uint32_t index, int least_in, int most_in,
                int least_out, int most_out, Slots ins, Specs defaults, TypeRule rule)
      : Op{DialectId::kMil, "",      op_name,   since,    true, false, row_traits.bits, kFirstId + index,
           least_in,        most_in, least_out, most_out, ins,  {},    defaults,        rule} {}
};

constexpr Op kOps[] = {
#define SX_ROW(...) static_cast<Op>(Row{__VA_ARGS__})
#include "dialects/mil/generated/ops_rows.gen.inc"
#undef SX_ROW
};
static_assert(std::size(kOps) == kOpCount);

struct FamilyRow {
  std::string_view name;
  uint16_t first, count;
};
constexpr FamilyRow kFamilies[] = {
#define SX_FAMILY(name, first, count) {#name, first, count},
#include "dialects/mil/generated/ops_families.gen.inc"
#undef SX_FAMILY
};

const Op* newest_at_most(const FamilyRow& family, int version) {
  for (int i = family.first + family.count - 1; i >= family.first; --i) {
    if (kOps[i].since_version <= version) return &kOps[i];
  }
  return nullptr;
}

constexpr std::string_view kOpsets[] = {"CoreML3", "CoreML4", "CoreML5", "CoreML6", "CoreML7", "CoreML8", "CoreML9"};
constexpr int kOldestVersion = 4;

class MilDialect final : public Dialect {
 public:
  MilDialect() {
    for (const FamilyRow& f : kFamilies) table_.emplace(f.name, &f);
  }

  DialectId id() const override { return DialectId::kMil; }
  std::string_view name() const override { return "mil"; }
  std::span<const Op> ops() const override { return kOps; }

  const Op* find(std::string_view domain, std::string_view op_name, int version) const override {
    if (!domain.empty()) return nullptr;
    const auto found = table_.find(op_name);
    return found == table_.end() ? nullptr : newest_at_most(*found->second, version);
  }

  int latest_version(std::string_view domain) const override { return domain.empty() ? kNewestVersion : 0; }

 private:
  std::unordered_map<std::string_view, const FamilyRow*> table_;
};

// If a type has several names, the first one is written.
constexpr std::pair<std::string_view, DType> kDTypeNames[] = {
    {"fp16", DType::kF16},   {"fp32", DType::kF32},   {"fp64", DType::kF64},      {"int8", DType::kI8},
    {"int16", DType::kI16},  {"int32", DType::kI32},  {"int64", DType::kI64},     {"int4", DType::kI4},
    {"uint8", DType::kU8},   {"uint16", DType::kU16}, {"uint32", DType::kU32},    {"uint64", DType::kU64},
    {"uint1", DType::kU1},   {"uint2", DType::kU2},   {"uint3", DType::kU3},      {"uint4", DType::kU4},
    {"uint6", DType::kU6},   {"bool", DType::kBool},  {"string", DType::kString}, {"str", DType::kString},
    {"double", DType::kF64}, {"float", DType::kF32},  {"float16", DType::kF16},   {"float32", DType::kF32}};

}  // namespace

const Dialect& dialect() {
  static const MilDialect instance;
  return instance;
}

const Op* find(Family family, int version) { return newest_at_most(kFamilies[family], version); }

bool is(const Op& op, Family family) {
  const uint32_t at = op.id - kFirstId;
  return op.id >= kFirstId && at >= kFamilies[family].first && at < kFamilies[family].first + uint32_t{kFamilies[family].count};
}

std::string_view opset_name(int version) {
  const auto i = static_cast<size_t>(version - kOldestVersion);
  return i < std::size(kOpsets) ? kOpsets[i] : std::string_view();
}

int opset_version(std::string_view name) {
  for (size_t i = 0; i < std::size(kOpsets); ++i) {
    if (kOpsets[i] == name) return kOldestVersion + static_cast<int>(i);
  }
  return 0;
}

std::string_view dtype_name(DType d) {
  for (const auto& [name, dtype] : kDTypeNames) {
    if (dtype == d) return name;
  }
  return {};
}

DType dtype_named(std::string_view name) {
  for (const auto& [known, dtype] : kDTypeNames) {
    if (known == name) return dtype;
  }
  return DType::kUndefined;
}

}  // namespace sardonyx::mil
