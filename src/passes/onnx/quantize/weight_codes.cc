#include "passes/onnx/quantize/weight_codes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <thread>

#include "ir/tensor/half.h"
#include "support/system/interrupt.h"

namespace sardonyx::onnx {
namespace {

// The elements of a tensor of f32, f16 or bf16.
class Floats {
 public:
  Floats(const Tensor& t) : bytes_(t.bytes(scratch_)) {
    if (t.dtype() == DType::kF32) return;
    singles_.resize(static_cast<size_t>(t.size()));
    if (t.dtype() == DType::kF16) {
      halves_to_floats(bytes_.data(), reinterpret_cast<std::byte*>(singles_.data()), singles_.size());
    } else {
      for (int64_t i = 0; i < t.size(); ++i)
        singles_[static_cast<size_t>(i)] = static_cast<float>(decode_element(t.dtype(), bytes_.data(), i));
    }
    bytes_ = std::as_bytes(std::span(singles_));
  }

  float operator[](int64_t i) const {
    float v = 0;
    std::memcpy(&v, bytes_.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
    return v;
  }

 private:
  std::vector<std::byte> scratch_;
  std::vector<float> singles_;
  std::span<const std::byte> bytes_;  // may be unaligned
};

// `values` of one byte each as a tensor: two in a byte, the first one in its low bits, for types of 4 bits.
TensorPtr packed(DType type, std::vector<int64_t> shape, std::vector<std::byte> values) {
  if (bit_width(type) == 8) return Tensor::own(type, std::move(shape), std::move(values));
  constexpr std::byte kLow{15};
  const size_t bytes = (values.size() + 1) / 2;
  for (size_t i = 0; i < bytes; ++i) {
    const std::byte second = 2 * i + 1 < values.size() ? values[2 * i + 1] : std::byte{0};
    values[i] = (values[2 * i] & kLow) | (second << 4);
  }
  values.resize(bytes);
  return Tensor::own(type, std::move(shape), std::move(values));
}

// Computes the codes of a tensor, some groups at a time, on several threads.
class Encoder {
 public:
  Encoder(const Tensor& t, const Grouping& grouping, DType type, CodeRange range)
      : t_(t),
        grouping_(grouping),
        type_(type),
        range_(range),
        floats_(t),
        codes_(static_cast<size_t>(t.size())),
        zeros_(static_cast<size_t>(grouping.num_groups())),
        scales_(byte_size(t.dtype(), static_cast<uint64_t>(grouping.num_groups()))) {}

  // Nullopt if an element is infinite or NaN.
  std::optional<Codes> run() {
    constexpr int64_t kFew = 1 << 16;  // elements, for which threads do not pay
    const size_t workers = t_.size() > kFew ? std::clamp(std::thread::hardware_concurrency(), 1u, 8u) : 1;
    std::vector<std::exception_ptr> failed(workers);
    std::vector<std::thread> others;
    for (size_t i = 1; i < workers; ++i) others.emplace_back([&failed, this, i] { failed[i] = work(); });
    failed[0] = work();
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& e : failed) {
      if (e != nullptr) std::rethrow_exception(e);
    }
    if (!is_finite_) return std::nullopt;
    return Codes{packed(type_, {t_.shape().begin(), t_.shape().end()}, std::move(codes_)),
                 Tensor::own(t_.dtype(), grouping_.scale_shape(), std::move(scales_)),
                 range_.is_signed ? nullptr : packed(type_, grouping_.scale_shape(), std::move(zeros_))};
  }

 private:
  static constexpr size_t kLanes = LeastSquares::kLanes;

  // Neighbors, side by side.
  struct Tile {
    std::vector<Group> groups;
    std::vector<float> numbers;
    std::vector<uint8_t> codes;
  };

  std::exception_ptr work() {
    try {
      LeastSquares least_squares(range_, t_.dtype());
      Tile tile;
      constexpr auto kNext = static_cast<int64_t>(kLanes);
      for (int64_t first = 0; is_finite_ && (first = next_.fetch_add(kNext)) < grouping_.num_groups();) {
        check_interrupt();
        encode(tile, first, least_squares);
      }
    } catch (...) {
      is_finite_ = false;  // stops the others
      return std::current_exception();
    }
    return nullptr;
  }

  void encode(Tile& tile, int64_t first, LeastSquares& least_squares) {
    LeastSquares::Lanes<size_t> sizes{};
    tile.groups.clear();
    for (size_t l = 0; l < kLanes && first + static_cast<int64_t>(l) < grouping_.num_groups(); ++l) {
      tile.groups.push_back(grouping_.group(first + static_cast<int64_t>(l)));
      sizes[l] = tile.groups[l].size();
    }
    tile.numbers.assign(std::ranges::max(sizes) * kLanes, 0.0f);
    tile.codes.resize(tile.numbers.size());
    for_elements(tile, [&](size_t at, int64_t of) { tile.numbers[at] = floats_[of]; });
    if (!std::ranges::all_of(tile.numbers, [](float x) { return std::isfinite(x); })) {
      is_finite_ = false;
      return;
    }
    const auto chosen = least_squares.fit(tile.numbers, sizes, tile.codes);
    for (size_t l = 0; l < tile.groups.size(); ++l) {
      const int64_t group = first + static_cast<int64_t>(l);
      encode_element(t_.dtype(), scales_.data(), group, chosen[l].scale);
      zeros_[static_cast<size_t>(group)] = static_cast<std::byte>(chosen[l].zero);
    }
    for_elements(tile,
                 [&](size_t at, int64_t of) { codes_[static_cast<size_t>(of)] = static_cast<std::byte>(tile.codes[at]); });
  }

  // Calls visit(element in the tile, element in the tensor). Groups that are columns are read together.
  template <class F>
  static void for_elements(const Tile& tile, const F& visit) {
    const Group &front = tile.groups.front(), &back = tile.groups.back();
    const size_t size = tile.groups.size();
    const bool in_columns = (front.count == 1 || front.stride > 1) && front.count == back.count &&
                            back.first - front.first == static_cast<int64_t>(size) - 1;
    const size_t together = in_columns ? size : 1;
    for (size_t j = 0; j < size; j += together) {
      const Group& g = tile.groups[j];
      size_t k = 0;
      for (int64_t run = 0; run < g.runs; ++run) {
        for (int64_t i = 0; i < g.count; ++i, ++k) {
          const int64_t at = g.first + run * g.run_stride + i * g.stride;
          for (size_t l = 0; l < together; ++l) visit(k * kLanes + j + l, at + static_cast<int64_t>(l));
        }
      }
    }
  }

  const Tensor& t_;
  const Grouping& grouping_;
  const DType type_;
  const CodeRange range_;
  const Floats floats_;
  std::vector<std::byte> codes_, zeros_, scales_;
  std::atomic<int64_t> next_ = 0;  // the first group that nobody has taken
  std::atomic<bool> is_finite_ = true;
};

}  // namespace

Grouping::Grouping(const Tensor& t, size_t channel, size_t summed, int64_t block) {
  const auto shape = t.shape();
  const bool in_blocks = block > 0 && shape[summed] >= block;
  axis_ = in_blocks ? summed : channel;
  block_ = in_blocks ? block : 0;
  size_ = shape[axis_];
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis_) (i < axis_ ? outer_ : inner_) *= shape[i];
  }
  scale_shape_ = in_blocks ? std::vector<int64_t>(shape.begin(), shape.end()) : std::vector<int64_t>{size_};
  if (in_blocks) scale_shape_[axis_] = blocks();
}

Group Grouping::group(int64_t i) const {
  if (block_ == 0) return {i * inner_, inner_, 1, outer_, size_ * inner_};
  const int64_t from = i / inner_ % blocks() * block_, row = i / inner_ / blocks();
  return {(row * size_ + from) * inner_ + i % inner_, std::min(block_, size_ - from), inner_};
}

std::optional<Codes> encode(const Tensor& t, const Grouping& grouping, DType type, CodeRange range) {
  return Encoder(t, grouping, type, range).run();
}

}  // namespace sardonyx::onnx
