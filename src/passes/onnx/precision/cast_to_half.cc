//   x: f32 ── MatMul ── Gelu ── y: f32   =>   x ── Cast<f16> ── MatMul ── Gelu ── Cast<f32> ── y
//
// Nodes compute in half precision, weights are stored in it; inputs, results and what crosses into bodies
// keep their types. A node stays in single precision if half precision would make it wrong, not just less
// exact (precision/single_ops.h), if a constant of it does not fit (above 65504 and below 1e30), if its
// operator has no such type, if it is quantized, or if `keep` names it. Of the others, products,
// convolutions, attention, recurrent layers and nodes with weights always change. A minimum cut decides about
// the rest: it weighs the bytes that casts would move against those that results in half precision save.
// Masks (finite constants from 1e30 on) become 65504 or -65504, and sums with them are clipped to -57344 and
// 65504 before softmax: a row in which everything is masked stays a mean, also where a runtime computes in
// single precision. Small constants that would round to zero become the least number of their sign.
// A value is cast once, where it is made. Relaxed: half precision has 11 binary digits.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dialects/onnx/node_types.h"
#include "ir/tensor/half.h"
#include "passes/option_lists.h"
#include "passes/precision/half_masks.h"
#include "passes/precision/single_ops.h"
#include "rewrite/onnx_rewriter.h"
#include "support/min_cut.h"

namespace sardonyx::onnx {
namespace {

using precision::HalfFits;
using precision::SingleOps;

constexpr double kMask = 1e30;          // finite constants from here on stand for infinity
constexpr double kMaskedSum = -57344;   // above -65504 by more than what a mask is added to
constexpr int64_t kWeight = 1024;       // elements of a constant that is worth its bytes
constexpr int64_t kOpenSize = 64;       // assumed for sizes that are not known
constexpr int64_t kCastBytes = 6;       // moved per element by a cast, which reads 4 and writes 2, or the other way
constexpr int64_t kResultBytes = 2;     // saved per element of a result
constexpr int64_t kMostSize = 1 << 28;  // of a value, for the sum of all costs to fit
constexpr uint64_t kStepsPerNode = 2000;

bool is_single(const Value* v) { return v != nullptr && v->dtype() == DType::kF32; }

bool has_half(const TypeSet& types) { return (types.tensor >> static_cast<int>(DType::kF16) & 1) != 0; }

int64_t elements(const Value& v) {
  if (!v.ranked()) return kOpenSize;
  int64_t size = 1;
  for (Dim d : v.type()->dims()) size = std::min(size * std::max<int64_t>(d.is_int() ? d.value() : kOpenSize, 1), kMostSize);
  return size;
}

// The type variables of the node that can become half precision; empty if it has to stay.
std::set<std::string_view> variables_of(const Node& n) {
  if (!n.op().known || n.unchecked() || !n.bodies().empty() || n.has(Trait::kConstant) || n.is("Cast")) return {};
  if (n.is("BitCast") || n.is("CastLike") || n.is("Range")) return {};
  // The type of their results is that of the operand, which has another type variable.
  static constexpr std::string_view kLikeTheOperand[] = {"Bernoulli", "EyeLike", "OptionalGetElement", "RandomNormalLike",
                                                         "RandomUniformLike"};
  if (std::ranges::any_of(kLikeTheOperand, [&](std::string_view op) { return n.is(op); })) return {};
  // Sequences and optionals keep the types of their elements.
  const auto is_container = [](const Value* v) { return v != nullptr && v->type() != nullptr && !v->type()->is_tensor(); };
  if (std::ranges::any_of(n.operands(), [&](const Use& u) { return is_container(u.value); })) return {};
  if (std::ranges::any_of(n.results(), [&](const Value& v) { return is_container(&v); })) return {};
  // onnxruntime has no such kernel.
  if (string_attr(n, "reduction").value_or("none") != "none") return {};
  std::set<std::string_view> found, refused;
  const auto visit = [&](const Slot* slot, const Value* v) {
    if (slot == nullptr || slot->type_var.empty() || !is_single(v)) return;
    (slot->homogeneous && has_half(slot->types) ? found : refused).insert(slot->type_var);
  };
  for (size_t i = 0; i < n.num_inputs(); ++i) visit(slot_of(n.op(), i, n.num_inputs()), n.input(i));
  const std::set<std::string_view> of_operands = found;
  for (size_t i = 0; i < n.num_results(); ++i) visit(result_slot(n.op(), i), n.result(i));
  // An attribute fixes the type of a result that is not that of an operand.
  std::erase_if(found, [&](std::string_view variable) { return !of_operands.contains(variable); });
  for (std::string_view variable : refused) found.erase(variable);
  return found;
}

bool is_heavy(const Node& n) {
  static constexpr std::string_view kHeavy[] = {"Attention", "Conv", "ConvTranspose", "Einsum", "Gemm",
                                                "GRU",       "LSTM", "MatMul",        "RNN"};
  return n.op().domain.empty() && std::ranges::find(kHeavy, n.op().name) != std::end(kHeavy);
}

// Whether the node is QuantizeLinear or DequantizeLinear, or reads or feeds one: runtimes join these to
// arithmetic with integers, and rounding before QuantizeLinear may change an integer.
bool is_quantized(const Node& n) {
  const auto converts = [](const Node* m) {
    return m != nullptr && (m->is("QuantizeLinear") || m->is("DequantizeLinear") || m->is("DynamicQuantizeLinear"));
  };
  if (converts(&n)) return true;
  if (std::ranges::any_of(n.operands(), [&](const Use& u) { return u.value != nullptr && converts(u.value->def()); }))
    return true;
  return std::ranges::any_of(n.results(), [&](const Value& v) {
    return std::ranges::any_of(v.uses(), [&](const Use& u) { return !u.owner->is_boundary() && converts(u.owner); });
  });
}

// Whether the node moves the first axis before a matrix product. onnxruntime joins both; up to 1.32 its
// session crashes if they are of half precision and the model has a convolution.
bool moves_batch_of_product(const Node& n) {
  if (!n.is("Transpose") || !n.result()->ranked() || n.result()->type()->rank() < 3) return false;
  const auto perm = ints_attr(n, "perm");
  if (perm && perm->front() == 0) return false;
  return std::ranges::any_of(n.result()->uses(), [](const Use& u) { return u.owner->is("MatMul"); });
}

// The bytes that half precision saves at this node; uncuttable where it always changes.
int64_t worth_of(const Node& n) {
  const bool has_weight = std::ranges::any_of(n.operands(), [](const Use& u) {
    return is_single(u.value) && u.value->is_constant() && u.value->constant()->size() >= kWeight;
  });
  if (is_heavy(n) || has_weight) return MinCut::kUncuttable;
  int64_t saved = 0;
  for (const Value& r : n.results()) saved += is_single(&r) ? kResultBytes * elements(r) : 0;
  return saved;
}

class Halves {
 public:
  Halves(Graph& top, PassContext& context)
      : top_(top), context_(context), single_(top, context), kept_names_(split_names(context.options().text("keep", {}))) {}

  bool run() {
    for (Graph* g : graphs_in(top_)) {
      for (Node& n : g->nodes()) {
        has_convolution_ |= n.is("Conv");
        std::set<std::string_view> variables = variables_of(n);
        for (size_t i = 0; i < n.num_inputs(); ++i) {
          if (const Slot* slot = slot_of(n.op(), i, n.num_inputs()); slot != nullptr && single_.contains(n, i))
            variables.erase(slot->type_var);
        }
        if (!variables.empty()) variables_[&n] = std::move(variables);
      }
    }
    const auto may_change = [&](const Node& n) { return variables_.contains(&n) && why_kept(n).empty(); };
    // Ranges from real inputs are better evidence than runs on random ones.
    if (!observe_ranges()) single_.probe(may_change);
    for (const SingleOps::Reason& r : single_.reasons()) reasons_.emplace(r.node, r.why);
    for (Graph* g : graphs_in(top_)) {
      for (const Node& n : g->nodes()) {
        const std::string_view why = variables_.contains(&n) ? why_kept(n) : std::string_view();
        if (why.empty()) continue;
        variables_.erase(&n);
        context_.log.count(fmt::format("in f32: {}", why));
        context_.log.near_miss(n, fmt::format("half precision: {}", why));
      }
    }
    choose();
    masked_ = precision::masked_values(top_, halves_);
    // Nodes that are made meanwhile are not visited.
    for (Graph* g : graphs_in(top_)) {
      std::vector<Node*> nodes;
      for (Node& n : g->nodes()) nodes.push_back(&n);
      for (Node* n : nodes) {
        if (const auto at = variables_.find(n); at != variables_.end()) change(*n, at->second);
      }
    }
    finish();
    context_.log.count("in f16", changed_);
    return changed_ > 0;
  }

 private:
  std::string_view why_kept(const Node& n) {
    if (kept_names_.contains(n.name().view())) return "the option keep names it";
    for (const Value& v : n.results()) {
      if (kept_names_.contains(v.name().view())) return "the option keep names it";
    }
    if (is_quantized(n)) return "it is quantized";
    if (has_convolution_ && moves_batch_of_product(n)) return "onnxruntime would crash";
    if (const auto at = reasons_.find(&n); at != reasons_.end()) return at->second;
    if (single_.contains(n)) return "rounding would make results wrong";
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      if (!is_single(n.input(i)) || !n.input(i)->is_constant()) continue;
      const precision::HalfFit fit = halves_.of(n.input(i)->constant());
      if (fit.overflows || (fit.saturates && precision::is_factor(n, i))) return "a constant of it exceeds 65504";
      const bool is_table = n.is("Gather") && i == 0;
      if (fit.vanishes && (precision::is_factor(n, i) || is_table))
        return "half precision keeps few digits of a constant of it";
    }
    return {};
  }

  // What the option `ranges` says is beyond half precision. Returns whether there is such an option.
  bool observe_ranges() {
    const std::string given = context_.options().text("ranges", {});
    if (given.empty()) return false;
    precision::HalfRanges ranges(top_, context_);
    ranges.tell(precision::parse_ranges(given));
    single_.observe(ranges);
    for (Graph* g : graphs_in(top_)) {
      for (const Node& n : g->nodes()) {
        const precision::HalfVerdict v = ranges.judge(n).verdict;
        if (v == precision::HalfVerdict::kOverflows) reasons_.emplace(&n, "it overflows on the given inputs");
        if (v == precision::HalfVerdict::kVanishes) reasons_.emplace(&n, "it vanishes on the given inputs");
      }
    }
    return true;
  }

  // --- Which nodes change

  // Keeps in variables_ what is on the side of half precision: all of it where the cut takes too long.
  void choose() {
    MinCut cut;
    std::unordered_map<const Node*, uint32_t> vertices;
    for (const Graph* g : graphs_in(top_)) {
      for (const Node& n : g->nodes()) {
        if (!variables_.contains(&n)) continue;
        const uint32_t v = vertices[&n] = cut.add_vertex();
        cut.add_edge(MinCut::kSource, v, worth_of(n));
      }
    }
    const auto side = [&](const Node* n) {
      const auto at = n != nullptr ? vertices.find(n) : vertices.end();
      return at != vertices.end() ? at->second : MinCut::kSink;
    };
    const auto add = [&](const Value& v) {
      if (!is_single(&v) || v.is_constant()) return;
      const uint32_t maker = side(v.def());
      const int64_t cost = kCastBytes * elements(v);
      const uint32_t back = cut.add_vertex(), there = cut.add_vertex();
      cut.add_edge(maker, back, cost);
      cut.add_edge(there, maker, cost);
      for (const Use& u : v.uses()) {
        const uint32_t user = side(u.owner->is_boundary() ? nullptr : u.owner);
        cut.add_edge(back, user, MinCut::kUncuttable);
        cut.add_edge(user, there, MinCut::kUncuttable);
      }
    };
    for (const Graph* g : graphs_in(top_)) {
      for (const Port& p : g->inputs()) add(*p.value);
      for (const Node& n : g->nodes()) {
        for (const Value& v : n.results()) add(v);
      }
    }
    if (!cut.solve(kStepsPerNode * (vertices.size() + 1000))) return;
    std::erase_if(variables_, [&](const auto& e) { return !cut.with_source(vertices.at(e.first)); });
  }

  // --- What they become

  Rewriter& builder(Graph& g) { return builders_.try_emplace(&g, g, context_).first->second; }

  void move_behind(Rewriter& b, const Value& v) {
    Graph& g = *v.graph();
    b.set_insertion_point(v.def() != nullptr ? v.def()->next() : g.first());
  }

  // The value in half precision, made once.
  Value* half(Value& v) {
    Value*& known = halves_of_[&v];
    if (known != nullptr) return known;
    Rewriter& b = builder(*v.graph());
    move_behind(b, v);
    if (v.is_constant()) {
      TensorPtr t = v.constant();
      if (halves_.of(t).saturates) t = precision::saturated(t);
      if (const TensorPtr saved = precision::saved_from_zero(*t)) t = saved;
      TensorPtr narrow = as_half(t);
      if (narrow == nullptr) narrow = as_half(in_memory(*t));
      known = b.constant(narrow, v.name().view());
      return known;
    }
    if (v.def() != nullptr) b.set_provenance(v.def()->provenance());
    known = b.op("Cast", {&v}, {attr("to", static_cast<int64_t>(DType::kF16))});
    if (v.type() != nullptr) known->set_type(b.types().with_dtype(v.type(), DType::kF16));
    if (masked_.contains(&v)) known = clipped(b, known, -precision::kLargestHalf);
    return known;
  }

  static TensorPtr in_memory(const Tensor& t) {
    std::vector<std::byte> bytes(t.byte_size()), scratch;
    const auto all = t.bytes(scratch);
    std::ranges::copy(all, bytes.begin());
    return Tensor::own(t.dtype(), {t.shape().begin(), t.shape().end()}, std::move(bytes));
  }

  Value* clipped(Rewriter& b, Value* x, double least) const {
    constexpr int kClipTakesValues = 11;
    Value* low = b.constant(Tensor::full(DType::kF16, {}, least));
    Value* high = b.constant(Tensor::full(DType::kF16, {}, precision::kLargestHalf));
    const bool has_clip = context_.model.opset_version("").value_or(kClipTakesValues) >= kClipTakesValues;
    Value* made = has_clip ? b.op("Clip", {x, low, high}) : b.op("Max", {b.op("Min", {x, high}), low});
    made->set_type(x->type());
    return made;
  }

  bool is_masked_sum(const Node& n, size_t operand) const {
    if (!masked_.contains(n.input(operand))) return false;
    if (n.is("Attention")) return operand == 3 && !n.input(operand)->is_constant();
    const bool is_sum = n.is("Softmax") || n.is("LogSoftmax") || n.is("ReduceLogSumExp");
    return is_sum || (n.is("Sub") && masked_.contains(n.input(1)) && masked_.contains(n.input(0)));
  }

  void change(Node& n, const std::set<std::string_view>& variables) {
    Graph& g = *n.graph();
    Rewriter& b = builder(g);
    std::vector<Value*> operands;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      Value* v = n.input(i);
      const Slot* slot = slot_of(n.op(), i, n.num_inputs());
      const bool changes = is_single(v) && slot != nullptr && variables.contains(slot->type_var);
      Value* now = changes ? half(*v) : v;
      b.set_insertion_point(&n);
      b.set_provenance(n.provenance());
      operands.push_back(changes && is_masked_sum(n, i) ? clipped(b, now, kMaskedSum) : now);
    }
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    Node& made = b.make(n.op(), operands, n.num_results(), attrs_of(n));
    made.set_name(n.name());
    for (size_t i = 0; i < n.num_results(); ++i) {
      Value &old = *n.result(i), &now = *made.result(i);
      const Slot* slot = result_slot(n.op(), i);
      if (!is_single(&old) || !variables.contains(slot->type_var)) {
        if (old.type() != nullptr) now.set_type(old.type());
        now.set_name(old.name());
        g.replace_uses(old, now);
        continue;
      }
      if (old.type() != nullptr) now.set_type(b.types().with_dtype(old.type(), DType::kF16));
      Value* back = b.op("Cast", {&now}, {attr("to", static_cast<int64_t>(DType::kF32))});
      back->set_type(old.type());
      back->set_name(old.name());
      halves_of_[back] = &now;
      if (masked_.erase(&old) > 0) masked_.insert(back);
      casts_back_.push_back(back);
      g.replace_uses(old, *back);
    }
    g.erase(n);
    ++changed_;
  }

  // Casts that nobody needs leave their names to what they cast. Weights go that only these nodes read.
  void finish() {
    if (changed_ == 0) return;
    for (Value* back : casts_back_) {
      if (back->has_uses()) continue;
      Value* now = back->def()->input(0);
      const Name name = back->name();
      back->graph()->erase(*back->def());
      now->set_name(name);
    }
    for (Graph* g : graphs_in(top_)) g->erase_unused_constants();
  }

  Graph& top_;
  PassContext& context_;
  SingleOps single_;
  HalfFits halves_{kMask};
  std::set<std::string, std::less<>> kept_names_;
  std::unordered_map<const Node*, std::set<std::string_view>> variables_;  // of the nodes that change
  std::unordered_map<const Node*, std::string_view> reasons_;
  std::unordered_set<const Value*> masked_;
  std::unordered_map<const Value*, Value*> halves_of_;
  std::unordered_map<const Graph*, Rewriter> builders_;
  std::vector<Value*> casts_back_;
  size_t changed_ = 0;
  bool has_convolution_ = false;
};

}  // namespace

Pass cast_to_half() {
  return Pass::on_graph(Numerics::kRelaxed, [](Graph& top, PassContext& context) { return Halves(top, context).run(); })
      .option("keep", "names of nodes or values that stay in single precision, separated by commas")
      .option("ranges", "observed ranges of values, one per line: lowest, highest[/least], name; in place of random runs");
}

}  // namespace sardonyx::onnx
