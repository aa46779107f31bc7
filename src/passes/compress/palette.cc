#include "passes/compress/palette.h"

#include <algorithm>
#include <cmath>

#include "ir/tensor/half.h"
#include "passes/compress/kmeans.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

constexpr size_t kHalves = 1 << 16;
constexpr uint16_t kSign = 1 << 15;

// The place of a half among all of them in increasing order.
uint16_t place_of(uint16_t half) { return static_cast<uint16_t>((half & kSign) != 0 ? ~half : half | kSign); }

// Numbers, and for each the place of the half that it rounds to. A power of two brings the largest to
// [2^14, 2^15) before.
class Places {
 public:
  void set(const std::vector<float>& numbers) {
    float largest = 0;
    for (float x : numbers) largest = std::max(largest, std::abs(x));
    int exponent = 0;
    if (largest > 0) std::frexp(largest, &exponent);
    const double scale = std::ldexp(1.0, 15 - exponent);
    scaled_.resize(numbers.size());
    halves_.resize(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) scaled_[i] = static_cast<float>(static_cast<double>(numbers[i]) * scale);
    floats_to_halves(reinterpret_cast<const std::byte*>(scaled_.data()), reinterpret_cast<std::byte*>(halves_.data()),
                     scaled_.size());
    for (uint16_t& h : halves_) h = place_of(h);
  }

  uint16_t operator[](size_t i) const { return halves_[i]; }

 private:
  std::vector<float> scaled_;
  std::vector<uint16_t> halves_;
};

// Makes the table of one group after another.
class PaletteMaker {
 public:
  PaletteMaker(DType type, size_t entries) : type_(type), entries_(entries), sums_(kHalves), code_of_place_(kHalves) {}

  // Writes the table, and the index of each number.
  void make(const std::vector<float>& numbers, std::byte* table, std::vector<uint8_t>& indices) {
    places_.set(numbers);
    collect(numbers);
    const std::vector<size_t> firsts = kmeans(bins_, entries_);
    std::vector<float> entries;
    for (size_t c = 0; c < firsts.size(); ++c) {
      const size_t end = c + 1 < firsts.size() ? firsts[c + 1] : bins_.size();
      double count = 0, sum = 0;
      for (size_t i = firsts[c]; i < end; ++i) {
        count += bins_[i].count;
        sum += bins_[i].sum;
        code_of_place_[place_of_bin_[i]] = static_cast<uint8_t>(c);
      }
      encode_element(type_, table, static_cast<int64_t>(c), sum / count);
      entries.push_back(static_cast<float>(decode_element(type_, table, static_cast<int64_t>(c))));
    }
    find_nearest(numbers, entries, indices);
  }

 private:
  void collect(const std::vector<float>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      Bin& bin = sums_[places_[i]];
      const auto x = static_cast<double>(numbers[i]);
      bin.count += 1;
      bin.sum += x;
      bin.squares += x * x;
    }
    bins_.clear();
    place_of_bin_.clear();
    for (size_t place = 0; place < kHalves; ++place) {
      if (sums_[place].count == 0) continue;
      bins_.push_back(sums_[place]);
      place_of_bin_.push_back(place);
      sums_[place] = {};
    }
  }

  // Starts from the entry of the number's bin. Where entries were rounded, or at the end of a cluster, a
  // neighbor may be nearer.
  void find_nearest(const std::vector<float>& numbers, const std::vector<float>& entries, std::vector<uint8_t>& indices) {
    std::vector<double> middles;  // between an entry and the next
    for (size_t c = 1; c < entries.size(); ++c)
      middles.push_back((static_cast<double>(entries[c - 1]) + static_cast<double>(entries[c])) / 2);
    indices.resize(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto x = static_cast<double>(numbers[i]);
      size_t c = code_of_place_[places_[i]];
      while (c > 0 && x < middles[c - 1]) --c;
      while (c < middles.size() && x > middles[c]) ++c;
      indices[i] = static_cast<uint8_t>(c);
    }
  }

  DType type_;
  size_t entries_;
  Places places_;
  std::vector<Bin> sums_, bins_;  // by place; those that have numbers
  std::vector<size_t> place_of_bin_;
  std::vector<uint8_t> code_of_place_;
};

// Calls visit(element of the tensor) for the elements of a group.
template <class F>
void for_elements(const Group& g, const F& visit) {
  for (int64_t run = 0; run < g.runs; ++run) {
    for (int64_t i = 0; i < g.count; ++i) visit(g.first + run * g.run_stride + i * g.stride);
  }
}

}  // namespace

std::optional<Palettes> palettes(const Tensor& t, const Grouping& grouping, size_t entries) {
  const Floats floats(t);
  const auto groups = static_cast<uint64_t>(grouping.num_groups());
  const size_t table_bytes = byte_size(t.dtype(), entries);
  std::vector<std::byte> tables(groups * table_bytes), all(static_cast<size_t>(t.size()));
  PaletteMaker maker(t.dtype(), entries);
  std::vector<float> numbers;
  std::vector<uint8_t> indices;
  for (uint64_t i = 0; i < groups; ++i) {
    check_interrupt();
    const Group g = grouping.group(static_cast<int64_t>(i));
    numbers.clear();
    for_elements(g, [&](int64_t at) { numbers.push_back(floats[at]); });
    if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) return std::nullopt;
    maker.make(numbers, tables.data() + i * table_bytes, indices);
    const uint8_t* next = indices.data();
    for_elements(g, [&](int64_t at) { all[static_cast<size_t>(at)] = static_cast<std::byte>(*next++); });
  }
  return Palettes{std::move(all),
                  Tensor::own(t.dtype(), {grouping.num_groups(), static_cast<int64_t>(entries)}, std::move(tables))};
}

}  // namespace sardonyx::compress
