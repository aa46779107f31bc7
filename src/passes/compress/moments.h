// What is known of the numbers that a weight is multiplied with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sardonyx::compress {

// Sums of x xᵀ over vectors x of `size` numbers, in single precision.
class Moments {
 public:
  explicit Moments(int64_t size);

  // Adds vectors, one after another. Those with a number that is infinite or NaN do not count.
  void add(std::span<const float> vectors);
  void add(const Moments& other);

  int64_t size() const { return size_; }
  // Whether there is anything to learn: sums that are finite, and not all zero.
  bool are_known() const;

  // The sums, a symmetric matrix of which the lower triangle counts, by columns. What is expected to be
  // chance is taken away from what stands beside the diagonal, and from the differences along it: few
  // vectors say little about which numbers are large, and less about which go together. After Ledoit and
  // Wolf, "A well-conditioned estimator for large-dimensional covariance matrices" (2004).
  std::vector<float> shrunk() const;

 private:
  int64_t size_;
  double vectors_ = 0;        // how many
  double cross_squares_ = 0;  // of x_i x_j for all i != j, summed over the vectors
  double fourths_ = 0;        // powers of x_i, likewise
  std::vector<float> sums_;   // the lower triangle, by columns
};

}  // namespace sardonyx::compress
