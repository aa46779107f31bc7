// Starts from scales between the one that reaches the extremes of a block and smaller ones that cut them off.
// For given codes c, the sum of (x - scale * c)^2 is least at scale = sum(x c) / sum(c c), so each start is
// improved once by that. The best scale and zero point of all that were seen wins.
//
// Blocks stand side by side in lanes, so that one instruction works on several. Each sum runs in the order of
// its block's numbers: results do not depend on the machine, nor on the blocks beside.
#include "passes/compress/least_squares.h"

#include <algorithm>
#include <cmath>

#include "passes/compress/four.h"
#include "sardonyx/tensor.h"

namespace sardonyx::compress {
namespace {

constexpr size_t kLanes = LeastSquares::kLanes, kFour = 4;
constexpr size_t kLong = 64;  // numbers; the extremes of longer blocks stand further out

// The share of the way to the extremes where the range of codes ends.
constexpr std::array<double, 6> kShort = {1.05, 0.98, 0.91, 0.84, 0.77, 0.70};
constexpr std::array<double, 6> kWide = {1.0, 0.85, 0.72, 0.6, 0.5, 0.4};
constexpr std::array<double, 5> kShortUnsigned = {1.0, 0.93, 0.86, 0.79, 0.72};

// Codes minus their zero points.
Four codes_of(Four x, Four inverse, Four low, Four high) {
  Four c = x * inverse;
  c = low > c ? low : c;
  c = high < c ? high : c;
  return nearest(c);
}

// `scale` rounded to the type; zero if the type holds nothing near it.
double rounded_to(DType type, double scale) {
  if (type == DType::kF32) {
    const auto rounded = static_cast<float>(scale);
    return std::isfinite(rounded) ? static_cast<double>(rounded) : 0;
  }
  std::array<std::byte, 8> bytes{};
  encode_element(type, bytes.data(), 0, scale);
  const double rounded = decode_element(type, bytes.data(), 0);
  return std::isfinite(rounded) ? rounded : 0;
}

bool is_repeated(std::span<const float> numbers, size_t lane, size_t size) {
  for (size_t i = 1; i < size; ++i) {
    if (numbers[i * kLanes + lane] != numbers[lane]) return false;
  }
  return true;
}

// The scale and zero point for which `number` is exact.
Scaling scaling_of(float number, CodeRange range) {
  if (number == 0) return {};
  return {std::abs(static_cast<double>(number)), !range.is_signed && number < 0 ? 1 : 0};
}

}  // namespace

struct LeastSquares::Sums {
  Lanes<float> error{};  // of (x - scale * c)^2
  Lanes<float> xc{}, cc{};
};

LeastSquares::Sums LeastSquares::sums(const Lanes<double>& scales, const Lanes<float>& zeros) const {
  Lanes<float> scale, inverse, low, high;
  for (size_t l = 0; l < kLanes; ++l) {
    scale[l] = static_cast<float>(scales[l]);
    inverse[l] = scales[l] == 0 ? 0 : static_cast<float>(1 / scales[l]);
    low[l] = static_cast<float>(range_.low()) - zeros[l];
    high[l] = static_cast<float>(range_.high()) - zeros[l];
  }
  Sums out;
  for (size_t l = 0; l < kLanes; l += kFour) {
    const Four s = load(&scale[l]), i = load(&inverse[l]), from = load(&low[l]), to = load(&high[l]);
    Four error{}, xc{}, cc{};
    const float* importance = importance_.data();
    for (size_t at = l; at < numbers_.size(); at += kLanes) {
      const Four x = load(&numbers_[at]), c = codes_of(x, i, from, to), d = x - c * s, weighted = c * *importance;
      error += d * d * *importance++;
      xc += x * weighted;
      cc += c * weighted;
    }
    store(error, &out.error[l]);
    store(xc, &out.xc[l]);
    store(cc, &out.cc[l]);
  }
  return out;
}

// Tries `scales`, and the best scales for their codes. A scale of 0 is none.
void LeastSquares::improve(Lanes<double> scales, const Lanes<float>& zeros) {
  for (int round = 0; round < 2; ++round) {
    for (size_t l = 0; l < kLanes; ++l) scales[l] = rounded_to(type_, scales[l] * unit_[l]) / unit_[l];
    const Sums found = sums(scales, zeros);
    for (size_t l = 0; l < kLanes; ++l) {
      if (scales[l] == 0) continue;
      if (scale_[l] == 0 || found.error[l] < error_[l]) {
        scale_[l] = scales[l];
        zero_[l] = zeros[l];
        error_[l] = found.error[l];
      }
      const bool has_sign = static_cast<double>(found.xc[l]) * scales[l] > 0;  // not all codes are zero
      scales[l] = has_sign ? static_cast<double>(found.xc[l]) / static_cast<double>(found.cc[l]) : 0;
    }
  }
}

void LeastSquares::start_signed() {
  Lanes<double> extreme, reach;  // the largest magnitude; the scale for which the code that reaches furthest has it
  for (size_t l = 0; l < kLanes; ++l) {
    extreme[l] = std::max(-least_[l], most_[l]);
    reach[l] = extreme[l] / (range_.bits < 8 && most_[l] > -least_[l] ? range_.low() : -range_.low());
  }
  const auto at = [&](const Lanes<double>& scales, double factor) {
    Lanes<double> scaled = scales;
    for (double& s : scaled) s *= factor;
    improve(scaled, {});
  };
  at(extreme, 1);  // for numbers like -1, 0 and 1
  at(extreme, 1.0 / range_.high());
  for (double share : is_long_ ? kWide : kShort) at(reach, share);
}

void LeastSquares::start_unsigned() {
  const auto most = static_cast<float>(range_.high());
  const std::span<const double> shares = is_long_ ? std::span<const double>(kWide) : kShortUnsigned;
  for (double share : shares) {
    Lanes<double> scales;
    Lanes<float> zeros{};
    for (size_t l = 0; l < kLanes; ++l) {
      const double width = most_[l] - least_[l];
      scales[l] = width * share / static_cast<double>(most);
      if (width > 0) zeros[l] = std::nearbyint(static_cast<float>(-least_[l] / width) * most);
    }
    improve(scales, zeros);
  }
  const Lanes<double> scales = scale_;
  const Lanes<float> zeros = zero_;
  for (float step : {-1.0f, 1.0f}) {
    Lanes<float> moved = zeros;
    for (float& z : moved) z = std::clamp(z + step, 0.0f, most);
    improve(scales, moved);
  }
}

void LeastSquares::scale_numbers(std::span<const float> numbers) {
  Lanes<float> least{}, most{};
  for (size_t at = 0; at < numbers.size(); at += kLanes) {
    for (size_t l = 0; l < kLanes; ++l) {
      least[l] = std::min(least[l], numbers[at + l]);
      most[l] = std::max(most[l], numbers[at + l]);
    }
  }
  Lanes<double> inverse{};
  for (size_t l = 0; l < kLanes; ++l) {
    int exponent = 1;
    if (const float largest = std::max(-least[l], most[l]); largest > 0) std::frexp(largest, &exponent);
    unit_[l] = std::ldexp(1.0, exponent - 1);
    inverse[l] = 1 / unit_[l];
    least_[l] = static_cast<double>(least[l]) * inverse[l];
    most_[l] = static_cast<double>(most[l]) * inverse[l];
  }
  numbers_.resize(numbers.size());
  for (size_t at = 0; at < numbers.size(); at += kLanes) {
    for (size_t l = 0; l < kLanes; ++l)
      numbers_[at + l] = static_cast<float>(static_cast<double>(numbers[at + l]) * inverse[l]);
  }
}

void LeastSquares::write_codes(std::span<uint8_t> codes) const {
  for (size_t l = 0; l < kLanes; l += kFour) {
    Four inverse, zero, low, high;
    for (size_t i = 0; i < kFour; ++i) {
      inverse[i] = scale_[l + i] == 0 ? 0 : static_cast<float>(1 / scale_[l + i]);
      zero[i] = zero_[l + i];
      low[i] = static_cast<float>(range_.low()) - zero[i];
      high[i] = static_cast<float>(range_.high()) - zero[i];
    }
    for (size_t at = l; at < numbers_.size(); at += kLanes) {
      const Four c = codes_of(load(&numbers_[at]), inverse, low, high) + zero;
      for (size_t i = 0; i < kFour; ++i) codes[at + i] = static_cast<uint8_t>(static_cast<int>(c[i]));
    }
  }
}

LeastSquares::Lanes<Scaling> LeastSquares::fit(std::span<const float> numbers, const Lanes<size_t>& sizes,
                                               std::span<uint8_t> codes, std::span<const float> importance) {
  scale_numbers(numbers);
  importance_.assign(importance.begin(), importance.end());
  importance_.resize(numbers.size() / kLanes, 1.0F);
  is_long_ = numbers.size() > kLong * kLanes;
  scale_ = {};
  zero_ = {};
  error_ = {};
  if (range_.is_signed) {
    start_signed();
  } else {
    start_unsigned();
  }
  Lanes<Scaling> found;
  for (size_t l = 0; l < kLanes; ++l) {
    if (sizes[l] > 0 && is_repeated(numbers, l, sizes[l])) {
      found[l] = scaling_of(numbers[l], range_);
      scale_[l] = numbers[l] == 0 ? 0 : found[l].scale / unit_[l];
      zero_[l] = static_cast<float>(found[l].zero);
    } else if (scale_[l] != 0) {  // else the type holds no such small scale, and all codes are zero
      found[l] = {scale_[l] * unit_[l], static_cast<int>(zero_[l])};
    }
  }
  write_codes(codes);
  return found;
}

}  // namespace sardonyx::compress
