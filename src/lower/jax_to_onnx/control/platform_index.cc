// platform_index[platforms]   =>   a constant: the position of "cpu", else of the default (None)
//
// ONNX has no platforms: the CPU branch is used everywhere.
#include <algorithm>

#include "sardonyx/lower.h"

namespace sardonyx::jax_to_onnx {

std::vector<Value*> lower_platform_index(Lowering& ctx) {
  const auto* branches = ctx.param("platforms").get<AttrList>();
  if (branches == nullptr) ctx.unsupported("the platforms are not a list");
  std::optional<size_t> otherwise;
  for (size_t i = 0; i < branches->size(); ++i) {
    const Attr& branch = (*branches)[i];
    if (branch.is_none()) otherwise = i;
    const auto* names = branch.get<Attr::Strings>();
    const auto* list = branch.get<AttrList>();
    bool is_ours = names != nullptr && std::ranges::find(*names, "cpu") != names->end();
    for (size_t k = 0; list != nullptr && k < list->size(); ++k)
      is_ours = is_ours || ((*list)[k].get<std::string>() != nullptr && *(*list)[k].get<std::string>() == "cpu");
    if (is_ours) return {ctx.b.scalar_int(ctx.out_dtype(), static_cast<int64_t>(i))};
  }
  if (!otherwise) ctx.unsupported("no branch for cpu, and no default");
  return {ctx.b.scalar_int(ctx.out_dtype(), static_cast<int64_t>(*otherwise))};
}

}  // namespace sardonyx::jax_to_onnx
