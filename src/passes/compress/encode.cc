#include "passes/compress/encode.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>

#include "passes/compress/bits.h"
#include "passes/compress/least_squares.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

// Computes the codes of a tensor, some groups at a time, on several threads.
class Encoder {
 public:
  Encoder(const Tensor& t, const Grouping& grouping, DType type)
      : t_(t),
        grouping_(grouping),
        type_(type),
        floats_(t),
        codes_(static_cast<size_t>(t.size())),
        zeros_(static_cast<size_t>(grouping.num_groups())),
        scales_(byte_size(t.dtype(), static_cast<uint64_t>(grouping.num_groups()))) {}

  // Nullopt if an element is infinite or NaN.
  std::optional<Codes> run(const std::vector<int64_t>& scale_shape) {
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
                 Tensor::own(t_.dtype(), scale_shape, std::move(scales_)),
                 is_signed(type_) ? nullptr : packed(type_, scale_shape, std::move(zeros_))};
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
      LeastSquares least_squares({.bits = bit_width(type_), .is_signed = is_signed(type_)}, t_.dtype());
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
  const Floats floats_;
  std::vector<std::byte> codes_, zeros_, scales_;
  std::atomic<int64_t> next_ = 0;  // the first group that nobody has taken
  std::atomic<bool> is_finite_ = true;
};

}  // namespace

std::optional<Codes> encode(const Tensor& t, const Grouping& grouping, DType type, const std::vector<int64_t>& scale_shape) {
  return Encoder(t, grouping, type).run(scale_shape);
}

}  // namespace sardonyx::compress
