//   dequantize(constant)    =>    constexpr_affine_dequantize            (before iOS 18)
//                                 constexpr_blockwise_shift_scale        (from iOS 18 on)
//
// No pass folds these, so weights stay small in the file. From iOS 18 on, scale and zero point have the rank
// of the data, zero points of zero are left out, and numbers that fit into 4 bits are stored in 4 bits. These
// ops do not take scalars. After coremltools' pass of this name.
#include <fmt/format.h>

#include <algorithm>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr int kIos18 = 9;

// Whether all elements lie in [low, high].
bool within(const Tensor& t, int low, int high) {
  if (t.is_splat()) return t.as_int(0) >= low && t.as_int(0) <= high;
  std::vector<std::byte> piece(4096);
  for (int64_t first = 0; first < t.size(); first += static_cast<int64_t>(piece.size())) {
    const auto n = std::min(piece.size(), static_cast<size_t>(t.size() - first));
    t.read(first, std::span(piece).first(n));
    const bool inside = std::all_of(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n), [&](std::byte b) {
      const auto u = static_cast<uint8_t>(b);
      const int v = t.dtype() == DType::kI8 ? static_cast<int8_t>(u) : u;
      return v >= low && v <= high;
    });
    if (!inside) return false;
  }
  return true;
}

// 8-bit integers, packed two to a byte.
TensorPtr packed(const TensorPtr& t, DType to) {
  const auto pack = [t, to] {
    std::vector<std::byte> scratch, out(byte_size(to, static_cast<uint64_t>(t->size())));
    const auto from = t->bytes(scratch);
    for (size_t i = 0; i < from.size(); ++i) out[i / 2] |= (from[i] & std::byte{0xf}) << (i % 2 == 0 ? 0 : 4);
    return out;
  };
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  constexpr size_t kDeferBytes = 64 << 10;
  if (t->byte_size() > kDeferBytes) return Tensor::defer(to, std::move(shape), pack);
  return Tensor::own(to, std::move(shape), pack());
}

Value* affine(Rewriter& b, const Dequantize& n, const TensorPtr& data) {
  if (data->rank() == 0) return nullptr;
  Value *zero = n.zero_point(), *axis = n.value_in("axis");
  // The op requires scalars if a parameter has one element.
  const auto squeezed = [](Value* v) -> Rewriter::Numbers {
    if (v->constant()->size() != 1) return v;
    return v->constant()->reshaped({});
  };
  return b.constexpr_affine_dequantize({.axis = axis != nullptr ? Rewriter::Ints(axis) : 0,
                                        .quantized_data = n.input(),
                                        .scale = squeezed(n.scale()),
                                        .zero_point = zero != nullptr ? squeezed(zero) : b.scalar_int(data->dtype(), 0)});
}

// One scale, or one per element of the data along the axis; and as many zero points.
bool sizes_agree(const Dequantize& n, const Tensor& data) {
  const Tensor& scale = *n.scale()->constant();
  if (n.zero_point() != nullptr && n.zero_point()->constant()->size() != scale.size()) return false;
  if (scale.size() == 1) return true;
  const auto axis = n.axis();
  return axis && data.shape()[*axis] == scale.size();
}

Value* blockwise(Rewriter& b, const Dequantize& n, const TensorPtr& data) {
  const size_t rank = data->rank();
  if (rank == 0) return nullptr;
  const TensorPtr scale = n.scale()->constant();
  std::vector<int64_t> shape(rank, 1);
  if (scale->size() != 1) shape[*n.axis()] = scale->size();
  TensorPtr zero;
  if (const Value* z = n.zero_point()) {
    const std::vector<double> all = doubles(*z->constant());
    if (std::ranges::any_of(all, [](double v) { return v != 0; })) zero = z->constant()->reshaped(shape);
  }
  const bool negative = data->dtype() == DType::kI8;
  const int low = negative ? -8 : 0, high = negative ? 7 : 15;
  const DType narrow = negative ? DType::kI4 : DType::kU4;
  const bool fits = within(*data, low, high) && (zero == nullptr || within(*zero, low, high));
  const Rewriter::Numbers stored = fits ? Rewriter::Numbers(packed(data, narrow)) : n.input();
  if (fits && zero != nullptr) zero = packed(zero, narrow);
  return b.constexpr_blockwise_shift_scale({.data = stored, .offset = zero, .scale = scale->reshaped(shape)});
}

}  // namespace

Pass dequantize_to_constexpr() {
  using namespace pattern;
  namespace m = pattern::mil;
  static constexpr Var x{"x"};
  return Rule{
      .match = m::dequantize(constant.as(x)),
      .when =
          [](const Match& found) {
            const Dequantize n(found.root(), found.context().facts);
            const Value* zero = n.zero_point();
            return !found[x]->constant()->is_promise() && n.scale()->is_constant() &&
                   (zero == nullptr || zero->is_constant()) && sizes_agree(n, *found[x]->constant());
          },
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const TensorPtr& data = found[x]->constant();
        const Dequantize n(found.root(), b.facts());
        Value* made = b.version() < kIos18 ? affine(b, n, data) : blockwise(b, n, data);
        const std::string_view name = found.root().name().view();
        if (made != nullptr && !name.empty()) {
          made->def()->set_name(b.model().name(fmt::format("{}_affine_dequantized", name)));
          if (!is_graph_result(*found.root().result())) made->set_name(made->def()->name());
        }
        return made;
      },
  };
}

}  // namespace sardonyx::mil
