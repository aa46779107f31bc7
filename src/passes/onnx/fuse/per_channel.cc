#include "passes/onnx/fuse/per_channel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kDeferBytes = 64 << 10;

bool is_made(const Value& v) { return v.def() != nullptr && v.def()->is("ConstantOfShape"); }

// Elements per step, so that the compiler vectorizes the loop.
constexpr int64_t kAtOnce = 16;

// at[k] = made_of(at[k], factors[k * step]), where step is 0 or 1; neither end need be aligned.
template <class T, int64_t step>
void each(std::byte* at, const T* factors, int64_t count, const auto& made_of) {
  T v[kAtOnce];
  for (; count >= kAtOnce; count -= kAtOnce, at += sizeof v, factors += step * kAtOnce) {
    std::memcpy(v, at, sizeof v);
    for (int64_t k = 0; k < kAtOnce; ++k) v[k] = made_of(v[k], factors[k * step]);
    std::memcpy(at, v, sizeof v);
  }
  for (int64_t k = 0; k < count; ++k) {
    std::memcpy(v, at + k * static_cast<int64_t>(sizeof(T)), sizeof(T));
    v[0] = made_of(v[0], factors[k * step]);
    std::memcpy(at + k * static_cast<int64_t>(sizeof(T)), v, sizeof(T));
  }
}

// Scales the elements from `first` on, where each row has `row` elements.
template <class T>
void scale_elements(std::span<std::byte> bytes, int64_t first, int64_t row, const ChannelRows& rows, std::span<const T> factors,
                    bool divide) {
  const auto part = [divide]<int64_t step>(std::byte* at, const T* f, int64_t count, std::integral_constant<int64_t, step>) {
    if (divide) {
      each<T, step>(at, f, count, [](T v, T by) { return v / by; });
    } else {
      each<T, step>(at, f, count, [](T v, T by) { return v * by; });
    }
  };
  std::byte* at = bytes.data();
  const int64_t last = first + static_cast<int64_t>(bytes.size() / sizeof(T));
  for (int64_t i = first, end; i < last; at += (end - i) * static_cast<int64_t>(sizeof(T)), i = end) {
    const int64_t r = i / row;
    const T* f = factors.data() + rows.channel(r);
    if (row == 1) {  // one factor per element, in sequence until the channels wrap around
      end = std::min(last, r - r % rows.modulo + rows.modulo);
      part(at, f, end - i, std::integral_constant<int64_t, 1>{});
    } else {
      end = std::min(last, (r + 1) * row);
      part(at, f, end - i, std::integral_constant<int64_t, 0>{});
    }
  }
}

bool all_equal(const Channels& values) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
}

TensorPtr vector_of(DType dtype, const Channels& values) {
  std::vector<std::byte> bytes(byte_size(dtype, values.size()));
  for (size_t i = 0; i < values.size(); ++i) encode_element(dtype, bytes.data(), static_cast<int64_t>(i), values[i]);
  return Tensor::own(dtype, {static_cast<int64_t>(values.size())}, std::move(bytes));
}

}  // namespace

TensorPtr known_elements(const Value& v) {
  if (v.is_constant()) return v.constant();
  const Node* n = v.def();
  if (n == nullptr || !n->is("ConstantOfShape") || n->unchecked() || v.type() == nullptr || !v.type()->is_static())
    return nullptr;
  std::vector<int64_t> shape;
  for (Dim d : v.type()->dims()) shape.push_back(d.value());
  const TensorPtr number = repeated_number(*n);
  if (number == nullptr || number->is_deferred()) return nullptr;
  return Tensor::splat(number->dtype(), std::move(shape), number->stored_bytes());
}

Value* known_like(Rewriter& b, const Value& old, TensorPtr elements) {
  if (!is_made(old)) return b.constant(std::move(elements), old.name().view());
  if (!elements->is_splat() && elements->size() != 1) return nullptr;
  const auto shape = elements->shape();
  const TensorPtr one = Tensor::own(elements->dtype(), {1}, {elements->stored_bytes().begin(), elements->stored_bytes().end()});
  return b.op("ConstantOfShape", {b.i64s(shape)}, {attr("value", one)});
}

Value* channel_constant(Rewriter& b, DType dtype, const Channels& values, std::span<const Value* const> olds) {
  const auto is_list = [&](const Value* v) {
    return v != nullptr && v->is_constant() && v->constant()->size() == static_cast<int64_t>(values.size());
  };
  const bool made = std::any_of(olds.begin(), olds.end(), [](const Value* v) { return v != nullptr && is_made(*v); });
  if (!made || std::any_of(olds.begin(), olds.end(), is_list)) return b.constant(vector_of(dtype, values));
  if (!all_equal(values)) return nullptr;
  const auto one = Tensor::full(dtype, {1}, values.front());
  return b.op("ConstantOfShape", {b.i64s({static_cast<int64_t>(values.size())})}, {attr("value", one)});
}

Channels numbers(const Tensor& t, int64_t count) {
  Channels out(static_cast<size_t>(count));
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  for (int64_t i = 0; i < count; ++i)
    out[static_cast<size_t>(i)] = decode_element(t.dtype(), bytes.data(), t.size() == 1 ? 0 : i);
  return out;
}

bool can_scale(const Channels& factors, bool divide, DType dtype) {
  const double most = dtype == DType::kF16 ? 512 : 1e15;
  return std::all_of(factors.begin(), factors.end(),
                     [&](double f) { return std::isfinite(f) && (divide ? std::abs(f) >= 1 / most : std::abs(f) <= most); });
}

TensorPtr scaled(const TensorPtr& t, ChannelRows rows, Channels factors, bool divide) {
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  if (t->is_splat() && !factors.empty() && all_equal(factors)) {
    const double v = decode_element(t->dtype(), t->stored_bytes().data(), 0);
    return Tensor::full(t->dtype(), std::move(shape), divide ? v / factors.front() : v * factors.front());
  }
  std::vector<float> singles;
  if (t->dtype() == DType::kF32) singles.assign(factors.begin(), factors.end());
  const auto fill = [t, rows, singles = std::move(singles), factors = std::move(factors), divide](int64_t first,
                                                                                                  std::span<std::byte> out) {
    t->read(first, out);
    const int64_t row = rows.rows == 0 ? 1 : t->size() / rows.rows;
    if (t->dtype() == DType::kF32) {
      scale_elements<float>(out, first, row, rows, singles, divide);
    } else if (t->dtype() == DType::kF64) {
      scale_elements<double>(out, first, row, rows, factors, divide);
    } else {
      const auto factor = [&](int64_t r) { return factors[static_cast<size_t>(rows.channel(r))]; };
      const auto count = static_cast<int64_t>(out.size() / (static_cast<size_t>(bit_width(t->dtype())) / 8));
      for (int64_t i = 0; i < count; ++i) {
        const double v = decode_element(t->dtype(), out.data(), i), f = factor((first + i) / row);
        encode_element(t->dtype(), out.data(), i, divide ? v / f : v * f);
      }
    }
  };
  if (t->byte_size() > kDeferBytes && t->reads_in_pieces()) return Tensor::defer(t->dtype(), std::move(shape), fill);
  const auto whole = [fill, size = t->byte_size()] {
    std::vector<std::byte> out(size);
    fill(0, out);
    return out;
  };
  if (t->byte_size() > kDeferBytes) return Tensor::defer(t->dtype(), std::move(shape), whole);
  return Tensor::own(t->dtype(), std::move(shape), whole());
}

bool is_per_channel(const Type* constant, size_t rank, size_t axis, int64_t count) {
  if (constant == nullptr || !constant->is_static() || constant->rank() > rank) return false;
  for (size_t i = 0; i < constant->rank(); ++i) {
    const size_t at = rank - constant->rank() + i;
    if (!constant->dim(i).is(1) && !(at == axis && constant->dim(i).is(count))) return false;
  }
  return true;
}

}  // namespace sardonyx::onnx
