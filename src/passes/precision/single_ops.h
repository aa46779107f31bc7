// Finds the ops of a finished Core ML program that half precision would make wrong, not just less exact.
//
// Exactness is followed backward from the operands that precision/operands.h lists, through elementwise
// arithmetic and ops that move elements, into and out of blocks. Two kinds of values are followed forward:
// integers above 2048, which half precision rounds, until they are scaled or compared; and numbers that may
// exceed 65504, by their bounds or as a loop multiplies them each time, until an op brings them back. Each
// value is visited a bounded number of times.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/precision/half_ranges.h"
#include "passes/precision/operands.h"

namespace sardonyx::precision {

class SingleOps {
 public:
  SingleOps(Graph& function, PassContext& context);

  bool contains(const Node& n) const { return kept_.contains(&n); }
  // Whether that operand stays in single precision although its op need not.
  bool contains(const Node& n, size_t operand) const;
  // Why an op stays because it may leave the range of half precision. A user may know that it does not.
  struct Reason {
    const Node* node;
    std::string_view why;
  };
  const std::vector<Reason>& reasons() const { return reasons_; }

  // Adds ops that go wrong on random inputs, if the function is small. is_half: whether the op would be cast.
  void probe(const std::function<bool(const Node&)>& is_half);
  // Adds ops that divide by numbers of which half precision keeps few digits or none, as observed.
  void observe(const HalfRanges& ranges);

 private:
  enum class Through : uint8_t { kNothing, kElementwise, kSums };

  void require(Graph& g, bool in_loop);
  void require(Node& n, size_t operand, const OperandPrecision& row, bool in_loop);
  bool grows_each_time(const Node& n) const;
  void keep_updates();
  static void find_varying(Graph& g, std::unordered_set<const Value*>& varying, std::vector<const Value*>& next);
  void demand(const Value* v, Through through);
  void keep_makers(const Value* small, const HalfRanges& ranges);
  void drain();
  void find_open_masks();
  void spread(Graph& g);
  std::string_view leaves_range(Node& n);
  bool is_rounded(const Value* v) const;
  void keep(const Node& n, std::string_view why = {});

  Graph& function_;
  PassContext& context_;
  HalfRanges ranges_;
  std::unordered_set<const Node*> kept_;
  std::unordered_set<const Value*> open_masks_, large_, outside_;
  std::unordered_map<const Value*, Through> demanded_;
  std::vector<const Value*> left_;
  std::vector<Reason> reasons_;
};

}  // namespace sardonyx::precision
