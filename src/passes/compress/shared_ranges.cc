#include "passes/compress/shared_ranges.h"

#include <algorithm>

namespace sardonyx::compress {

void SharedRanges::see(const Value* v, const Histogram& h) {
  histograms_[find(v)].add(h);
  found_.erase(find(v));
}

void SharedRanges::unite(const Value* a, const Value* b) {
  const Value *to = find(a), *from = find(b);
  if (to == from) return;
  found_.erase(to);
  found_.erase(from);
  parent_[from] = to;
  if (const auto moved = histograms_.extract(from)) histograms_[to].add(moved.mapped());
  if (whole_.erase(from) > 0) whole_.insert(to);
  if (const auto at = bounds_.find(from); at != bounds_.end()) bound(to, at->second);
}

void SharedRanges::bound(const Value* v, Range bounds) {
  Range& all = bounds_.try_emplace(find(v), bounds).first->second;
  all = {std::max(all.low, bounds.low), std::min(all.high, bounds.high)};
  found_.erase(find(v));
}

void SharedRanges::keep_whole(const Value* v) {
  whole_.insert(find(v));
  found_.erase(find(v));
}

Range SharedRanges::range_of(const Value* v) {
  v = find(v);
  const auto [at, is_new] = found_.try_emplace(v);
  if (!is_new) return at->second;
  const Histogram& h = histograms_[v];
  return at->second = whole_.contains(v) ? h.widest() : left_out_ ? h.without(*left_out_) : h.least_squares(kSteps);
}

bool SharedRanges::may_share(const Value* v, const Value* all) {
  constexpr double kMostRatio = 1.5;
  const Range whole = range_of(all);
  if (range_of(v).width() * kMostRatio < whole.width()) return false;
  const auto at = bounds_.find(find(v));
  return at == bounds_.end() || (whole.low >= at->second.low && whole.high <= at->second.high);
}

const Value* SharedRanges::find(const Value* v) const {
  for (auto at = parent_.find(v); at != parent_.end(); at = parent_.find(v)) v = at->second;
  return v;
}

}  // namespace sardonyx::compress
