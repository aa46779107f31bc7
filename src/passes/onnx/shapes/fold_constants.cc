//   constants ── any operators ── v        =>   v, a constant
//
// In one walk, in order: a node that reads what is better known than before is typed again, integers of which inference knows every element
// become constants, and each node whose operands are constants (given or found on the way) gets its results. Large ones are deferred: they keep
// kernel and operands, and are computed when the file is written. Few elements are stored at once, and tell the nodes after them their sizes.
// Of the rest, stored_folds.h says which: those that make up for it by what disappears (nodes, and constants that only they read), and a little
// more. So a transposed copy of a weight that others read is not made, and ConstantOfShape stays, unless its reader takes one element instead
// (broadcasting: no element is repeated in the file).
// What stops it: random operators, bodies, operands that are defaults of inputs (a caller may give others), quantization (Q/DQ pairs are
// what accelerators look for; but quantized weights are stored as integers, a quarter of their floats), functions of f64 whose last bit differs between machines, references to attributes of a function, what
// the evaluator cannot do, more than 1 GiB for one result.
// Rounds: sums have the evaluator's order, which need not be that of a runtime.
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
constexpr uint64_t kUnsizedCap = 16 << 20;  // where the size is not known before
constexpr int64_t kFewElements = 64;
constexpr int kMaxDeferred = 8;  // one in another

// QuantizeLinear of f32 to integers, whose quotients every runtime rounds alike. A DequantizeLinear follows, and stays.
bool quantizes_weights(const Node& n) {
  if (!n.is("QuantizeLinear") || n.input(0)->dtype() != DType::kF32 || n.input(1)->dtype() != DType::kF32) return false;
  if (const Attr* precision = n.attr("precision"); precision != nullptr) return false;
  return is_integer(n.result()->dtype());
}

// Whether the node is one that stays for what it says.
bool is_quantization(const Node& n) {
  static const std::set<std::string_view> kOps = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear",
                                                  "QLinearConv",    "QLinearMatMul",    "MatMulInteger",
                                                  "ConvInteger"};
  return kOps.contains(n.op().name) && !quantizes_weights(n);
}

// Functions whose last bit depends on the library: folded in f32, where a double has bits to spare.
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

// Evaluating these on whatever data cannot fail, so that it may be done later.
bool cannot_fail(const Node& n) {
  static const std::set<std::string_view> kOps = {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity",
                                                  "Add",       "Sub",     "Mul",     "Neg",       "Concat",  "Expand"};
  return kOps.contains(n.op().name) || quantizes_weights(n) ||
         ((n.is("Div") || n.is("Sqrt") || n.is("Reciprocal") || n.is("Cast")) && is_float(n.input(0)->dtype()) &&
          is_float(n.result()->dtype()));
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
  // In order, bodies with what holds them.
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
        if (TensorPtr t = v.has_uses() && !v.is_constant() ? known_integers(v, context_.facts) : nullptr) store(v, t);
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
    if (!can_evaluate(n.op()) || is_quantization(n) || has_odd_attrs(n)) return false;
    for (const Value& v : n.results()) {
      if (v.dtype() == DType::kF64 && is_transcendental(n)) return false;
    }
    return !n.is("Dropout");
  }

  int depth(const TensorPtr& t) const {
    const auto at = deferred_.find(t.get());
    return at != deferred_.end() ? at->second : 0;
  }

  // Finds the results of n, if that can be done.
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
    const bool sized = n.num_results() == 1 && type != nullptr && type->is_static() && bit_width(type->dtype()) >= 8 &&
                       *type->static_size() > 0;
    if (sized && all_splats && *type->static_size() > 1) return on_one_element(n, operands);
    if (sized) {
      const size_t size = byte_size(type->dtype(), static_cast<uint64_t>(*type->static_size()));
      if (size > kMemoryCap || bytes > kMemoryCap) return;
      const bool one = n.is("ConstantOfShape") || (n.is("Expand") && operands[0]->size() == 1);
      if (size > kDeferConstantBytes && !one && deepest < kMaxDeferred) return defer(n, std::move(operands), deepest);
    } else if (bytes > kDeferConstantBytes || n.is("Range") || n.is("ConstantOfShape") || n.is("Tile") || n.is("Expand")) {
      return;  // who knows how large that gets
    }
    const auto results = evaluate_node(n, operands, sized ? kMemoryCap : kUnsizedCap);
    if (!results) return;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if ((*results)[i] != nullptr) keep(*n.result(i), (*results)[i]);
    }
  }

  void keep(const Value& v, TensorPtr t) {
    if (!v.ranked()) return;
    for (size_t i = 0; i < t->rank(); ++i) {  // a file may declare sizes that are not so
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

  // All elements are the same: one is computed.
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

  // --- what is stored

  // An element or so, or integers that inference would know: at once, so that the nodes after it are typed with it in place.
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

  // x + {1, 1, 1} reads as x + 1, where x has the result's shape.
  void shrink_splats(Graph& g) {
    Rewriter b(g, context_);
    for (Node& n : g.nodes()) {
      if (n.unchecked()) continue;
      // A list of one where Range wants a number: onnxruntime takes it while it is computed, not once it is a constant.
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
  int64_t* const budget_;  // null: small growth only
  size_t changes_ = 0;
  std::unordered_map<const Value*, TensorPtr> found_;
  std::unordered_map<const Tensor*, int> deferred_;  // how many deferred ones stand in each other; found_ keeps them alive
  std::vector<Node*> computed_;                      // of which a result was found and is not stored yet
  Retyper retyper_{context_};
  std::unordered_map<const Graph*, Rewriter> builders_;  // each knows its graph's constants
};

}  // namespace

Pass fold_constants() {
  return Pass::on_graph(Numerics::kRounds, [](Graph& top, PassContext& context) {
    // What went may have been the reader for whose sake a constant was not made: again, then. Each time, an operand less is computed.
    int64_t budget = context.fold_budget;
    bool changed = false;
    while (Fold(top, context, budget != 0 ? &budget : nullptr).run()) changed = true;
    return changed;
  });
}

}  // namespace sardonyx::onnx
