// The registry of dialects, filled once by the layer that defines them.
#include <array>
#include <iterator>
#include <mutex>

#include "sardonyx/error.h"
#include "sardonyx/op.h"

namespace sardonyx {

// Defined in src/dialects/registration.cc. Referenced here so that every program that links the library has
// every dialect: the linker would drop self-registering objects from an archive.
void register_all_dialects();

namespace {

std::array<const Dialect*, std::size(kDialects)> g_dialects{};
uint32_t g_op_count = 0;
std::once_flag g_once;

void ensure_registered() { std::call_once(g_once, register_all_dialects); }

}  // namespace

void register_dialect(const Dialect& d, uint32_t op_count) {
  const auto index = static_cast<size_t>(d.id());
  SX_CHECK(index < g_dialects.size() && g_dialects[index] == nullptr, "a dialect was registered twice");
  SX_CHECK(d.ops().size() == op_count);
  SX_CHECK(op_count == 0 || (d.ops().front().id == g_op_count && d.ops().back().id == g_op_count + op_count - 1),
           "op ids do not continue those of the dialects before");
  g_dialects[index] = &d;
  g_op_count += op_count;
}

uint32_t known_op_count() {
  ensure_registered();
  return g_op_count;
}

const Dialect& dialect(DialectId id) {
  ensure_registered();
  const auto index = static_cast<size_t>(id);
  SX_CHECK(index < g_dialects.size() && g_dialects[index] != nullptr, "this dialect has no operator table");
  return *g_dialects[index];
}

}  // namespace sardonyx
