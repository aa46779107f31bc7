//   constants ── op ── v, w        =>   v, w: constants
//
// Folds the ops whose values coremltools infers: arithmetic, shapes, reductions, products; not convolutions,
// pooling, random numbers or the constexpr ops. Known sizes count too: the shape of x: (2, n) is not a
// constant, but its first element is. A result with a known value becomes a constant of its name; the others
// stay with the op. A cond with a constant predicate has the values of its branch. skip_const_by_size:
// results with more elements stay, and so do the op's other results; ops on these values still fold. Dead ops
// are left to dead_code_elimination. Large constants are deferred: they keep op and operands, and are
// computed when they are written. Rounds: coremltools computes with NumPy, whose last bit may differ. After
// coremltools' pass of this name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "passes/deferred_node.h"
#include "passes/mil/params.h"
#include "sardonyx/eval.h"
#include "sardonyx/infer.h"

namespace sardonyx::mil {
namespace {

constexpr uint64_t kMemoryCap = 4ull << 30;
constexpr int kMaxDeferred = 8;  // nesting depth

bool has_value(const Node& n) {
  static const std::set<std::string_view> kOps = {"abs",
                                                  "acos",
                                                  "add",
                                                  "argsort",
                                                  "asin",
                                                  "atan",
                                                  "atanh",
                                                  "band_part",
                                                  "cast",
                                                  "ceil",
                                                  "clamped_relu",
                                                  "clip",
                                                  "concat",
                                                  "cos",
                                                  "cosh",
                                                  "cumsum",
                                                  "einsum",
                                                  "elu",
                                                  "equal",
                                                  "erf",
                                                  "exp",
                                                  "exp2",
                                                  "expand_dims",
                                                  "fill",
                                                  "fill_like",
                                                  "flatten2d",
                                                  "floor",
                                                  "floor_div",
                                                  "gather",
                                                  "gather_along_axis",
                                                  "gelu",
                                                  "greater",
                                                  "greater_equal",
                                                  "identity",
                                                  "inverse",
                                                  "l2_norm",
                                                  "layer_norm",
                                                  "leaky_relu",
                                                  "less",
                                                  "less_equal",
                                                  "linear",
                                                  "linear_activation",
                                                  "log",
                                                  "logical_and",
                                                  "logical_not",
                                                  "logical_or",
                                                  "logical_xor",
                                                  "matmul",
                                                  "maximum",
                                                  "minimum",
                                                  "mod",
                                                  "mul",
                                                  "non_zero",
                                                  "not_equal",
                                                  "pad",
                                                  "pow",
                                                  "prelu",
                                                  "quantize",
                                                  "range_1d",
                                                  "real_div",
                                                  "reduce_argmax",
                                                  "reduce_argmin",
                                                  "reduce_l1_norm",
                                                  "reduce_l2_norm",
                                                  "reduce_log_sum",
                                                  "reduce_log_sum_exp",
                                                  "reduce_max",
                                                  "reduce_mean",
                                                  "reduce_min",
                                                  "reduce_prod",
                                                  "reduce_sum",
                                                  "reduce_sum_square",
                                                  "relu",
                                                  "relu6",
                                                  "reshape",
                                                  "reverse",
                                                  "reverse_sequence",
                                                  "round",
                                                  "rsqrt",
                                                  "scaled_dot_product_attention",
                                                  "scaled_tanh",
                                                  "scatter_along_axis",
                                                  "select",
                                                  "shape",
                                                  "sigmoid",
                                                  "sigmoid_hard",
                                                  "sign",
                                                  "sin",
                                                  "sinh",
                                                  "slice_by_index",
                                                  "slice_by_size",
                                                  "slice_update",
                                                  "softmax",
                                                  "softplus",
                                                  "softplus_parametric",
                                                  "softsign",
                                                  "split",
                                                  "sqrt",
                                                  "square",
                                                  "squeeze",
                                                  "stack",
                                                  "sub",
                                                  "tan",
                                                  "tanh",
                                                  "threshold",
                                                  "thresholded_relu",
                                                  "tile",
                                                  "topk",
                                                  "transpose"};
  return kOps.contains(n.op().name);
}

// Evaluating these never fails, whatever the data, so it can be deferred.
bool cannot_fail(const Node& n) {
  static const std::set<std::string_view> kOps = {"transpose", "reshape", "squeeze", "expand_dims", "identity",
                                                  "add",       "sub",     "mul",     "concat",      "tile",
                                                  "fill",      "matmul",  "linear",  "relu"};
  return kOps.contains(n.op().name);
}

class Fold {
 public:
  Fold(PassContext& context, double most) : context_(context), most_(most) {}

  bool run(Graph& top) {
    block(top);
    return changed_;
  }

 private:
  TensorPtr known(const Value* v) const {
    if (v->is_constant()) return v->constant();
    const auto at = found_.find(v);
    return at != found_.end() ? at->second : nullptr;
  }

  void block(Graph& g) {
    for (Node& n : g.nodes()) {
      for (const Body& b : n.bodies()) block(*b.graph);  // recursion over nesting only
      if (n.unchecked()) continue;
      retype(n);
      if (n.is("cond")) {
        choose(n);
      } else if (has_value(n)) {
        // In memory, coremltools has computed large ones already (python/native/coreml/session.cc).
        if (n.extra() != nullptr) keep(*n.result(), n.extra()->payload);
        if (!found_.contains(n.result())) from_facts(n);
        if (!found_.contains(n.result())) compute(n);
      }
      replace(n);
    }
  }

  // A new constant may determine the sizes of its users, then those of their users, and so on.
  void retype(Node& n) {
    if (improved_.empty() || !n.bodies().empty()) return;
    if (std::ranges::none_of(n.operands(), [&](const Use& u) { return improved_.contains(u.value); })) return;
    std::vector<const Type*> types;
    for (const Value& v : n.results()) types.push_back(v.type());
    const size_t known = count_known(n);
    infer_node(n, context_.facts);
    bool more = count_known(n) > known;
    for (Value& v : n.results()) {
      const Type* before = types[v.index()];
      const Type* both = before != nullptr && v.type() != nullptr ? context_.model.types().meet(v.type(), before) : nullptr;
      v.set_type(both != nullptr ? both : before);
      more |= v.type() != before;
    }
    if (!more) return;
    for (const Value& v : n.results()) improved_.insert(&v);
  }

  // Counts the elements of the results that are known as sizes.
  size_t count_known(const Node& n) const {
    size_t count = 0;
    for (const Value& v : n.results()) {
      const SymbolicValue* s = context_.facts.find(v);
      if (s != nullptr) count += static_cast<size_t>(std::ranges::count_if(s->elements, [](Dim d) { return d.is_int(); }));
    }
    return count;
  }

  void keep(const Value& v, TensorPtr t) {
    if (t == nullptr || t->is_promise() || !v.ranked() || v.dtype() != t->dtype() || v.type()->rank() != t->rank()) return;
    for (size_t i = 0; i < t->rank(); ++i) {
      const Dim d = v.type()->dim(i);
      if (d.is_int() && !d.is(t->shape()[i])) return;
    }
    found_.emplace(&v, std::move(t));
  }

  // Results that are known as sizes, although no operand is a constant.
  void from_facts(const Node& n) {
    for (const Value& v : n.results()) {
      const auto ints = context_.ints(&v);
      if (!ints || v.type()->static_size() != static_cast<int64_t>(ints->size())) continue;
      std::vector<int64_t> shape;
      for (Dim d : v.type()->dims()) shape.push_back(d.value());
      keep(v, Tensor::of<int32_t>(DType::kI32, std::move(shape), std::vector<int32_t>(ints->begin(), ints->end())));
    }
  }

  void choose(const Node& n) {
    const Value* predicate = n.input(0);
    const TensorPtr p = predicate != nullptr ? known(predicate) : nullptr;
    if (p == nullptr || p->size() != 1 || p->is_promise()) return;
    const Graph* chosen = n.body(p->as_int(0) != 0 ? "true_fn" : "false_fn");
    if (chosen == nullptr) return;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (TensorPtr t = known(chosen->output(i))) keep(*n.result(i), std::move(t));
    }
  }

  void compute(Node& n) {
    std::vector<TensorPtr> operands;
    int depth = 0;
    for (const Use& u : n.operands()) {
      operands.push_back(u.value != nullptr ? known(u.value) : nullptr);
      if (u.value == nullptr) continue;
      if (operands.back() == nullptr || operands.back()->is_promise()) return;
      const auto at = deferred_.find(operands.back().get());
      if (at != deferred_.end()) depth = std::max(depth, at->second);
    }
    const Type* type = n.result()->type();
    const bool sized = n.num_results() == 1 && type->static_size().has_value();
    const size_t size = sized ? byte_size(type->dtype(), static_cast<uint64_t>(*type->static_size())) : 0;
    if (size > kMemoryCap) return;
    if (size > kDeferConstantBytes && n.is("fill")) return spread(n);
    if (size > kDeferConstantBytes) {
      if (TensorPtr view = view_by_node(n, operands, *type)) return keep(*n.result(), std::move(view));
      if (TensorPtr half = half_by_node(n, operands, *type)) return keep(*n.result(), std::move(half));
    }
    if (size > kDeferConstantBytes && depth < kMaxDeferred) {
      if (!cannot_fail(n) && !evaluate_node(n, operands, kMemoryCap)) return;
      TensorPtr made = defer_node(n, std::move(operands), *type, kMemoryCap);
      deferred_.emplace(made.get(), depth + 1);
      return keep(*n.result(), std::move(made));
    }
    const auto results = evaluate_node(n, operands, kMemoryCap);
    if (!results) return;
    for (size_t i = 0; i < n.num_results(); ++i) keep(*n.result(i), (*results)[i]);
  }

  // A fill becomes a splat.
  void spread(Node& n) {
    const Type& type = *n.result()->type();
    std::vector<int64_t> shape;
    for (Dim d : type.dims()) shape.push_back(d.value());
    const Value* value = operand(n, context_, "value");
    keep(*n.result(), Tensor::full(type.dtype(), std::move(shape), value != nullptr ? known(value)->as_double(0) : 0));
  }

  void replace(Node& n) {
    bool all = n.num_results() > 0;
    for (Value& v : n.results()) {
      const auto at = found_.find(&v);
      if (at == found_.end()) {
        all = false;
        continue;
      }
      const TensorPtr& t = at->second;
      if (t->rank() > 0 && static_cast<double>(t->size()) > most_) return;
      if (!v.has_uses()) continue;
      Value* made = n.graph()->add_constant(t, v.name().view());
      n.graph()->replace_uses(v, *made);
      found_.emplace(made, t);
      improved_.insert(made);
      context_.log.count(n.op().name);
      changed_ = true;
    }
    if (all && is_removable(n)) n.graph()->erase(n), changed_ = true;
  }

  PassContext& context_;
  double most_;
  bool changed_ = false;
  std::unordered_map<const Value*, TensorPtr> found_;
  std::unordered_set<const Value*> improved_;        // values about which more is known than when the pass began
  std::unordered_map<const Tensor*, int> deferred_;  // nesting depth of deferred constants; found_ keeps them alive
};

// Parses the option like coremltools, which allows "1e6".
double most_elements(const PassContext& context) {
  const std::string text = context.options().text("skip_const_by_size", {});
  if (text.empty()) return HUGE_VAL;
  char* end = nullptr;
  const double most = std::strtod(text.c_str(), &end);
  if (*end != '\0' || std::isnan(most))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("option 'skip_const_by_size' must be a number of elements, not '{}'", text));
  return most;
}

}  // namespace

Pass const_elimination() {
  return Pass::on_graph(Numerics::kRounds,
                        [](Graph& top, PassContext& context) { return Fold(context, most_elements(context)).run(top); })
      .option("skip_const_by_size", "do not fold results with more elements than this");
}

}  // namespace sardonyx::mil
