// A cluster costs its squared error and a penalty. For a penalty, the best clusters are a shortest path over
// the bins, in O(n log n): costs are concave Monge,
//   cost(a, c) + cost(b, d) <= cost(a, d) + cost(b, c)   for a <= b <= c <= d,
// so a later start, once better, stays better (Galil and Park, "Dynamic programming with convexity, concavity
// and sparsity", 1992). The least error is convex in the number of clusters, so some penalty gives the number
// that is wanted (Aggarwal, Schieber and Tokuyama, "Finding a minimum-weight k-link path in graphs with the
// concave Monge property", 1994; Groenlund et al., "Fast exact k-means, k-medians and Bregman divergence
// clustering in 1D", 2017). Where several numbers are equally good, two paths are spliced into one of that
// number.
#include "passes/compress/kmeans.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sardonyx::compress {
namespace {

class Clusters {
 public:
  explicit Clusters(std::span<const Bin> bins) : sums_(bins.size() + 1), least_(bins.size() + 1), start_(bins.size() + 1) {
    for (size_t i = 0; i < bins.size(); ++i) {
      sums_[i + 1] = {sums_[i].count + bins[i].count, sums_[i].sum + bins[i].sum, sums_[i].squares + bins[i].squares};
    }
  }

  // The squared error of the cluster of bins [first, end).
  double cost(size_t first, size_t end) const {
    const double count = sums_[end].count - sums_[first].count, sum = sums_[end].sum - sums_[first].sum;
    return sums_[end].squares - sums_[first].squares - sum * sum / count;
  }

  // The ends of clusters, from 0 to the number of bins, for which error and penalties are least.
  std::vector<size_t> path(double penalty) {
    const size_t n = sums_.size() - 1;
    const auto total = [&](size_t first, size_t end) { return least_[first] + cost(first, end); };
    starts_.assign(1, {0, 1});
    size_t head = 0;
    for (size_t end = 1; end <= n; ++end) {
      if (head + 1 < starts_.size() && starts_[head + 1].from <= end) ++head;
      start_[end] = starts_[head].first;
      least_[end] = total(start_[end], end) + penalty;
      if (end == n) break;
      // A cluster may also start here. It is the best start from some end on, if at all.
      while (starts_.size() > head + 1 && total(end, starts_.back().from) <= total(starts_.back().first, starts_.back().from))
        starts_.pop_back();
      const size_t beaten = starts_.back().first;
      const auto wins = [&](size_t at) { return total(end, at) <= total(beaten, at); };
      size_t low = std::max(starts_.back().from, end + 1), step = 1;
      if (starts_.size() == head + 1 && wins(low)) {  // of all that are left
        starts_.back() = {end, low};
        continue;
      }
      while (low + step <= n && !wins(low + step)) low += step, step *= 2;
      if (low == n) continue;
      size_t high = std::min(low + step, n);
      if (low + step > n && !wins(high)) continue;
      while (high - low > 1) {
        const size_t middle = std::midpoint(low, high);
        (wins(middle) ? high : low) = middle;
      }
      starts_.push_back({end, high});
    }
    std::vector<size_t> ends{n};
    while (ends.back() > 0) ends.push_back(start_[ends.back()]);
    std::ranges::reverse(ends);
    return ends;
  }

 private:
  struct Start {
    size_t first;  // bin of the cluster
    size_t from;   // the least end for which it is the best start
  };

  std::vector<Bin> sums_;      // of the bins before
  std::vector<double> least_;  // of error and penalties, up to an end
  std::vector<size_t> start_;  // of the last cluster, for an end
  std::vector<Start> starts_;  // those that may still be best, by increasing `from`
};

// A path of `links` links from two that are both best for one penalty. `few` has at most, `many` at least as
// many links. One link of `few` spans one of `many` at the place where the first part of `many` and the last
// part of `few` have that number together; by the Monge property, crossing over costs nothing.
std::vector<size_t> spliced(const std::vector<size_t>& few, const std::vector<size_t>& many, size_t links) {
  const size_t shift = links + 1 - few.size();
  size_t at = 0;
  while (few[at] > many[at + shift] || few[at + 1] < many[at + shift + 1]) ++at;
  std::vector<size_t> ends(many.begin(), many.begin() + static_cast<std::ptrdiff_t>(at + shift + 1));
  ends.insert(ends.end(), few.begin() + static_cast<std::ptrdiff_t>(at + 1), few.end());
  return ends;
}

struct Solution {
  double penalty;
  std::vector<size_t> path;
};

// The path of `most` clusters, of fewer than there are bins. `guess` is a penalty to try first.
Solution solve(std::span<const Bin> bins, size_t most, double guess) {
  Clusters clusters(bins);
  Solution few{std::max(clusters.cost(0, bins.size()), 0.0), {0, bins.size()}}, many{0, std::vector<size_t>(bins.size() + 1)};
  std::iota(many.path.begin(), many.path.end(), size_t{0});
  constexpr int kTries = 200;
  for (int tries = 0; tries < kTries && most > 1; ++tries) {
    const double low = many.penalty, high = few.penalty;
    // In turn, so that the bounds meet even if the guesses stay on one side of the penalty.
    if (!(guess > low && guess < high) || tries % 4 == 3) guess = low > 0 ? std::sqrt(low) * std::sqrt(high) : high / 8;
    if (!(guess > low && guess < high)) break;
    std::vector<size_t> path = clusters.path(guess);
    const size_t found = path.size() - 1;
    if (found == most) return {guess, std::move(path)};
    (found < most ? few : many) = {guess, std::move(path)};
    // The error of k clusters is near c / k^2, which a penalty of 2 c / k^3 makes best.
    guess *= std::pow(static_cast<double>(found) / static_cast<double>(most), 3);
  }
  return {few.penalty, spliced(few.path, many.path, most)};
}

// A penalty that makes about `most` clusters: the one for fewer, larger bins, where these suffice.
double first_penalty(std::span<const Bin> bins, size_t most) {
  const size_t together = bins.size() / (16 * most);
  if (together < 2) {
    const auto k = static_cast<double>(most);
    return 2 * Clusters(bins).cost(0, bins.size()) / (k * k * k);
  }
  std::vector<Bin> large((bins.size() - 1) / together + 1);
  for (size_t i = 0; i < bins.size(); ++i) {
    Bin& b = large[i / together];
    b = {b.count + bins[i].count, b.sum + bins[i].sum, b.squares + bins[i].squares};
  }
  return solve(large, most, first_penalty(large, most)).penalty;
}

}  // namespace

std::vector<size_t> kmeans(std::span<const Bin> bins, size_t most) {
  std::vector<size_t> ends(bins.size() + 1);
  if (bins.size() > most) {
    ends = solve(bins, most, first_penalty(bins, most)).path;
  } else {
    std::iota(ends.begin(), ends.end(), size_t{0});
  }
  ends.pop_back();
  return ends;
}

}  // namespace sardonyx::compress
