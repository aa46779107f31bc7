#include "passes/compress/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "passes/compress/groups.h"

namespace sardonyx::compress {

std::optional<Sparse> sparse(const Tensor& t, double sparsity) {
  const Floats floats(t);
  const int64_t size = t.size();
  std::vector<float> magnitudes;
  magnitudes.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    if (!std::isfinite(floats[i])) return std::nullopt;
    magnitudes.push_back(std::abs(floats[i]));
  }
  const auto zeros = std::min(static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(size))), size - 1);
  const auto border = magnitudes.begin() + static_cast<std::ptrdiff_t>(zeros);
  std::ranges::nth_element(magnitudes, border);
  const float least = *border;                                                                         // of those that are kept
  auto equal = zeros - std::count_if(magnitudes.begin(), border, [&](float m) { return m < least; });  // become zeros
  std::vector<std::byte> mask(static_cast<size_t>(size)), scratch, kept;
  const std::span<const std::byte> bytes = t.bytes(scratch);
  const size_t width = byte_size(t.dtype(), 1);
  kept.reserve(static_cast<size_t>(size - zeros) * width);
  const auto keep = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    mask[at] = std::byte{1};
    const auto element = bytes.subspan(at * width, width);
    kept.insert(kept.end(), element.begin(), element.end());
  };
  for (int64_t i = 0; i < size; ++i) {
    const float m = std::abs(floats[i]);
    if (m == 0 || m < least || (m == least && equal-- > 0)) continue;
    keep(i);
  }
  if (kept.empty()) keep(size - 1);
  const auto count = static_cast<int64_t>(kept.size() / width);
  return Sparse{std::move(mask), Tensor::own(t.dtype(), {count}, std::move(kept))};
}

TensorPtr expanded(const Sparse& s, const Tensor& t) {
  std::vector<std::byte> scratch, all(t.byte_size());
  const std::span<const std::byte> kept = s.kept->bytes(scratch);
  const size_t width = byte_size(t.dtype(), 1);
  size_t next = 0;
  for (size_t i = 0; i < s.mask.size(); ++i) {
    if (s.mask[i] != std::byte{0}) std::memcpy(all.data() + i * width, kept.data() + width * next++, width);
  }
  return Tensor::own(t.dtype(), {t.shape().begin(), t.shape().end()}, std::move(all));
}

}  // namespace sardonyx::compress
