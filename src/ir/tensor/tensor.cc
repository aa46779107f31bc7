#include "sardonyx/tensor.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

std::string describe(DType dtype, std::span<const int64_t> shape) {
  std::string s(to_string(dtype));
  s += '[';
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? "," : "") + std::to_string(shape[i]);
  return s + ']';
}

int64_t element_count(DType dtype, std::span<const int64_t> shape) {
  if (std::ranges::any_of(shape, [](int64_t d) { return d < 0; })) {
    throw Error(ErrorCode::kInvalidModel, "tensor " + describe(dtype, shape) + " has a negative dimension");
  }
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  int64_t n = 1;
  for (int64_t d : shape) {
    if (__builtin_mul_overflow(n, d, &n)) {
      throw Error(ErrorCode::kLimit, "tensor " + describe(dtype, shape) + " has too many elements to count");
    }
  }
  return n;
}

// A byte filled with copies of a splat's sub-byte element.
std::byte spread(int width, std::byte element) {
  const unsigned low = static_cast<unsigned>(element) & ((1u << width) - 1);
  unsigned all = 0;
  for (int i = 0; i < 8; i += width) all |= low << i;
  return static_cast<std::byte>(all);
}

// The last byte of a sub-byte tensor with its unused bits cleared.
std::byte masked_tail(DType dtype, int64_t size, std::byte last) {
  const int used = static_cast<int>(static_cast<uint64_t>(size) * static_cast<uint64_t>(bit_width(dtype)) % 8);
  return used == 0 ? last : last & static_cast<std::byte>((1u << used) - 1);
}

}  // namespace

TensorPtr Tensor::own(DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*held);
  return borrow(dtype, std::move(shape), view, std::move(held));
}

TensorPtr Tensor::borrow(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                         std::shared_ptr<const void> keepalive, std::optional<FileRange> file) {
  struct Made : Tensor {};
  auto t = std::make_shared<Made>();
  t->dtype_ = dtype;
  t->size_ = element_count(dtype, shape);
  t->shape_ = std::move(shape);
  if (bit_width(dtype) == 0) {
    throw Error(ErrorCode::kInvalidModel, "elements of " + std::string(to_string(dtype)) + " have no bytes");
  }
  if (bytes.size() != t->byte_size()) {
    throw Error(ErrorCode::kInvalidModel, "tensor " + describe(dtype, t->shape_) + " has " + std::to_string(bytes.size()) +
                                              " bytes, expected " + std::to_string(t->byte_size()));
  }
  t->bytes_ = bytes;
  t->keepalive_ = std::move(keepalive);
  t->file_ = file;
  return t;
}

TensorPtr Tensor::splat(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> element) {
  const int width = bit_width(dtype);
  SX_CHECK(width > 0 && element.size() == static_cast<size_t>(width + 7) / 8, "one element expected");
  std::vector<std::byte> one(element.begin(), element.end());
  if (width < 8) one[0] &= static_cast<std::byte>((1u << width) - 1);
  const int64_t size = element_count(dtype, shape);
  if (size == 1) return own(dtype, std::move(shape), std::move(one));
  if (size == 0) return own(dtype, std::move(shape), {});
  struct Made : Tensor {};
  auto t = std::make_shared<Made>();
  t->dtype_ = dtype;
  t->splat_ = true;
  t->size_ = size;
  t->shape_ = std::move(shape);
  auto held = std::make_shared<const std::vector<std::byte>>(std::move(one));
  t->bytes_ = *held;
  t->keepalive_ = std::move(held);
  (void)t->byte_size();  // throws if the dense form cannot exist
  return t;
}

TensorPtr Tensor::strings(std::vector<int64_t> shape, std::vector<std::string> values) {
  struct Made : Tensor {};
  auto t = std::make_shared<Made>();
  t->dtype_ = DType::kString;
  t->size_ = element_count(DType::kString, shape);
  t->shape_ = std::move(shape);
  if (static_cast<uint64_t>(t->size_) != values.size()) {
    throw Error(ErrorCode::kInvalidModel, "tensor " + describe(DType::kString, t->shape_) + " has " +
                                              std::to_string(values.size()) + " strings, expected " + std::to_string(t->size_));
  }
  t->strings_ = std::move(values);
  return t;
}

TensorPtr Tensor::defer(DType dtype, std::vector<int64_t> shape, std::function<std::vector<std::byte>()> compute) {
  SX_CHECK(compute != nullptr && bit_width(dtype) > 0);
  struct Made : Tensor {};
  auto t = std::make_shared<Made>();
  t->dtype_ = dtype;
  t->size_ = element_count(dtype, shape);
  t->shape_ = std::move(shape);
  t->compute_ = std::move(compute);
  (void)t->byte_size();
  return t;
}

TensorPtr Tensor::defer(DType dtype, std::vector<int64_t> shape, Fill fill) {
  SX_CHECK(fill != nullptr && bit_width(dtype) >= 8);
  struct Made : Tensor {};
  auto t = std::make_shared<Made>();
  t->dtype_ = dtype;
  t->size_ = element_count(dtype, shape);
  t->shape_ = std::move(shape);
  t->fill_ = std::move(fill);
  (void)t->byte_size();
  return t;
}

void Tensor::read(int64_t first, std::span<std::byte> out) const {
  const auto width = static_cast<size_t>(bit_width(dtype_)) / 8;
  SX_CHECK(width > 0 && first >= 0 && out.size() % width == 0 && static_cast<size_t>(first) * width + out.size() <= byte_size(),
           "elements from " + std::to_string(first) + " of " + describe(dtype_, shape_));
  if (out.empty()) return;
  if (fill_) {
    fill_(first, out);
  } else if (splat_) {
    for (size_t i = 0; i < out.size(); i += width) std::memcpy(out.data() + i, bytes_.data(), width);
  } else {
    std::vector<std::byte> scratch;
    std::memcpy(out.data(), bytes(scratch).data() + static_cast<size_t>(first) * width, out.size());
  }
}

TensorPtr Tensor::promise(DType dtype, std::vector<int64_t> shape, uint64_t hash) {
  TensorPtr t = defer(dtype, shape, [dtype, shape]() -> std::vector<std::byte> {
    throw Error(ErrorCode::kUnsupported, "the values of a constant " + describe(dtype, shape) + " are not in the text",
                {"help: read the text together with its sidecar (.sxw), or print it with full constants"});
  });
  const_cast<Tensor&>(*t).promised_hash_ = hash;
  return t;
}

TensorPtr Tensor::scalar(int64_t v) { return of<int64_t>(DType::kI64, {}, {&v, 1}); }

TensorPtr Tensor::vector(std::span<const int64_t> v) { return of<int64_t>(DType::kI64, {static_cast<int64_t>(v.size())}, v); }

TensorPtr Tensor::full(DType dtype, std::vector<int64_t> shape, double value) {
  std::vector<std::byte> element(static_cast<size_t>(bit_width(dtype) + 7) / 8);
  encode_element(dtype, element.data(), 0, value);
  return splat(dtype, std::move(shape), element);
}

std::span<const std::byte> Tensor::bytes(std::vector<std::byte>& scratch) const {
  if (fill_) {
    scratch.resize(byte_size());
    fill_(0, scratch);
    return scratch;
  }
  if (compute_) {
    scratch = compute_();
    SX_CHECK(scratch.size() == byte_size(),
             "a deferred tensor " + describe(dtype_, shape_) + " computed " + std::to_string(scratch.size()) + " bytes");
    return scratch;
  }
  if (!splat_) return bytes_;
  const size_t total = byte_size();
  const size_t width = bytes_.size();
  if (width == 1) {
    const std::byte b = bit_width(dtype_) < 8 ? spread(bit_width(dtype_), bytes_[0]) : bytes_[0];
    scratch.assign(total, b);
    if (bit_width(dtype_) < 8) scratch.back() = masked_tail(dtype_, size_, scratch.back());
    return scratch;
  }
  scratch.resize(total);
  std::memcpy(scratch.data(), bytes_.data(), width);
  for (size_t done = width; done < total;) {  // copy by doubling
    const size_t n = std::min(done, total - done);
    std::memcpy(scratch.data() + done, scratch.data(), n);
    done += n;
  }
  return scratch;
}

int64_t Tensor::as_int(int64_t i) const {
  SX_CHECK(i >= 0 && i < size_, "element " + std::to_string(i) + " of " + describe(dtype_, shape_));
  if (is_deferred()) {
    std::vector<std::byte> scratch;
    return borrow(dtype_, shape_, bytes(scratch), nullptr)->as_int(i);
  }
  if (splat_) i = 0;
  const std::byte* at = bytes_.data();
  auto read = [&]<class T>(T v) {
    std::memcpy(&v, at + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    return static_cast<int64_t>(v);
  };
  switch (dtype_) {
    case DType::kI64: return read(int64_t{});
    case DType::kU64: return read(uint64_t{});
    case DType::kI32: return read(int32_t{});
    case DType::kU32: return read(uint32_t{});
    default: break;
  }
  const double d = decode_element(dtype_, at, i);
  if (std::isnan(d)) return 0;
  if (d >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (d < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(d);
}

double Tensor::as_double(int64_t i) const {
  SX_CHECK(i >= 0 && i < size_, "element " + std::to_string(i) + " of " + describe(dtype_, shape_));
  if (is_deferred()) {
    std::vector<std::byte> scratch;
    return decode_element(dtype_, bytes(scratch).data(), i);
  }
  return decode_element(dtype_, bytes_.data(), splat_ ? 0 : i);
}

std::optional<std::vector<int64_t>> Tensor::to_ints(int64_t limit) const {
  if (!(is_integer(dtype_) || dtype_ == DType::kBool) || size_ > limit) return std::nullopt;
  if (is_deferred()) {
    std::vector<std::byte> scratch;
    return borrow(dtype_, shape_, bytes(scratch), nullptr)->to_ints(limit);
  }
  std::vector<int64_t> out(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) out[static_cast<size_t>(i)] = as_int(i);
  return out;
}

namespace {

bool is_uniform(std::span<const std::byte> bytes, size_t width) {
  return bytes.size() >= width && std::memcmp(bytes.data(), bytes.data() + width, bytes.size() - width) == 0;
}

bool is_uniform_sub_byte(DType dtype, int64_t size, std::span<const std::byte> bytes, std::byte element) {
  const std::byte pattern = spread(bit_width(dtype), element);
  const auto body = bytes.first(bytes.size() - 1);
  return std::all_of(body.begin(), body.end(), [&](std::byte b) { return b == pattern; }) &&
         masked_tail(dtype, size, bytes.back()) == masked_tail(dtype, size, pattern);
}

// Calls f(bytes) for consecutive chunks of a tensor that reads in pieces, until f returns false.
template <class F>
void each_piece(const Tensor& t, const F& f) {
  constexpr size_t kPiece = size_t{4} << 20;
  const auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
  const auto most = static_cast<int64_t>(kPiece / width);
  std::vector<std::byte> piece(std::min(kPiece, t.byte_size()));
  for (int64_t first = 0; first < t.size(); first += most) {
    const auto bytes = std::span(piece).first(static_cast<size_t>(std::min(most, t.size() - first)) * width);
    t.read(first, bytes);
    if (!f(first, std::span<const std::byte>(bytes))) return;
  }
}

bool equal_in_pieces(const Tensor& a, const Tensor& b) {
  std::vector<std::byte> other;
  bool same = true;
  each_piece(a, [&](int64_t first, std::span<const std::byte> bytes) {
    other.resize(bytes.size());
    b.read(first, other);
    same = std::memcmp(bytes.data(), other.data(), bytes.size()) == 0;
    return same;
  });
  return same;
}

// Equals the hash of the same tensor in memory.
uint64_t hash_in_pieces(const Tensor& t, uint64_t seed) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset_withSeed(state.get(), seed);
  const auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
  std::vector<std::byte> element;
  bool uniform = true;
  each_piece(t, [&](int64_t first, std::span<const std::byte> bytes) {
    if (first == 0) element.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(width));
    uniform = uniform && is_uniform(bytes, width) && std::memcmp(bytes.data(), element.data(), width) == 0;
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    return true;
  });
  return uniform ? XXH3_64bits_withSeed(element.data(), width, seed) : XXH3_64bits_digest(state.get());
}

}  // namespace

bool Tensor::equals(const Tensor& other) const {
  if (this == &other) return true;
  if (dtype_ != other.dtype_ || shape_ != other.shape_) return false;
  if (dtype_ == DType::kString) return strings_ == other.strings_;
  if (size_ == 0) return true;
  if (promised_hash_ || other.promised_hash_) return hash() == other.hash();
  if (is_deferred() || other.is_deferred()) {
    if (reads_in_pieces() && other.reads_in_pieces()) return equal_in_pieces(*this, other);
    std::vector<std::byte> mine;
    std::vector<std::byte> theirs;
    return borrow(dtype_, shape_, bytes(mine), nullptr)->equals(*borrow(dtype_, shape_, other.bytes(theirs), nullptr));
  }
  const bool sub_byte = bit_width(dtype_) < 8;
  if (splat_ && other.splat_) return std::ranges::equal(bytes_, other.bytes_);
  if (splat_ || other.splat_) {
    const Tensor& one = splat_ ? *this : other;
    const Tensor& dense = splat_ ? other : *this;
    if (sub_byte) return is_uniform_sub_byte(dtype_, size_, dense.bytes_, one.bytes_[0]);
    const size_t width = one.bytes_.size();
    return std::memcmp(one.bytes_.data(), dense.bytes_.data(), width) == 0 && is_uniform(dense.bytes_, width);
  }
  if (!sub_byte) return std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size()) == 0;
  return std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size() - 1) == 0 &&
         masked_tail(dtype_, size_, bytes_.back()) == masked_tail(dtype_, size_, other.bytes_.back());
}

uint64_t Tensor::hash() const {
  if (promised_hash_) return *promised_hash_;
  uint64_t h = XXH3_64bits_withSeed(shape_.data(), shape_.size() * sizeof(int64_t), static_cast<uint64_t>(dtype_));
  if (dtype_ == DType::kString) {
    for (const std::string& s : strings_) h = XXH3_64bits_withSeed(s.data(), s.size(), h);
    return h;
  }
  if (size_ == 0) return h;
  if (is_deferred()) {
    if (reads_in_pieces()) return hash_in_pieces(*this, h);
    std::vector<std::byte> scratch;
    return borrow(dtype_, shape_, bytes(scratch), nullptr)->hash();
  }
  // If all elements are equal, hash only one of them, so that a splat need not be expanded.
  const int width = bit_width(dtype_);
  if (width < 8) {
    const auto first = bytes_[0] & static_cast<std::byte>((1u << width) - 1);
    if (splat_ || is_uniform_sub_byte(dtype_, size_, bytes_, first)) return XXH3_64bits_withSeed(&first, 1, h);
    const std::byte last = masked_tail(dtype_, size_, bytes_.back());
    h = XXH3_64bits_withSeed(bytes_.data(), bytes_.size() - 1, h);
    return XXH3_64bits_withSeed(&last, 1, h);
  }
  const auto element = static_cast<size_t>(width / 8);
  const bool uniform = splat_ || is_uniform(bytes_, element);
  return XXH3_64bits_withSeed(bytes_.data(), uniform ? element : bytes_.size(), h);
}

TensorPtr Tensor::reshaped(std::vector<int64_t> shape) const {
  SX_CHECK(element_count(dtype_, shape) == size_, "cannot see " + describe(dtype_, shape_) + " as " + describe(dtype_, shape));
  struct Made : Tensor {
    explicit Made(const Tensor& t) : Tensor(t) {}
    std::vector<int64_t>& dims() { return shape_; }
  };
  auto t = std::make_shared<Made>(*this);
  t->shape_ = std::move(shape);
  return t;
}

std::vector<int64_t> dense_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> out(shape.size());
  uint64_t step = 1;  // may wrap if there are no elements
  for (size_t d = shape.size(); d-- > 0;) {
    out[d] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape[d], 1));
  }
  return out;
}

}  // namespace sardonyx
