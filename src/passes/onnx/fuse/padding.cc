#include "passes/onnx/fuse/padding.h"

#include "dialects/onnx/readers.h"

namespace sardonyx::onnx {

std::optional<std::vector<int64_t>> pads_of(const Node& pad, PassContext& c) {
  const Value* v = pad.input(0);
  if (v == nullptr || !v->ranked()) return std::nullopt;
  const size_t rank = v->type()->rank();
  auto pads = pad.op().since_version < 11 ? ints_attr(pad, "pads") : c.ints(pad.input(1));
  if (!pads) return std::nullopt;
  if (pad.input(3) == nullptr) return pads->size() == 2 * rank ? pads : std::nullopt;
  const auto axes = read::OpReader(pad, c.facts).axes_at(3, rank);
  if (!axes || pads->size() != 2 * axes->size()) return std::nullopt;
  std::vector<int64_t> all(2 * rank, 0);
  for (size_t i = 0; i < axes->size(); ++i) {
    const auto axis = static_cast<size_t>((*axes)[i]);
    all[axis] = (*pads)[i];
    all[rank + axis] = (*pads)[axes->size() + i];
  }
  return all;
}

std::optional<double> fill_of(const Node& pad, PassContext& c) {
  if (pad.op().since_version < 11) return float_attr(pad, "value");
  return pad.input(2) == nullptr ? std::optional(0.0) : pad.input(2)->is_constant() ? c.splat(pad.input(2)) : std::nullopt;
}

bool counts_wrongly(const Node& average, std::span<const int64_t> pads) {
  return average.op().since_version >= 19 &&
         std::ranges::any_of(pads.subspan(pads.size() / 2), [](int64_t p) { return p > 0; });
}

}  // namespace sardonyx::onnx
