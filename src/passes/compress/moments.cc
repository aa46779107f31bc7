#include "passes/compress/moments.h"

#include <Eigen/Core>

#include <algorithm>
#include <cmath>

#include "passes/compress/threads.h"
#include "sardonyx/error.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

using Matrix = Eigen::MatrixXf;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace

Moments::Moments(int64_t size) : size_(size), sums_(static_cast<size_t>(size * size)) {}

void Moments::add(std::span<const float> vectors) {
  const auto size = static_cast<size_t>(size_);
  std::vector<float> finite;
  finite.reserve(vectors.size());
  for (size_t at = 0; at < vectors.size(); at += size) {
    const auto x = vectors.subspan(at, size);
    double squares = 0, fourths = 0;
    for (float e : x) {
      const double square = static_cast<double>(e) * static_cast<double>(e);
      squares += square;
      fourths += square * square;
    }
    if (!std::isfinite(squares)) continue;
    cross_squares_ += squares * squares - fourths;
    fourths_ += fourths;
    finite.insert(finite.end(), x.begin(), x.end());
  }
  const auto count = static_cast<Eigen::Index>(finite.size() / size);
  if (count == 0) return;
  vectors_ += static_cast<double>(count);
  const Eigen::Map<const Rows> x(finite.data(), count, size_);
  Eigen::Map<Matrix> sums(sums_.data(), size_, size_);
  constexpr int64_t kWide = 128;  // columns at a time
  on_threads((size_ - 1) / kWide + 1, size_ > kWide ? 8 : 1, [&] {
    return [&](int64_t i) {
      check_interrupt();
      const int64_t first = i * kWide, width = std::min(kWide, size_ - first);
      sums.block(first, first, size_ - first, width).noalias() +=
          x.rightCols(size_ - first).transpose() * x.middleCols(first, width);
    };
  });
}

void Moments::add(const Moments& other) {
  SX_CHECK(other.size_ == size_, "moments of as many numbers");
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
  vectors_ += other.vectors_;
  cross_squares_ += other.cross_squares_;
  fourths_ += other.fourths_;
}

bool Moments::are_known() const {
  const Eigen::Map<const Matrix> sums(sums_.data(), size_, size_);
  const double trace = sums.diagonal().cast<double>().sum();
  return trace > 0 && std::isfinite(static_cast<float>(trace));
}

std::vector<float> Moments::shrunk() const {
  std::vector<float> made = sums_;
  Eigen::Map<Matrix> sums(made.data(), size_, size_);
  double crosses = 0;  // squares of all but the diagonal
  for (int64_t j = 0; j < size_; ++j) crosses += 2 * sums.col(j).tail(size_ - j - 1).cast<double>().squaredNorm();
  const Eigen::ArrayXd diagonal = sums.diagonal().cast<double>();
  const double mean = diagonal.mean();
  // The share of `differences` that is not chance. `squares` are those of the sums, `each` those of what
  // single vectors added to them.
  const auto kept = [this](double differences, double squares, double each) {
    if (vectors_ <= 1 || differences <= 0) return 0.0;
    return std::clamp(1 - (each * vectors_ - squares) / (vectors_ - 1) / differences, 0.0, 1.0);
  };
  const double along = kept((diagonal - mean).square().sum(), diagonal.square().sum(), fourths_);
  const double beside = kept(crosses, crosses, cross_squares_);
  const Eigen::ArrayXd likely = mean + along * (diagonal - mean);
  for (int64_t j = 0; j < size_; ++j) sums.col(j).tail(size_ - j - 1) *= static_cast<float>(beside);
  sums.diagonal() = (beside * diagonal + (1 - beside) * likely).cast<float>();  // a mean of positive matrices is one
  return made;
}

}  // namespace sardonyx::compress
