#include "rewrite/rewriter.h"

#include "sardonyx/error.h"

namespace sardonyx {

Value* rebuild(Builder& b, const Node& n, std::span<Value* const> operands) {
  SX_CHECK(n.bodies().empty(), "a node with bodies cannot be rebuilt");
  return b.make(n.op(), operands, n.num_results(), attrs_of(n)).result(0);
}

Value* rebuild(Builder& b, const Node& n, const Value& old_operand, Value& new_operand) {
  std::vector<Value*> operands = operands_of(n);
  for (Value*& v : operands) v = v == &old_operand ? &new_operand : v;
  return rebuild(b, n, operands);
}

}  // namespace sardonyx
