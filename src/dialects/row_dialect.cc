#include "dialects/row_dialect.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace sardonyx {
namespace {

constexpr std::array<Slot, 1> kOperands = {
    Slot{.name = "operands", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};
constexpr std::array<Slot, 1> kResults = {
    Slot{.name = "results", .arity = Arity::kVariadic, .types = {.any = true}, .homogeneous = false}};

std::tuple<std::string_view, std::string_view> key(const Op* op) { return {op->domain, op->name}; }

}  // namespace

RowDialect::RowDialect(DialectId id, std::string_view name, std::span<const OpRow> rows, uint32_t first_id)
    : id_(id), name_(name) {
  for (const OpRow& row : rows) {
    Op op;
    op.dialect = id;
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

const Op* RowDialect::find(std::string_view domain, std::string_view name, int /*version*/) const {
  const std::tuple wanted(domain, name);
  const auto at = std::ranges::lower_bound(by_name_, wanted, {}, key);
  return at != by_name_.end() && key(*at) == wanted ? *at : nullptr;
}

int RowDialect::latest_version(std::string_view domain) const {
  return std::ranges::find(ops_, domain, &Op::domain) != ops_.end() ? 1 : 0;
}

}  // namespace sardonyx
