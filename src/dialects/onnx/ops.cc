#include "dialects/onnx/ops.h"

#include <string_view>
#include <unordered_map>

#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx {
namespace {

constexpr TypeSet kTypeSets[] = {
#include "dialects/onnx/generated/ops_types.gen.inc"
};

constexpr Slot kSlots[] = {
#include "dialects/onnx/generated/ops_slots.gen.inc"
};

using Ints = std::span<const int64_t>;
constexpr int64_t kInts[] = {
#include "dialects/onnx/generated/ops_ints.gen.inc"
};

constexpr AttrSpec kSpecs[] = {
#include "dialects/onnx/generated/ops_attrs.gen.inc"
};

using Slots = std::span<const Slot>;
using Specs = std::span<const AttrSpec>;
using enum Trait;
constexpr DialectId kOnnx = DialectId::kOnnx;
constexpr uint32_t kOnnxFirstId = 0;

// A row has one trait, or several joined by |.
struct RowTraits {
  constexpr RowTraits(int) {}
  constexpr RowTraits(Trait t) : bits(static_cast<Traits>(t)) {}
  constexpr RowTraits(Traits t) : bits(t) {}
  constexpr operator Traits() const { return bits; }
  Traits bits = 0;
};

struct Row : Op {
  constexpr Row(DialectId dialect_id, std::string_view op_domain, std::string_view op_name, int since, bool is_known,
                bool is_deprecated, RowTraits row_traits, uint32_t op_id, int least_in, int most_in, int least_out,
                int most_out, Slots ins, Slots outs, Specs specs, TypeRule rule)
      : Op{dialect_id, op_domain, op_name,   since,    is_known, is_deprecated, row_traits, op_id,
           least_in,   most_in,   least_out, most_out, ins,      outs,          specs,      rule} {}
};

constexpr Op kOps[] = {
#define SX_ROW(...) static_cast<Op>(Row{__VA_ARGS__})
#include "dialects/onnx/generated/ops_rows.gen.inc"
#undef SX_ROW
};
static_assert(std::size(kOps) == kOpCount);

struct FamilyRow {
  std::string_view domain, name;
  uint16_t first, count;
};
constexpr FamilyRow kFamilies[] = {
#define SX_FAMILY(domain, name, first, count) {domain, #name, first, count},
#include "dialects/onnx/generated/ops_families.gen.inc"
#undef SX_FAMILY
};

struct DomainRow {
  std::string_view domain;
  int latest;
};
constexpr DomainRow kDomains[] = {
#define SX_DOMAIN(domain, version) {domain, version},
#include "dialects/onnx/generated/ops_domains.gen.inc"
#undef SX_DOMAIN
};

const Op* newest_at_most(const FamilyRow& family, int version) {
  for (int i = family.first + family.count - 1; i >= family.first; --i) {
    if (kOps[i].since_version <= version) return &kOps[i];
  }
  return nullptr;
}

std::string_view canonical(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

class OnnxDialect final : public Dialect {
 public:
  OnnxDialect() {
    for (const FamilyRow& f : kFamilies) (f.domain.empty() ? default_domain_ : other_domains_).emplace(f.name, &f);
  }

  DialectId id() const override { return DialectId::kOnnx; }
  std::string_view name() const override { return "onnx"; }
  std::span<const Op> ops() const override { return kOps; }

  const Op* find(std::string_view domain, std::string_view op_name, int version) const override {
    domain = canonical(domain);
    const auto& table = domain.empty() ? default_domain_ : other_domains_;
    const auto found = table.find(op_name);
    if (found == table.end() || found->second->domain != domain) return nullptr;
    return newest_at_most(*found->second, version);
  }

  int latest_version(std::string_view domain) const override {
    for (const DomainRow& row : kDomains) {
      if (row.domain == canonical(domain)) return row.latest;
    }
    return 0;
  }

 private:
  // No operator name occurs in two domains other than the default one.
  std::unordered_map<std::string_view, const FamilyRow*> default_domain_, other_domains_;
};

}  // namespace

const Dialect& dialect() {
  static const OnnxDialect instance;
  return instance;
}

const Op* find(Family family, int version) { return newest_at_most(kFamilies[family], version); }

const Op& oldest(Family family) { return kOps[kFamilies[family].first]; }

}  // namespace sardonyx::onnx
