//   concat(slice [k, n) of x, slice [0, k) of x)    =>    gather(x, k, ..., n - 1, 0, ..., k - 1)
//
// A roll, for which ONNX has no operator, along the axis of the concat. The slices must have no other user.
// coremltools has no such pass: it writes a gather for PyTorch's roll.
#include "passes/mil/fuse/slices.h"

namespace sardonyx::mil {
namespace {

Value* rolled(Rewriter& b, const Match& found) {
  Node& root = found.root();
  const Concat concat(root, b.facts());
  const std::vector<Value*> values = concat.values();
  const auto axis = concat.axis();
  if (values.size() != 2 || !axis || concat.interleave() || !values[0]->ranked()) return nullptr;
  std::optional<AxisSlice> pieces[2];
  for (size_t i = 0; i < 2; ++i) {
    Node* n = values[i]->def();
    if (n == nullptr || !values[i]->has_one_use() || n->graph() != root.graph()) return nullptr;
    pieces[i] = axis_slice(*n, b.context());
    if (!pieces[i]) return nullptr;
  }
  const AxisSlice &last = *pieces[0], &first = *pieces[1];
  if (last.x != first.x || last.axis != *axis || first.axis != *axis) return nullptr;
  if (first.begin != 0 || first.end != last.begin || last.end != last.size) return nullptr;
  std::vector<int32_t> places;
  for (int64_t i = 0; i < last.size; ++i) places.push_back(static_cast<int32_t>((i + last.begin) % last.size));
  Value* indices = b.constant(Tensor::of<int32_t>(DType::kI32, {last.size}, places));
  return b.gather(last.x, indices, {.axis = static_cast<int64_t>(*axis)});
}

}  // namespace

Pass fuse_slices_into_gather() {
  namespace m = pattern::mil;
  return Rule{.match = m::concat(), .build = rolled};
}

}  // namespace sardonyx::mil
