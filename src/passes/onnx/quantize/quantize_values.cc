//   x ── Conv(W, b) ── Relu ── y
//     =>   x ── Q ── DQ ── Conv(DQ(codes of W), DQ(codes of b)) ── Q ── DQ ── y
//
// Q is QuantizeLinear, and DQ DequantizeLinear. Computes convolutions and products with constant weights, and
// what lies between them, in integers of 8 bits, in the form that onnxruntime joins into one kernel each.
// Runs tell the ranges of values. Weights have a scale for each channel of results, biases have 32 bits.
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
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/calibration.h"
#include "passes/compress/four.h"
#include "passes/compress/shared_ranges.h"
#include "passes/onnx/quantize/code_choice.h"
#include "passes/onnx/quantize/quantize_weights.h"
#include "passes/onnx/quantize/summed_weights.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using compress::Histogram;
using compress::kSteps;
using compress::Range;

double number_in(const std::string& text) {
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error != std::errc() || end != text.data() + text.size() || !(x > 0 && x <= 100))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("percentile of quantize_values is '{}'", text),
                {"expected a number above 0, up to 100"});
  return x;
}

// What the runs had of a value.
struct Seen {
  Histogram histogram;
  std::vector<double> sums;  // over each channel
};

float sum_of(std::span<const float> numbers) {
  compress::Four sums{};
  size_t i = 0;
  for (; i + 4 <= numbers.size(); i += 4) sums += compress::load(&numbers[i]);
  for (; i < numbers.size(); ++i) sums[0] += numbers[i];
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}

// Adds up what each index of an axis has.
void add(std::span<const float> numbers, const std::vector<int64_t>& shape, size_t axis, std::vector<double>& sums) {
  size_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  sums.resize(static_cast<size_t>(shape[axis]));
  for (size_t at = 0, channel = 0; at < numbers.size(); at += inner) {
    sums[channel] += static_cast<double>(sum_of(numbers.subspan(at, inner)));
    channel = channel + 1 == sums.size() ? 0 : channel + 1;
  }
}

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
        all_(context.options().flag("all", false)),
        full_range_(context.options().flag("full_range", false)),
        percentile_(context.options().text("percentile", "")) {
    if (!percentile_.empty()) scales_.leave_out(1 - number_in(percentile_) / 100);
  }

  bool run() {
    if (!choice_.has_products()) return false;
    if (context_.calibration() == nullptr)
      throw Error(ErrorCode::kInvalidArgument, "quantize_values learns ranges from runs of the model, and there are none",
                  {"help: --calibrate names the inputs of runs"});
    require_opset();
    observe();
    if (!choice_.has_products()) return false;
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
    choice_.choose();
    std::vector<Value*> values;
    const auto add_value = [&](Value& v) {
      if (choice_.has_codes(&v)) values.push_back(&v);
    };
    for (const Port& p : g_.inputs()) add_value(*p.value);
    for (Node& n : g_.nodes()) {
      std::ranges::for_each(n.results(), add_value);
      if (choice_.product(n) != nullptr) operands_.emplace(&n, n.input(0));
    }
    const std::vector<const Value*> observed(values.begin(), values.end());
    observe_values(context_.model, observed, *context_.calibration(), [&](size_t i, const Array& x) {
      if (x.dtype() == DType::kF32) see(*values[i], x);
    });
    choice_.leave_unseen([&](const Value* v) { return seen_[v].histogram.size() > 0; });
    const auto runs = static_cast<double>(context_.calibration()->runs.size());
    if (!all_) choice_.leave_slower([&](const Value* v) { return static_cast<double>(seen_[v].histogram.size()) / runs; });
    for (Value* v : values) {
      if (!choice_.has_codes(v)) continue;
      if (!seen_[v].histogram.is_finite())
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("'{}' has infinite or NaN elements in a calibration run", v->name().view()),
                    {"help: leave this run out"});
      if (v->def() != nullptr && choice_.is_moved(*v->def())) continue;
      scales_.see(v, seen_[v].histogram);
      scales_.bound(v, choice_.bounds_of(v));
    }
  }

  void see(const Value& v, const Array& x) {
    std::vector<float> scratch;
    const std::span<const float> numbers = floats_of(x, scratch);
    Seen& seen = seen_[&v];
    seen.histogram.add(numbers);
    for (const Use& u : v.uses()) {
      const auto at = operands_.find(u.owner);
      if (at == operands_.end() || at->second != &v || numbers.empty()) continue;
      add(numbers, x.shape(), u.owner->is("Conv") ? 1 : x.rank() - 1, seen.sums);
      return;
    }
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
      const auto may_share = [&](const Use& u) { return choice_.is_made(u.value) && scales_.may_share(u.value, n.result()); };
      if (!std::ranges::all_of(n.operands(), may_share)) continue;
      for (const Use& u : n.operands()) scales_.unite(n.result(), u.value);
      moved_concats_.insert(&n);
    }
  }

  const Scaling& scaling(const Value* v) {
    const auto [at, is_new] = scalings_.try_emplace(scales_.find(v));
    if (is_new) {
      at->second = scaling_of(scales_.range_of(v));
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

  // Whether onnxruntime would quantize the weights of the node, all with one scale, because codes are before
  // and behind it. It computes on floats because that is faster.
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
    if (bias != nullptr) n.set_input(2, narrow_bias(*p.bias, n, p, *w, step));
    context_.log.count("products");
    if (n.is("MatMul")) take_bias(n, p, *w, step);
  }

  // A weight as integers.
  struct Narrow {
    Value* floats = nullptr;  // what they stand for
    TensorPtr codes;
    std::vector<float> scales;  // of each channel
  };

  const Narrow& narrow(const Product& p) {
    const auto [at, is_new] = narrow_.try_emplace({p.weight, p.axis});
    if (is_new) at->second = narrow(p, {});
    return at->second;
  }

  Narrow narrow(const Product& p, std::span<const float> least) {
    WeightCodes codes = encode_summed(*p.weight->constant(), p.sums, least, full_range_);
    Value* floats = dequantized(*p.weight, codes.codes, codes.scales, p.axis);
    return {.floats = floats, .codes = codes.codes, .scales = std::move(codes.scales)};
  }

  // A bias as integers. It makes up for what rounding the weights does to results where x is as in the mean.
  Value* narrow_bias(const Value& bias, const Node& n, const Product& p, const Narrow& w, float step) {
    const Tensor& t = *bias.constant();
    const Seen& x = seen_[operands_.at(&n)];
    const double rows = static_cast<double>(x.histogram.size()) / static_cast<double>(x.sums.size());
    std::vector<double> means;
    for (const double sum : x.sums) means.push_back(sum / rows);
    const int64_t groups = n.is("Conv") ? int_attr(n, "group").value_or(1) : 1;
    const std::vector<double> lost = lost_of_means(*p.weight->constant(), p.sums, groups, *w.codes, w.scales, means);
    std::vector<int32_t> codes;
    std::vector<float> scales;
    for (size_t i = 0; i < lost.size(); ++i) {
      scales.push_back(w.scales[i] * step);
      const double code = (t.as_double(static_cast<int64_t>(i)) + lost[i]) / static_cast<double>(scales[i]);
      constexpr double kMost = 2147483647;
      codes.push_back(static_cast<int32_t>(std::clamp(std::nearbyint(code), -kMost, kMost)));
    }
    return dequantized(bias, Tensor::of<int32_t>(DType::kI32, {static_cast<int64_t>(codes.size())}, codes), scales, 0);
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
  void take_bias(Node& n, const Product& p, const Narrow& w, float step) {
    if (!n.result()->has_one_use()) return;
    Node& add = *n.result()->uses().begin()->owner;
    if (add.is_boundary() || add.graph() != &g_ || !add.is("Add")) return;
    Value* row = add.input(add.input(0) == n.result() ? 1 : 0);
    const Tensor* t = weights_of(row);
    if (t == nullptr || t->rank() != 1 || t->shape()[0] != static_cast<int64_t>(w.scales.size())) return;
    b_.set_insertion_point(&add);
    if (n.input(0)->type()->rank() == 2) {
      g_.replace_uses(*add.result(), *b_.Gemm(n.input(0), n.input(1), narrow_bias(*row, n, p, w, step)));
    } else {
      g_.replace_uses(*add.result(), *b_.Add(n.result(), b_.constant(t->reshaped({1, t->shape()[0]}))));
    }
    g_.erase(add);
    if (!n.result()->has_uses()) g_.erase(n);
  }

  Graph& g_;
  PassContext& context_;
  Rewriter b_;
  CodeChoice choice_;
  const bool all_, full_range_;
  const std::string percentile_;
  compress::SharedRanges scales_;
  std::unordered_map<const Value*, Seen> seen_;
  std::unordered_map<const Node*, const Value*> operands_;  // of products, before they are rounded
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
      .option("all", "true: also what is not faster so")
      .option("full_range", "true: codes of weights take 8 bits, which x86 processors without VNNI compute wrongly")
      .option("percentile", "the share in percent of a value's elements that its codes cover (default: what errs least)")
      .after_verification();
}

}  // namespace sardonyx::onnx
