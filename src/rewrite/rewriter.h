// Rewriter: the builder of rules and walks. It is the dialect's builder plus the context of the running pass.
#pragma once

#include <span>

#include "rewrite/pass.h"
#include "sardonyx/builder.h"

namespace sardonyx {

// Makes the same operator with the same attributes on other operands. Not for nodes with bodies.
Value* rebuild(Builder& b, const Node& n, std::span<Value* const> operands);
// The same with one operand replaced, in every slot that uses it.
Value* rebuild(Builder& b, const Node& n, const Value& old_operand, Value& new_operand);

// onnx::Rewriter and mil::Rewriter only give this a name. In a rule it inserts before the matched root.
template <class DialectBuilder>
class RewriterOf : public DialectBuilder {
 public:
  RewriterOf(Graph& graph, PassContext& context) : DialectBuilder(graph, context.facts), context_(context) {}

  PassContext& context() const { return context_; }
  Value* like(const Node& n, std::span<Value* const> operands) { return rebuild(*this, n, operands); }
  Value* like(const Node& n, const Value& old_operand, Value& new_operand) {
    return rebuild(*this, n, old_operand, new_operand);
  }

 private:
  PassContext& context_;
};

}  // namespace sardonyx
