//   x ── Conv(W, b) ── Relu ── y
//     =>   x ── Q ── DQ ── Conv(DQ(codes of W), DQ(codes of b)) ── Q ── DQ ── y
//
// Q is QuantizeLinear, and DQ DequantizeLinear. Computes convolutions and products with constant weights, and
// what lies between them, in integers of 8 bits, in the form that onnxruntime joins into one kernel each. Runs
// tell the ranges of values. Weights have a scale for each channel of results, biases are integers of 32 bits.
//
//   products   Conv, MatMul, Gemm: take codes; Conv makes codes, the others where something takes them
//   joins      Add, Mul, means, ...: where their operands are made as codes
//   moves      MaxPool, Reshape, Concat, ...: move codes
//
// Relu and Clip from zero become the lower end of the range behind them. A value that is made in floats, such
// as that of a LayerNormalization, is rounded for products alone.
//
// What stops it: kernels that are not faster than those of floats (bench/static_int8.py); weights or biases
// that are computed, infinite or NaN; bodies and functions; values that no run had; types other than f32.
// Relaxed: values are rounded to 256 steps, and those far beyond what the runs had are cut off.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/calibration.h"
#include "passes/compress/histogram.h"
#include "passes/onnx/quantize/quantize_weights.h"
#include "passes/onnx/quantize/summed_weights.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using compress::Histogram;
using compress::Range;

constexpr int kSteps = 255;         // between the lowest and the highest code
constexpr double kMostRatio = 1.5;  // of the ranges of two values that share a scale

// --- nodes

// A node that multiplies x by constant weights.
struct Product {
  Value *weight = nullptr, *bias = nullptr;
  int64_t axis = 0;  // of the weight, of which each index has a scale
  Sums sums;
  bool joins = false;  // faster only if x is made as codes
};

bool is_float_tensor(const Value* v) { return v != nullptr && v->ranked() && v->dtype() == DType::kF32; }

// The constant f32 tensor that v is; null if it is something else.
const Tensor* weights_of(const Value* v) {
  if (v == nullptr || !v->is_constant() || v->dtype() != DType::kF32 || v->constant()->is_promise()) return nullptr;
  return v->constant().get();
}

bool is_finite(const Tensor& t) {
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  float not_finite = 0;
  for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float x = 0;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    not_finite += x - x;  // NaN unless x is finite
  }
  return not_finite == 0;
}

Sums sums_of_conv(const Tensor& w) {
  int64_t places = 1;
  for (size_t axis = 2; axis < w.rank(); ++axis) places *= w.shape()[axis];
  return {.channels = w.shape()[0], .outer = w.shape()[1], .inner = places, .channel_stride = w.shape()[1] * places};
}

Sums sums_of_matrix(const Tensor& w, bool by_columns) {
  const int64_t rows = w.shape()[by_columns ? 1 : 0], columns = w.shape()[by_columns ? 0 : 1];
  return {.channels = columns,
          .outer = 1,
          .inner = rows,
          .channel_stride = by_columns ? rows : 1,
          .inner_stride = by_columns ? 1 : columns};
}

// Relu, or Clip from zero: where zero has the lowest code, nothing below it is left.
bool is_clamp(const Node& n, KnownValues& known) {
  if (n.unchecked()) return false;
  if (n.is("Relu")) return true;
  if (!n.is("Clip")) return false;
  if (n.op().since_version < 11) return float_attr(n, "min") == 0.0;
  return n.input(1) != nullptr && known.splat(n.input(1)) == 0.0 && (n.input(2) == nullptr || n.input(2)->is_constant());
}

// Whether the node has a kernel for codes, each operand and the result with a scale of its own.
bool is_join(const Node& n) {
  static constexpr std::string_view kJoins[] = {"Add", "Mul", "GlobalAveragePool", "LeakyRelu", "Sigmoid"};
  return !n.unchecked() && std::ranges::any_of(kJoins, [&](std::string_view op) { return n.is(op); });
}

// Whether the node moves elements of its first operand, and does the same with codes.
bool is_move(const Node& n) {
  static constexpr std::string_view kMoves[] = {"MaxPool", "Reshape",   "Flatten",      "Squeeze",      "Unsqueeze",
                                                "Slice",   "Transpose", "DepthToSpace", "SpaceToDepth", "Split"};
  if (n.unchecked() || std::ranges::none_of(kMoves, [&](std::string_view op) { return n.is(op); })) return false;
  return !n.is("MaxPool") || (n.op().since_version >= 12 && (n.num_results() == 1 || !n.result(1)->has_uses()));
}

bool is_concat(const Node& n) { return !n.unchecked() && n.is("Concat"); }

double number_in(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || !(x > 0 && x <= 100))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("percentile of quantize_values is '{}'", text),
                {"expected a number above 0, up to 100"});
  return x;
}

// --- what becomes codes

// Chooses the nodes that compute on codes.
class Choice {
 public:
  Choice(Graph& g, PassContext& context)
      : g_(g), context_(context), min_elements_(context.options().number("min_elements", 1 << 16)) {
    if (min_elements_ < 0) throw Error(ErrorCode::kInvalidArgument, "min_elements of quantize_values is not negative");
    for (Node& n : g.nodes()) {
      if (const auto p = product_of(n)) candidates_.emplace(&n, *p);
    }
  }

  bool has_candidates() const { return !candidates_.empty(); }

  // Chooses anew without the values of `unseen`, which stay in floats.
  void choose(const std::unordered_set<const Value*>& unseen) {
    products_.clear();
    joins_.clear();
    moves_.clear();
    taken_.clear();
    made_.clear();
    const auto may_take = [&](const Node& n) { return !unseen.contains(n.input(0)) && !unseen.contains(result_of(n)); };
    for (const auto& [n, p] : candidates_) {
      if (p.joins || !may_take(*n)) continue;
      products_.emplace(n, p);
      taken_.insert(n->input(0));
    }
    // Values whose codes something would take.
    std::unordered_set<const Value*> welcome = taken_;
    for (Node* n = g_.last(); n != nullptr; n = n->prev()) {
      if (n->is("GlobalAveragePool") || candidates_.contains(n)) welcome.insert(n->input(0));
      if (is_join(*n) && welcome.contains(result_of(*n))) welcome_all(*n, welcome);
      if (is_concat(*n) && welcome.contains(n->result())) welcome_all(*n, welcome);
      if (is_move(*n) && std::ranges::any_of(n->results(), [&](const Value& v) { return welcome.contains(&v); }))
        welcome.insert(n->input(0));
    }
    for (Node& n : g_.nodes()) {
      const auto is_made = [&](const Use& u) { return made_.contains(u.value); };
      const auto is_code = [&](const Use& u) { return made_.contains(u.value) || taken_.contains(u.value); };
      const Value* result = result_of(n);
      if (const auto at = candidates_.find(&n); at != candidates_.end()) {
        if (at->second.joins && made_.contains(n.input(0)) && welcome.contains(result) && may_take(n)) products_.insert(*at);
        if (n.is("Conv") && products_.contains(&n)) made_.insert(result);
      } else if (is_join(n) || is_concat(n)) {
        const bool is_wanted = welcome.contains(result) || n.is("Add") || n.is("GlobalAveragePool") || is_concat(n);
        if (!is_wanted || !is_float_tensor(result) || unseen.contains(result) || !std::ranges::all_of(n.operands(), is_code) ||
            std::ranges::none_of(n.operands(), is_made))
          continue;
        joins_.insert(&n);
        made_.insert(result);
      } else if (is_move(n) && made_.contains(n.input(0))) {
        moves_.insert(&n);
        for (const Value& v : n.results()) made_.insert(&v);
      }
    }
  }

  // What the codes behind a node stand for: its result, or that of the clamp that alone uses it.
  Value* result_of(const Node& n) const {
    Value* v = n.result();
    if (!v->has_one_use() || is_concat(n) || is_move(n)) return v;
    const Node& user = *v->uses().begin()->owner;
    return !user.is_boundary() && user.graph() == &g_ && is_clamp(user, context_) && user.input(0) == v ? user.result() : v;
  }

  // Where the codes of v come from: v, or what a clamp that alone uses it makes v of.
  Value* source_of(Value* v) const {
    const Node* n = v->def();
    return n != nullptr && is_clamp(*n, context_) && n->input(0)->has_one_use() ? n->input(0) : v;
  }

  const std::map<const Node*, Product>& candidates() const { return candidates_; }
  const Product* product(const Node& n) const {
    const auto at = products_.find(&n);
    return at == products_.end() ? nullptr : &at->second;
  }
  bool is_joined(const Node& n) const { return joins_.contains(&n); }
  bool is_moved(const Node& n) const { return moves_.contains(&n); }
  // Whether codes are the result of a kernel; all users take them or what they stand for.
  bool is_made(const Value* v) const { return made_.contains(v); }
  bool has_codes(const Value* v) const { return made_.contains(v) || taken_.contains(v); }

 private:
  static void welcome_all(const Node& n, std::unordered_set<const Value*>& welcome) {
    for (const Use& u : n.operands()) welcome.insert(u.value);
  }

  std::optional<Product> product_of(const Node& n) {
    if (n.unchecked() || !(n.is("Conv") || n.is("MatMul") || n.is("Gemm"))) return std::nullopt;
    const Value *x = n.input(0), *bias = n.input(2);
    const Tensor *w = weights_of(n.input(1)), *b = weights_of(bias);
    const auto refuse = [&](std::string_view why) -> std::optional<Product> {
      context_.log.near_miss(n, why);
      return std::nullopt;
    };
    if (!is_float_tensor(x) || x->is_constant()) return std::nullopt;
    if (w == nullptr || (bias != nullptr && b == nullptr)) return refuse("its weights or its bias are computed");
    if (!is_finite(*w) || (b != nullptr && !is_finite(*b))) return refuse("a weight is infinite or NaN");
    Product p{.weight = n.input(1), .bias = n.input(2)};
    if (n.is("Conv")) {
      p.sums = sums_of_conv(*w);
      p.joins = w->shape()[1] == 1;
      const int64_t summed = p.sums.outer * p.sums.inner;
      if (!p.joins && summed < (p.sums.inner == 1 ? kFewestChannels : kFewestSummed) && !feeds_max_pool(n))
        return refuse(fmt::format("{} products make each number of the result, and few are not faster", summed));
      return w->size() > 0 ? std::optional(p) : std::nullopt;
    }
    if (w->rank() != 2 || x->type()->rank() < 2) return refuse("no product of rows with one matrix");
    if (w->size() < min_elements_ || w->size() == 0)
      return refuse(fmt::format("the weight has {} elements, and small products are not faster", w->size()));
    bool by_columns = false;
    if (n.is("Gemm")) {
      if (int_attr(n, "transA") != 0 || float_attr(n, "alpha") != 1.0 || float_attr(n, "beta") != 1.0)
        return refuse("a scaled product");
      by_columns = int_attr(n, "transB") == 1;
      if (b != nullptr && b->size() != w->shape()[by_columns ? 0 : 1]) return refuse("its bias is no row");
    }
    p.sums = sums_of_matrix(*w, by_columns);
    p.axis = by_columns ? 0 : 1;
    return p;
  }

  // onnxruntime quantizes before a pool what is quantized behind it. Without such a convolution there its
  // kernel is a hundred times slower.
  bool feeds_max_pool(const Node& n) const {
    const Value* v = result_of(n);
    return std::ranges::any_of(v->uses(), [](const Use& u) { return u.owner->is("MaxPool"); });
  }

  // Products that make one number of a convolution's result, without and with several places: with fewer, the
  // kernel for floats is faster. Depthwise ones have another kernel, which is worth it only among others.
  static constexpr int64_t kFewestChannels = 16, kFewestSummed = 100;

  Graph& g_;
  PassContext& context_;
  const int64_t min_elements_;
  std::map<const Node*, Product> candidates_, products_;
  std::unordered_set<const Node*> joins_, moves_;
  std::unordered_set<const Value*> taken_, made_;
};

// --- scales

// Values whose codes have one scale, as moves join them.
class Scales {
 public:
  void see(const Value* v, const Histogram& h) { histograms_[find(v)].add(h); }

  void unite(const Value* a, const Value* b) {
    const Value *to = find(a), *from = find(b);
    if (to == from) return;
    parent_[from] = to;
    if (const auto at = histograms_.find(from); at != histograms_.end()) histograms_[to].add(at->second);
    histograms_.erase(from);
    if (whole_.erase(from) > 0) whole_.insert(to);
  }

  // Nothing of v is cut off: it is a result of the model.
  void keep_whole(const Value* v) { whole_.insert(find(v)); }

  const Histogram& histogram(const Value* v) { return histograms_[find(v)]; }
  bool is_whole(const Value* v) { return whole_.contains(find(v)); }

  const Value* find(const Value* v) {
    while (parent_.contains(v)) v = parent_[v];
    return v;
  }

 private:
  std::unordered_map<const Value*, const Value*> parent_;
  std::unordered_map<const Value*, Histogram> histograms_;
  std::unordered_set<const Value*> whole_;
};

// The scale of codes, and the code of zero.
struct Scaling {
  float scale = 1;
  int zero = 0;
  Value *scale_value = nullptr, *zero_value = nullptr;
};

Scaling scaling_of(Range range) {
  if (range.width() <= 0) return {};
  const double zero = std::nearbyint(-range.low / range.width() * kSteps);
  // Both ends have codes although zero has one, too.
  const double below = zero > 0 ? -range.low / zero : 0, above = zero < kSteps ? range.high / (kSteps - zero) : 0;
  const auto scale = static_cast<float>(std::max(below, above));
  return {.scale = std::max(scale, std::numeric_limits<float>::min()), .zero = static_cast<int>(zero)};
}

class ValueQuantizer {
 public:
  ValueQuantizer(Graph& g, PassContext& context)
      : g_(g),
        context_(context),
        b_(g, context),
        choice_(g, context),
        full_range_(context.options().flag("full_range", false)),
        percentile_(context.options().text("percentile", "")) {
    if (!percentile_.empty()) left_out_ = 1 - number_in(percentile_) / 100;
  }

  bool run() {
    if (!choice_.has_candidates()) return false;
    if (context_.calibration() == nullptr)
      throw Error(ErrorCode::kInvalidArgument, "quantize_values learns ranges from runs of the model, and there are none",
                  {"help: --calibrate names the inputs of runs"});
    require_opset();
    observe();
    if (std::ranges::none_of(choice_.candidates(), [&](const auto& c) { return choice_.product(*c.first) != nullptr; }))
      return false;
    share_scales();
    std::vector<Node*> nodes;
    for (Node& n : g_.nodes()) nodes.push_back(&n);
    for (const Port& p : g_.inputs()) round(*p.value, g_.first());
    for (Node* n : nodes) {
      if (choice_.is_moved(*n) || moved_concats_.contains(n)) {
        move(*n);
      } else {
        for (Value& v : n->results()) round(v, n->next());
      }
    }
    for (Node* n : nodes) {
      if (const Product* p = choice_.product(*n)) narrow(*n, *p);
    }
    erase_dead_nodes(g_);
    g_.erase_unused_constants();
    return true;
  }

 private:
  void require_opset() const {
    const auto has = context_.model.opset_version("");
    if (has && *has >= kStaticQuantization) return;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("values of 8 bits need opset {}, and the model imports {}", kStaticQuantization, has.value_or(0)),
                {fmt::format("help: --opset {} converts the model first", kStaticQuantization)});
  }

  // Chooses nodes, and learns the ranges of the values that become codes.
  void observe() {
    std::unordered_set<const Value*> unseen;
    choice_.choose(unseen);
    std::vector<const Value*> values;
    const auto add = [&](const Value& v) {
      const bool is_moved = v.def() != nullptr && choice_.is_moved(*v.def());
      if (choice_.has_codes(&v) && !is_moved) values.push_back(&v);
    };
    for (const Port& p : g_.inputs()) add(*p.value);
    for (const Node& n : g_.nodes()) std::ranges::for_each(n.results(), add);
    std::vector<Histogram> seen(values.size());
    observe_values(context_.model, values, *context_.calibration(), [&](size_t i, const Array& x) {
      if (x.dtype() != DType::kF32) return;
      const TensorPtr dense = x.is_dense() ? nullptr : x.to_tensor();
      std::vector<std::byte> scratch;
      if (dense == nullptr) {
        seen[i].add({x.as<float>(), static_cast<size_t>(x.size())});
      } else {
        const Array copy = Array::of(dense);
        std::vector<float> numbers(static_cast<size_t>(copy.size()));
        for (int64_t at = 0; at < copy.size(); ++at) numbers[static_cast<size_t>(at)] = static_cast<float>(copy.double_at(at));
        seen[i].add(numbers);
      }
    });
    for (size_t i = 0; i < values.size(); ++i) {
      if (!seen[i].is_finite())
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("'{}' has infinite or NaN elements in a calibration run", values[i]->name().view()),
                    {"help: leave this run out"});
      if (seen[i].is_empty()) unseen.insert(values[i]);
      scales_.see(values[i], seen[i]);
    }
    if (!unseen.empty()) choice_.choose(unseen);
  }

  // Values that moves join have one scale; those of a Concat only if their ranges are about as wide.
  void share_scales() {
    for (const Node& n : g_.nodes()) {
      for (const Value& v : n.results()) {
        if (choice_.is_moved(n)) scales_.unite(n.input(0), &v);
      }
    }
    for (const Port& p : g_.outputs()) scales_.keep_whole(p.use->value);
    for (Node& n : g_.nodes()) {
      if (!is_concat(n) || !choice_.is_joined(n)) continue;
      const double whole = range_of(n.result()).width();
      const auto is_wide = [&](const Use& u) { return range_of(u.value).width() * kMostRatio >= whole; };
      const auto is_made = [&](const Use& u) { return choice_.is_made(u.value); };
      if (!std::ranges::all_of(n.operands(), is_wide) || !std::ranges::all_of(n.operands(), is_made)) continue;
      for (const Use& u : n.operands()) scales_.unite(n.result(), u.value);
      moved_concats_.insert(&n);
    }
  }

  Range range_of(const Value* v) {
    const Histogram& h = scales_.histogram(v);
    if (scales_.is_whole(v)) return h.widest();
    return left_out_ ? h.without(*left_out_) : h.least_squares(kSteps);
  }

  const Scaling& scaling(const Value* v) {
    const auto [at, is_new] = scalings_.try_emplace(scales_.find(v));
    if (is_new) {
      at->second = scaling_of(range_of(v));
      at->second.scale_value = b_.scalar(DType::kF32, static_cast<double>(at->second.scale));
      at->second.zero_value = b_.scalar_int(DType::kU8, at->second.zero);
    }
    return at->second;
  }

  // Whether a user of v reads what its codes stand for.
  bool takes(const Use& u, const Value& v) const {
    if (choice_.is_made(&v)) return true;
    if (u.owner->is_boundary()) return false;
    const bool is_first = &u == u.owner->operands().data();
    return (is_first && choice_.product(*u.owner) != nullptr) || choice_.is_joined(*u.owner);
  }

  // Gives the users of v what its codes stand for.
  void give(Value& v, Value* codes, const std::vector<Use*>& users) {
    const Scaling& s = scaling(&v);
    Value* floats = b_.DequantizeLinear(codes, s.scale_value, s.zero_value);
    for (Use* u : users) set_use(*u, *floats);
    context_.log.count("values");
  }

  void set_use(Use& u, Value& v) {
    if (!u.owner->is_boundary()) {
      u.owner->set_input(static_cast<size_t>(&u - u.owner->operands().data()), &v);
      return;
    }
    Graph& g = *u.owner->graph();
    const auto port = std::ranges::find(g.outputs(), &u, &Port::use);
    g.set_output(static_cast<size_t>(port - g.outputs().begin()), v);
  }

  std::vector<Use*> takers_of(const Value& v) const {
    std::vector<Use*> users;
    for (Use& u : v.uses()) {
      if (takes(u, v)) users.push_back(&u);
    }
    return users;
  }

  // Writes the codes of a value in front of `next`, if it has some.
  void round(Value& v, Node* next) {
    if (!choice_.has_codes(&v)) return;
    const std::vector<Use*> users = takers_of(v);
    b_.set_insertion_point(next);
    const Scaling& s = scaling(&v);
    Value* source = users.size() == count_uses(v) ? choice_.source_of(&v) : &v;
    if (!choice_.is_made(&v) && is_between_codes(source->def())) source = guarded(source, s);
    give(v, b_.QuantizeLinear(source, s.scale_value, s.zero_value), users);
  }

  // Whether onnxruntime would quantize the weights of the node, all with one scale, because codes are before and
  // behind it. A kernel for floats is there because it is faster.
  bool is_between_codes(const Node* n) const {
    if (n == nullptr || choice_.product(*n) != nullptr) return false;
    if (!n->is("Conv") && !n->is("ConvTranspose") && !n->is("Gemm")) return false;
    const Node* before = n->input(0)->def();
    return before != nullptr && before->is("DequantizeLinear");
  }

  // The same codes by way of a node that it does not look through.
  Value* guarded(Value* v, const Scaling& s) {
    const double low = -(s.zero + 0.25) * static_cast<double>(s.scale);
    return b_.Max({v, b_.scalar(DType::kF32, low)});
  }

  static size_t count_uses(const Value& v) {
    return static_cast<size_t>(std::ranges::distance(v.uses().begin(), v.uses().end()));
  }

  // Makes a node that moves codes of one that moves what they stand for.
  void move(Node& n) {
    b_.set_insertion_point(n.next());
    std::vector<Value*> operands = operands_of(n);
    for (size_t i = 0; i < (is_concat(n) ? operands.size() : 1); ++i) operands[i] = operands[i]->def()->input(0);
    Node& moved = b_.make(n.op(), operands, n.is("MaxPool") ? 1 : n.num_results(), attrs_of(n));
    for (size_t i = 0; i < moved.num_results(); ++i) {
      Value& v = *n.result(i);
      give(v, moved.result(i), takers_of(v));
    }
  }

  // Stores the weights and the bias of a product as integers.
  void narrow(Node& n, const Product& p) {
    const Node& of_x = *n.input(0)->def();  // DequantizeLinear
    const auto step = static_cast<float>(of_x.input(1)->constant()->as_double(0));
    const Tensor* bias = p.bias != nullptr ? p.bias->constant().get() : nullptr;
    // Codes of a bias have the product of both scales, and 32 bits.
    std::vector<float> least(bias != nullptr ? static_cast<size_t>(bias->size()) : 0);
    for (size_t i = 0; i < least.size(); ++i) {
      constexpr double kMostBias = 1 << 30;
      least[i] = static_cast<float>(std::abs(bias->as_double(static_cast<int64_t>(i))) / kMostBias / static_cast<double>(step));
    }
    b_.set_insertion_point(&n);
    const Narrow* w = &narrow(p);
    Narrow coarser;
    if (!std::ranges::equal(least, std::span(w->scales).first(least.size()), std::ranges::less_equal()))
      w = &(coarser = narrow(p, least));
    n.set_input(1, w->floats);
    if (bias != nullptr)
      n.set_input(2, dequantized(*p.bias, bias_codes(*bias, step, w->scales), biased_scales(step, w->scales), 0));
    context_.log.count("products");
    if (n.is("MatMul")) take_bias(n, step, w->scales);
  }

  // A weight as integers.
  struct Narrow {
    Value* floats = nullptr;    // what they stand for
    std::vector<float> scales;  // of each channel
  };

  const Narrow& narrow(const Product& p) {
    const auto [at, is_new] = narrow_.try_emplace({p.weight, p.axis});
    if (is_new) at->second = narrow(p, {});
    return at->second;
  }

  Narrow narrow(const Product& p, std::span<const float> least) {
    WeightCodes codes = encode_summed(*p.weight->constant(), p.sums, least, full_range_);
    return {.floats = dequantized(*p.weight, codes.codes, codes.scales, p.axis), .scales = std::move(codes.scales)};
  }

  static std::vector<float> biased_scales(float step, std::vector<float> scales) {
    for (float& s : scales) s *= step;
    return scales;
  }

  static TensorPtr bias_codes(const Tensor& bias, float step, const std::vector<float>& scales) {
    std::vector<int32_t> codes;
    for (const float s : biased_scales(step, scales)) {
      const double x = bias.as_double(static_cast<int64_t>(codes.size())) / static_cast<double>(s);
      codes.push_back(static_cast<int32_t>(std::nearbyint(x)));
    }
    return Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(codes.size())}, codes);
  }

  // What codes with a scale for each index of an axis stand for.
  Value* dequantized(const Value& floats, const TensorPtr& codes, const std::vector<float>& scales, int64_t axis) {
    const std::string name(floats.name().view());
    const auto constant = [&](const TensorPtr& t, std::string_view suffix) {
      return b_.constant(t, name.empty() ? std::string() : fmt::format("{}{}", name, suffix));
    };
    const std::vector<int64_t> shape{static_cast<int64_t>(scales.size())};
    Value* codes_value = constant(codes, kCodesSuffix);
    Value* scale = constant(Tensor::of<float>(DType::kF32, shape, scales), "_scale");
    return b_.DequantizeLinear(codes_value, scale, codes->dtype() == DType::kI8 ? zeros(scales.size()) : nullptr,
                               {.axis = axis});
  }

  // Zero points of weights: onnxruntime joins no node without them.
  Value* zeros(size_t count) {
    Value*& found = zeros_[count];
    if (found == nullptr) found = b_.constant(Tensor::full(DType::kI8, {static_cast<int64_t>(count)}, 0));
    return found;
  }

  // onnxruntime makes a Gemm of a MatMul and an Add of a row, which computes in floats if the row does.
  void take_bias(Node& n, float step, const std::vector<float>& scales) {
    if (!n.result()->has_one_use()) return;
    Node& add = *n.result()->uses().begin()->owner;
    if (add.is_boundary() || add.graph() != &g_ || !add.is("Add")) return;
    Value* row = add.input(add.input(0) == n.result() ? 1 : 0);
    const Tensor* t = weights_of(row);
    if (t == nullptr || t->rank() != 1 || t->shape()[0] != static_cast<int64_t>(scales.size())) return;
    b_.set_insertion_point(&add);
    if (n.input(0)->type()->rank() == 2) {
      Value* bias = dequantized(*row, bias_codes(*t, step, scales), biased_scales(step, scales), 0);
      g_.replace_uses(*add.result(), *b_.Gemm(n.input(0), n.input(1), bias));
    } else {
      g_.replace_uses(*add.result(), *b_.Add(n.result(), b_.constant(t->reshaped({1, t->shape()[0]}))));
    }
    g_.erase(add);
    if (!n.result()->has_uses()) g_.erase(n);
  }

  Graph& g_;
  PassContext& context_;
  Rewriter b_;
  Choice choice_;
  const bool full_range_;
  const std::string percentile_;
  std::optional<double> left_out_;
  Scales scales_;
  std::unordered_map<const Value*, Scaling> scalings_;
  std::unordered_set<const Node*> moved_concats_;
  std::map<std::pair<const Value*, int64_t>, Narrow> narrow_;  // by weight and axis
  std::unordered_map<size_t, Value*> zeros_;                   // zero points of weights, by number
};

}  // namespace

Pass quantize_values() {
  return Pass::on_graph(Numerics::kRelaxed, needs({"Conv", "MatMul", "Gemm"}),
                        [](Graph& top, PassContext& context) {
                          return &top == &context.model.graph() && ValueQuantizer(top, context).run();
                        })
      .option("full_range", "true: codes of weights take 8 bits, which x86 processors without VNNI compute wrongly")
      .option("min_elements", "matrix products with smaller weights stay (default: 65536)")
      .option("percentile", "the share in percent of a value's elements that its codes cover (default: what errs least)")
      .after_verification();
}

}  // namespace sardonyx::onnx
