#include "passes/compress/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "passes/compress/four.h"

namespace sardonyx::compress {
namespace {

// The parts of the way from zero to the extremes that are tried as ends of the range.
constexpr std::array<double, 24> kParts = {1.0,  0.97, 0.94, 0.91, 0.88, 0.85, 0.82, 0.79, 0.76, 0.73, 0.70, 0.66,
                                           0.62, 0.58, 0.54, 0.50, 0.45, 0.40, 0.35, 0.30, 0.25, 0.20, 0.15, 0.10};

// What is cut off is lost in one direction: in sums such errors do not cancel, as those of rounding do.
constexpr double kCutOff = 3;

}  // namespace

double Histogram::center(size_t bin) const {
  return (static_cast<double>(first_) + static_cast<double>(bin) + 0.5) * bin_width_;
}

// Widens bins, and adds some, so that there are those from `low` to `high`.
void Histogram::make_room(double low, double high) {
  if (!counts_.empty()) {
    low = std::min(low, static_cast<double>(first_) * bin_width_);
    high = std::max(high, center(counts_.size() - 1));
  }
  double width = bin_width_;
  if (width == 0) {
    const double extent = std::max({high - low, std::abs(low), std::abs(high)});
    width = std::ldexp(1.0, std::ilogb(std::max(extent, 1e-38)) - 10);
  }
  const auto bin_of = [](double x, double w) { return static_cast<int64_t>(std::floor(x / w)); };
  while (bin_of(high, width) - bin_of(low, width) >= kBins) width *= 2;
  const int64_t first = bin_of(low, width), count = bin_of(high, width) - first + 1;
  if (width == bin_width_ && first == first_ && count == static_cast<int64_t>(counts_.size())) return;
  std::vector<uint64_t> counts(static_cast<size_t>(count));
  for (size_t i = 0; i < counts_.size(); ++i) counts[static_cast<size_t>(bin_of(center(i), width) - first)] += counts_[i];
  bin_width_ = width;
  first_ = first;
  counts_ = std::move(counts);
}

void Histogram::add(std::span<const float> numbers) {
  using Counts [[gnu::vector_size(16)]] = int32_t;
  Four least{}, most{}, not_finite{};
  Counts zeros{};
  const auto look = [&](Four x) {
    least = x < least ? x : least;
    most = x > most ? x : most;
    not_finite += x - x;  // NaN unless x is finite
    zeros -= x == 0;
  };
  size_t i = 0;
  for (; i + 4 <= numbers.size(); i += 4) look(load(&numbers[i]));
  auto count_of_zeros = static_cast<uint64_t>(std::ranges::count(numbers.subspan(i), 0.0F));
  for (int lane = 0; lane < 4; ++lane) count_of_zeros += static_cast<uint64_t>(zeros[lane]);
  for (; i < numbers.size(); ++i) look(Four{} + numbers[i]);
  for (int lane = 0; lane < 4; ++lane) {
    is_finite_ &= not_finite[lane] == 0;
    widest_.low = std::min(widest_.low, static_cast<double>(least[lane]));
    widest_.high = std::max(widest_.high, static_cast<double>(most[lane]));
  }
  zeros_ += count_of_zeros;
  others_ += numbers.size() - count_of_zeros;
  if (!is_finite_ || count_of_zeros == numbers.size()) return;
  make_room(widest_.low, widest_.high);
  const double per_bin = 1 / bin_width_, offset = -static_cast<double>(first_);
  for (const float x : numbers) ++counts_[static_cast<size_t>(static_cast<int32_t>(static_cast<double>(x) * per_bin + offset))];
  counts_[static_cast<size_t>(-first_)] -= count_of_zeros;
}

void Histogram::add(const Histogram& other) {
  is_finite_ &= other.is_finite_;
  widest_ = {std::min(widest_.low, other.widest_.low), std::max(widest_.high, other.widest_.high)};
  zeros_ += other.zeros_;
  others_ += other.others_;
  if (other.counts_.empty()) return;
  bin_width_ = std::max(bin_width_, other.bin_width_);
  if (counts_.empty()) first_ = 0;
  make_room(other.center(0), other.center(other.counts_.size() - 1));
  for (size_t i = 0; i < other.counts_.size(); ++i) {
    const auto bin = static_cast<int64_t>(std::floor(other.center(i) / bin_width_)) - first_;
    counts_[static_cast<size_t>(bin)] += other.counts_[i];
  }
}

Range Histogram::least_squares(int steps) const {
  // The squared error of what lies beyond each part of the way to an extreme.
  const auto beyond = [&](double extreme) {
    std::array<double, kParts.size()> errors{};
    for (size_t part = 1; part < kParts.size(); ++part) {
      const double end = extreme * kParts[part];
      for (size_t i = 0; i < counts_.size(); ++i) {
        const double over = extreme > 0 ? center(i) - end : end - center(i);
        if (over > 0) errors[part] += static_cast<double>(counts_[i]) * over * over;
      }
    }
    return errors;
  };
  const auto below = beyond(widest_.low), above = beyond(widest_.high);
  Range best = widest_;
  double least = std::numeric_limits<double>::infinity();
  for (size_t l = 0; l < kParts.size(); ++l) {
    for (size_t h = 0; h < kParts.size(); ++h) {
      const Range range{widest_.low * kParts[l], widest_.high * kParts[h]};
      const double step = range.width() / steps;
      const double error = static_cast<double>(others_) * step * step / 12 + kCutOff * (below[l] + above[h]);
      if (error >= least) continue;
      least = error;
      best = range;
    }
  }
  return best;
}

Range Histogram::without(double left_out) const {
  const double most_left_out = left_out / 2 * static_cast<double>(zeros_ + others_);
  Range range = widest_;
  double below = 0, above = 0;
  for (size_t i = 0; i < counts_.size() && center(i) < 0; ++i) {
    below += static_cast<double>(counts_[i]);
    if (below > most_left_out) break;
    range.low = std::min(center(i) + bin_width_ / 2, 0.0);
  }
  for (size_t i = counts_.size(); i-- > 0 && center(i) > 0;) {
    above += static_cast<double>(counts_[i]);
    if (above > most_left_out) break;
    range.high = std::max(center(i) - bin_width_ / 2, 0.0);
  }
  return range;
}

}  // namespace sardonyx::compress
