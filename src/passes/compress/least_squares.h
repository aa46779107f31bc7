// Numbers as short codes with the least squared error: x is about scale * (code - zero).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sardonyx/dtype.h"

namespace sardonyx::compress {

struct CodeRange {
  int bits = 8;
  bool is_signed = true;  // codes around zero without a zero point; unsigned codes have one

  int low() const { return is_signed ? -(1 << (bits - 1)) : 0; }
  int high() const { return is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1; }
};

// Signed codes reach one further below zero than above. Where they are few, the scale may be negative, which
// gives the lowest code to the largest number whatever its sign.
struct Scaling {
  double scale = 1;
  int zero = 0;
};

// Chooses scales for some blocks of numbers at once.
class LeastSquares {
 public:
  static constexpr size_t kLanes = 8;
  template <class T>
  using Lanes = std::array<T, kLanes>;

  // Scales are rounded to `type` before codes are computed.
  LeastSquares(CodeRange range, DType type) : range_(range), type_(type) {}

  // Number i of block l is numbers[i * kLanes + l]. It has `sizes`[l] numbers and zeros after them. All
  // are finite. Writes codes in the same order, in two's complement. Blocks of one number repeated, such
  // as zero, are exact. Elsewhere the result is the best of about 16 tries. The squared error of number i
  // of each block counts `importance`[i] times, or once if that is empty.
  Lanes<Scaling> fit(std::span<const float> numbers, const Lanes<size_t>& sizes, std::span<uint8_t> codes,
                     std::span<const float> importance = {});

 private:
  struct Sums;
  void scale_numbers(std::span<const float> numbers);
  void start_signed();
  void start_unsigned();
  void improve(Lanes<double> scales, const Lanes<float>& zeros);
  Sums sums(const Lanes<double>& scales, const Lanes<float>& zeros) const;
  void write_codes(std::span<uint8_t> codes) const;

  CodeRange range_;
  DType type_;
  bool is_long_ = false;
  std::vector<float> numbers_;      // over unit_
  std::vector<float> importance_;   // of number i of each block
  Lanes<double> unit_{};            // powers of two: the largest numbers over them are in [1, 2)
  Lanes<double> least_{}, most_{};  // of numbers_ and zero
  Lanes<double> scale_{};           // the best so far, over unit_; 0: none yet
  Lanes<float> zero_{}, error_{};
};

}  // namespace sardonyx::compress
