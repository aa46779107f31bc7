#include "lower/jax_to_onnx/params.h"

#include <fmt/format.h>

#include <algorithm>

namespace sardonyx::jax_to_onnx {
namespace {

[[noreturn]] void unexpected(const Lowering& ctx, const Attr& a, std::string_view what, std::string_view wanted) {
  ctx.unsupported(fmt::format("{} is {} where {} is expected", what, to_string(a, ctx.b.types()), wanted));
}

}  // namespace

std::vector<int64_t> ints_of(const Lowering& ctx, const Attr& a, std::string_view what) {
  if (const auto* v = a.get<Attr::Ints>()) return *v;
  if (const auto* v = a.get<AttrList>(); v != nullptr && v->empty()) return {};
  if (const auto* v = a.get<Attr::DimList>(); v != nullptr && std::ranges::all_of(*v, [](Dim d) { return d.is_int(); })) {
    std::vector<int64_t> out;
    for (Dim d : *v) out.push_back(d.value());
    return out;
  }
  unexpected(ctx, a, what, "a tuple of integers");
}

const Attr& field_of(const Lowering& ctx, const Attr& tuple, std::string_view name) {
  if (const auto* fields = tuple.get<AttrDict>()) {
    for (const auto& [key, value] : *fields) {
      if (key == name) return value;
    }
  }
  unexpected(ctx, tuple, "a parameter", fmt::format("a named tuple with a field '{}'", name));
}

std::vector<int64_t> ints_field(const Lowering& ctx, const Attr& tuple, std::string_view name) {
  return ints_of(ctx, field_of(ctx, tuple, name), name);
}

std::vector<std::vector<int64_t>> rows_of(const Lowering& ctx, const Attr& a, std::string_view what) {
  const auto* rows = a.get<AttrList>();
  std::vector<std::vector<int64_t>> out;
  if (rows == nullptr) {
    if (const auto* none = a.get<Attr::Ints>(); none != nullptr && none->empty()) return out;
    unexpected(ctx, a, what, "a tuple of tuples of integers");
  }
  for (const Attr& row : *rows) out.push_back(ints_of(ctx, row, what));
  return out;
}

}  // namespace sardonyx::jax_to_onnx
