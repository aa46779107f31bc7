#include "passes/compress/palette.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ir/tensor/half.h"
#include "passes/compress/kmeans.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

constexpr size_t kHalves = 1 << 16;
constexpr size_t kSign = 1 << 15, kInfinite = 31 << 10;  // bits of halves; the least magnitude that is not finite

// Calls visit(element of the tensor) for the elements of a group.
template <class F>
void for_elements(const Group& g, const F& visit) {
  for (int64_t run = 0; run < g.runs; ++run) {
    for (int64_t i = 0; i < g.count; ++i) visit(g.first + run * g.run_stride + i * g.stride);
  }
}

// How many numbers of a group are in each half, and their sums.
class Histogram {
 public:
  explicit Histogram(const Tensor& t) : type_(t.dtype()), bytes_(t.bytes(scratch_)), counts_(kHalves) {
    std::vector<uint16_t> bits(kHalves);
    for (size_t i = 0; i < kHalves; ++i) bits[i] = static_cast<uint16_t>(i);
    values_.resize(kHalves);
    halves_to_floats(reinterpret_cast<const std::byte*>(bits.data()), reinterpret_cast<std::byte*>(values_.data()), kHalves);
    if (type_ != DType::kF16) sums_.resize(kHalves);
  }

  // False if a number is infinite or NaN.
  bool read(const Group& g) {
    std::ranges::fill(counts_, 0u);
    std::ranges::fill(sums_, 0.0);
    if (type_ != DType::kF16 && !round(g)) return false;
    for_halves(g, [&](int64_t, uint16_t half) { ++counts_[half]; });
    for (size_t i = 0; i < singles_.size(); ++i) sums_[halves_[i]] += static_cast<double>(singles_[i]);
    for (size_t bits = kInfinite; bits < kSign; ++bits) {
      if (counts_[bits] + counts_[bits | kSign] > 0) return false;
    }
    return true;
  }

  // Calls visit(element of the tensor, bits of its half) for the group that was read.
  template <class F>
  void for_halves(const Group& g, const F& visit) const {
    if (type_ == DType::kF16) return for_elements(g, [&](int64_t at) { visit(at, at_element<uint16_t>(at)); });
    const uint16_t* half = halves_.data();
    for_elements(g, [&](int64_t at) { visit(at, *half++); });
  }

  // Bins in increasing order, and the half of each.
  void collect(std::vector<Bin>& bins, std::vector<size_t>& half_of_bin) const {
    bins.clear();
    half_of_bin.clear();
    const auto add = [&](size_t bits) {
      if (counts_[bits] == 0) return;
      const auto count = static_cast<double>(counts_[bits]);
      const double sum = sums_.empty() ? count * static_cast<double>(values_[bits]) : sums_[bits];
      bins.push_back({count, sum, sum * sum / count});
      half_of_bin.push_back(bits);
    };
    for (size_t bits = kSign | kInfinite; bits-- > kSign;) add(bits);
    for (size_t bits = 0; bits < kInfinite; ++bits) add(bits);
  }

 private:
  template <class T>
  T at_element(int64_t i) const {
    T v{};
    std::memcpy(&v, bytes_.data() + static_cast<size_t>(i) * sizeof v, sizeof v);
    return v;
  }

  // Rounds single precision to halves, after a power of two that brings the largest number to [2^14, 2^15).
  bool round(const Group& g) {
    singles_.clear();
    for_elements(g, [&](int64_t at) { singles_.push_back(at_element<float>(at)); });
    if (!std::ranges::all_of(singles_, [](float x) { return std::isfinite(x); })) return false;
    float largest = 0;
    for (float x : singles_) largest = std::max(largest, std::abs(x));
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    const double scale = std::ldexp(1.0, 15 - exponent);
    scaled_.clear();
    for (float x : singles_) scaled_.push_back(static_cast<float>(static_cast<double>(x) * scale));
    halves_.resize(scaled_.size());
    floats_to_halves(reinterpret_cast<const std::byte*>(scaled_.data()), reinterpret_cast<std::byte*>(halves_.data()),
                     scaled_.size());
    return true;
  }

  const DType type_;
  std::vector<std::byte> scratch_;
  std::span<const std::byte> bytes_;     // may be unaligned
  std::vector<float> values_;            // of all halves
  std::vector<uint32_t> counts_;         // of numbers in each half
  std::vector<double> sums_;             // of these, if they are not halves
  std::vector<float> singles_, scaled_;  // of the group, if it is in single precision
  std::vector<uint16_t> halves_;         // that scaled_ rounds to
};

}  // namespace

std::optional<Palettes> palettes(const Tensor& t, const Grouping& grouping, size_t entries) {
  Histogram histogram(t);
  const auto groups = static_cast<uint64_t>(grouping.num_groups());
  std::vector<std::byte> tables(byte_size(t.dtype(), groups * entries)), indices(static_cast<size_t>(t.size()));
  std::vector<Bin> bins;
  std::vector<size_t> half_of_bin;
  std::vector<std::byte> index_of_half(kHalves);
  for (uint64_t i = 0; i < groups; ++i) {
    check_interrupt();
    const Group g = grouping.group(static_cast<int64_t>(i));
    if (!histogram.read(g)) return std::nullopt;
    histogram.collect(bins, half_of_bin);
    const std::vector<size_t> firsts = kmeans(bins, entries);
    for (size_t c = 0; c < firsts.size(); ++c) {
      const size_t end = c + 1 < firsts.size() ? firsts[c + 1] : bins.size();
      double count = 0, sum = 0;
      for (size_t b = firsts[c]; b < end; ++b) {
        count += bins[b].count;
        sum += bins[b].sum;
        index_of_half[half_of_bin[b]] = static_cast<std::byte>(c);
      }
      encode_element(t.dtype(), tables.data(), static_cast<int64_t>(i * entries + c), sum / count);
    }
    histogram.for_halves(g, [&](int64_t at, uint16_t half) { indices[static_cast<size_t>(at)] = index_of_half[half]; });
  }
  return Palettes{std::move(indices),
                  Tensor::own(t.dtype(), {grouping.num_groups(), static_cast<int64_t>(entries)}, std::move(tables))};
}

}  // namespace sardonyx::compress
