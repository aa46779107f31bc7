#include <fmt/format.h>

#include <limits>

#include "lower/engine/engine.h"

namespace sardonyx::lower {

std::optional<double> splat_value(const TensorPtr& t, int64_t most) {
  if (t == nullptr || t->size() == 0 || t->is_promise() || t->dtype() == DType::kString || is_complex(t->dtype())) return {};
  const double first = t->as_double(0);
  if (t->is_splat() || t->size() == 1) return first;
  if (t->size() > most) return {};
  for (int64_t i = 1; i < t->size(); ++i) {
    if (t->as_double(i) != first) return {};
  }
  return first;
}

Value* NodeLowering::in(size_t i) const {
  if (!has(i)) throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' has no operand {}", node.op().name, i));
  return engine_.value(*node.input(i), builder_);
}

std::vector<Value*> NodeLowering::operands() const {
  std::vector<Value*> values;
  for (size_t i = 0; i < num_inputs(); ++i) {
    if (has(i)) values.push_back(in(i));
  }
  return values;
}

std::optional<double> NodeLowering::splat_value(size_t i) const {
  if (!has(i)) return {};
  return lower::splat_value(node.input(i)->constant(), std::numeric_limits<int64_t>::max());
}

Value* NodeLowering::like(const Value* x, double v) const { return builder_.scalar(x->dtype(), v); }

std::vector<Value*> NodeLowering::inline_body(const Graph& body, std::span<Value* const> args, Builder& b) const {
  if (body.inputs().size() != args.size())
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the body of '{}' takes {} operands, not {}", node.op().name, body.inputs().size(), args.size()));
  for (size_t i = 0; i < args.size(); ++i) engine_.bind(*body.input(i), args[i]);
  engine_.lower_body(body, node, b);
  std::vector<Value*> results;
  for (size_t i = 0; i < body.outputs().size(); ++i) results.push_back(engine_.value(*body.output(i), b));
  return results;
}

void NodeLowering::unsupported(std::string why) const { throw Error(ErrorCode::kUnsupported, std::move(why)); }

void NodeLowering::mark(Builder& b) const { engine_.mark(node, b); }

}  // namespace sardonyx::lower
