#include "dialects/jax/dialect.h"

#include "dialects/row_dialect.h"

namespace sardonyx::jax {
namespace {

using namespace row_traits;

constexpr OpRow kRows[] = {
#define JAX_OP(name, min_in, max_in, min_out, max_out, traits) {"", name, min_in, max_in, min_out, max_out, traits},
#include "dialects/jax/ops.def"
#undef JAX_OP
};

}  // namespace

uint32_t register_dialect(uint32_t first_id) {
  static const RowDialect table(DialectId::kJax, "jax", kRows, first_id);
  const auto count = static_cast<uint32_t>(table.ops().size());
  sardonyx::register_dialect(table, count);
  return count;
}

}  // namespace sardonyx::jax
