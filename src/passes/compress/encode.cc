#include "passes/compress/encode.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "ir/tensor/half.h"
#include "passes/compress/bits.h"
#include "passes/compress/error_feedback.h"
#include "passes/compress/least_squares.h"
#include "passes/compress/threads.h"
#include "passes/compress/weights.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

// Computes the codes of a tensor, some groups at a time, on several threads.
class Encoder {
 public:
  Encoder(const Tensor& t, const Floats& floats, const Grouping& grouping, DType type)
      : t_(t),
        floats_(floats),
        grouping_(grouping),
        range_{.bits = bit_width(type), .is_signed = is_signed(type)},
        made_{.codes = std::vector<std::byte>(static_cast<size_t>(t.size())),
              .scales = std::vector<std::byte>(byte_size(scale_type(t), static_cast<uint64_t>(grouping.num_groups()))),
              .zeros = std::vector<std::byte>(static_cast<size_t>(grouping.num_groups()))} {}

  // Nullopt if an element is infinite or NaN.
  std::optional<Unpacked> run() {
    constexpr int64_t kFew = 1 << 16;  // elements, for which threads do not pay
    constexpr auto kTile = static_cast<int64_t>(kLanes);
    on_threads((grouping_.num_groups() - 1) / kTile + 1, t_.size() > kFew ? 8 : 1, [&] {
      return [&, least_squares = LeastSquares(range_, scale_type(t_)), tile = Tile()](int64_t i) mutable {
        check_interrupt();
        if (is_finite_) encode(tile, i * kTile, least_squares);
      };
    });
    if (!is_finite_) return std::nullopt;
    return std::move(made_);
  }

 private:
  static constexpr size_t kLanes = LeastSquares::kLanes;

  // Neighbors, side by side.
  struct Tile {
    std::vector<Group> groups;
    std::vector<float> numbers;
    std::vector<uint8_t> codes;
  };

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
      encode_element(scale_type(t_), made_.scales.data(), group, chosen[l].scale);
      made_.zeros[static_cast<size_t>(group)] = static_cast<std::byte>(chosen[l].zero);
    }
    for_elements(tile,
                 [&](size_t at, int64_t of) { made_.codes[static_cast<size_t>(of)] = static_cast<std::byte>(tile.codes[at]); });
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
  const Floats& floats_;
  const Grouping& grouping_;
  const CodeRange range_;
  Unpacked made_;
  std::atomic<bool> is_finite_ = true;
};

// The parts of a weight, computed when they are read. Files have scales and zero points behind codes: these
// wait for one read.
class WhenRead : public std::enable_shared_from_this<WhenRead> {
 public:
  enum Part { kCodes, kScales, kZeros };

  WhenRead(TensorPtr t, Grouping grouping, DType type) : t_(std::move(t)), grouping_(std::move(grouping)), type_(type) {}

  TensorPtr part(Part which, DType type, const std::vector<int64_t>& shape) {
    return Tensor::defer(type, shape, [self = shared_from_this(), which] { return self->read(which); });
  }

 private:
  std::vector<std::byte> read(Part which) {
    const std::lock_guard lock(mutex_);
    if (parts_[which].empty()) {
      const Floats floats(*t_);
      auto made = Encoder(*t_, floats, grouping_, type_).run();
      SX_CHECK(made, "finite numbers have codes");
      const int bits = bit_width(type_);
      if (which == kCodes) parts_[kCodes] = packed(std::move(made->codes), bits);
      parts_[kScales] = std::move(made->scales);
      if (!is_signed(type_)) parts_[kZeros] = packed(std::move(made->zeros), bits);
    }
    return std::exchange(parts_[which], {});
  }

  const TensorPtr t_;
  const Grouping grouping_;
  const DType type_;
  std::mutex mutex_;
  std::array<std::vector<std::byte>, 3> parts_;
};

}  // namespace

DType scale_type(const Tensor& t) { return t.dtype() == DType::kBF16 ? DType::kF32 : t.dtype(); }

std::optional<Codes> encode_when_read(TensorPtr t, Grouping grouping, DType type, const std::vector<int64_t>& scale_shape) {
  if (!are_below(*t, std::numeric_limits<float>::infinity())) return std::nullopt;
  const std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  const DType scales = scale_type(*t);
  const auto parts = std::make_shared<WhenRead>(std::move(t), std::move(grouping), type);
  return Codes{parts->part(WhenRead::kCodes, type, shape), parts->part(WhenRead::kScales, scales, scale_shape),
               is_signed(type) ? nullptr : parts->part(WhenRead::kZeros, type, scale_shape)};
}

TensorPtr rounded(const TensorPtr& t, DType to) {
  const float limit = to == DType::kF16 ? 65520.0F : 0x1.FFp127F;  // and what is beyond becomes infinite
  if (!are_below(*t, limit)) return nullptr;
  if (t->reads_in_pieces()) return to == DType::kF16 ? as_half(t) : as_bf16(t);
  return Tensor::defer(to, {t->shape().begin(), t->shape().end()}, [t, to] {
    std::vector<std::byte> scratch, made(t->byte_size() / 2);
    const auto round = to == DType::kF16 ? floats_to_halves : floats_to_bf16;
    round(t->bytes(scratch).data(), made.data(), static_cast<size_t>(t->size()));
    return made;
  });
}

std::optional<Codes> encode(const Tensor& t, const Grouping& grouping, DType type, const std::vector<int64_t>& scale_shape,
                            const Inputs& inputs) {
  const Floats floats(t);
  auto made = Encoder(t, floats, grouping, type).run();
  if (!made) return std::nullopt;
  if (inputs.moments != nullptr) feed_errors_back(t, floats, grouping, type, inputs, *made);
  return Codes{packed(type, {t.shape().begin(), t.shape().end()}, std::move(made->codes)),
               Tensor::own(scale_type(t), scale_shape, std::move(made->scales)),
               is_signed(type) ? nullptr : packed(type, scale_shape, std::move(made->zeros))};
}

}  // namespace sardonyx::compress
