#include "ir/tensor_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/tensor_view.h"

namespace sardonyx {
namespace {

constexpr size_t kDeferBytes = 64 << 10;
constexpr int64_t kCastElements = 1024;

// `count` elements that stand `step` elements apart.
template <class T>
void gather_elements(const std::byte* from, int64_t step, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), from + i * step * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

void gather(const std::byte* from, int64_t step, int64_t count, size_t width, std::byte* to) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * width);
    return;
  }
  switch (width) {
    case 1: return gather_elements<uint8_t>(from, step, count, to);
    case 2: return gather_elements<uint16_t>(from, step, count, to);
    case 4: return gather_elements<uint32_t>(from, step, count, to);
    case 8: return gather_elements<uint64_t>(from, step, count, to);
    default:
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + static_cast<size_t>(i) * width, from + i * step * static_cast<int64_t>(width), width);
  }
}

// Elements of the permuted tensor from index `first` on, in its row-major order; the innermost loop runs along its last axis.
void transpose_bytes(const std::byte* src, std::span<std::byte> out, int64_t first, size_t width,
                     std::span<const int64_t> shape, std::span<const int64_t> perm) {
  if (out.empty()) return;
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1), extent(rank), step(rank), at(rank, 0);
  for (size_t i = rank - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  for (size_t i = rank; i-- > 0;) {
    extent[i] = shape[static_cast<size_t>(perm[i])];
    step[i] = strides[static_cast<size_t>(perm[i])];
    at[i] = first % extent[i];
    first /= extent[i];
  }
  std::byte* to = out.data();
  for (auto left = static_cast<int64_t>(out.size() / width); left > 0;) {
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) offset += at[i] * step[i];
    const std::byte* from = src + offset * static_cast<int64_t>(width);
    const int64_t columns = std::min(left, extent[rank - 1] - at[rank - 1]);
    gather(from, step[rank - 1], columns, width, to);
    to += static_cast<size_t>(columns) * width;
    left -= columns;
    at[rank - 1] = 0;
    for (size_t i = rank - 1; i-- > 0;) {
      if (++at[i] < extent[i]) break;
      at[i] = 0;
    }
  }
}

}  // namespace

bool can_transpose(const Tensor& t) { return bit_width(t.dtype()) >= 8 && t.rank() > 0; }

TensorPtr transposed(const TensorPtr& t, const std::vector<int64_t>& perm) {
  std::vector<int64_t> shape;
  for (int64_t p : perm) shape.push_back(t->shape()[static_cast<size_t>(p)]);
  if (t->is_splat()) return t->reshaped(std::move(shape));
  if (t->byte_size() > kDeferBytes) {
    if (TensorPtr view = transposed_view(t, perm)) return view;
  }
  const auto fill = [t, perm](int64_t first, std::span<std::byte> out) {
    std::vector<std::byte> scratch;
    transpose_bytes(t->bytes(scratch).data(), out, first, static_cast<size_t>(bit_width(t->dtype())) / 8, t->shape(), perm);
  };
  if (t->byte_size() > kDeferBytes) {
    return Tensor::defer(t->dtype(), std::move(shape), [fill, size = t->byte_size()] {  // the source is computed once
      std::vector<std::byte> out(size);
      fill(0, out);
      return out;
    });
  }
  std::vector<std::byte> out(t->byte_size());
  fill(0, out);
  return Tensor::own(t->dtype(), std::move(shape), std::move(out));
}

bool can_cast(const Tensor& t, DType to) {
  const auto plain = [](DType d) {
    return is_integer(d) || d == DType::kBool || d == DType::kF32 || d == DType::kF64 || d == DType::kF16 || d == DType::kBF16;
  };
  if (t.size() > kCastElements || t.is_deferred() || !plain(t.dtype()) || !plain(to) || bit_width(t.dtype()) < 8 ||
      bit_width(to) < 8)
    return false;
  if (!is_float(t.dtype()) || is_float(to) || to == DType::kBool) return true;
  const double limit = std::ldexp(1.0, std::min(63, bit_width(to) - (is_signed(to) ? 1 : 0)));
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = t.as_double(i);
    if (!(v < limit && v >= (is_signed(to) ? -limit : 0.0))) return false;
  }
  return true;
}

TensorPtr casted(const Tensor& t, DType to) {
  std::vector<std::byte> out(byte_size(to, static_cast<uint64_t>(t.size())));
  const auto width = static_cast<size_t>(bit_width(to)) / 8;
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_float(to)) {
      encode_element(to, out.data(), i, t.as_double(i));
      continue;
    }
    // Integers keep their low bits; truth is "not zero".
    int64_t v = is_float(t.dtype()) ? static_cast<int64_t>(t.as_double(i)) : t.as_int(i);
    if (to == DType::kBool) v = is_float(t.dtype()) ? t.as_double(i) != 0 : v != 0;
    std::memcpy(out.data() + static_cast<size_t>(i) * width, &v, width);
  }
  return Tensor::own(to, {t.shape().begin(), t.shape().end()}, std::move(out));
}

}  // namespace sardonyx
