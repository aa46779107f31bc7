// RNN, GRU and LSTM.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {

void recurrent(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const std::string direction = c.attr_string("direction").value_or("forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    c.fail(fmt::format("attribute 'direction' is '{}'", direction));
  }
  const Dim directions = Dim::of(direction == "bidirectional" ? 2 : 1);
  need_rank(c, 0, 3);
  need_rank(c, 1, 3);
  need_rank(c, 2, 3);
  const bool batch_first = c.attr_int("layout", 0) != 0;
  Dim length, batch, hidden;
  if (const Type* x = c.ranked(0)) {
    length = x->dim(batch_first ? 1 : 0);
    batch = x->dim(batch_first ? 0 : 1);
  }
  if (auto size = c.attr_int("hidden_size")) {
    hidden = Dim::of(*size);
  } else if (const Type* r = c.ranked(2)) {
    hidden = r->dim(2);
  }
  if (dtype == DType::kUndefined) return;
  const DimVec y = batch_first ? DimVec{batch, length, directions, hidden} : DimVec{length, directions, batch, hidden};
  const DimVec state = batch_first ? DimVec{batch, directions, hidden} : DimVec{directions, batch, hidden};
  c.set(0, dtype, y);
  c.set(1, dtype, state);
  c.set(2, dtype, state);
}

}  // namespace sardonyx::onnx::rules
