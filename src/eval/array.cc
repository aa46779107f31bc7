#include <algorithm>
#include <cstring>

#include "eval/elements.h"
#include "ir/tensor/tensor_view.h"
#include "sardonyx/error.h"
#include "sardonyx/eval.h"

namespace sardonyx {

using eval::product;
using eval::show;

size_t element_bytes(DType t) {
  if (t == DType::kString) return sizeof(std::string);
  return std::max<size_t>(1, static_cast<size_t>(bit_width(t)) / 8);
}

Array::Array(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides, std::byte* data,
             std::shared_ptr<const void> owner)
    : dtype_(dtype),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      size_(product(shape_)),
      data_(data),
      owner_(std::move(owner)) {}

Array::Array(DType dtype, std::vector<int64_t> shape, std::byte* data, std::shared_ptr<const void> owner)
    : dtype_(dtype), shape_(std::move(shape)), size_(product(shape_)), data_(data), owner_(std::move(owner)) {
  strides_ = dense_strides(shape_);
}

namespace {

// Storage for n elements outside any memory account. Array::of uses it for constants.
template <class T>
std::pair<T*, std::shared_ptr<const void>> storage(size_t n) {
  auto held = std::make_shared<std::vector<T>>(n);
  return {held->data(), held};
}

Array unpacked(const Tensor& t, std::span<const std::byte> bytes, int64_t stored) {
  const int bits = bit_width(t.dtype());
  auto [to, owner] = storage<uint8_t>(static_cast<size_t>(stored));
  for (int64_t i = 0; i < stored; ++i) {
    const int64_t bit = i * bits;
    unsigned u = static_cast<unsigned>(bytes[static_cast<size_t>(bit / 8)]) >> (bit % 8);
    // 3- and 6-bit elements may span two bytes.
    if (bit % 8 + bits > 8) u |= static_cast<unsigned>(bytes[static_cast<size_t>(bit / 8) + 1]) << (8 - bit % 8);
    u &= (1u << bits) - 1;
    if (is_signed(t.dtype()) && (u >> (bits - 1)) != 0) u |= ~0u << bits;
    to[i] = static_cast<uint8_t>(u);
  }
  return {t.dtype(), {stored}, reinterpret_cast<std::byte*>(to), owner};
}

}  // namespace

Array Array::of(TensorPtr t) {
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  if (t->dtype() == DType::kString) {
    auto* strings = const_cast<std::string*>(t->string_values().data());
    return {DType::kString, std::move(shape), reinterpret_cast<std::byte*>(strings), std::move(t)};
  }
  if (const TensorView* view = view_of(t)) return of(view->storage).view(std::move(shape), view->strides);
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner = t;
  if (t->is_deferred()) {
    auto held = std::make_shared<std::vector<std::byte>>();
    bytes = t->bytes(*held);
    owner = std::move(held);
  } else {
    bytes = t->stored_bytes();
  }
  const int64_t stored = t->is_splat() ? 1 : t->size();
  Array flat;
  const size_t width = element_bytes(t->dtype());
  if (bit_width(t->dtype()) < 8) {
    flat = unpacked(*t, bytes, stored);
  } else if (reinterpret_cast<uintptr_t>(bytes.data()) % std::min<size_t>(width, 8) != 0) {
    auto [to, held] = storage<uint64_t>((bytes.size() + 7) / 8);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());  // bytes.data() may be null when there are no bytes
    flat = Array(t->dtype(), {stored}, reinterpret_cast<std::byte*>(to), held);
  } else {
    flat = Array(t->dtype(), {stored}, const_cast<std::byte*>(bytes.data()), owner);
  }
  if (!t->is_splat()) return flat.reshaped(std::move(shape));
  std::vector<int64_t> none(shape.size(), 0);
  return flat.view(std::move(shape), std::move(none));
}

TensorPtr Array::to_tensor() const {
  if (dtype_ == DType::kString) {
    std::vector<std::string> values;
    for (int64_t i = 0; i < size_; ++i) values.push_back(string_at(i));
    return Tensor::strings(shape_, std::move(values));
  }
  const int bits = bit_width(dtype_);
  if (is_splat()) return Tensor::splat(dtype_, shape_, {data_, element_bytes(dtype_)});
  if (bits >= 8 && is_dense()) {
    const std::span<const std::byte> bytes(data_, byte_size(dtype_, static_cast<uint64_t>(size_)));
    return Tensor::borrow(dtype_, shape_, bytes, owner_);
  }
  const size_t size = static_cast<size_t>(size_) * element_bytes(dtype_);
  const std::shared_ptr<std::byte[]> held(new std::byte[size]);  // left uninitialized: every byte is written
  Array dense(dtype_, shape_, held.get(), held);
  eval::copy_elements(*this, dense);
  if (bits >= 8) return Tensor::borrow(dtype_, shape_, {held.get(), size}, held);
  std::vector<std::byte> packed(byte_size(dtype_, static_cast<uint64_t>(size_)), std::byte{0});
  for (int64_t i = 0; i < size_; ++i) {
    const auto code = static_cast<unsigned>(held[static_cast<size_t>(i)]) & ((1u << bits) - 1);
    const auto at = static_cast<size_t>(i * bits / 8);
    packed[at] |= static_cast<std::byte>(code << (i * bits % 8) & 0xff);
    if (i * bits % 8 + bits > 8) packed[at + 1] |= static_cast<std::byte>(code >> (8 - i * bits % 8));
  }
  return Tensor::own(dtype_, shape_, std::move(packed));
}

bool Array::is_splat() const {
  for (size_t d = 0; d < rank(); ++d) {
    if (strides_[d] != 0 && shape_[d] != 1) return false;
  }
  return size_ > 1;
}

bool Array::is_dense() const {
  if (size_ <= 1) return true;
  int64_t step = 1;
  for (size_t d = shape_.size(); d-- > 0;) {
    if (shape_[d] != 1 && strides_[d] != step) return false;
    step *= shape_[d];
  }
  return true;
}

Array Array::view(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset) const {
  std::byte* first =
      data_ == nullptr ? nullptr : data_ + offset * static_cast<int64_t>(element_bytes(dtype_));  // null when it is empty
  return {dtype_, std::move(shape), std::move(strides), first, owner_};
}

Array Array::broadcast_to(std::span<const int64_t> shape) const {
  if (std::ranges::equal(shape, shape_)) return *this;
  const size_t lead = shape.size() - std::min(shape.size(), rank());
  bool fits = rank() <= shape.size();
  std::vector<int64_t> strides(shape.size(), 0);
  for (size_t d = 0; d < rank() && fits; ++d) {
    fits = shape_[d] == shape[lead + d] || shape_[d] == 1;
    if (shape_[d] != 1) strides[lead + d] = strides_[d];
  }
  if (!fits) throw Error(ErrorCode::kInvalidModel, "the shape " + show(shape_) + " does not broadcast to " + show(shape));
  return view({shape.begin(), shape.end()}, std::move(strides));
}

Array Array::transposed(std::span<const int64_t> perm) const {
  std::vector<int64_t> shape, strides;
  for (int64_t p : perm) {
    const auto axis = static_cast<size_t>(p);
    if (axis >= shape_.size()) no_axis(axis);
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  return view(std::move(shape), std::move(strides));
}

Array Array::reshaped(std::vector<int64_t> shape) const {
  if (product(shape) != size_) {
    throw Error(ErrorCode::kInvalidModel, "the shape " + show(shape_) + " cannot become " + show(shape));
  }
  SX_CHECK(is_dense());
  return {dtype_, std::move(shape), data_, owner_};
}

void Array::no_axis(size_t axis) const {
  throw Error(ErrorCode::kInvalidModel, "a tensor of shape " + show(shape_) + " has no axis " + std::to_string(axis));
}

int64_t Array::place(int64_t i) const {
  // Some models make kernels look for a number in an empty tensor.
  if (i < 0 || i >= size_) {
    throw Error(ErrorCode::kInvalidModel, "a tensor of shape " + show(shape_) + " has no element " + std::to_string(i));
  }
  int64_t at = 0;
  for (size_t d = shape_.size(); d-- > 0;) {
    at += i % shape_[d] * strides_[d];
    i /= shape_[d];
  }
  return at;
}

int64_t Array::int_at(int64_t i) const {
  int64_t v = 0;
  return *eval::load<int64_t>(*this, place(i), 1, 1, &v);
}

double Array::double_at(int64_t i) const {
  double v = 0;
  return *eval::load<double>(*this, place(i), 1, 1, &v);
}

const std::string& Array::string_at(int64_t i) const {
  if (dtype_ != DType::kString) {
    throw Error(ErrorCode::kInvalidModel, "expected strings, found elements of " + std::string(to_string(dtype_)));
  }
  return as<std::string>()[place(i)];
}

std::string describe(const EvalValue& v) {
  if (const Array* a = v.array()) return std::string(to_string(a->dtype())) + show(a->shape());
  if (const auto* items = v.items()) return "sequence of " + std::to_string(items->size());
  if (const EvalOptional* o = v.optional()) return o->value ? "optional (" + describe(*o->value) + ")" : "optional (empty)";
  if (v.map() != nullptr) return "map";
  if (const EvalState* s = v.state()) return "state (" + describe(EvalValue(s->content)) + ")";
  return "nothing";
}

}  // namespace sardonyx
