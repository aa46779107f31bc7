// Which ops of a Core ML program would overflow in half precision, or underflow to zero: from bounds that
// always hold, and from runs.
//
// Bounds come from constants and from ops with bounded results (sigmoid, softmax, layer_norm, ...), by
// interval arithmetic. They prove an op safe or unsafe; where they prove neither, runs on the evaluator
// decide.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "passes/precision/words.h"
#include "sardonyx/eval.h"

namespace sardonyx::precision {

// Range of a value's finite elements. Constants from 1e38 on count as 65504; values masked by them are left
// out.
struct Extent {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool whole = false;  // all elements are integers, as bounds prove
  double least = 0;    // magnitude of the observed element next to zero that is not zero; 0 if there is none
  bool known() const {
    return low > -std::numeric_limits<double>::infinity() && high < std::numeric_limits<double>::infinity();
  }
  double magnitude() const;
};
Extent join(const Extent& a, const Extent& b);

enum class HalfVerdict : uint8_t {
  kSafe,         // all operands and results fit
  kUnknown,      // nothing is known
  kMayOverflow,  // its bounds exceed 65504, and no run decides
  kOverflows,    // proved by bounds, or observed
  kVanishes,     // all nonzero elements would become zero: proved, or observed
};
std::string_view to_string(HalfVerdict v);

struct HalfFinding {
  HalfVerdict verdict = HalfVerdict::kUnknown;
  const Value* value = nullptr;  // the operand or result that the verdict is about
  Extent extent;                 // its extent
  bool seen = false;             // whether the extent was observed or given; else it comes from bounds
};

class HalfRanges {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  // Computes bounds of all values of the function and its blocks. Both arguments must outlive this. Constants
  // with more elements than `most_read` are not read, and their bounds are unknown.
  HalfRanges(Graph& function, PassContext& context, int64_t most_read = kAll);

  // Adds ranges observed elsewhere, by the values' names.
  void tell(const std::map<std::string, Extent, std::less<>>& seen);
  // Runs the function on these inputs and widens the ranges. Throws what evaluate() throws.
  void observe(std::span<const EvalValue> inputs);
  // Runs it on random inputs; false when the evaluator cannot.
  bool observe_random(size_t runs, uint64_t seed);

  // The finding on an op with single-precision values; kSafe for other ops.
  HalfFinding judge(const Node& n) const;

  Extent bounds(const Value& v) const;
  int64_t most_read() const { return most_read_; }
  // Whether some elements of v may come from a mask, a constant beyond 65504.
  bool is_masked(const Value& v) const { return masked_.contains(&v); }
  const std::map<const Value*, Extent>& seen() const { return seen_; }

 private:
  void bound(Graph& g);
  void bound_constant(const Value* v, int64_t most_read);
  bool is_whole(Node& n);
  void see(const Value& v, const EvalValue& what);
  void see_inputs(const Graph& body);
  void check_scores(const Node& n, HalfFinding& worst) const;

  Graph& function_;
  PassContext& context_;
  std::unordered_set<const Value*> masked_;
  int64_t most_read_;
  std::unordered_map<const Value*, Extent> bounds_;
  std::map<const Value*, Extent> seen_;
};

using NamedExtents = std::map<std::string, Extent, std::less<>>;
// Merges ranges by name, taking the wider one.
void add_seen(const HalfRanges& ranges, NamedExtents& all);
// Ranges in the form of the option: one line per value, "low high name" or "low high/least name".
std::string ranges_text(const NamedExtents& ranges);
NamedExtents parse_ranges(std::string_view text);

}  // namespace sardonyx::precision
