#include "rewrite/mil_rewriter.h"

#include <fmt/format.h>

#include <algorithm>

#include "dialects/mil/ops.h"
#include "sardonyx/error.h"

namespace sardonyx::mil {

int Rewriter::mil_version() const {
  const Function* f = graph().function();
  for (const Graph* g = &graph(); f == nullptr && g->enclosing() != nullptr; g = g->enclosing()) f = g->enclosing()->function();
  const int version = f != nullptr ? opset_version(f->mil_opset) : 0;
  return version != 0 ? version : kNewestVersion;
}

Value* Rewriter::mil(std::string_view name, std::initializer_list<Operand> operands) {
  const Op& op = model().op("", name, mil_version());
  SX_CHECK(op.known, fmt::format("Core ML has no op '{}' in version {}", name, mil_version()));
  std::vector<Value*> placed(op.inputs.size(), nullptr);
  std::vector<Value*> list;
  size_t last = 0;
  for (const Operand& o : operands) {
    const auto slot = std::find_if(op.inputs.begin(), op.inputs.end(), [&](const Slot& s) { return s.name == o.slot; });
    SX_CHECK(slot != op.inputs.end(), fmt::format("{} has no operand '{}'", name, o.slot));
    const auto at = static_cast<size_t>(slot - op.inputs.begin());
    if (slot->arity == Arity::kVariadic) {
      list.push_back(o.value);
    } else {
      placed[at] = o.value;
      if (o.value != nullptr) last = std::max(last, at + 1);
    }
  }
  if (list.empty()) {
    placed.resize(last);
  } else {
    placed.pop_back();  // the list's slot is the last
    placed.insert(placed.end(), list.begin(), list.end());
  }
  return make(op, placed, 1, {}).result(0);
}

Value* Rewriter::text(std::string_view s) { return constant(Tensor::strings({}, {std::string(s)})); }

Value* Rewriter::i32(int32_t v) { return scalar_int(DType::kI32, v); }

Value* Rewriter::i32s(std::span<const int64_t> v) {
  const std::vector<int32_t> narrow(v.begin(), v.end());
  return constant(Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(v.size())}, narrow));
}

Value* Rewriter::boolean(bool v) { return scalar_int(DType::kBool, v); }

}  // namespace sardonyx::mil
