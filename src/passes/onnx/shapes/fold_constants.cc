//   constants ── any operators ── v        =>   v, a constant
//
// One walk, in order. It infers a node again if its operands became more precise, replaces integers whose
// elements inference knows by constants, and evaluates each node whose operands are constant (given or
// computed on the way). Large results are deferred: they keep the node and its operands, and are computed
// when the file is written. Results of few elements are stored at once, so that later nodes learn their
// sizes.
//
// stored_folds.h decides which other results to store: those whose size is made up for by the nodes and
// constants that disappear, and slightly larger ones. So a weight with other users gets no transposed copy,
// and ConstantOfShape stays, unless its user can broadcast a single element.
//
// What stops it: random operators; bodies; operands that are defaults of inputs (a caller may give others);
// quantization, since accelerators look for Q/DQ pairs (but quantized weights are stored as integers, a
// quarter of their floats); f64 functions whose last bit differs between machines; references to attributes
// of a function; operators that the evaluator lacks; results of more than 1 GiB.
// Rounds: sums have the evaluator's order, which may differ from a runtime's.
#include <algorithm>
#include <cstring>
#include <set>
#include <unordered_map>

#include "passes/deferred_node.h"
#include "passes/onnx/shapes/retype.h"
#include "passes/onnx/shapes/shape_target.h"
#include "passes/onnx/shapes/stored_folds.h"
#include "rewrite/onnx_rewriter.h"
#include "sardonyx/eval.h"

namespace sardonyx::onnx {
namespace {

constexpr uint64_t kMemoryCap = 1ull << 30;
constexpr uint64_t kUnsizedCap = 16 << 20;  // if the result's size is not known in advance
constexpr int64_t kFewElements = 64;
constexpr int kMaxDeferred = 8;  // nesting depth of deferred results

// Whether `n` quantizes f32 to integers. Every runtime rounds these quotients alike. The DequantizeLinear
// after it stays.
bool quantizes_weights(const Node& n) {
  if (!n.is("QuantizeLinear") || n.input(0)->dtype() != DType::kF32 || n.input(1)->dtype() != DType::kF32) return false;
  if (const Attr* precision = n.attr("precision"); precision != nullptr) return false;
  return is_integer(n.result()->dtype());
}

// Whether the node must stay because accelerators look for it.
bool is_quantization(const Node& n) {
  static const std::set<std::string_view> kOps = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
                                                  "QLinearConv",    "QLinearMatMul",    "MatMulInteger",
                                                  "ConvInteger"};
  return kOps.contains(n.op().name) && !quantizes_weights(n);
}

// Functions whose last bit depends on the math library. f32 results are folded: computing in double leaves
// spare bits.
bool is_transcendental(const Node& n) {
  static const std::set<std::string_view> kOps = {"Acos",
                                                  "Acosh",
                                                  "Asin",
                                                  "Asinh",
                                                  "Atan",
                                                  "Atanh",
                                                  "Celu",
                                                  "Cos",
                                                  "Cosh",
                                                  "DFT",
                                                  "Elu",
                                                  "Erf",
                                                  "Exp",
                                                  "Gelu",
                                                  "GRU",
                                                  "LSTM",
                                                  "Log",
                                                  "LogSoftmax",
                                                  "LpNormalization",
                                                  "LpPool",
                                                  "Mish",
                                                  "Pow",
                                                  "RNN",
                                                  "ReduceL2",
                                                  "ReduceLogSum",
                                                  "ReduceLogSumExp",
                                                  "STFT",
                                                  "Selu",
                                                  "Sigmoid",
                                                  "Sin",
                                                  "Sinh",
                                                  "Softmax",
                                                  "Softplus",
                                                  "Swish",
                                                  "SwiGLU",
                                                  "Tan",
                                                  "Tanh",
                                                  "Attention",
                                                  "BlackmanWindow",
                                                  "HammingWindow",
                                                  "HannWindow",
                                                  "RotaryEmbedding"};
  return kOps.contains(n.op().name);
}

// Whether evaluation cannot fail for any data, so that it may be deferred.
bool cannot_fail(const Node& n) {
  static const std::set<std::string_view> kOps = {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity",
                                                  "Add",       "Sub",     "Mul",     "Neg",       "Concat",  "Expand"};
  return kOps.contains(n.op().name) || quantizes_weights(n) ||
         ((n.is("Div") || n.is("Sqrt") || n.is("Reciprocal") || n.is("Cast")) && is_float(n.input(0)->dtype()) &&
          is_float(n.result()->dtype()));
}

// The mean of no elements: NaN by its formula, 0 in onnxruntime.
bool is_mean_of_nothing(const Node& n) {
  const Type* t = n.is("ReduceMean") ? n.input(0)->type() : nullptr;
  return t != nullptr && t->is_tensor() && t->is_static() && t->static_size() == 0;
}

bool has_odd_attrs(const Node& n) {
  for (const NamedAttr& a : n.attrs().items()) {
    if (a.value.get<RefAttr>() != nullptr || a.value.get<const Type*>() != nullptr || a.value.get<Attr::TypeList>() != nullptr)
      return true;
  }
  return false;
}

class Fold {
 public:
  Fold(Graph& top, PassContext& context, int64_t* budget) : top_(top), context_(context), budget_(budget) {}

  bool run() {
    walk(top_);
    const auto found = [&](const Value& v) {
      const auto at = found_.find(&v);
      return at != found_.end() ? at->second.get() : nullptr;
    };
    for (Value* v : values_to_store(computed_, found, &top_ == &context_.model.graph(), budget_)) store(*v, found_.at(v));
    for (Graph* g : graphs_in(top_)) shrink_splats(*g);
    if (changes_ == 0) return false;
    erase_dead_nodes(top_);
    retyper_.run(top_);
    return true;
  }

 private:
  // Visits nodes in order, with bodies when their node comes.
  void walk(Graph& g) {
    for (Node& n : g.nodes()) {
      if (!n.any_result_used()) continue;
      retyper_.refresh(n);
      if (!n.bodies().empty()) {
        for (const Body& b : n.bodies()) walk(*b.graph);
        retyper_.refresh(n);
      }
      if (n.unchecked()) continue;
      for (Value& v : n.results()) {
        if (!v.has_uses() || v.is_constant()) continue;
        if (TensorPtr t = known_integers(v, context_.facts)) {
          store(v, t);
        } else if (is_surely_empty(v, n)) {
          store(v, Tensor::own(v.dtype(), shape_of(*v.type()), {}));
        }
      }
      if (!n.any_result_used() || !can_fold(n)) continue;
      compute(n);
      if (std::ranges::any_of(n.results(), [&](const Value& v) { return v.has_uses() && !found_.contains(&v); })) {
        for (const Value& v : n.results()) found_.erase(&v);  // the node stays
        continue;
      }
      for (Value& v : n.results()) {
        if (const auto at = found_.find(&v); v.has_uses() && is_small(v, *at->second)) store(v, at->second);
      }
      if (n.any_result_used()) computed_.push_back(&n);
    }
  }

  // Whether the result has no elements, whatever a file declares: some write 0 for sizes that they do not
  // know.
  bool is_surely_empty(Value& v, Node& n) {
    const auto is_empty = [](const Type* t) {
      return t != nullptr && t->is_tensor() && t->is_static() && t->static_size() == 0;
    };
    const Type* declared = v.type();
    if (!is_empty(declared) || bit_width(v.dtype()) < 8 || !n.op().known || renames_result(n)) return false;
    for (const Use& u : n.operands()) {  // in order, so that an empty operand became a constant or is not sure
      if (u.value != nullptr && is_empty(u.value->type()) && u.value->def() != nullptr && !u.value->is_constant()) return false;
    }
    v.set_type(nullptr);
    try {
      infer_node(n, context_.facts);
    } catch (const Error&) {
      v.set_type(nullptr);
    }
    const bool is_sure = is_empty(v.type());
    v.set_type(declared);
    return is_sure;
  }

  TensorPtr known(const Value* v) const {
    if (v->is_constant()) return v->constant();
    const auto at = found_.find(v);
    return at != found_.end() ? at->second : nullptr;
  }

  bool can_fold(const Node& n) const {
    if (n.unchecked()) return false;
    for (const Use& u : n.operands()) {
      if (u.value == nullptr) continue;
      if (u.value->is_constant() ? u.value->constant()->is_promise() : !found_.contains(u.value)) return false;
    }
    if (renames_result(n)) return false;
    if (!can_evaluate(n.op()) || is_quantization(n) || has_odd_attrs(n) || is_mean_of_nothing(n)) return false;
    for (const Value& v : n.results()) {
      if (v.dtype() == DType::kF64 && is_transcendental(n)) return false;
    }
    return !n.is("Dropout");
  }

  int depth(const TensorPtr& t) const {
    const auto at = deferred_.find(t.get());
    return at != deferred_.end() ? at->second : 0;
  }

  // Computes the results of `n` if possible.
  void compute(Node& n) {
    std::vector<TensorPtr> operands;
    uint64_t bytes = 0;
    int deepest = 0;
    bool all_splats = n.has(Trait::kElementwise);
    for (const Use& u : n.operands()) {
      operands.push_back(u.value != nullptr ? known(u.value) : nullptr);
      if (operands.back() == nullptr) continue;
      const Tensor& t = *operands.back();
      all_splats &= t.is_splat() || t.size() == 1;
      if (!t.is_splat()) bytes += t.byte_size();
      deepest = std::max(deepest, depth(operands.back()));
    }
    const Type* type = n.result()->type();
    const auto is_used_later = [](const Value& v) { return v.index() > 0 && v.has_uses(); };
    const bool sized = std::ranges::none_of(n.results(), is_used_later) && type != nullptr && type->is_static() &&
                       bit_width(type->dtype()) >= 8 && *type->static_size() > 0;
    if (sized && all_splats && *type->static_size() > 1) return on_one_element(n, operands);
    if (sized) {
      const size_t size = byte_size(type->dtype(), static_cast<uint64_t>(*type->static_size()));
      if (size > kMemoryCap || bytes > kMemoryCap) return;
      const bool one = n.is("ConstantOfShape") || (n.is("Expand") && operands[0]->size() == 1);
      if (size > kDeferConstantBytes && !one && deepest < kMaxDeferred) return defer(n, std::move(operands), deepest);
    } else if (bytes > kDeferConstantBytes || n.is("Range") || n.is("ConstantOfShape") || n.is("Tile") || n.is("Expand")) {
      return;  // the result could be large
    }
    const auto results = evaluate_node(n, operands, sized ? kMemoryCap : kUnsizedCap);
    if (!results) return;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if ((*results)[i] != nullptr) keep(*n.result(i), (*results)[i]);
    }
  }

  void keep(const Value& v, TensorPtr t) {
    if (!v.ranked()) return;
    for (size_t i = 0; i < t->rank(); ++i) {  // the file may declare wrong sizes
      const Dim d = v.type()->dim(i);
      if (d.is_int() && !d.is(t->shape()[i])) return;
    }
    found_.emplace(&v, std::move(t));
  }

  static std::vector<int64_t> shape_of(const Type& t) {
    std::vector<int64_t> shape;
    for (Dim d : t.dims()) shape.push_back(d.value());
    return shape;
  }

  // All elements of the result are equal, so evaluates only one.
  void on_one_element(Node& n, std::vector<TensorPtr>& operands) {
    for (TensorPtr& t : operands) {
      if (t == nullptr) continue;
      std::vector<std::byte> scratch;
      const auto all = t->is_splat() ? t->stored_bytes() : t->bytes(scratch);
      const auto one = all.first(byte_size(t->dtype(), 1));
      t = Tensor::own(t->dtype(), {}, {one.begin(), one.end()});
    }
    const auto results = evaluate_node(n, operands, kMemoryCap);
    if (!results) return;
    std::vector<std::byte> scratch;
    const TensorPtr& one = results->front();
    keep(*n.result(), Tensor::splat(one->dtype(), shape_of(*n.result()->type()), one->bytes(scratch)));
  }

  void defer(Node& n, std::vector<TensorPtr> operands, int deepest) {
    if (!cannot_fail(n) && !evaluate_node(n, operands, kMemoryCap)) return;
    TensorPtr made = defer_node(n, std::move(operands), *n.result()->type(), kMemoryCap);
    deferred_.emplace(made.get(), deepest + 1);
    keep(*n.result(), std::move(made));
  }

  // --- storing results

  // Whether to store the result at once, so that later nodes are inferred from it: about one element, or a
  // short list of integers.
  bool is_small(const Value& v, const Tensor& t) const {
    if (t.dtype() == DType::kString || t.is_deferred()) return false;
    if ((is_integer(v.dtype()) || v.dtype() == DType::kBool) && t.rank() <= 1 && t.size() <= kFewElements) return true;
    return t.byte_size() <= static_cast<size_t>(kNodeBytes - kTensorBytes) && &top_ == &context_.model.graph();
  }

  void store(Value& v, const TensorPtr& t) {
    Node& n = *v.def();
    Rewriter& b = builders_.try_emplace(n.graph(), *n.graph(), context_).first->second;
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    Value* made = b.constant(t, t->byte_size() > 1024 ? std::string_view(v.name().view()) : std::string_view());
    retyper_.note_readers(v);
    n.graph()->replace_uses(v, *made);
    ++changes_;
    context_.log.count(n.op().name);
  }

  // Turns x + {1, 1, 1} into x + 1 if x has the result's shape.
  void shrink_splats(Graph& g) {
    Rewriter b(g, context_);
    for (Node& n : g.nodes()) {
      if (n.unchecked()) continue;
      // A list of one where Range requires a scalar: onnxruntime accepts it as a computed value, but not as a
      // constant.
      for (size_t i = 0; n.is("Range") && i < n.num_inputs(); ++i) {
        const Value* v = n.input(i);
        if (v == nullptr || !v->is_constant() || v->constant()->rank() == 0 || v->constant()->size() != 1) continue;
        b.set_insertion_point(&n);
        n.set_input(i, b.constant(v->constant()->reshaped({})));
        ++changes_;
        context_.log.count("number");
      }
      for (size_t i = 0; i < n.num_inputs(); ++i) {
        const Value* v = n.input(i);
        if (v == nullptr || !v->is_constant() || !v->constant()->is_splat()) continue;
        const TensorPtr t = v->constant();
        if (!broadcasts_without(n, *v)) continue;
        std::vector<std::byte> one(t->stored_bytes().begin(), t->stored_bytes().end());
        b.set_insertion_point(&n);
        n.set_input(i, b.constant(Tensor::own(t->dtype(), {}, std::move(one))));
        ++changes_;
        context_.log.count("one element");
      }
    }
  }

  Graph& top_;
  PassContext& context_;
  int64_t* const budget_;  // null: only small growth
  size_t changes_ = 0;
  std::unordered_map<const Value*, TensorPtr> found_;
  std::unordered_map<const Tensor*, int> deferred_;  // nesting depth of deferred tensors; found_ keeps them alive
  std::vector<Node*> computed_;                      // evaluated, but not stored yet
  Retyper retyper_{context_};
  std::unordered_map<const Graph*, Rewriter> builders_;  // one per graph, because each knows its graph's constants
};

}  // namespace

Pass fold_constants() {
  return Pass::on_graph(Numerics::kRounds, [](Graph& top, PassContext& context) {
    // A removed node may have been the other user that kept a result from being stored, so repeat. Each round
    // removes at least one computed operand.
    int64_t budget = context.fold_budget;
    bool changed = false;
    while (Fold(top, context, budget != 0 ? &budget : nullptr).run()) changed = true;
    return changed;
  });
}

}  // namespace sardonyx::onnx
