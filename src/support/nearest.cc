#include "support/nearest.h"

#include <algorithm>
#include <vector>

namespace sardonyx {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t old = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = old;
    }
  }
  return row[b.size()];
}

std::string_view nearest(std::string_view wanted, std::span<const std::string_view> known) {
  std::string_view best;
  size_t distance = std::max<size_t>(wanted.size() / 2, 1) + 1;
  for (std::string_view k : known) {
    const size_t d = edit_distance(wanted, k);
    if (d < distance) best = k, distance = d;
  }
  return best;
}

}  // namespace sardonyx
