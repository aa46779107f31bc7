// Ranges of values that become codes of 8 bits, where values may have one range together.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "passes/compress/histogram.h"
#include "sardonyx/ir.h"

namespace sardonyx::compress {

constexpr int kSteps = 255;  // between the lowest and the highest code

class SharedRanges {
 public:
  void see(const Value* v, const Histogram& h);
  // From now on, b has the range of a, which covers both.
  void unite(const Value* a, const Value* b);

  // No code of v stands for a number beyond these.
  void bound(const Value* v, Range bounds);
  // Nothing of v is cut off: it is a result of the model.
  void keep_whole(const Value* v);
  // Ranges leave out this share of a value's elements, in place of what errs least.
  void leave_out(double share) { left_out_ = share; }

  Range range_of(const Value* v);
  // Whether v loses little by the range of `all`: its own is about as wide, and the other within its bounds.
  bool may_share(const Value* v, const Value* all);
  // The same for all values of one range.
  const Value* find(const Value* v) const;

 private:
  std::unordered_map<const Value*, const Value*> parent_;
  std::unordered_map<const Value*, Histogram> histograms_;
  std::unordered_map<const Value*, Range> bounds_;
  std::unordered_set<const Value*> whole_;
  std::optional<double> left_out_;
  std::unordered_map<const Value*, Range> found_;  // by range_of, until a range changes
};

}  // namespace sardonyx::compress
