#include "sardonyx/onnx_builder.h"

#include <fmt/format.h>

#include "dialects/onnx/node_maker.h"

namespace sardonyx {

using namespace onnx;  // kFamily*

NodeMaker::NodeMaker(OnnxBuilder& b, Family family) : builder_(b), op_(onnx::find(family, b.opset())) {
  if (op_ == nullptr) {
    const Op& first = oldest(family);
    throw Error(ErrorCode::kUnsupported, fmt::format("ONNX operator {} needs opset {}; the model imports opset {}", first.name,
                                                     first.since_version, b.opset()));
  }
}

void NodeMaker::body(std::string_view name, Graph& graph) { bodies_.push_back({builder_.model().name(name), &graph}); }

const AttrSpec* NodeMaker::spec(std::string_view name) const {
  for (const AttrSpec& s : op_->attrs) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

void NodeMaker::write(std::string_view name, Attr value) {
  if (spec(name) == nullptr) {
    throw Error(ErrorCode::kUnsupported, fmt::format("ONNX operator {}-{} has no attribute '{}'; the model imports opset {}",
                                                     op_->name, op_->since_version, name, builder_.opset()));
  }
  attrs_.push_back(attr(name, std::move(value)));
}

void NodeMaker::integer(std::string_view name, int64_t v, int64_t newest) {
  const AttrSpec* s = spec(name);
  const int64_t otherwise = s && s->has_default ? s->default_int : newest;
  const bool implied = s == nullptr || s->has_default;
  if (!(implied && v == otherwise)) write(name, v);
}

void NodeMaker::put(std::string_view name, double v, double newest) {
  v = static_cast<float>(v);
  const AttrSpec* s = spec(name);
  const double otherwise = static_cast<float>(s && s->has_default ? s->default_float : newest);
  const bool implied = s == nullptr || s->has_default;
  if (!(implied && v == otherwise)) write(name, v);
}

void NodeMaker::put(std::string_view name, std::string_view v, std::string_view newest) {
  const AttrSpec* s = spec(name);
  const std::string_view otherwise = s && s->has_default ? s->default_string : newest;
  const bool implied = s == nullptr || s->has_default;
  if (!(implied && v == otherwise)) write(name, v);
}

void NodeMaker::put(std::string_view name, std::optional<bool> v) {
  if (v) write(name, static_cast<int64_t>(*v));
}
void NodeMaker::put(std::string_view name, std::optional<int64_t> v) {
  if (v) write(name, *v);
}
void NodeMaker::put(std::string_view name, std::optional<double> v) {
  if (v) write(name, static_cast<double>(static_cast<float>(*v)));
}
void NodeMaker::put(std::string_view name, std::string_view v) {
  if (!v.empty()) write(name, v);
}
void NodeMaker::put(std::string_view name, DType v) {
  if (v != DType::kUndefined) write(name, static_cast<int64_t>(v));
}
void NodeMaker::put(std::string_view name, const TensorPtr& v) {
  if (v) write(name, v);
}
void NodeMaker::put(std::string_view name, const Type* v) {
  if (v) write(name, v);
}
void NodeMaker::put(std::string_view name, const std::vector<int64_t>& v) {
  if (!v.empty()) write(name, v);
}
void NodeMaker::put(std::string_view name, const std::vector<double>& v) {
  if (v.empty()) return;
  std::vector<double> rounded(v.size());
  for (size_t i = 0; i < v.size(); ++i) rounded[i] = static_cast<float>(v[i]);
  write(name, std::move(rounded));
}
void NodeMaker::put(std::string_view name, const std::vector<std::string>& v) {
  if (!v.empty()) write(name, v);
}

Node& NodeMaker::many(size_t num_results) {
  while (!inputs_.empty() && inputs_.back() == nullptr) inputs_.pop_back();
  return builder_.make(*op_, inputs_, num_results, std::move(attrs_), bodies_);
}

#include "dialects/onnx/generated/builder_methods.gen.inc"

// ---------------------------------------------------------------------------------------------------------------------
// One meaning, spelled for the model's opset

int OnnxBuilder::opset() const {
  const auto version = model().opset_version("");
  if (!version) throw Error(ErrorCode::kInvalidModel, "the model imports no opset of the default domain");
  return static_cast<int>(*version);
}

Value* OnnxBuilder::reduce(std::string_view op_name, Value* x, std::optional<std::vector<int64_t>> axes, bool keepdims) {
  AttrInit attrs;
  if (axes && axes->empty()) {
    // To most versions an empty list means "all axes". Reducing over no axes is the identity for sums and
    // extremes; squares, magnitudes and logarithms still apply, so those reduce over an added axis of size 1.
    for (std::string_view same : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
      if (op_name == same) return x;
    }
    return reduce(op_name, unsqueeze(x, std::vector<int64_t>{0}), std::vector<int64_t>{0}, false);
  }
  if (!keepdims) attrs.push_back(attr("keepdims", 0));
  if (!axes) return op(op_name, {x}, std::move(attrs));
  const bool as_operand = opset() >= 18 || (op_name == "ReduceSum" && opset() >= 13);
  if (as_operand) return op(op_name, {x, i64s(*axes)}, std::move(attrs));
  attrs.push_back(attr("axes", *axes));
  return op(op_name, {x}, std::move(attrs));
}

Value* OnnxBuilder::squeeze(Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  if (opset() >= 13) return op("Squeeze", {x, i64s(axes)});
  return op("Squeeze", {x}, {attr("axes", std::vector<int64_t>(axes.begin(), axes.end()))});
}

Value* OnnxBuilder::unsqueeze(Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  if (opset() >= 13) return op("Unsqueeze", {x, i64s(axes)});
  return op("Unsqueeze", {x}, {attr("axes", std::vector<int64_t>(axes.begin(), axes.end()))});
}

std::vector<Value*> OnnxBuilder::split(Value* x, std::span<const int64_t> sizes, int64_t axis) {
  if (sizes.size() == 1) return {x};
  AttrInit attrs;
  if (axis != 0) attrs.push_back(attr("axis", axis));
  std::vector<Value*> inputs{x};
  if (opset() >= 13) {
    inputs.push_back(i64s(sizes));
  } else {
    attrs.push_back(attr("split", std::vector<int64_t>(sizes.begin(), sizes.end())));
  }
  Node& n = node("Split", inputs, sizes.size(), std::move(attrs));
  std::vector<Value*> pieces;
  for (Value& v : n.results()) pieces.push_back(&v);
  return pieces;
}

Value* OnnxBuilder::Constant(TensorPtr value) { return constant_node(std::move(value)); }

}  // namespace sardonyx
