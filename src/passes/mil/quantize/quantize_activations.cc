//   x ── conv(W) ── relu ── linear(V) ── y
//     =>   x ── q ── dq ── conv(int8 W) ── relu ── q ── dq ── linear(int8 V) ── y
//
// q is quantize, and dq dequantize (iOS 17). Core ML computes what stands between them in integers of 8 bits
// where its hardware can. Runs tell the ranges of values; weights have a scale for each channel of results.
//
//   products   conv, linear, matmul with a constant weight
//   sums       add, avg_pool: where a product makes an operand, and a product uses the result
//   selects    max_pool, concat: likewise. The result has the scale of the operands, so rounding it again
//              changes nothing. Where one range would not fit all parts of a concat, they stay in floats
//   views      reshape, transpose, slice, ...: move the integers, where their operand has some anyway
//
// A value has one pair for all of these users; others see it unrounded. Codes are uint8 from zero for values
// without a sign, int8 around zero where the range is about even, and else uint8 with a zero point. Sums get
// the form of distributive_quantized_binary_op_scale_normalization, which would change them later.
//
// What stops it: weights that are computed, infinite, NaN or used otherwise; bodies, and functions other than
// the first; values that no run had, or that were infinite in one; ranges whose scale half precision lacks.
// coremltools' linear_quantize_activations also rounds operands of other sums, and most results.
// Relaxed: values are rounded to 256 steps, and those far beyond what the runs had are cut off.
#include "passes/mil/quantize/quantize_activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/calibration.h"
#include "passes/compress/shared_ranges.h"
#include "passes/mil/constants/weights.h"
#include "passes/mil/named.h"
#include "passes/mil/quantize/compress_weights.h"
#include "passes/mil/quantize/sum_scales.h"

namespace sardonyx::mil {
namespace {

using compress::Range;

constexpr int kIos17 = 8;

bool is_one_of(const Node& n, std::initializer_list<std::string_view> ops) {
  return !n.unchecked() && std::ranges::any_of(ops, [&](std::string_view op) { return n.is(op); });
}

bool is_sum(const Node& n) { return is_one_of(n, {"add", "avg_pool"}); }
bool is_select(const Node& n) { return is_one_of(n, {"max_pool", "concat"}); }
bool is_view(const Node& n) {
  return is_one_of(n, {"reshape", "expand_dims", "squeeze", "transpose", "slice_by_index", "slice_by_size"});
}

bool is_float_tensor(const Value* v) {
  return v != nullptr && !v->is_constant() && v->ranked() && (v->dtype() == DType::kF32 || v->dtype() == DType::kF16);
}

bool is_expanded(const Value* v) { return v->def() != nullptr && v->def()->op().name.starts_with("constexpr_"); }

// The numbers that codes stand for, as operands of quantize and dequantize.
struct Codes {
  DType type = DType::kI8;
  Value *scale = nullptr, *zero = nullptr;  // null: 0
};

class ActivationQuantizer {
 public:
  ActivationQuantizer(Graph& g, PassContext& context)
      : g_(g), context_(context), b_(g, context), is_symmetric_(context.options().flag("symmetric", false)) {}

  bool run() {
    find_products();
    if (products_.empty()) return false;
    check_activations(b_.version());
    if (context_.calibration() == nullptr)
      throw Error(ErrorCode::kInvalidArgument, "quantize_activations learns ranges from runs of the model, and there are none",
                  {"help: --calibrate names the inputs of runs"});
    find_welcome();
    observe();
    choose();
    if (products_.empty()) return false;
    share_ranges();
    write();
    return true;
  }

 private:
  struct Product {
    const Use* data = nullptr;
    Value* weight = nullptr;
  };

  // --- which nodes

  void find_products() {
    for (Node& n : g_.nodes()) {
      if (is_one_of(n, {"conv", "linear", "matmul"})) add_product(n);
    }
  }

  void add_product(Node& n) {
    const Use* x = slot(n, "x");
    const Use* w = slot(n, n.is("matmul") ? "y" : "weight");
    if (n.is("matmul") && is_float_tensor(w->value) && !is_expanded(w->value)) std::swap(x, w);
    if (!is_float_tensor(x->value) || is_expanded(x->value)) return;
    if (const Node* def = x->value->def(); def != nullptr && def->is("dequantize")) return;  // an earlier run did it
    if (!is_expanded(w->value) && !w->value->is_constant()) return leave(n, "its weight is computed");
    if (!is_expanded(w->value) && !can_compress(*w->value, context_.facts))
      return leave(n, "its weight is infinite or NaN, or used otherwise");
    products_.emplace(&n, Product{x, w->value});
  }

  static std::string_view slot_name(const Use& u) {
    const Slot* s = slot_of(u.owner->op(), index_of(u), u.owner->num_inputs());
    return s != nullptr ? s->name : "";
  }

  static size_t index_of(const Use& u) { return static_cast<size_t>(&u - u.owner->operands().data()); }

  static const Use* slot(const Node& n, std::string_view name) {
    const auto at = std::ranges::find(n.operands(), name, slot_name);
    return at != n.operands().end() ? &*at : nullptr;
  }

  void leave(const Node& n, std::string_view why) {
    context_.log.near_miss(n, why);
    context_.log.count(fmt::format("in floats: {}", why));
  }

  // Whether a product, sum, select or view takes codes there.
  bool is_data(const Use& u) const {
    if (const auto p = products_.find(u.owner); p != products_.end()) return p->second.data == &u;
    const std::string_view name = slot_name(u);
    return name == "x" || name == "values" || (name == "y" && u.owner->is("add"));
  }

  auto data_of(const Node& n) const {
    return n.operands() | std::views::filter([this](const Use& u) { return is_data(u); });
  }

  // The value whose codes stand for what the node makes: behind the activations that alone use it.
  Value* made_by(Node& n) const {
    Value* v = n.result();
    while (!is_select(n) && !is_view(n) && v->has_one_use()) {
      Node& user = *v->uses().begin()->owner;
      const bool is_activation =
          !user.is_boundary() && user.graph() == &g_ && !user.unchecked() && user.has(Trait::kElementwise) &&
          !user.is("cast") && !user.is("quantize") && user.num_results() == 1 && is_float_tensor(user.result()) &&
          std::ranges::count_if(user.operands(), [](const Use& u) { return is_float_tensor(u.value); }) == 1;
      if (!is_activation) break;
      v = user.result();
    }
    return v;
  }

  bool may_join(Node& n) const {
    if (!is_sum(n) && !is_select(n) && !is_view(n)) return false;
    return std::ranges::all_of(data_of(n), [](const Use& u) { return is_float_tensor(u.value); });
  }

  // Values whose codes a product would take, perhaps by way of other nodes.
  void find_welcome() {
    for (Node* n = g_.last(); n != nullptr; n = n->prev()) {
      if (!products_.contains(n) && !(may_join(*n) && welcome_.contains(made_by(*n)))) continue;
      for (const Use& u : data_of(*n)) welcome_.insert(u.value);
    }
  }

  void observe() {
    std::vector<const Value*> values;
    const auto add = [&](const Value& v) {
      if (welcome_.contains(&v)) values.push_back(&v);
    };
    for (const Port& p : g_.inputs()) add(*p.value);
    for (const Node& n : g_.nodes()) std::ranges::for_each(n.results(), add);
    observe_values(context_.model, values, *context_.calibration(), [&](size_t i, const Array& x) {
      std::vector<float> scratch;
      if (is_float(x.dtype())) seen_[values[i]].add(floats_of(x, scratch));
    });
    for (const Value* v : values) ranges_.see(v, seen_[v]);
  }

  // Why a value cannot be rounded; empty if it can.
  std::string_view obstacle(const Value* v) {
    const compress::Histogram& h = seen_[v];
    if (h.size() == 0) return "no run has elements of its operand";
    if (!h.is_finite()) return "its operand is infinite or NaN in a run";
    return comes_back(*scale_of(v)) ? "" : "half precision has no scale for the range of its operand";
  }

  bool can_round(const Value* v) { return obstacle(v).empty(); }

  void choose() {
    for (Node& n : g_.nodes()) {
      const auto p = products_.find(&n);
      const std::string_view why = p == products_.end() ? "" : obstacle(p->second.data->value);
      if (why.empty()) continue;
      leave(n, why);
      products_.erase(p);
    }
    std::unordered_set<const Value*> taken, made;
    for (const auto& [n, p] : products_) taken.insert(p.data->value);
    for (Node& n : g_.nodes()) {
      if (!products_.contains(&n) && !(may_join(n) && can_join(n, taken, made))) continue;
      made.insert(made_by(n));
      if (!products_.contains(&n)) joined_.insert(&n);
    }
    // Without those that nothing takes.
    rounded_ = std::move(taken);
    for (Node* n = g_.last(); n != nullptr; n = n->prev()) {
      if (!joined_.contains(n)) continue;
      if (!rounded_.contains(made_by(*n))) {
        joined_.erase(n);
      } else {
        for (const Use& u : data_of(*n)) rounded_.insert(u.value);
      }
    }
  }

  bool can_join(Node& n, const std::unordered_set<const Value*>& taken, const std::unordered_set<const Value*>& made) {
    const Value* result = made_by(n);
    const auto is_made = [&](const Use& u) { return made.contains(u.value); };
    if (!welcome_.contains(result) || (!is_view(n) && !can_round(result))) return false;
    for (const Use& u : data_of(n)) {
      if (!can_round(u.value) || !(is_made(u) || taken.contains(u.value))) return false;
      if (n.is("concat") && !(is_made(u) && ranges_.may_share(u.value, result))) return false;
    }
    return is_view(n) || std::ranges::any_of(data_of(n), is_made);
  }

  void share_ranges() {
    for (Node& n : g_.nodes()) {
      if (!joined_.contains(&n) || is_sum(n)) continue;
      for (const Use& u : data_of(n)) ranges_.unite(u.value, n.result());
    }
  }

  // --- scales

  // The same as numbers.
  struct Grid {
    DType type = DType::kI8;
    double scale = 1;
    int zero = 0;
  };

  Grid grid_of(const Value* v) {
    constexpr double kEven = 1.25;  // of the ends of a range, which int8 covers around zero
    constexpr int kSteps = compress::kSteps;
    const Range r = ranges_.range_of(v);
    const double least = std::min(-r.low, r.high), most = std::max(-r.low, r.high);
    if (most == 0) return {};
    if (r.low == 0) return {DType::kU8, r.high / kSteps, 0};
    const auto zero = static_cast<int>(std::nearbyint(-r.low / r.width() * kSteps));
    if (is_symmetric_ || least * kEven >= most || zero == (kSteps + 1) / 2) return {DType::kI8, most / (kSteps / 2), 0};
    // Both ends have codes although zero has one, too.
    return {DType::kU8, std::max(zero > 0 ? -r.low / zero : 0, zero < kSteps ? r.high / (kSteps - zero) : 0), zero};
  }

  TensorPtr scale_of(const Value* v) { return tensor_of(v->dtype(), {}, {grid_of(v).scale}); }

  const Codes& codes_of(const Value* v) {
    const auto [at, is_new] = codes_.try_emplace(ranges_.find(v));
    if (is_new) {
      const Grid grid = grid_of(v);
      at->second = {grid.type, b_.constant(scale_of(v)), grid.zero != 0 ? b_.scalar_int(grid.type, grid.zero) : nullptr};
    }
    return at->second;
  }

  // --- writing

  void write() {
    std::vector<Node*> nodes;
    for (Node& n : g_.nodes()) nodes.push_back(&n);
    for (const Port& p : g_.inputs()) round(*p.value, g_.first());
    for (Node* n : nodes) {
      for (Value& v : n->results()) round(v, n->next());
    }
    compress_to_int8(weights(), context_);
    for (Node* n : nodes) {
      if (joined_.contains(n) && n->is("add")) normalize_scales(*n, b_, context_);
    }
    context_.log.count("in int8", products_.size() + joined_.size());
    erase_dead_nodes(g_);
    g_.erase_unused_constants();
  }

  // Each once, in the order of their first users.
  std::vector<Value*> weights() {
    std::vector<Value*> found;
    std::unordered_set<const Value*> seen;
    for (Node& n : g_.nodes()) {
      const auto p = products_.find(&n);
      if (p == products_.end() || !p->second.weight->is_constant() || !seen.insert(p->second.weight).second) continue;
      found.push_back(p->second.weight);
    }
    return found;
  }

  // Writes the codes of a value in front of `next`, and what they stand for, if something takes them.
  void round(Value& v, Node* next) {
    if (!rounded_.contains(&v)) return;
    std::vector<const Use*> takers;
    for (const Use& u : v.uses()) {
      if ((products_.contains(u.owner) || joined_.contains(u.owner)) && is_data(u)) takers.push_back(&u);
    }
    b_.set_insertion_point(next);
    b_.set_provenance(v.def() != nullptr ? v.def()->provenance() : 0);
    const Codes& c = codes_of(&v);
    Value* q = moved(v);
    if (q == nullptr)
      q = b_.quantize(&v, {.output_dtype = c.type == DType::kI8 ? "int8" : "uint8", .scale = c.scale, .zero_point = c.zero});
    named(b_, q, name_of(v, "quantized"));
    integers_.emplace(&v, q);
    std::erase_if(takers, [](const Use* u) { return is_view(*u->owner); });
    if (takers.empty()) return;
    Value* floats = b_.dequantize(q, {.scale = c.scale, .zero_point = c.zero});
    named(b_, floats, name_of(v, "dequantized"));
    for (const Use* u : takers) u->owner->set_input(index_of(*u), floats);
    context_.log.count("values");
  }

  // The codes of what a view makes, made by the view of the codes; null if no view makes v.
  Value* moved(Value& v) {
    Node* n = v.def();
    if (n == nullptr || !joined_.contains(n) || !is_view(*n)) return nullptr;
    std::vector<Value*> operands = operands_of(*n);
    const Use* x = slot(*n, "x");
    operands[index_of(*x)] = integers_.at(x->value);
    return b_.make(n->op(), operands, 1, attrs_of(*n)).result();
  }

  static std::string name_of(const Value& v, std::string_view suffix) {
    const std::string_view name = v.name().view();
    return name.empty() ? std::string() : fmt::format("{}_{}", name, suffix);
  }

  Graph& g_;
  PassContext& context_;
  Rewriter b_;
  const bool is_symmetric_;
  std::unordered_map<const Node*, Product> products_;
  std::unordered_set<const Node*> joined_;
  std::unordered_set<const Value*> welcome_, rounded_;
  std::unordered_map<const Value*, compress::Histogram> seen_;
  compress::SharedRanges ranges_;
  std::unordered_map<const Value*, Codes> codes_;      // by SharedRanges::find
  std::unordered_map<const Value*, Value*> integers_;  // of rounded values
};

}  // namespace

void check_activations(int version) {
  if (version < kIos17)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("arithmetic in 8 bits needs iOS17, and the program is for {}", system_of(version)),
                {"help: convert the model with --target iOS17 or a later one"});
}

Pass quantize_activations() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"conv", "linear", "matmul"}),
                        [](Graph& top, PassContext& context) {
                          return &top == &context.model.graph() && ActivationQuantizer(top, context).run();
                        })
      .option("symmetric", "true: codes without zero points, also where ranges are lopsided")
      .after_verification();
}

}  // namespace sardonyx::mil
