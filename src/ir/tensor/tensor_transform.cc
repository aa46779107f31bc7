#include "ir/tensor/tensor_transform.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/tensor/tensor_view.h"

namespace sardonyx {
namespace {

constexpr size_t kDeferBytes = 64 << 10;
constexpr int64_t kCastElements = 1024;

}  // namespace

bool can_transpose(const Tensor& t) { return bit_width(t.dtype()) >= 8 && t.rank() > 0; }

TensorPtr transposed(const TensorPtr& t, const std::vector<int64_t>& perm) {
  std::vector<int64_t> shape;
  for (int64_t p : perm) shape.push_back(t->shape()[static_cast<size_t>(p)]);
  if (t->is_splat()) return t->reshaped(std::move(shape));
  if (t->byte_size() > kDeferBytes) {
    if (TensorPtr view = transposed_view(t, perm)) return view;
  }
  const auto compute = [t, perm, shape] {
    const std::vector<int64_t> steps = dense_strides(t->shape());
    std::vector<int64_t> strides;
    for (int64_t p : perm) strides.push_back(steps[static_cast<size_t>(p)]);
    std::vector<std::byte> scratch, out(t->byte_size());
    copy_strided(t->bytes(scratch).data(), static_cast<size_t>(bit_width(t->dtype())) / 8, shape, strides, 0, out);
    return out;
  };
  if (t->byte_size() > kDeferBytes)
    return Tensor::defer(t->dtype(), std::move(shape), compute);  // computes the source only once
  return Tensor::own(t->dtype(), shape, compute());
}

bool can_cast(const Tensor& t, DType to) {
  const auto plain = [](DType d) {
    return is_integer(d) || d == DType::kBool || d == DType::kF32 || d == DType::kF64 || d == DType::kF16 || d == DType::kBF16;
  };
  if (t.size() > kCastElements || t.is_deferred() || !plain(to) || bit_width(to) < 8) return false;
  if (!plain(t.dtype()) && !is_float(t.dtype())) return false;
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
    // Integers keep their low bits; for bool, nonzero is true.
    int64_t v = is_float(t.dtype()) ? static_cast<int64_t>(t.as_double(i)) : t.as_int(i);
    if (to == DType::kBool) v = is_float(t.dtype()) ? t.as_double(i) != 0 : v != 0;
    std::memcpy(out.data() + static_cast<size_t>(i) * width, &v, width);
  }
  return Tensor::own(to, {t.shape().begin(), t.shape().end()}, std::move(out));
}

std::vector<double> doubles(const Tensor& t) {
  std::vector<double> out(static_cast<size_t>(t.size()));
  std::vector<std::byte> scratch;
  if (t.is_splat()) {
    std::fill(out.begin(), out.end(), t.as_double(0));
    return out;
  }
  const auto bytes = t.bytes(scratch);
  for (size_t i = 0; i < out.size(); ++i) out[i] = decode_element(t.dtype(), bytes.data(), static_cast<int64_t>(i));
  return out;
}

TensorPtr tensor_of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& elements) {
  std::vector<std::byte> bytes(byte_size(dtype, elements.size()));
  for (size_t i = 0; i < elements.size(); ++i) encode_element(dtype, bytes.data(), static_cast<int64_t>(i), elements[i]);
  return Tensor::own(dtype, std::move(shape), std::move(bytes));
}

}  // namespace sardonyx
