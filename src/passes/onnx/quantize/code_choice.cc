#include "passes/onnx/quantize/code_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/compress/weights.h"
#include "rewrite/onnx_rewriter.h"
#include "support/min_cut.h"

namespace sardonyx::onnx {
namespace {

bool is_float_tensor(const Value* v) { return v != nullptr && v->ranked() && v->dtype() == DType::kF32; }

bool is_finite(const Tensor& t) { return compress::are_below(t, std::numeric_limits<float>::infinity()); }

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
  if (n.op().since_version < 11) return float_attr(n, "min") == 0.0 && float_attr(n, "max").value_or(0) >= 0;
  const auto limit = [&](size_t i) { return n.input(i) != nullptr ? known.splat(n.input(i)) : std::nullopt; };
  return limit(1) == 0.0 && (n.input(2) == nullptr || limit(2).value_or(-1) >= 0);
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

// --- what onnxruntime takes, in picoseconds

struct Time {
  double in_floats = 0, in_codes = 0;
};

// Measured on one core with VNNI by bench/static_int8.py --kernels, in onnxruntime 1.32, and rounded. Means,
// concatenations and transposes, which that leaves out, are estimates.
constexpr Time kOfProduct{8, 2};                          // of two numbers, in a dense sum
constexpr Time kOfDepthwise{14, 25};                      // of two numbers
constexpr double kOfNumber = 80;                          // of a convolution's result in codes, besides its products
constexpr double kOfPatch = 700, kOfPatchInGroup = 3000;  // to collect what one place of a kernel sees, in codes
constexpr double kOfFewInGroup = 800;                     // per product in floats, over the square of the channels of a group
constexpr double kToCodes = 200, kToCodesOfRows = 60;     // or back, of an element: of images, which change their layout
constexpr double kOfNode = 1e6;

constexpr std::pair<std::string_view, Time> kOfElements[] = {
    {"Add", {70, 100}},        {"Mul", {80, 200}},       {"Sigmoid", {60, 240}},  // floats have one kernel for it and Mul
    {"LeakyRelu", {300, 250}}, {"MaxPool", {120, 300}},  {"GlobalAveragePool", {100, 20}},
    {"Concat", {100, 40}},     {"Transpose", {100, 25}},
};

Time time_of(const Node& n, const Product& p, double results) {
  const double summed = static_cast<double>(p.sums.outer * p.sums.inner), products = results * summed;
  if (p.is_depthwise) return {products * kOfDepthwise.in_floats, products * kOfDepthwise.in_codes};
  Time t{products * kOfProduct.in_floats, products * kOfProduct.in_codes};
  if (!n.is("Conv")) return t;
  t.in_codes += results * kOfNumber;
  const int64_t groups = int_attr(n, "group").value_or(1);
  const auto channels = static_cast<double>(p.sums.outer);
  if (groups > 1) t.in_floats += products * kOfFewInGroup / (channels * channels);
  const double patches = results / static_cast<double>(p.sums.channels) * static_cast<double>(p.sums.inner * groups);
  if (p.sums.inner > 1) t.in_codes += patches * (groups > 1 ? kOfPatchInGroup : kOfPatch);
  return t;
}

}  // namespace

const Tensor* weights_of(const Value* v) {
  if (v == nullptr || !v->is_constant() || v->dtype() != DType::kF32 || v->constant()->is_promise()) return nullptr;
  return v->constant().get();
}

bool is_concat(const Node& n) { return !n.unchecked() && n.is("Concat"); }

CodeChoice::CodeChoice(Graph& g, PassContext& context) : g_(g), context_(context) {
  for (Node& n : g.nodes()) {
    if (const auto p = product_of(n)) candidates_.emplace_back(&n, *p);
  }
  products_.insert(candidates_.begin(), candidates_.end());
}

std::optional<Product> CodeChoice::product_of(const Node& n) {
  if (n.unchecked() || !(n.is("Conv") || n.is("MatMul") || n.is("Gemm"))) return std::nullopt;
  const Value *x = n.input(0), *bias = n.input(2);
  const Tensor *w = weights_of(n.input(1)), *b = weights_of(bias);
  const auto refuse = [&](std::string_view why) -> std::optional<Product> {
    context_.log.near_miss(n, why);
    return std::nullopt;
  };
  if (!is_float_tensor(x) || x->is_constant()) return std::nullopt;
  if (w == nullptr || (bias != nullptr && b == nullptr)) return refuse("its weights or its bias are computed");
  if (w->size() == 0 || !is_finite(*w) || (b != nullptr && !is_finite(*b))) return refuse("a weight is infinite or NaN");
  Product p{.weight = n.input(1), .bias = n.input(2)};
  if (n.is("Conv")) {
    p.sums = sums_of_conv(*w);
    p.is_depthwise = w->shape()[1] == 1 && int_attr(n, "group") != 1;
    return p;
  }
  if (w->rank() != 2 || x->type()->rank() < 2) return refuse("no product of rows with one matrix");
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

void CodeChoice::choose() {
  products_.clear();
  joins_.clear();
  moves_.clear();
  taken_.clear();
  makers_.clear();
  for (const auto& [n, p] : candidates_) {
    if (!p.is_depthwise) taken_.insert(n->input(0));
  }
  // Values whose codes something would take.
  std::unordered_set<const Value*> welcome = taken_;
  std::unordered_map<const Node*, Product> candidates(candidates_.begin(), candidates_.end());
  for (const Node* n = g_.last(); n != nullptr; n = n->prev()) {
    const bool takes_all = (is_join(*n) || is_concat(*n)) && welcome.contains(result_of(*n));
    const bool is_welcome = std::ranges::any_of(n->results(), [&](const Value& v) { return welcome.contains(&v); });
    if (takes_all) std::ranges::for_each(n->operands(), [&](const Use& u) { welcome.insert(u.value); });
    if (candidates.contains(n) || n->is("GlobalAveragePool") || (is_move(*n) && is_welcome)) welcome.insert(n->input(0));
  }
  for (const Node& n : g_.nodes()) {
    if (left_out_.contains(&n)) continue;
    const auto make = [&](const Value* v) { makers_.emplace(v, &n); };
    const Value* result = result_of(n);
    if (const auto at = candidates.find(&n); at != candidates.end()) {
      if (at->second.is_depthwise && !(is_made(n.input(0)) && welcome.contains(result))) continue;
      products_.insert(*at);
      if (n.is("Conv")) make(result);
    } else if (is_join(n) || is_concat(n)) {
      const bool is_wanted = welcome.contains(result) || n.is("Add") || n.is("GlobalAveragePool") || is_concat(n);
      if (!is_wanted || !is_float_tensor(result) ||
          !std::ranges::all_of(n.operands(), [&](const Use& u) { return has_codes(u.value); }) ||
          std::ranges::none_of(n.operands(), [&](const Use& u) { return is_made(u.value); }))
        continue;
      joins_.insert(&n);
      make(result);
    } else if (is_move(n) && is_made(n.input(0))) {
      moves_.insert(&n);
      for (const Value& v : n.results()) make(&v);
    }
  }
}

void CodeChoice::leave(const Node& n) {
  left_out_.insert(&n);
  std::erase_if(candidates_, [&](const auto& c) { return c.first == &n; });
}

// The value whose codes are moved into those of v.
const Value* CodeChoice::origin_of(const Value* v) const {
  while (v->def() != nullptr && moves_.contains(v->def())) v = v->def()->input(0);
  return v;
}

void CodeChoice::leave_unseen(const std::function<bool(const Value*)>& is_seen) {
  for (const Node& n : g_.nodes()) {
    const bool is_chosen = products_.contains(&n) || joins_.contains(&n);
    if (!is_chosen || (is_seen(origin_of(n.input(0))) && (!is_made(result_of(n)) || is_seen(result_of(n))))) continue;
    context_.log.near_miss(n, "no run has elements of its operand");
    leave(n);
  }
  choose();
}

// Whether a node that computes on codes reads them there.
bool CodeChoice::is_slot(const Use& u) const {
  const bool is_first = !u.owner->is_boundary() && &u == u.owner->operands().data();
  return joins_.contains(u.owner) || (is_first && (products_.contains(u.owner) || moves_.contains(u.owner)));
}

// A minimum cut: what is with the source computes on codes. Each node costs what it takes where it is. Each
// value that crosses costs, once, what it takes to become codes or floats.
void CodeChoice::leave_slower(const Size& size) {
  MinCut cut;
  std::unordered_map<const Node*, uint32_t> vertices;
  const auto elements = [&](const Value* v) { return size(origin_of(v)); };  // moves leave most of them
  const auto as_capacity = [](double time) { return static_cast<int64_t>(std::min(time, 1e17)); };
  for (const Node& n : g_.nodes()) {
    const auto product = products_.find(&n);
    if (product == products_.end() && !joins_.contains(&n) && !moves_.contains(&n)) continue;
    const uint32_t vertex = vertices[&n] = cut.add_vertex();
    Time t;
    if (product != products_.end()) {
      const bool is_conv = n.is("Conv");
      const auto& sums = product->second.sums;
      const double rows = is_conv ? 0 : elements(n.input(0)) / static_cast<double>(sums.inner);
      t = time_of(n, product->second, is_conv ? elements(result_of(n)) : rows * static_cast<double>(sums.channels));
    } else if (const auto row = std::ranges::find_if(kOfElements, [&](const auto& r) { return n.is(r.first); });
               row != std::end(kOfElements)) {
      const double count = elements(n.is("GlobalAveragePool") ? n.input(0) : result_of(n));
      t = {row->second.in_floats * count, row->second.in_codes * count};
    }
    cut.add_edge(MinCut::kSource, vertex, as_capacity(t.in_floats));
    cut.add_edge(vertex, MinCut::kSink, as_capacity(t.in_codes));
  }
  std::unordered_set<const Value*> values = taken_;
  for (const auto& [v, maker] : makers_) values.insert(v);
  for (const Value* v : values) {
    const auto made = makers_.find(v);
    const bool is_made_here = made != makers_.end();
    const uint32_t maker = is_made_here ? vertices.at(made->second) : MinCut::kSink;
    const bool is_image = is_made_here || std::ranges::any_of(v->uses(), [](const Use& u) { return u.owner->is("Conv"); });
    const int64_t crossing = as_capacity(elements(v) * (is_image ? kToCodes : kToCodesOfRows) + kOfNode);
    const uint32_t to_codes = cut.add_vertex(), to_floats = cut.add_vertex();
    cut.add_edge(to_codes, maker, crossing);
    if (is_made_here) cut.add_edge(maker, to_floats, crossing);
    for (const Use& u : v->uses()) {
      const auto reader = vertices.find(u.owner);
      const bool reads_codes = reader != vertices.end() && is_slot(u);
      cut.add_edge(to_floats, reads_codes ? reader->second : MinCut::kSink, MinCut::kUncuttable);
      if (!reads_codes) continue;
      // onnxruntime pools codes if QuantizeLinear is behind a pool. Unless a convolution in codes is before
      // it, that is a hundred times slower.
      const bool needs_maker = !products_.contains(u.owner) || (is_made_here && made->second->is("MaxPool"));
      cut.add_edge(reader->second, is_made_here && needs_maker ? maker : to_codes, MinCut::kUncuttable);
    }
  }
  constexpr uint64_t kSteps = 50'000'000;
  if (!cut.solve(kSteps)) return;
  for (const Node& n : g_.nodes()) {
    const auto at = vertices.find(&n);
    if (at == vertices.end() || cut.with_source(at->second)) continue;
    context_.log.near_miss(n, "the graph is faster if it computes on floats");
    leave(n);
  }
  choose();
}

const Product* CodeChoice::product(const Node& n) const {
  const auto at = products_.find(&n);
  return at == products_.end() ? nullptr : &at->second;
}

// What the codes behind a node stand for: its result, or that of the clamp that alone uses it.
const Value* CodeChoice::result_of(const Node& n) const {
  const Value* v = n.result();
  if (!v->has_one_use() || is_concat(n) || is_move(n)) return v;
  const Use& use = *v->uses().begin();
  const Node& user = *use.owner;
  const bool is_clamped = !user.is_boundary() && user.graph() == &g_ && is_clamp(user, context_) && user.input(0) == v;
  return is_clamped ? user.result() : v;
}

Value* CodeChoice::source_of(Value* v) const {
  const Node* n = v->def();
  return n != nullptr && is_clamp(*n, context_) && n->input(0)->has_one_use() ? n->input(0) : v;
}

compress::Range CodeChoice::bounds_of(Value* v) const {
  constexpr double kMost = std::numeric_limits<double>::infinity();
  if (source_of(v) == v) return {-kMost, kMost};
  const Node& n = *v->def();
  if (n.is("Relu")) return {0, kMost};
  const auto most = n.op().since_version < 11 ? float_attr(n, "max") : context_.splat(n.input(2));
  return {0, most.value_or(kMost)};
}

}  // namespace sardonyx::onnx
