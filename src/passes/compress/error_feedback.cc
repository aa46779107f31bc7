// With H = L Lᵀ the error is that of Lᵀ D, whose row i has errors of row i and of later ones alone. So
// rows are rounded from the last to the first: row i of Lᵀ D is least if weight i is rounded after adding
// sum(j > i: L[j,i] D[j]) / L[i,i], and no other row depends on what was added. This is what GPTQ
// computes, without the inverse of H.
//
// Channels are independent of each other: threads take some at a time. In these, rows of a block lie together
// and wait for one matrix product with the errors of all rows after them.
#include "passes/compress/error_feedback.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "passes/compress/four.h"
#include "passes/compress/least_squares.h"
#include "passes/compress/threads.h"
#include "support/system/interrupt.h"

namespace sardonyx::compress {
namespace {

using Matrix = Eigen::MatrixXf;
using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::Array<float, 1, Eigen::Dynamic>;
using Sums = Eigen::Array<double, 1, Eigen::Dynamic>;

constexpr size_t kLanes = LeastSquares::kLanes;
constexpr int64_t kChannels = 128;  // at a time
constexpr int64_t kRows = 32;       // between products within a long block

// Rows that share a scale in each channel.
struct Block {
  int64_t first = 0, size = 0;  // in the order of blocks
  int64_t group = 0;            // of the first channel
};

class ErrorFeedback {
 public:
  ErrorFeedback(const Tensor& t, const Floats& floats, const Grouping& grouping, DType type, const Inputs& inputs,
                Unpacked& made)
      : t_(t),
        floats_(floats),
        range_{.bits = bit_width(type), .is_signed = is_signed(type)},
        made_(made),
        channels_(t.shape()[inputs.channel]),
        channel_stride_(dense_strides(t.shape())[inputs.channel]),
        group_stride_(dense_strides(grouping.counts())[inputs.channel]) {
    find_rows(grouping, inputs.channel);
    is_known_ = inputs.moments->are_known() && factor(*inputs.moments);
  }

  void run() {
    if (!is_known_) return;
    on_threads((channels_ - 1) / kChannels + 1, 8,
               [&] { return [&](int64_t i) { round(i * kChannels, std::min(kChannels, channels_ - i * kChannels)); }; });
  }

 private:
  // The weights of some channels.
  struct Part {
    int64_t channel = 0;  // the first
    Rows weights, errors;
    std::vector<uint8_t> codes;     // by rows
    std::vector<Scaling> scalings;  // by blocks
    Sums error;                     // of the product, for each channel
  };

  // Sorts rows by their groups.
  void find_rows(const Grouping& grouping, size_t channel) {
    const auto shape = t_.shape();
    const auto strides = dense_strides(shape), group_strides = dense_strides(grouping.counts());
    std::vector<int64_t> groups;
    const int64_t rows = t_.size() / channels_;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t left = row, at = 0, group = 0;
      for (size_t axis = shape.size(); axis-- > 0;) {
        if (axis == channel) continue;
        const int64_t i = left % shape[axis];
        left /= shape[axis];
        at += i * strides[axis];
        group += i / grouping.extents()[axis] * group_strides[axis];
      }
      offsets_.push_back(at);
      groups.push_back(group);
    }
    order_.resize(static_cast<size_t>(rows));
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](int64_t row) { return groups[static_cast<size_t>(row)]; });
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t group = groups[static_cast<size_t>(order_[static_cast<size_t>(i)])];
      if (blocks_.empty() || blocks_.back().group != group) blocks_.push_back({i, 0, group});
      ++blocks_.back().size;
    }
  }

  // Computes L. False if rounding makes that impossible.
  bool factor(const Moments& moments) {
    const std::vector<float> made = moments.shrunk();
    const auto size = static_cast<Eigen::Index>(order_.size());
    const Eigen::Map<const Matrix> h(made.data(), size, size);
    const float damping = 0.01F * h.diagonal().mean();  // inputs that were zero may be something else later
    factor_.resize(size, size);
    for (Eigen::Index j = 0; j < size; ++j) {
      const int64_t column = order_[static_cast<size_t>(j)];
      for (Eigen::Index i = j; i < size; ++i) {
        const int64_t row = order_[static_cast<size_t>(i)];
        factor_(i, j) = h(std::max(row, column), std::min(row, column));
      }
      factor_(j, j) += damping;
    }
    const float mean = factor_.diagonal().mean();
    for (Eigen::Index i = 0; i < size; ++i) importance_.push_back(factor_(i, i) / mean);
    const Eigen::LLT<Eigen::Ref<Matrix>> done(factor_);
    return done.info() == Eigen::Success;
  }

  void round(int64_t channel, int64_t count) {
    Part plain = read(channel, count);
    const Rows products = factor_.transpose().triangularView<Eigen::Upper>() * plain.errors;
    plain.error = products.cast<double>().colwise().squaredNorm();
    Part part{.channel = channel, .weights = std::move(plain.weights)};
    part.errors.resize(part.weights.rows(), count);
    part.codes.resize(static_cast<size_t>(part.weights.size()));
    part.scalings.resize(blocks_.size() * static_cast<size_t>(count));
    part.error = Sums::Zero(count);
    LeastSquares least_squares(range_, scale_type(t_));
    for (size_t i = blocks_.size(); i-- > 0;) {
      check_interrupt();
      round_block(part, i, least_squares);
    }
    for (int64_t c = 0; c < count; ++c) {
      if (part.error[c] < plain.error[c]) write(part, c);
    }
  }

  int64_t offset(Eigen::Index row, int64_t channel) const {
    return offsets_[static_cast<size_t>(order_[static_cast<size_t>(row)])] + channel * channel_stride_;
  }

  // The weights of some channels, and the errors of the codes that they have.
  Part read(int64_t channel, int64_t count) const {
    const auto rows = static_cast<Eigen::Index>(order_.size());
    Part part{.channel = channel, .weights = Rows(rows, count), .errors = Rows(rows, count)};
    std::vector<float> scales(static_cast<size_t>(count)), zeros(scales.size());
    for (const Block& b : blocks_) {
      for (int64_t c = 0; c < count; ++c) {
        const int64_t group = b.group + (channel + c) * group_stride_;
        scales[static_cast<size_t>(c)] = static_cast<float>(decode_element(scale_type(t_), made_.scales.data(), group));
        zeros[static_cast<size_t>(c)] = static_cast<float>(made_.zeros[static_cast<size_t>(group)]);
      }
      for (int64_t row = b.first; row < b.first + b.size; ++row) {
        for (int64_t c = 0; c < count; ++c) {
          const int64_t at = offset(row, channel + c);
          const auto stored = static_cast<uint8_t>(made_.codes[static_cast<size_t>(at)]);
          const float code = range_.is_signed ? static_cast<int8_t>(stored) : stored;
          part.weights(row, c) = floats_[at];
          part.errors(row, c) = floats_[at] - (code - zeros[static_cast<size_t>(c)]) * scales[static_cast<size_t>(c)];
        }
      }
    }
    return part;
  }

  void round_block(Part& part, size_t number, LeastSquares& least_squares) const {
    const Block& b = blocks_[number];
    const int64_t end = b.first + b.size, after = static_cast<int64_t>(order_.size()) - end, count = part.weights.cols();
    Rows sums = factor_.block(end, b.first, after, b.size).transpose() * part.errors.bottomRows(after);
    const auto scalings = std::span(part.scalings).subspan(number * static_cast<size_t>(count), static_cast<size_t>(count));
    choose_scales(part, b, sums, least_squares, scalings);
    Row scale(count), inverse(count), zero(count);
    for (int64_t c = 0; c < count; ++c) {
      const Scaling& s = scalings[static_cast<size_t>(c)];
      scale[c] = static_cast<float>(s.scale);
      inverse[c] = std::isfinite(1 / scale[c]) ? 1 / scale[c] : 0;
      zero[c] = static_cast<float>(s.zero);
    }
    const Row low = static_cast<float>(range_.low()) - zero, high = static_cast<float>(range_.high()) - zero;
    Row wanted(count), code(count);
    for (int64_t last = end; last > b.first;) {
      const int64_t first = std::max(b.first, last - kRows);
      for (int64_t i = last; i-- > first;) {
        const float pivot = factor_(i, i);
        const auto weight = part.weights.row(i).array();
        wanted = weight + sums.row(i - b.first).array() / pivot;
        code = (wanted * inverse).max(low).min(high);
        code = nearest<Row>(code);
        part.errors.row(i) = weight - code * scale;
        part.error += ((wanted - code * scale) * pivot).cast<double>().square();
        uint8_t* to = part.codes.data() + i * count;
        for (int64_t c = 0; c < count; ++c) to[c] = static_cast<uint8_t>(static_cast<int>(code[c] + zero[c]));
        for (int64_t j = first; j < i; ++j) sums.row(j - b.first) += factor_(i, j) * part.errors.row(i);
      }
      sums.topRows(first - b.first).noalias() += factor_.block(first, b.first, last - first, first - b.first).transpose() *
                                                 part.errors.middleRows(first, last - first);
      last = first;
    }
  }

  // Of what the rows of the block would be if they were not rounded.
  void choose_scales(const Part& part, const Block& b, const Rows& sums, LeastSquares& least_squares,
                     std::span<Scaling> chosen) const {
    Rows wanted = part.weights.middleRows(b.first, b.size);
    if (b.first + b.size < static_cast<int64_t>(order_.size())) {
      wanted += factor_.block(b.first, b.first, b.size, b.size).transpose().triangularView<Eigen::Upper>().solve(sums);
    }
    const auto size = static_cast<size_t>(b.size), count = static_cast<size_t>(wanted.cols());
    std::vector<float> numbers(size * kLanes);
    std::vector<uint8_t> codes(numbers.size());
    for (size_t c = 0; c < count; c += kLanes) {
      LeastSquares::Lanes<size_t> sizes{};
      const size_t lanes = std::min(kLanes, count - c);
      std::ranges::fill(numbers, 0.0F);
      for (size_t l = 0; l < lanes; ++l) sizes[l] = size;
      for (size_t i = 0; i < size; ++i) std::copy_n(wanted.data() + i * count + c, lanes, numbers.data() + i * kLanes);
      const auto importance = std::span(importance_).subspan(static_cast<size_t>(b.first), size);
      const auto found = least_squares.fit(numbers, sizes, codes, importance);
      std::copy_n(found.begin(), lanes, chosen.begin() + static_cast<std::ptrdiff_t>(c));
    }
  }

  void write(const Part& part, int64_t c) {
    const int64_t count = part.weights.cols(), channel = part.channel + c;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const int64_t group = blocks_[i].group + channel * group_stride_;
      const Scaling& s = part.scalings[i * static_cast<size_t>(count) + static_cast<size_t>(c)];
      encode_element(scale_type(t_), made_.scales.data(), group, s.scale);
      made_.zeros[static_cast<size_t>(group)] = static_cast<std::byte>(s.zero);
    }
    for (Eigen::Index row = 0; row < part.weights.rows(); ++row) {
      made_.codes[static_cast<size_t>(offset(row, channel))] =
          static_cast<std::byte>(part.codes[static_cast<size_t>(row * count + c)]);
    }
  }

  const Tensor& t_;
  const Floats& floats_;
  const CodeRange range_;
  Unpacked& made_;
  const int64_t channels_, channel_stride_, group_stride_;
  std::vector<int64_t> offsets_;  // of rows in the tensor
  std::vector<int64_t> order_;    // of rows, by blocks
  std::vector<Block> blocks_;
  bool is_known_ = false;
  Matrix factor_;                  // L: the lower triangle counts
  std::vector<float> importance_;  // of rows, in this order: the diagonal of H
};

}  // namespace

void feed_errors_back(const Tensor& t, const Floats& floats, const Grouping& grouping, DType type, const Inputs& inputs,
                      Unpacked& made) {
  ErrorFeedback(t, floats, grouping, type, inputs, made).run();
}

}  // namespace sardonyx::compress
