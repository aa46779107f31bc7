// Which ops of a finished Core ML program half precision would make wrong, not just less exact.
//
// From the operands that precision/operands.h lists, exactness is followed backward through elementwise
// arithmetic and ops that move elements, into and out of blocks. Forward go integers above 2048, which half
// precision rounds until they are scaled or compared, and numbers that may be beyond 65504, until something
// brings them back. Each value is looked at a bounded number of times.
#pragma once

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/mil/precision/half_ranges.h"
#include "passes/mil/precision/operands.h"

namespace sardonyx::mil {

class SingleOps {
 public:
  SingleOps(Graph& function, PassContext& context);

  bool contains(const Node& n) const { return kept_.contains(&n); }
  // Whether that operand stays although its op need not.
  bool contains(const Node& n, size_t operand) const;
  // Of ops that stay since they may leave the range of half precision, which a user may know better: why.
  struct Reason {
    const Node* node;
    std::string_view why;
  };
  const std::vector<Reason>& reasons() const { return reasons_; }

  // Adds what runs on random inputs show, if the function is small. is_half: whether the op would be cast.
  void probe(const std::function<bool(const Node&)>& is_half);

 private:
  enum class Through : uint8_t { kNothing, kElementwise, kSums };

  void require(Graph& g, bool in_loop);
  void require(Node& n, size_t operand, const OperandPrecision& row, bool in_loop);
  void demand(const Value* v, Through through);
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

}  // namespace sardonyx::mil
