#include "passes/onnx/quantize/summed_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "passes/compress/four.h"
#include "support/system/interrupt.h"

namespace sardonyx::onnx {
namespace {

using compress::Four;
using compress::load;
using compress::store;

constexpr float kMost = 127;     // of a code
constexpr float kMostSum = 128;  // of neighbors: 255 * 128 fits into 16 bits

// Scales are tried from the one that fits all weights downward.
constexpr std::array<float, 8> kParts = {1, 0.95F, 0.9F, 0.85F, 0.8F, 0.75F, 0.7F, 0.65F};

constexpr size_t kBlock = 128;

// The weights of a channel, and how they are coded.
class Channel {
 public:
  Channel(const Sums& sums, bool full_range)
      : weights(static_cast<size_t>(sums.outer * sums.inner)),
        inner_(static_cast<size_t>(sums.inner)),
        full_range_(full_range) {}

  std::vector<float> weights;

  float scale(float least) const {
    float largest = 0, largest_sum = 0;
    for_large(largest, [&](float x) { largest = std::max(largest, std::abs(x)); });
    for_large_sums(largest_sum, [&](size_t a, size_t b) { largest_sum = std::max(largest_sum, sum(a, b)); });
    const float fitting = std::max(largest / kMost, largest_sum / kMostSum);
    if (fitting == 0) return least > 0 ? least : 1;
    // Smaller scales cut off the largest weights, and the largest sums.
    std::vector<float> far, far_sums;
    const float smallest = fitting * kParts.back();
    const float limit = kMost * smallest, limit_of_sums = kMostSum * smallest;
    for_large(limit, [&](float x) {
      if (std::abs(x) > limit) far.push_back(std::abs(x));
    });
    for_large_sums(limit_of_sums, [&](size_t a, size_t b) {
      if (sum(a, b) > limit_of_sums) far_sums.push_back(sum(a, b));
    });
    float best = fitting, least_error = std::numeric_limits<float>::infinity();
    for (const float part : kParts) {
      const float s = fitting * part;
      float error = static_cast<float>(weights.size()) * s * s / 12;
      for (const float x : far) {
        const float over = std::max(x - kMost * s, 0.0F);
        error += over * over;
      }
      for (const float x : far_sums) {
        const float over = std::max(x - kMostSum * s, 0.0F);
        error += over * over / 2;  // each of the two gives way by half of it
      }
      if (error >= least_error) continue;
      least_error = error;
      best = s;
    }
    return std::max({best, least, std::numeric_limits<float>::min()});
  }

  // Replaces the weights by their codes.
  void round(float scale) {
    const Four steps = Four{} + 1 / scale, most = Four{} + kMost;
    const auto code = [&](Four x) {
      x *= steps;
      x = x > most ? most : x;
      x = x < -most ? -most : x;
      return compress::nearest(x);
    };
    size_t i = 0;
    for (; i + 4 <= weights.size(); i += 4) store(code(load(&weights[i])), &weights[i]);
    for (; i < weights.size(); ++i) weights[i] = code(Four{} + weights[i])[0];
    for_large_sums(kMostSum, [&](size_t a, size_t b) {
      const float over = sum(a, b) - kMostSum;
      if (over <= 0) return;
      float &x = weights[a], &y = weights[b];
      float &more = std::abs(x) >= std::abs(y) ? x : y, &fewer = &more == &x ? y : x;
      const float of_fewer = std::floor(over / 2);
      fewer -= std::copysign(of_fewer, fewer);
      more -= std::copysign(over - of_fewer, more);
    });
  }

 private:
  // Of two signs it is less than the larger one, which fits.
  float sum(size_t a, size_t b) const { return std::abs(weights[a] + weights[b]); }

  // Calls f at least with the weights whose magnitudes exceed the limit, which f may raise.
  template <class F>
  void for_large(const float& limit, const F& f) const {
    for_large_blocks(limit, 0, [&](size_t i) { f(weights[i]); });
  }

  // The same with neighbors and their sums, in both orders: those at distance 1, and those at distance inner_
  // with the ends of the columns that this makes.
  template <class F>
  void for_large_sums(const float& limit, const F& f) const {
    if (full_range_) return;
    const size_t size = weights.size();
    for (const size_t distance : {size_t{1}, inner_}) {
      if (distance < size) for_large_blocks(limit, distance, [&](size_t i) { f(i, i + distance); });
      if (inner_ == 1) return;
    }
    for (size_t i = 1; i < inner_; ++i) f(size - inner_ + i - 1, i);
  }

  // Calls f with each i of the blocks in which the magnitude of a weight, or of its sum with the one at that
  // distance, exceeds the limit.
  template <class F>
  void for_large_blocks(const float& limit, size_t distance, const F& f) const {
    const size_t size = weights.size() - distance;
    for (size_t first = 0; first < size; first += kBlock) {
      const size_t end = std::min(size, first + kBlock);
      Four largest{};
      const auto look = [&](Four x, Four y) {
        const Four sum = distance == 0 ? x : x + y, magnitude = sum > 0 ? sum : -sum;
        largest = magnitude > largest ? magnitude : largest;
      };
      size_t i = first;
      for (; i + 4 <= end; i += 4) look(load(&weights[i]), load(&weights[i + distance]));
      for (; i < end; ++i) look(Four{} + weights[i], Four{} + weights[i + distance]);
      if (std::max({largest[0], largest[1], largest[2], largest[3]}) <= limit) continue;
      for (i = first; i < end; ++i) f(i);
    }
  }

  size_t inner_;
  bool full_range_;
};

}  // namespace

WeightCodes encode_summed(const Tensor& weight, const Sums& sums, std::span<const float> least, bool full_range) {
  constexpr size_t kTile = 16;  // channels that are read together where they are not stored one by one
  std::vector<std::byte> scratch;
  const auto bytes = weight.bytes(scratch);
  const auto channels = static_cast<size_t>(sums.channels), size = static_cast<size_t>(sums.outer * sums.inner);
  const auto channel_stride = static_cast<size_t>(sums.channel_stride), stride = static_cast<size_t>(sums.inner_stride);
  WeightCodes made{.codes = nullptr, .scales = std::vector<float>(channels)};
  std::vector<std::byte> codes(channels * size);
  std::vector<Channel> tile(kTile, Channel(sums, full_range));
  for (size_t first = 0; first < channels; first += kTile) {
    check_interrupt();
    const size_t count = std::min(kTile, channels - first);
    // Calls f with all places of the tile, in the order of their bytes.
    const auto for_all = [&](const auto& f) {
      const size_t rows = stride == 1 ? 1 : size, columns = stride == 1 ? size : 1;
      for (size_t row = 0; row < rows; ++row) {
        for (size_t n = 0; n < count; ++n) {
          float* at = tile[n].weights.data() + row;
          const size_t place = (first + n) * channel_stride + row * stride;
          for (size_t i = 0; i < columns; ++i) f(at[i], place + i);
        }
      }
    };
    for_all([&](float& x, size_t place) { std::memcpy(&x, bytes.data() + place * sizeof x, sizeof x); });
    for (size_t n = 0; n < count; ++n) {
      made.scales[first + n] = tile[n].scale(least.empty() ? 0 : least[first + n]);
      tile[n].round(made.scales[first + n]);
    }
    for_all([&](float& x, size_t place) { codes[place] = static_cast<std::byte>(static_cast<int8_t>(x)); });
  }
  made.codes = Tensor::own(DType::kI8, {weight.shape().begin(), weight.shape().end()}, std::move(codes));
  return made;
}

std::vector<double> lost_of_means(const Tensor& weight, const Sums& sums, int64_t groups, const Tensor& codes,
                                  std::span<const float> scales, std::span<const double> means) {
  std::vector<std::byte> scratch;
  const auto bytes = weight.bytes(scratch), code_bytes = codes.stored_bytes();
  const bool is_matrix = weight.rank() == 2;
  std::vector<double> lost(scales.size());
  const auto lost_at = [&](size_t channel, size_t i) {
    const size_t place = channel * static_cast<size_t>(sums.channel_stride) + i * static_cast<size_t>(sums.inner_stride);
    float x = 0;
    std::memcpy(&x, bytes.data() + place * sizeof x, sizeof x);
    return x - scales[channel] * static_cast<float>(static_cast<int8_t>(code_bytes[place]));
  };
  const auto outer = static_cast<size_t>(sums.outer), inner = static_cast<size_t>(sums.inner);
  if (is_matrix) {
    for (size_t i = 0; i < inner; ++i) {
      for (size_t c = 0; c < lost.size(); ++c) lost[c] += means[i] * static_cast<double>(lost_at(c, i));
    }
    return lost;
  }
  const size_t in_group = lost.size() / static_cast<size_t>(groups);
  for (size_t c = 0; c < lost.size(); ++c) {
    for (size_t o = 0; o < outer; ++o) {
      float sum = 0;
      for (size_t i = 0; i < inner; ++i) sum += lost_at(c, o * inner + i);
      lost[c] += means[c / in_group * outer + o] * static_cast<double>(sum);
    }
  }
  return lost;
}

}  // namespace sardonyx::onnx
