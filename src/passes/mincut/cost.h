// What regions cost, and which of their variables should move.
#pragma once

#include <unordered_map>

#include "passes/mincut/region.h"

namespace sardonyx::layout {

// In elements moved: once with small and once with large values of the symbols. What is done must pay off at
// both.
struct Cost {
  double small{}, large{};
  Cost operator+(const Cost& o) const { return {small + o.small, large + o.large}; }
  Cost operator*(double f) const { return {small * f, large * f}; }
  Cost operator*(const Cost& f) const { return {small * f.small, large * f.large}; }
  Cost& operator+=(const Cost& o) { return *this = *this + o; }
};

class Costs {
 public:
  explicit Costs(PassContext& context) : context_(context) {}

  // Of a region as its variables stand.
  Cost total(const Region& r);
  // Of a node that moves.
  Cost of_node(const Var& v);
  // Of a transpose in graph g from `stored` to `wanted`. `products`: all its users are products, which take
  // the last two axes either way.
  Cost of_transpose(const Root& root, const Layout& stored, const Layout& wanted, const Graph& g, bool products);

 private:
  Cost size_of(const Type* t);
  double size_at(Dim d, int64_t value);
  Cost times_run(const Graph& g);

  PassContext& context_;
  std::unordered_map<const Type*, Cost> sizes_;
  std::unordered_map<const Graph*, Cost> times_run_;
};

// The layout that turns `stored` into `wanted`.
Layout relative(const Layout& stored, const Layout& wanted);

// Leaves the best choice in the variables; false when nothing is better than what is there. Adds the steps it
// takes to *work.
bool choose(Region& r, Costs& costs, uint64_t* work);

}  // namespace sardonyx::layout
