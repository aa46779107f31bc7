#include "passes/onnx/fuse/fusion.h"

#include <algorithm>
#include <numeric>

#include "passes/onnx/layout/elementwise_region.h"

namespace sardonyx::onnx {
namespace {

constexpr size_t kMaxViews = 32;

}  // namespace

bool has_no_other_users(const Match& m, const Value* kept) {
  const auto matched = m.nodes();
  const auto is_matched = [&](const Node* n) { return std::find(matched.begin(), matched.end(), n) != matched.end(); };
  for (Node* n : matched.subspan(1)) {
    for (const Value& v : n->results()) {
      if (&v == kept) continue;
      for (const Use& u : v.uses()) {
        if (!is_matched(u.owner)) return false;
      }
    }
  }
  return true;
}

bool is_nonnegative(PassContext& context, const Value* v, int depth) {
  if (const auto s = context.splat(v)) return *s >= 0;
  const Node* n = v->def();
  if (n == nullptr || depth == 0 || n->unchecked()) return false;
  const auto operand = [&](size_t i) { return n->input(i) != nullptr && is_nonnegative(context, n->input(i), depth - 1); };
  static constexpr std::string_view kAlways[] = {"Relu",        "Exp",      "Abs",      "Sigmoid",         "Softmax",
                                                 "HardSigmoid", "ReduceL2", "ReduceL1", "ReduceSumSquare", "Sqrt"};
  static constexpr std::string_view kKeeps[] = {"ReduceSum", "ReduceMean",  "ReduceMax",         "Reshape", "Transpose",
                                                "MaxPool",   "AveragePool", "GlobalAveragePool", "Squeeze", "Unsqueeze"};
  if (std::ranges::any_of(kAlways, [&](std::string_view op) { return n->is(op); })) return true;
  if (n->is("Clip")) {
    // The most, where it is less than the least.
    if (n->op().since_version < 11) return float_attr(*n, "min").value_or(-1) >= 0 && float_attr(*n, "max").value_or(0) >= 0;
    const auto limit = [&](size_t i) { return n->input(i) != nullptr ? context.splat(n->input(i)) : std::nullopt; };
    return limit(1).value_or(-1) >= 0 && (n->input(2) == nullptr || limit(2).value_or(-1) >= 0);
  }
  if (n->is("Mul")) return n->input(0) == n->input(1) || (operand(0) && operand(1));
  if (n->is("Add")) return operand(0) && operand(1);
  return std::ranges::any_of(kKeeps, [&](std::string_view op) { return n->is(op); }) && operand(0);
}

TensorPtr repeated_number(const Node& constant_of_shape) {
  const Attr* value = constant_of_shape.attr("value");
  if (value == nullptr) return Tensor::full(DType::kF32, {}, 0);
  const TensorPtr* number = value->get<TensorPtr>();
  return number != nullptr && (*number)->size() == 1 && !(*number)->is_promise() ? (*number)->reshaped({}) : nullptr;
}

std::optional<int64_t> trailing(std::span<const int64_t> axes, size_t rank) {
  if (axes.empty()) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<int64_t>(rank - axes.size() + i)) return std::nullopt;
  }
  return axes.front();
}

bool has_kept_shape(const Value* v, const Value* x, std::span<const int64_t> axes) {
  if (v == nullptr || x == nullptr || !v->ranked() || !x->ranked() || v->type()->rank() > x->type()->rank()) return false;
  const size_t missing = x->type()->rank() - v->type()->rank();
  const auto dims = v->type()->dims();
  // If v has fewer axes than x, it lines up only if it is one number.
  if (missing > 0 && !std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.is(1); })) return false;
  for (size_t i = 0; i < x->type()->rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    const Dim d = i < missing ? Dim::of(1) : dims[i - missing];
    if (reduced ? !d.is(1) : !(d == x->type()->dim(i))) return false;
  }
  return true;
}

bool same_shape(const Value* a, const Value* b) {
  return a != nullptr && b != nullptr && a->ranked() && Types::equal(a->type(), b->type());
}

Pattern squared(const Pattern& p) {
  using namespace pattern;
  return any_of(Mul(p, p), Pow(p, splat(2)));
}

bool fits_dims(const Value& v, std::span<const Dim> dims) {
  if (!v.ranked() || v.type()->rank() < dims.size()) return false;
  const size_t extra = v.type()->rank() - dims.size();
  if (extra > 0 && !v.is_constant()) return false;
  for (size_t i = 0; i < extra; ++i) {
    if (!v.type()->dim(i).is(1)) return false;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!(v.type()->dim(extra + i) == dims[i])) return false;
  }
  return true;
}

Value* trimmed(Rewriter& b, Value* v, size_t rank) {
  if (v->type()->rank() == rank) return v;
  const auto shape = v->constant()->shape().subspan(v->type()->rank() - rank);
  return with_shape(b, *v, {shape.begin(), shape.end()});
}

Value* ones(Rewriter& b, DType dtype, std::span<const Dim> dims) {
  std::vector<int64_t> shape;
  for (Dim d : dims) {
    if (!d.is_int()) return nullptr;
    shape.push_back(d.value());
  }
  return b.full(dtype, std::move(shape), 1);
}

std::optional<std::vector<Dim>> normalized_by(const Node& n) {
  const Value* v = n.input(0);
  const auto axis = read::LayerNormalization(n).axis();
  if (v == nullptr || !v->ranked() || !axis) return std::nullopt;
  for (size_t i = 1; i < n.num_results(); ++i) {
    if (n.result(i)->has_uses()) return std::nullopt;
  }
  const auto dims = v->type()->dims().subspan(*axis);
  return std::vector<Dim>(dims.begin(), dims.end());
}

bool is_view(const Node& n) { return n.is("Transpose") || n.is("Reshape") || n.is("Squeeze") || n.is("Unsqueeze"); }

std::optional<Labels> labels_above(const Node& n, const Labels& out) {
  const Value* in = n.input(0);
  if (in == nullptr || !in->ranked() || !n.result()->ranked()) return std::nullopt;
  const Type *from = in->type(), *to = n.result()->type();
  Labels labels(from->rank(), kOne);
  if (n.is("Transpose")) {
    const auto perm = read::Transpose(n).perm();
    if (!perm) return std::nullopt;  // unknown in a function, where the call sets it
    for (size_t i = 0; i < labels.size(); ++i) labels[static_cast<size_t>((*perm)[i])] = out[i];
    return labels;
  }
  size_t j = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (from->dim(i).is(1)) continue;
    while (j < to->rank() && to->dim(j).is(1)) ++j;
    if (j == to->rank() || !(from->dim(i) == to->dim(j))) return std::nullopt;
    labels[i] = out[j++];
  }
  while (j < to->rank() && to->dim(j).is(1)) ++j;
  return j == to->rank() ? std::optional(labels) : std::nullopt;
}

size_t climb(Value*& v, Labels& labels, const Graph* graph) {
  size_t steps = 0;
  for (; steps < kMaxViews; ++steps) {
    Node* n = v->def();
    if (n == nullptr || n->graph() != graph || !is_view(*n) || !v->has_one_use() || n->unchecked()) break;
    const auto next = labels_above(*n, labels);
    if (!next) break;
    labels = *next;
    v = n->input(0);
  }
  return steps;
}

Pattern reshaped(const Pattern& p) {
  using namespace pattern;
  return any_of(p, Unsqueeze(p, rest), Reshape(p, any));
}

}  // namespace sardonyx::onnx
