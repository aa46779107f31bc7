// Layouts: the order in which the axes of a value are stored.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::layout {

// Stored axis i is axis from[i] of the value as the program has it, or a new axis of size one (kNew). A
// Transpose with attribute `perm` stores its operand in the layout `perm`.
struct Layout {
  static constexpr int8_t kNew = -1;
  static constexpr size_t kMaxRank = 15;
  static constexpr uint8_t kAsIs = 255;

  uint8_t rank = kAsIs;
  std::array<int8_t, kMaxRank> from{};

  // The value as it is, whatever its rank.
  static Layout as_is() { return {}; }
  static Layout identity(size_t rank);
  // nullopt if it is no permutation, or has too many axes.
  static std::optional<Layout> permutation(std::span<const int64_t> perm);

  bool is_as_is() const { return rank == kAsIs; }
  bool is_identity() const;  // true for as_is() too
  bool is_permutation() const;
  size_t position(size_t axis) const;  // where an axis of the value is stored; it must be
  std::vector<int64_t> perm() const;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// Stored axis i is axis from[i].
Layout layout_of(std::span<const int64_t> from);
// l without the axes in `gone`, the others renumbered.
Layout without_axes(const Layout& l, std::span<const int64_t> gone);
// The reverse: `added` are axes of the larger value. Each keeps its place; the others are stored around them
// in l's order.
Layout with_axes(const Layout& l, std::vector<int64_t> added);
// First stored as `a`, and then the stored value again as `b`.
Layout then(const Layout& a, const Layout& b);
Layout inverse(const Layout& a);       // of a permutation
bool swaps_last_two(const Layout& l);  // and does nothing else
// The type of a stored value; null for types without rank.
const Type* stored_type(Types& types, const Type* t, const Layout& l);
// Whether storing it so moves no element: only axes of size one change place.
bool moves_nothing(const Type& t, const Layout& l);

}  // namespace sardonyx::layout
