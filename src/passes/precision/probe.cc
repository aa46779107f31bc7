#include "passes/precision/probe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>

#include "eval/watch.h"
#include "ir/tensor/half.h"
#include "passes/precision/half_masks.h"
#include "sardonyx/eval.h"

namespace sardonyx::precision {
namespace {

constexpr double kMostWork = 1e7;  // in multiplications; rounding a number counts, too
constexpr int64_t kOpenSize = 3;
constexpr double kIterations = 30;             // assumed per loop
const double kDigits = std::ldexp(1, -14);     // numbers below have fewer than 11 binary digits
const double kVanishing = std::ldexp(1, -25);  // rounds to zero

double size_of(const Value& v) {
  if (!v.ranked()) return 1;
  double size = 1;
  for (Dim d : v.type()->dims()) size *= d.is_int() ? static_cast<double>(d.value()) : static_cast<double>(kOpenSize);
  return size;
}

double work_of(const Graph& g) {
  double all = 0;
  for (const Node& n : g.nodes()) {
    double one = 0;
    for (const Value& v : n.results()) one += 10 * size_of(v);
    const bool product = is(n, "matmul") || is(n, "linear") || is(n, "conv") || is(n, "conv_transpose");
    if (product && n.input(1) != nullptr) {
      const double rows = std::max(1.0, is(n, "matmul") ? size_of(*n.result()) : size_of(*n.input(0)));
      one += rows * std::max(1.0, size_of(*n.input(1))) / (is(n, "matmul") && n.input(1)->ranked() ? 4 : 1);
    }
    for (const Body& b : n.bodies()) one += (is(n, "while_loop") ? kIterations : 1) * work_of(*b.graph);
    all += one;
  }
  return all;
}

std::vector<float> elements(const Array& a) {
  std::vector<float> out(static_cast<size_t>(a.size()));
  if (a.is_dense()) {
    std::copy_n(a.as<float>(), out.size(), out.begin());
  } else {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(a.double_at(static_cast<int64_t>(i)));
  }
  return out;
}

// The largest difference of two arrays, relative to the largest element of the first; 0 if they cannot be
// compared.
double difference(const Array& a, const Array& b) {
  if (a.shape() != b.shape()) return 0;
  double largest = 0, off = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.double_at(i), d = std::abs(x - b.double_at(i));
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    if (std::isfinite(d)) off = std::max(off, d);
  }
  return largest > 0 ? off / largest : 0;
}

// Whether an op with bodies makes the value, and only ops in half precision use it.
bool is_cast_later(const Value& v, const HalfChoice& choice) {
  return !v.def()->bodies().empty() &&
         std::ranges::all_of(v.uses(), [&](const Use& u) { return !u.owner->is_boundary() && choice.is_half(*u.owner); });
}

// Whether small changes of the operands make small changes of the results.
bool is_smooth(const Node& n) {
  static constexpr std::string_view kSteps[] = {"cast",  "ceil",   "floor", "floor_div", "mod",
                                                "round", "select", "sign",  "threshold"};
  const bool steps = is_in(kSteps, n);
  return n.op().known && !steps && (n.has(Trait::kElementwise) || word_of(n.op()).starts_with("reduce_"));
}

}  // namespace

Array rounded_to_half(const Array& a, float most) {
  std::vector<float> out = elements(a);
  for (float& x : out) x = std::isfinite(x) ? std::clamp(x, -most, most) : x;
  std::vector<std::byte> halves(2 * out.size());
  const auto bytes = std::as_writable_bytes(std::span(out));
  floats_to_halves(bytes.data(), halves.data(), out.size());
  halves_to_floats(halves.data(), bytes.data(), out.size());
  return Array::of(Tensor::of<float>(DType::kF32, a.shape(), out));
}

Probe::Probe(Graph& function) : function_(function), inputs_(function.inputs().size()) {
  if (work_of(function) > kMostWork) return;
  try {
    fill_inputs(function, inputs_, 0, kOpenSize);
    single_ = run(nullptr);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    single_.clear();
  }
}

Probe::Sight Probe::run(const HalfChoice* choice) const {
  Sight all;
  const EvalOptions options{.memory_cap = 1ull << 29, .max_steps = 50'000, .fast_products = true};
  evaluate_watched(function_, inputs_, options, [&](const Value& v, EvalValue& what) {
    Array* a = what.array();
    if (a == nullptr || a->dtype() != DType::kF32) return;
    // What is computed in single precision is rounded where it is used: a mask, and the result of an op with
    // bodies.
    const bool is_mask = choice != nullptr && choice->is_mask(v);
    const bool is_cast = choice != nullptr && v.def() != nullptr && (choice->is_half(*v.def()) || is_cast_later(v, *choice));
    if (is_mask || is_cast)
      *a = rounded_to_half(*a, is_mask ? static_cast<float>(kLargestHalf) : std::numeric_limits<float>::infinity());
    const auto [at, is_new] = all.try_emplace(&v);
    Seen& s = at->second;
    for (const float e : elements(*a)) {
      const double x = std::abs(e);
      s.finite &= std::isfinite(x);
      if (std::isfinite(x)) s.largest = std::max(s.largest, x);
    }
    if (!is_new) return;
    if (choice == nullptr) {
      s.first = *a;
    } else if (const auto before = single_.find(&v); before != single_.end() && !is_mask) {
      s.off = difference(before->second.first, *a);
    }
  });
  return all;
}

std::vector<ProbeFinding> Probe::find(const HalfChoice& choice) const {
  constexpr double kWrong = 0.02;
  std::vector<ProbeFinding> found;
  if (single_.empty()) return found;
  Sight rounded;
  try {
    rounded = run(&choice);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return found;
  }
  const Sight& half = rounded;
  const auto is_broken = [&](const Value* v) {
    const auto now = half.find(v), before = single_.find(v);
    return now != half.end() && before != single_.end() && !now->second.finite && before->second.finite;
  };
  const auto off = [&](const Value* v) { return half.contains(v) ? half.at(v).off : 0.0; };
  for (Graph* g : graphs_in(function_)) {
    for (const Node& n : g->nodes()) {
      const bool has_bodies = !n.bodies().empty();
      const bool broken = std::ranges::any_of(n.operands(), [&](const Use& u) { return is_broken(u.value); });
      const bool wrong = std::ranges::any_of(n.operands(), [&](const Use& u) { return off(u.value) > kWrong; });
      for (const Value& v : n.results()) {
        const auto seen = single_.find(&v);
        if (seen == single_.end() || !seen->second.finite) continue;
        const double most = seen->second.largest;
        if (most > kLargestHalf && !choice.is_mask(v)) {
          found.push_back({&v, "it exceeds 65504 on random inputs", ProbeFault::kOutside});
        } else if (most > 0 && most < kDigits) {
          const ProbeFault fault = most <= kVanishing ? ProbeFault::kOutside : ProbeFault::kSmall;
          found.push_back({&v, "it is below 2^-14 on random inputs", fault});
        }
        if (has_bodies) continue;
        if (is_broken(&v) && !broken) {
          found.push_back({&v, "it becomes infinite or NaN on random inputs", ProbeFault::kComputation});
        } else if (is_smooth(n) && off(&v) > kWrong && !wrong && !broken) {
          found.push_back({&v, "it is wrong on random inputs", ProbeFault::kComputation});
        }
      }
    }
  }
  return found;
}

}  // namespace sardonyx::precision
