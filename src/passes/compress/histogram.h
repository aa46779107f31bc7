// What numbers a value takes, in bins: enough to choose the range that codes of 8 bits cover.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sardonyx::compress {

struct Range {
  double low = 0, high = 0;  // low <= 0 <= high

  double width() const { return high - low; }
};

// Bins are as wide as a power of two and begin at multiples of it, so histograms add up exactly. They become
// wider as the range of the numbers grows. Zeros are counted apart, as every range has a code for zero.
class Histogram {
 public:
  void add(std::span<const float> numbers);
  void add(const Histogram& other);

  uint64_t size() const { return zeros_ + others_; }  // of numbers so far
  bool is_finite() const { return is_finite_; }       // all numbers so far

  Range widest() const { return widest_; }  // of all numbers and zero
  // The range for which `steps` steps have about the least squared error, where what is cut off counts three
  // times: a narrower one rounds less and cuts off more.
  Range least_squares(int steps) const;
  // Without the share `left_out` / 2 of the numbers at each end.
  Range without(double left_out) const;

 private:
  static constexpr int64_t kBins = 2048;

  void make_room(double low, double high);
  double center(size_t bin) const;

  Range widest_;
  bool is_finite_ = true;
  uint64_t zeros_ = 0, others_ = 0;
  double bin_width_ = 0;          // 0: there are no bins yet
  int64_t first_ = 0;             // counts_[0] counts the numbers from first_ * bin_width_ on
  std::vector<uint64_t> counts_;  // of numbers other than zero
};

}  // namespace sardonyx::compress
