#include "passes/mincut/layout.h"

#include <algorithm>

namespace sardonyx::layout {
namespace {

bool contains(std::span<const int64_t> list, int64_t v) { return std::find(list.begin(), list.end(), v) != list.end(); }

}  // namespace

Layout Layout::identity(size_t rank) {
  Layout l;
  l.rank = static_cast<uint8_t>(rank);
  for (size_t i = 0; i < rank; ++i) l.from[i] = static_cast<int8_t>(i);
  return l;
}

std::optional<Layout> Layout::permutation(std::span<const int64_t> perm) {
  if (perm.size() > kMaxRank) return std::nullopt;
  Layout l = identity(perm.size());
  uint32_t seen = 0;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] < 0 || perm[i] >= static_cast<int64_t>(perm.size()) || (seen >> perm[i] & 1) != 0) return std::nullopt;
    seen |= 1u << perm[i];
    l.from[i] = static_cast<int8_t>(perm[i]);
  }
  return l;
}

bool Layout::is_identity() const {
  if (is_as_is()) return true;
  for (size_t i = 0; i < rank; ++i) {
    if (from[i] != static_cast<int8_t>(i)) return false;
  }
  return true;
}

bool Layout::is_permutation() const {
  if (is_as_is()) return false;
  for (size_t i = 0; i < rank; ++i) {
    if (from[i] == kNew) return false;
  }
  return true;
}

size_t Layout::position(size_t axis) const {
  const auto end = from.begin() + rank;
  const auto at = std::find(from.begin(), end, static_cast<int8_t>(axis));
  SX_CHECK(at != end, "the layout drops an axis");
  return static_cast<size_t>(at - from.begin());
}

std::vector<int64_t> Layout::perm() const { return {from.begin(), from.begin() + rank}; }

Layout then(const Layout& a, const Layout& b) {
  if (a.is_as_is()) return b;
  if (b.is_as_is()) return a;
  Layout out;
  out.rank = b.rank;
  for (size_t i = 0; i < b.rank; ++i)
    out.from[i] = b.from[i] == Layout::kNew ? Layout::kNew : a.from[static_cast<uint8_t>(b.from[i])];
  return out;
}

Layout inverse(const Layout& a) {
  Layout out = a;
  if (a.is_as_is()) return out;
  for (size_t i = 0; i < a.rank; ++i) out.from[static_cast<uint8_t>(a.from[i])] = static_cast<int8_t>(i);
  return out;
}

Layout layout_of(std::span<const int64_t> from) {
  Layout l = Layout::identity(from.size());
  for (size_t i = 0; i < from.size(); ++i) l.from[i] = static_cast<int8_t>(from[i]);
  return l;
}

Layout without_axes(const Layout& l, std::span<const int64_t> gone) {
  std::vector<int64_t> out;
  for (size_t i = 0; i < l.rank; ++i) {
    if (contains(gone, l.from[i])) continue;
    out.push_back(l.from[i] - std::count_if(gone.begin(), gone.end(), [&](int64_t g) { return g < l.from[i]; }));
  }
  return layout_of(out);
}

Layout with_axes(const Layout& l, std::vector<int64_t> added) {
  std::sort(added.begin(), added.end());
  const size_t rank = l.rank + added.size();
  std::vector<int64_t> others, out;
  for (size_t i = 0; i < rank; ++i) {
    if (!contains(added, static_cast<int64_t>(i))) others.push_back(static_cast<int64_t>(i));
  }
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    out.push_back(contains(added, static_cast<int64_t>(i)) ? static_cast<int64_t>(i)
                                                           : others[static_cast<size_t>(l.from[next++])]);
  }
  return layout_of(out);
}

bool swaps_last_two(const Layout& l) {
  if (l.is_as_is() || l.rank < 2) return false;
  Layout swapped = Layout::identity(l.rank);
  std::swap(swapped.from[l.rank - 2], swapped.from[l.rank - 1]);
  return l == swapped;
}

const Type* stored_type(Types& types, const Type* t, const Layout& l) {
  if (l.is_as_is() || t == nullptr || !t->ranked()) return t;
  std::vector<Dim> dims;
  for (size_t i = 0; i < l.rank; ++i)
    dims.push_back(l.from[i] == Layout::kNew ? Dim::of(1) : t->dim(static_cast<size_t>(l.from[i])));
  return types.with_dims(t, dims);
}

bool moves_nothing(const Type& t, const Layout& l) {
  if (l.is_as_is()) return true;
  int8_t last = -1;
  for (size_t i = 0; i < l.rank; ++i) {
    if (l.from[i] == Layout::kNew || t.dim(static_cast<size_t>(l.from[i])).is(1)) continue;
    if (l.from[i] < last) return false;
    last = l.from[i];
  }
  return true;
}

}  // namespace sardonyx::layout
