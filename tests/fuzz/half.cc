// The judge of half precision is single precision plus rounding, never a fixed tolerance. It runs the model
// in single precision several times, each time with every operand rounded to 11 binary digits, up or down at
// random. The spread of an element in these runs is what rounding may do to it. In half precision,
//   - an element whose spread is at most half of it is finite, however small or large the values on the way;
//   - its error is at most kSpreads times the spread, plus two units in its last place. For this, values in
//     the runs are also rounded to multiples of 2^-24, the least number of half precision, as constants are;
//   - an integer that comes by elementwise arithmetic and casts from inputs that fit half precision is equal.
// Elements for which a run fails or is not finite have no bound: there the model is too sensitive to be
// judged. Models with operators that round several times within have none, either, such as attention. Nor are
// models judged in which a value is infinite or NaN in single precision.
#include "half.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "convert/half_report.h"
#include "eval/watch.h"
#include "ir/tensor/tensor_transform.h"
#include "random/dice.h"
#include "rewrite/pass.h"
#include "sardonyx/onnx_builder.h"
#include "sardonyx/passes.h"

namespace sardonyx::fuzz {
namespace {

constexpr double kSpreads = 8;
constexpr int kRuns = 20;
constexpr int kDigits = 11;
constexpr double kLargestHalf = 65504;
const double kLeastHalf = std::ldexp(1, -24), kFewDigits = std::ldexp(1, -14);
constexpr EvalOptions kBounded{.memory_cap = 256 << 20, .max_steps = 1 << 18, .max_iterations = 10000, .states_too = true};

using Results = std::vector<EvalValue>;

bool is_single(const Value* v) { return v != nullptr && v->dtype() == DType::kF32; }

// ---------------------------------------------------------------------------------------------------------------------
// Runs that round

class Rounding {
 public:
  // Of the runs, one rounds to nearest, one up, one down, and the others at random. `keeps_small`: 11 digits
  // for numbers below 2^-14, too.
  Rounding(int run, bool keeps_small) : run_(run), dice_(static_cast<uint64_t>(run)), keeps_small_(keeps_small) {}

  Array operator()(const Array& a) {
    std::vector<float> out(static_cast<size_t>(a.size()));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(of(a.double_at(static_cast<int64_t>(i))));
    return Array::of(Tensor::of<float>(DType::kF32, a.shape(), out));
  }

 private:
  double of(double x) {
    if (x == 0 || !std::isfinite(x)) return x;
    double step = std::ldexp(1, std::ilogb(x) - kDigits + 1);
    if (!keeps_small_) step = std::max(step, kLeastHalf);
    const double steps = std::abs(x) / step, below = std::floor(steps);
    if (run_ == 0) return std::copysign(step * std::nearbyint(steps), x);
    const bool up = run_ == 1 || (run_ > 2 && dice_.one_in(2));
    return std::copysign(step * (below == steps || !up ? below : below + 1), x);
  }

  int run_;
  Dice dice_;
  bool keeps_small_;
};

// The model with an Identity at each operand that may be cast: there a run rounds, for nodes that share a
// value may compute in different precisions.
struct Roundable {
  std::unique_ptr<Model> model;
  std::unordered_set<const Value*> rounded;
};

Roundable roundable(const Model& m) {
  Roundable made{.model = clone_model(m)};
  const bool is_mil = m.dialect() == DialectId::kMil;
  const Op* identity = dialect(m.dialect()).find("", is_mil ? "identity" : "Identity", m.opset_version("").value_or(1));
  for (Graph* g : graphs_in(made.model->graph())) {
    std::vector<Node*> nodes;
    for (Node& n : g->nodes()) nodes.push_back(&n);
    for (Node* n : nodes) {
      if (!n->op().known || !n->bodies().empty()) continue;
      for (size_t i = 0; i < n->num_inputs(); ++i) {
        const Slot* slot = slot_of(n->op(), i, n->num_inputs());
        const uint64_t types = slot != nullptr ? slot->types.tensor : 0;  // zero for lists
        if (!is_single(n->input(i)) || (types != 0 && (types >> static_cast<int>(DType::kF16) & 1) == 0)) continue;
        Node& at = made.model->new_node(*identity, std::vector<Value*>{n->input(i)}, 1);
        g->insert_before(*n, at);
        at.result()->set_type(n->input(i)->type());
        at.set_unchecked(false);
        n->set_input(i, at.result());
        made.rounded.insert(at.result());
      }
    }
  }
  return made;
}

std::optional<Results> run_rounded(const Roundable& m, const Results& inputs, Rounding rounding) {
  try {
    return evaluate_watched(m.model->graph(), inputs, kBounded, [&](const Value& v, EvalValue& what) {
      Array* a = m.rounded.contains(&v) ? what.array() : nullptr;
      if (a != nullptr && a->dtype() == DType::kF32) *a = rounding(*a);
    });
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return std::nullopt;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The model in half precision

// Names all values, by which the option `ranges` speaks of them.
void name_all(Model& m) {
  for (Graph* g : graphs_in(m.graph())) {
    for (Node& n : g->nodes()) {
      for (Value& v : n.results()) {
        if (v.name().empty()) v.set_name(m.name(fmt::format("r{}", v.id())));
      }
    }
  }
}

// Puts a node that always computes in half precision, and only rounds, at inputs and before results: else the
// pass would leave most nodes alone, for it does not cast where that costs more than it saves.
void surround(Model& m) {
  constexpr int kEinsum = 12;
  if (m.dialect() != DialectId::kOnnx || m.opset_version("").value_or(0) < kEinsum) return;
  ValueFacts facts;
  Graph& g = m.graph();
  const auto rounded = [&](Value& v, Node* before) {
    OnnxBuilder b(g, facts);
    if (before != nullptr) b.set_insertion_point(before);
    const std::string axes = std::string("abcdefghij").substr(0, v.type()->rank());
    Value* r = b.Einsum({&v}, {.equation = axes + "->" + axes});
    r->set_type(v.type());
    return r;
  };
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    Value* v = g.output(i);
    if (is_single(v) && v->ranked() && v->def() != nullptr && v->def()->graph() == &g)
      g.set_output(i, *rounded(*v, v->def()->next()));
  }
  for (const Port& p : g.inputs()) {
    if (!is_single(p.value) || !p.value->ranked() || !p.value->has_uses()) continue;
    Value* r = rounded(*p.value, g.first());
    g.replace_uses(*p.value, *r);
    r->def()->set_input(0, p.value);
  }
}

// Null if the pass changes nothing.
std::unique_ptr<Model> halved(const Model& m, const Results* calibration) {
  auto after = clone_model(m);
  const bool is_mil = m.dialect() == DialectId::kMil;
  const std::string pass = is_mil ? "add_fp16_cast" : "cast_to_half";
  PassRequest request{.passes = {pass}, .strict = true, .verify_graph = true};
  if (calibration != nullptr) {
    const HalfReport seen = half_report(*after, HalfReportRequest{.runs = {*calibration}});
    request.options.emplace_back(pass + ".ranges", seen.ranges);
    if (is_mil) request.options.emplace_back(pass + ".skip_ops", "auto");
  }
  return run_passes(*after, request).passes.front().changed ? std::move(after) : nullptr;
}

// ---------------------------------------------------------------------------------------------------------------------
// Judges

// Whether v comes from inputs and constants by elementwise arithmetic, moves and casts alone. Comparisons may
// be made in half precision.
bool is_elementwise(const Value& v) {
  static constexpr std::string_view kMoves[] = {
      "Concat", "Expand",    "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split",     "Squeeze", "Transpose",
      "Tile",   "Unsqueeze", "concat",  "gather", "reshape",  "squeeze", "tile",  "transpose", "identity"};
  static constexpr std::string_view kCompare[] = {"Equal", "Greater",    "GreaterOrEqual", "Less",    "LessOrEqual",
                                                  "Sign",  "equal",      "not_equal",      "greater", "greater_equal",
                                                  "less",  "less_equal", "sign",           "IsNaN",   "IsInf"};
  std::vector<const Value*> left{&v};
  std::set<const Value*> seen;
  while (!left.empty()) {
    const Value* at = left.back();
    left.pop_back();
    if (at == nullptr || at->is_constant() || !seen.insert(at).second) continue;
    const Node* n = at->def();
    if (n == nullptr) continue;
    const bool moves = std::ranges::find(kMoves, n->op().name) != std::end(kMoves);
    if (!n->bodies().empty() || (!n->has(Trait::kElementwise) && !moves && !n->has(Trait::kConstant))) return false;
    const bool compares = std::ranges::find(kCompare, n->op().name) != std::end(kCompare);
    if (compares && is_single(n->input(0))) return false;
    for (const Use& u : n->operands()) left.push_back(u.value);
  }
  return true;
}

bool is_large(const Tensor& t) {
  const std::vector<double> all = t.is_promise() ? std::vector<double>() : doubles(t);
  return std::ranges::any_of(all, [](double x) { return std::abs(x) > kLargestHalf; });
}

// Whether rounding operands does not show what half precision does: the model has operators that round
// several times within, or poles, or numbers beyond 65504 that may stand for infinity before a softmax.
bool rounds_within(const Model& m) {
  static constexpr std::string_view kOps[] = {"Attention", "GRU",   "Gelu", "LSTM", "Mean",  "RNN",
                                              "Sum",       "Swish", "Tan",  "gelu", "gru",   "inverse",
                                              "linear",    "log",   "lstm", "rnn",  "rsqrt", "scaled_dot_product_attention",
                                              "silu",      "tan"};
  static constexpr std::string_view kSoftmaxes[] = {"LogSoftmax", "ReduceLogSumExp", "Softmax", "reduce_log_sum_exp",
                                                    "softmax"};
  bool any = false, has_softmax = false, has_mask = false;
  for (Graph* g : graphs_in(m.graph())) {
    for (const Node& n : g->nodes()) {
      any |= std::ranges::find(kOps, n.op().name) != std::end(kOps);
      has_softmax |= std::ranges::find(kSoftmaxes, n.op().name) != std::end(kSoftmaxes);
      for (const Use& u : n.operands())
        has_mask |= is_single(u.value) && u.value->is_constant() && is_large(*u.value->constant());
    }
  }
  return any || (has_softmax && has_mask);
}

bool has_any(const Model& m, std::span<const std::string_view> ops) {
  return std::ranges::any_of(graphs_in(m.graph()), [&](Graph* g) {
    return std::ranges::any_of(g->nodes(), [&](const Node& n) { return std::ranges::find(ops, n.op().name) != ops.end(); });
  });
}

bool has_attention(const Model& m) {
  static constexpr std::string_view kOps[] = {"Attention", "scaled_dot_product_attention"};
  return has_any(m, kOps);
}

bool has_loop(const Model& m) {
  static constexpr std::string_view kOps[] = {"Loop", "Scan", "while_loop"};
  return has_any(m, kOps);
}

bool fits_half(const Results& inputs) {
  return std::ranges::all_of(inputs, [](const EvalValue& v) {
    const Array* a = v.array();
    if (a == nullptr || a->dtype() != DType::kF32) return true;
    for (int64_t i = 0; i < a->size(); ++i) {
      std::byte half[2];
      encode_element(DType::kF16, half, 0, a->double_at(i));
      if (decode_element(DType::kF16, half, 0) != a->double_at(i)) return false;
    }
    return true;
  });
}

struct Range {
  bool is_finite = true;
  double largest = 0, least = std::numeric_limits<double>::infinity();  // except zeros
};
using Ranges = std::unordered_map<const Value*, Range>;

// The magnitudes of all values. Throws what evaluate() throws.
Results run_single(const Model& m, const Results& inputs, Ranges& ranges) {
  return evaluate_watched(m.graph(), inputs, kBounded, [&](const Value& v, EvalValue& what) {
    const Array* a = what.array();
    if (a == nullptr || a->dtype() != DType::kF32) return;
    Range& r = ranges[&v];
    for (int64_t i = 0; i < a->size(); ++i) {
      const double x = std::abs(a->double_at(i));
      r.is_finite &= std::isfinite(x);
      if (std::isfinite(x)) r.largest = std::max(r.largest, x);
      if (x != 0) r.least = std::min(r.least, x);
    }
  });
}

// Whether a value is beyond half precision on these inputs, and was not on the inputs that the pass tries.
bool is_news(const Ranges& known, const Ranges& now) {
  return std::ranges::any_of(now, [&](const auto& e) {
    const auto at = known.find(e.first);
    if (at == known.end()) return true;
    const Range &before = at->second, &r = e.second;
    return r.largest > std::max(before.largest, kLargestHalf / 2) || r.least < kFewDigits;
  });
}

class Judge {
 public:
  // `knows_small`: the pass knows where small numbers matter. Else results that depend on them are not
  // judged.
  Judge(const Model& single, const Results& inputs, const Results& wanted, bool knows_small)
      : single_(single), inputs_(inputs), wanted_(wanted), knows_small_(knows_small), rounds_within_(rounds_within(single)) {
    const Roundable m = roundable(single);
    for (int i = 0; i < kRuns; ++i) {
      fine_.push_back(run_rounded(m, inputs, Rounding(i, /*keeps_small=*/true)));
      coarse_.push_back(run_rounded(m, inputs, Rounding(i, /*keeps_small=*/false)));
    }
  }

  std::optional<Failure> results(const Results& found, HalfStatistics* statistics) const {
    const bool exact = fits_half(inputs_);
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Array *w = wanted_[i].array(), *f = found[i].array();
      if (w == nullptr || f == nullptr) continue;
      if (w->dtype() != f->dtype())
        return Failure{"half: another type",
                       fmt::format("result {}: {} became {}", i, to_string(w->dtype()), to_string(f->dtype()))};
      const bool is_decided = exact && is_elementwise(*single_.graph().output(i));
      const bool is_float_result = is_float(w->dtype());
      if (!is_float_result && !is_decided) continue;
      if (w->dtype() == DType::kString || is_complex(w->dtype())) continue;
      if (w->shape() != f->shape()) {
        if (is_decided) return Failure{"half: another shape", fmt::format("result {}", i)};
        continue;
      }
      for (int64_t e = 0; e < w->size(); ++e) {
        auto failure = is_float_result ? number(*w, *f, i, e, statistics) : integer(*w, *f, i, e, statistics);
        if (failure) return failure;
      }
    }
    return std::nullopt;
  }

 private:
  using Runs = std::vector<std::optional<Results>>;

  // The largest difference of an element in these runs; nullopt if one fails or is not finite.
  static std::optional<double> spread(const Runs& runs, const Array& wanted, size_t result, int64_t element) {
    double most = 0;
    for (const auto& run : runs) {
      const Array* a = run ? (*run)[result].array() : nullptr;
      if (a == nullptr || a->shape() != wanted.shape()) return std::nullopt;
      const double off = std::abs(a->double_at(element) - wanted.double_at(element));
      if (!std::isfinite(off)) return std::nullopt;
      most = std::max(most, off);
    }
    return most;
  }

  std::optional<Failure> number(const Array& w, const Array& f, size_t result, int64_t e, HalfStatistics* statistics) const {
    const double wanted = w.double_at(e), found = f.double_at(e);
    if (!std::isfinite(wanted)) return std::nullopt;
    const auto fine = spread(fine_, w, result, e), coarse = spread(coarse_, w, result, e);
    const auto is_stable = [&](const std::optional<double>& off) { return off && *off <= std::abs(wanted) / 2; };
    if (is_stable(fine) && (knows_small_ || is_stable(coarse)) && !std::isfinite(found))
      return Failure{"half: not finite", fmt::format("element {} of result {}: {} became {}", e, result, wanted, found)};
    if (!fine || !coarse || !std::isfinite(found) || rounds_within_) return std::nullopt;
    if (statistics != nullptr) ++statistics->elements;
    const double most = kSpreads * std::max(*fine, *coarse) + std::ldexp(std::abs(wanted), 2 - kDigits) + kLeastHalf;
    if (std::abs(found - wanted) <= most) return std::nullopt;
    return Failure{"half: more than rounding",
                   fmt::format("element {} of result {}: {} became {}, and rounding makes {}", e, result, wanted, found, most)};
  }

  static std::optional<Failure> integer(const Array& w, const Array& f, size_t result, int64_t e, HalfStatistics* statistics) {
    if (statistics != nullptr) ++statistics->integers;
    if (w.int_at(e) == f.int_at(e)) return std::nullopt;
    return Failure{"half: another integer",
                   fmt::format("element {} of result {}: {} became {}", e, result, w.int_at(e), f.int_at(e))};
  }

  const Model& single_;
  const Results &inputs_, &wanted_;
  bool knows_small_, rounds_within_;
  Runs fine_, coarse_;
};

}  // namespace

std::optional<Failure> check_half(const Subject& s, bool is_calibrated, HalfStatistics* statistics) {
  if (s.model->functions().size() > 1) return std::nullopt;  // they are inlined first
  // What the pass tries does not round scores, and does not run long loops.
  if (!is_calibrated && (has_attention(*s.model) || has_loop(*s.model))) return std::nullopt;
  const auto single = clone_model(*s.model);
  surround(*single);
  name_all(*single);
  const Graph& g = single->graph();
  std::vector<Results> runs;
  try {
    if (is_calibrated) {
      for (size_t which : {0, 1}) {
        runs.emplace_back();
        for (const Port& p : g.inputs()) {
          const auto at = s.inputs.find(std::string(p.name.view()));
          runs.back().push_back(at == s.inputs.end() ? EvalValue() : at->second[which]);
        }
      }
    } else {
      constexpr int64_t kOpenSize = 3;  // as the pass tries them
      for (uint64_t seed : {0, 1}) {
        fill_inputs(g, runs.emplace_back(g.inputs().size()), seed, kOpenSize);
        for (EvalValue& v : runs.back()) {
          if (Array* a = v.array(); a != nullptr && a->dtype() == DType::kF32) *a = Rounding(0, /*keeps_small=*/false)(*a);
        }
      }
    }
    Ranges known;
    std::unique_ptr<Model> half;
    for (size_t i = 0; i < runs.size(); ++i) {
      Ranges now;
      const Results wanted = run_single(*single, runs[i], now);
      if (std::ranges::any_of(now, [](const auto& e) { return !e.second.is_finite; })) break;
      if (i == 0) known = now;
      if (i > 0 && !is_calibrated && is_news(known, now)) break;
      if (i == 0 || is_calibrated) half = halved(*single, is_calibrated ? &runs[i] : nullptr);
      if (i == 0 && statistics != nullptr) {
        ++statistics->graphs;
        statistics->changed += half != nullptr ? 1 : 0;
      }
      if (half == nullptr) break;
      const Results found = evaluate(half->graph(), runs[i], kBounded);
      const bool knows_small = is_calibrated || (i == 0 && graphs_in(single->graph()).size() == 1);
      if (auto f = Judge(*single, runs[i], wanted, knows_small).results(found, statistics)) {
        f->kind += is_calibrated ? ", with ranges" : "";
        f->detail += "\n" + print(*half, {.full_constants = true});
        return f;
      }
    }
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return std::nullopt;  // the model does not run on these inputs
  }
  return std::nullopt;
}

}  // namespace sardonyx::fuzz
