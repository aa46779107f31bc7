#include "dialects/stablehlo/dialect.h"

#include "dialects/row_dialect.h"

namespace sardonyx::stablehlo {
namespace {

using namespace row_traits;

constexpr OpRow kRows[] = {
#define STABLEHLO_OP(domain, name, min_in, max_in, min_out, max_out, traits) \
  {domain, name, min_in, max_in, min_out, max_out, traits},
#include "dialects/stablehlo/ops.def"
#undef STABLEHLO_OP
};

}  // namespace

uint32_t register_dialect(uint32_t first_id) {
  static const RowDialect table(DialectId::kStablehlo, "stablehlo", kRows, first_id);
  const auto count = static_cast<uint32_t>(table.ops().size());
  sardonyx::register_dialect(table, count);
  return count;
}

}  // namespace sardonyx::stablehlo
