#include "passes/precision/single_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ranges>

#include "ir/tensor/tensor_transform.h"
#include "passes/precision/half_masks.h"
#include "passes/precision/probe.h"

namespace sardonyx::precision {
namespace {

constexpr int64_t kRead = 1 << 16;  // larger constants are not read
constexpr double kCounts = 2048;    // half precision represents all integers up to this one
constexpr std::string_view kMoreThanMask = "a number beyond 65504 is more than a mask";
const double kDigits = std::ldexp(1, -14);     // numbers below have fewer than 11 binary digits
const double kVanishing = std::ldexp(1, -25);  // rounds to zero

bool is_single(const Value* v) { return v != nullptr && v->dtype() == DType::kF32; }

// Ops that move, choose or repeat elements.
bool moves(const Node& n) {
  static constexpr std::string_view kMove[] = {"concat",
                                               "depth_to_space",
                                               "expand_dims",
                                               "fill",
                                               "flatten2d",
                                               "gather",
                                               "gather_along_axis",
                                               "gather_nd",
                                               "identity",
                                               "pad",
                                               "reshape",
                                               "reshape_like",
                                               "reverse",
                                               "reverse_sequence",
                                               "scatter",
                                               "scatter_along_axis",
                                               "scatter_nd",
                                               "select",
                                               "slice_by_index",
                                               "slice_by_size",
                                               "slice_update",
                                               "space_to_depth",
                                               "split",
                                               "squeeze",
                                               "stack",
                                               "tile",
                                               "transpose"};
  return is_in(kMove, n);
}

// A matrix product over an axis of size 1, as of positions and frequencies, is elementwise.
bool is_outer_product(const Node& n) {
  if (is(n, "linear")) return n.input(1)->ranked() && n.input(1)->type()->rank() == 2 && n.input(1)->type()->dim(1).is(1);
  const Value *x = is(n, "matmul") ? n.input(0) : nullptr, *y = x != nullptr ? n.input(1) : nullptr;
  if (y == nullptr || !x->ranked() || !y->ranked() || x->type()->rank() < 2 || y->type()->rank() < 2) return false;
  return x->type()->dim(x->type()->rank() - 1).is(1) && y->type()->dim(y->type()->rank() - 2).is(1);
}

bool is_elementwise(const Node& n) {
  static constexpr std::string_view kByChannel[] = {"batch_norm", "prelu", "softplus_parametric"};
  return n.has(Trait::kElementwise) || moves(n) || is_in(kByChannel, n) || is_outer_product(n);
}

bool sums(const Node& n) { return word_of(n.op()).starts_with("reduce_") || is(n, "cumsum"); }

// A matrix product with a small operand, such as the coefficients of a solver.
bool is_small_product(const Node& n) {
  const auto is_small = [](const Value* v) {
    if (v == nullptr || !v->ranked()) return false;
    double size = 1;
    for (Dim d : v->type()->dims()) size *= d.is_int() ? static_cast<double>(d.value()) : kCounts;
    return size <= 64;
  };
  return (is(n, "matmul") || is(n, "linear") || is(n, "gemm")) && (is_small(n.input(0)) || is_small(n.input(1)));
}

bool rounds(const Node* n) { return n != nullptr && (is(*n, "floor") || is(*n, "ceil") || is(*n, "round")); }

// A multiple of a whole number: floor(x), floor_div(x, y), and their products.
bool is_step(const Node* n) {
  const auto whole = [](const Node* m) { return rounds(m) || (m != nullptr && is(*m, "floor_div")); };
  return whole(n) || (n != nullptr && is(*n, "mul") && (whole(n->input(0)->def()) || whole(n->input(1)->def())));
}

// The value that v's elements come from, before ops that move elements.
const Value* source(const Value* v) {
  while (v->def() != nullptr && moves(*v->def()) && !is(*v->def(), "select") && !is(*v->def(), "concat") &&
         !is(*v->def(), "stack"))
    v = v->def()->input(0);
  return v;
}

// x - max(x), or x - max(x, y): never above zero, which bounds of the operands do not show.
bool is_below_its_maximum(const Value* v) {
  const Node* n = source(v)->def();
  if (n == nullptr || !is(*n, "sub")) return false;
  const Value* x = source(n->input(0));
  const Node* most = source(n->input(1))->def();
  if (most == nullptr) return false;
  if (is(*most, "reduce_max")) return source(most->input(0)) == x;
  return is(*most, "maximum") && (source(most->input(0)) == x || source(most->input(1)) == x);
}

// The sum of exp(x - max(x)), which is at least 1.
bool is_sum_of_softmax(const Value* v) {
  const Node* n = source(v)->def();
  if (n == nullptr || !is(*n, "reduce_sum")) return false;
  const Node* exp = source(n->input(0))->def();
  return exp != nullptr && is(*exp, "exp") && is_below_its_maximum(exp->input(0));
}

bool is_square(const Value* v) {
  const Node* n = v->def();
  return n != nullptr && (is(*n, "square") || (is(*n, "mul") && n->input(0) == n->input(1)));
}

// Whether squares are added up, as for a norm.
bool is_summed(const Value& v) {
  return std::ranges::any_of(v.uses(), [](const Use& u) {
    const Node& n = *u.owner;
    return sums(n) || (is(n, "add") && is_square(n.input(0)) && is_square(n.input(1)));
  });
}

// How many numbers a sum has, or a running sum may have; infinite if that is not known.
double terms(const Node& n) {
  const Value *x = n.input(0), *y = n.result();
  if (x == nullptr || !x->ranked() || !y->ranked()) return std::numeric_limits<double>::infinity();
  std::vector<Dim> kept;  // sizes of the result, which are not summed
  if (!is(n, "cumsum")) kept.assign(y->type()->dims().begin(), y->type()->dims().end());
  double count = 1;
  for (Dim d : x->type()->dims()) {
    if (const auto at = std::ranges::find(kept, d); at != kept.end() && !d.is_unknown()) {
      kept.erase(at);
    } else {
      count *= d.is_int() ? static_cast<double>(d.value()) : std::numeric_limits<double>::infinity();
    }
  }
  return count;
}

// x + 1e-8, or max(x, 1e-8), for an x that may be as small as that.
bool is_guarded(const Value* v, const HalfRanges& ranges, PassContext& context) {
  const Node* n = source(v)->def();
  if (n == nullptr || !(is(*n, "add") || is(*n, "maximum"))) return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto least = context.splat(n->input(i));
    const Extent x = ranges.bounds(*n->input(1 - i));
    if (least && *least > 0 && *least < kDigits && x.low >= 0 && x.low < kDigits) return true;
  }
  return false;
}

bool fits(const Extent& e, double limit) { return e.low >= -limit && e.high <= limit; }

std::vector<double> elements(const Value* v, int64_t most) {
  if (v == nullptr || !v->is_constant() || v->constant()->is_promise() || !is_float(v->dtype())) return {};
  const Tensor& t = *v->constant();
  if (t.is_splat() && t.size() > 0) return {t.as_double(0)};
  return t.size() <= most ? doubles(t) : std::vector<double>();
}

double half(double v) {
  std::byte bytes[2];
  encode_element(DType::kF16, bytes, 0, v);
  return decode_element(DType::kF16, bytes, 0);
}

// Whether half precision keeps at most one digit of some nonzero element.
bool loses_digits(const Value* v) {
  constexpr int64_t kMost = 400;  // as in add_fp16_cast, which keeps these from becoming zero
  return std::ranges::any_of(elements(v, kMost), [](double e) {
    return e != 0 && std::abs(e) < kDigits && std::abs(half(e) - e) > std::abs(e) / 512;
  });
}

}  // namespace

SingleOps::SingleOps(Graph& function, PassContext& context)
    : function_(function), context_(context), ranges_(function, context, kRead) {
  require(function, false);
  keep_updates();
  drain();
  find_open_masks();
  spread(function);
}

bool SingleOps::contains(const Node& n, size_t operand) const {
  if (!is_single(n.input(operand))) return false;
  const Slot *slot = slot_of(n.op(), operand, n.num_inputs()), *first = slot_of(n.op(), 0, n.num_inputs());
  return slot != nullptr && slot->type_var != first->type_var &&
         std::ranges::any_of(kPrecisions, [&](const OperandPrecision& row) {
           return row.precision == Precision::kExact && is(n, row.op) && slot_word(n, operand) == row.operand;
         });
}

void SingleOps::keep(const Node& n, std::string_view why) {
  kept_.insert(&n);
  if (!why.empty()) reasons_.push_back({&n, why});
}

// ---------------------------------------------------------------------------------------------------------------------
// Backward: what must be exact

void SingleOps::require(Graph& g, bool in_loop) {
  static const auto rows = [] {
    std::unordered_multimap<std::string_view, const OperandPrecision*> found;
    for (const OperandPrecision& row : kPrecisions) found.emplace(row.op, &row);
    return found;
  }();
  for (Node& n : g.nodes()) {
    for (const Body& b : n.bodies()) require(*b.graph, in_loop || is(n, "while_loop"));
    const auto [first, last] = rows.equal_range(word_of(n.op()));
    for (auto row = first; row != last; ++row) {
      for (size_t i = 0; i < n.num_inputs(); ++i) {
        if (slot_word(n, i) == row->second->operand && is_single(n.input(i))) require(n, i, *row->second, in_loop);
      }
    }
    // Rounding remainders: x - floor(x), x - floor(x / y) * y.
    if (is(n, "sub") && is_single(n.input(0)) && (is_step(n.input(0)->def()) || is_step(n.input(1)->def()))) {
      keep(n);
      for (const Use& u : n.operands()) demand(u.value, Through::kElementwise);
    }
  }
}

void SingleOps::require(Node& n, size_t operand, const OperandPrecision& row, bool in_loop) {
  const Value* v = n.input(operand);
  switch (row.precision) {
    case Precision::kExact:
      if (is(n, "cast") && !is_integer(n.result(0)->dtype())) return;
      if (!contains(n, operand)) keep(n);
      return demand(v, Through::kElementwise);
    case Precision::kExactInLoops:
      if (!in_loop) return;
      keep(n);
      return demand(v, Through::kSums);
    case Precision::kExactSum:
      if (ranges_.bounds(*v).low >= kDigits || is_sum_of_softmax(v)) return;
      keep(n, "its operand may become zero");
      return demand(v, Through::kSums);
    case Precision::kFactor:
      if (loses_digits(v)) keep(n);
      return;
    case Precision::kDivisor:
      if (!(is(n, "real_div") || is(n, "inverse")) || !is_guarded(v, ranges_, context_)) return;
      keep(n, "its divisor may be as small as an epsilon below 2^-14");
      return demand(v, Through::kSums);
    default: return;  // see leaves_range()
  }
}

// Whether a loop variable that becomes the next one by n may grow with each iteration by a factor that
// nothing bounds.
bool SingleOps::grows_each_time(const Node& n) const {
  if (is(n, "real_div")) return ranges_.bounds(*n.input(1)).low < 1;
  return is(n, "mul") && !fits(ranges_.bounds(*n.input(0)), 1) && !fits(ranges_.bounds(*n.input(1)), 1);
}

// Keeps the elementwise arithmetic by which loop variables become the next ones: each iteration would round
// them again, and a recurrence may grow without bound.
void SingleOps::keep_updates() {
  std::unordered_set<const Value*> varying;  // made of loop variables by elementwise arithmetic
  std::vector<const Value*> next;
  find_varying(function_, varying, next);
  while (!next.empty()) {
    const Value* v = next.back();
    next.pop_back();
    if (varying.erase(v) == 0) continue;  // or done
    for (const Value* other : taken_by(*v)) next.push_back(other);
    const Node* def = v->def();
    if (def == nullptr || !def->bodies().empty()) continue;
    keep(*def);
    if (grows_each_time(*def)) large_.insert(v);
    for (const Use& u : def->operands()) next.push_back(u.value);
  }
}

void SingleOps::find_varying(Graph& g, std::unordered_set<const Value*>& varying, std::vector<const Value*>& next) {
  const auto is_varying = [&](const Value* v) { return varying.contains(v); };
  const bool is_loop = g.parent() != nullptr && is(*g.parent(), "while_loop");
  for (const Port& p : g.inputs()) {
    if (!is_single(p.value)) continue;
    const std::vector<const Value*> taken = taken_by(*p.value);
    const bool is_variable = is_loop && taken.size() > 1;  // the first value and the next
    if (is_variable || std::ranges::any_of(taken, is_varying)) varying.insert(p.value);
    if (is_variable) next.insert(next.end(), taken.begin(), taken.end());
  }
  for (Node& n : g.nodes()) {
    for (const Body& b : n.bodies()) find_varying(*b.graph, varying, next);
    const bool varies = n.bodies().empty() && is_elementwise(n) &&
                        std::ranges::any_of(n.operands(), [&](const Use& u) { return is_varying(u.value); });
    for (const Value& v : n.results()) {
      if (is_single(&v) && (varies || std::ranges::any_of(taken_by(v), is_varying))) varying.insert(&v);
    }
  }
}

void SingleOps::demand(const Value* v, Through through) {
  const bool is_choice = v != nullptr && v->dtype() == DType::kBool;  // comparisons decide by exact numbers, too
  if (!(is_single(v) || is_choice) || v->is_constant()) return;
  Through& known = demanded_[v];
  if (known >= through) return;
  known = through;
  left_.push_back(v);
}

// Keeps what makes a value of small numbers, whatever op that is, and what makes tiny numbers in the
// arithmetic that leads to it.
void SingleOps::keep_makers(const Value* small, const HalfRanges& ranges) {
  std::vector<std::pair<const Value*, bool>> left{{small, true}};  // whether its elements are those of the value
  std::unordered_set<const Value*> done;
  while (!left.empty()) {
    const auto [v, is_same] = left.back();
    left.pop_back();
    if (!is_single(v) || v->is_constant() || !done.insert(v).second) continue;
    for (const Value* other : taken_by(*v)) left.emplace_back(other, is_same);
    const Node* def = v->def();
    if (def == nullptr || !def->bodies().empty() || !def->op().known) continue;
    const auto seen = ranges.seen().find(v);
    const bool vanishes = seen != ranges.seen().end() && seen->second.least > 0 && seen->second.least <= kVanishing;
    if (is_same || vanishes) keep(*def);
    for (const Use& u : def->operands()) {
      if (is_elementwise(*def) || sums(*def) || kept_.contains(def)) left.emplace_back(u.value, is_same && moves(*def));
    }
  }
}

void SingleOps::drain() {
  while (!left_.empty()) {
    const Value* v = left_.back();
    left_.pop_back();
    const Through through = demanded_[v];
    for (const Value* other : taken_by(*v)) demand(other, through);
    const Node* def = v->def();
    if (def == nullptr || !def->bodies().empty()) continue;
    const bool sum = through == Through::kSums && (sums(*def) || is(*def, "softmax") || is_small_product(*def));
    if (!sum && !is_elementwise(*def)) continue;
    keep(*def);
    for (const Use& u : def->operands()) demand(u.value, through);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Forward: what half precision rounds to another integer, or makes infinite

// Values masked by constants beyond 65504 that an op other than a softmax uses: there the constant is more
// than a mask.
void SingleOps::find_open_masks() {
  static constexpr std::string_view kAbsorb[] = {"softmax",       "scaled_dot_product_attention",
                                                 "exp",           "exp2",
                                                 "sigmoid",       "tanh",
                                                 "relu6",         "reduce_argmax",
                                                 "reduce_argmin", "equal",
                                                 "not_equal",     "less",
                                                 "less_equal",    "greater",
                                                 "greater_equal"};
  static constexpr std::string_view kCarry[] = {"add", "band_part", "maximum", "minimum",
                                                "mul", "real_div",  "sub",     "reduce_max"};
  std::vector<Value*> masked;
  for (Graph* g : graphs_in(function_)) {
    for (Node& n : g->nodes()) {
      for (Value& v : n.results()) {
        if (is_single(&v) && ranges_.is_masked(v)) masked.push_back(&v);
      }
    }
  }
  // In reverse: the blocks of an op come after the op's own block, and users after what they use.
  for (Value* v : masked | std::views::reverse) {
    const bool open = std::ranges::any_of(v->uses(), [&](const Use& u) {
      const Node& n = *u.owner;
      if (n.is_boundary() || !n.bodies().empty()) return true;
      if (is_in(kAbsorb, n)) return false;
      if (!moves(n) && !is_in(kCarry, n)) return true;
      return std::ranges::any_of(n.results(),
                                 [&](const Value& r) { return open_masks_.contains(&r) || !ranges_.is_masked(r); });
    });
    if (open) open_masks_.insert(v);
  }
}

// Integers that half precision may have rounded.
bool SingleOps::is_rounded(const Value* v) const {
  if (!is_single(v)) return false;
  const Extent e = ranges_.bounds(*v);
  if (!e.whole || fits(e, kCounts)) return false;
  if (v->is_constant())
    return v->constant()->size() > 1 && std::ranges::any_of(elements(v, kRead), [](double x) { return half(x) != x; });
  return v->def() == nullptr || is(*v->def(), "cast") || kept_.contains(v->def());
}

// Why the op's result may exceed 65504 although its operands do not; empty if it does not.
std::string_view SingleOps::leaves_range(Node& n) {
  for (const OperandPrecision& row : kPrecisions) {
    if (!is(n, row.op)) continue;
    const Value* v = operand(n, context_, row.operand);
    if (!is_single(v)) continue;
    const Extent e = ranges_.bounds(*v);
    if (row.precision == Precision::kBelow) {
      const bool both = !is(n, "exp") && !is(n, "exp2");
      if (e.high > row.limit || (both && e.low < -row.limit)) return is_below_its_maximum(v) ? "" : "it has no bound";
    }
    if (row.precision == Precision::kSquared && !fits(e, row.limit) && (sums(n) || is(n, "l2_norm") || is_summed(*n.result())))
      return "sums of squares may exceed 65504";
    if (row.precision == Precision::kPower) {
      const auto power = context_.splat(operand(n, context_, "y"));
      if (power && *power > 0 && *power <= 1) continue;
      const bool square = power == 2;
      if (square ? is_summed(*n.result()) && !fits(e, row.limit) : !fits(ranges_.bounds(*n.result()), kLargestHalf))
        return square ? "sums of squares may exceed 65504" : "it has no bound";
    }
    if (row.precision == Precision::kLarge) {
      const Extent y = ranges_.bounds(*n.result());
      if (y.known() && !fits(y, kLargestHalf)) return "it may exceed 65504";
    }
  }
  if (n.op().dialect == DialectId::kOnnx && (is(n, "reduce_sum") || is(n, "cumsum")) && is_single(n.result()) &&
      !fits(ranges_.bounds(*n.result()), kLargestHalf) && !(terms(n) <= kCounts))
    return "it sums more than 2048 numbers";
  if (is(n, "mul") && is_square(n.result()) && is_single(n.result()) && !fits(ranges_.bounds(*n.input(0)), 255) &&
      is_summed(*n.result()))
    return "sums of squares may exceed 65504";
  for (const Value& v : n.results()) {
    const Extent e = ranges_.bounds(v);
    if (is_single(&v) && (e.low > kLargestHalf || e.high < -kLargestHalf)) return "it exceeds 65504";
  }
  const bool is_open = std::ranges::any_of(n.results(), [&](const Value& v) { return open_masks_.contains(&v); });
  for (size_t i = 0; i < n.num_inputs() && is_open; ++i) {
    const Value* v = is(n, "real_div") && i == 1 ? nullptr : n.input(i);
    if (is_single(v) && v->is_constant() && !fits(ranges_.bounds(*v), kLargestHalf - 1)) return kMoreThanMask;
  }
  return {};
}

void SingleOps::spread(Graph& g) {
  static constexpr std::string_view kGrow[] = {"abs",  "add",        "cumsum",      "maximum",    "minimum",
                                               "neg",  "reduce_max", "reduce_mean", "reduce_min", "reduce_sum",
                                               "relu", "square",     "sub"};
  static constexpr std::string_view kOther[] = {"argsort", "band_part", "l2_norm", "topk"};
  const auto through_blocks = [&](const Value& v) {
    for (const Value* taken : taken_by(v)) {
      if (outside_.contains(taken)) outside_.insert(&v);
      if (large_.contains(taken) && !fits(ranges_.bounds(v), kLargestHalf)) large_.insert(&v);
    }
  };
  for (const Port& p : g.inputs()) through_blocks(*p.value);
  for (Node& n : g.nodes()) {
    for (const Body& b : n.bodies()) spread(*b.graph);
    for (const Value& v : n.results()) through_blocks(v);
    if (!n.op().known || !n.bodies().empty() || is(n, "cast") || n.has(Trait::kConstant)) continue;
    const bool light = is_elementwise(n) || sums(n) || is_in(kOther, n);
    bool reads_large = false, reads_rounded = false, all_whole = true;
    for (const Use& u : n.operands()) {
      if (!is_single(u.value)) continue;
      reads_large |= large_.contains(u.value);
      reads_rounded |= is_rounded(u.value);
      all_whole &= ranges_.bounds(*u.value).whole;
    }
    const bool makes_rounded = all_whole && !rounds(&n) && std::ranges::any_of(n.results(), [&](const Value& v) {
                                 const Extent e = ranges_.bounds(v);
                                 return is_single(&v) && e.whole && !fits(e, kCounts);
                               });
    const std::string_view why = light ? leaves_range(n) : std::string_view();
    if (!why.empty() && !kept_.contains(&n)) keep(n, why);
    const bool reads_outside = std::ranges::any_of(n.operands(), [&](const Use& u) { return outside_.contains(u.value); });
    // A comparison of what stays in single precision would only round it.
    const bool compares = n.num_results() == 1 && n.result(0)->dtype() == DType::kBool && n.has(Trait::kElementwise) &&
                          std::ranges::any_of(n.operands(), [&](const Use& u) {
                            return is_single(u.value) && u.value->def() != nullptr && kept_.contains(u.value->def());
                          });
    if (reads_outside || makes_rounded || compares || (light && (reads_large || reads_rounded))) keep(n);
    // Numbers beyond 65504 there are not those of a mask alone.
    const bool passes_on = reads_outside && (moves(n) || is(n, "add") || is(n, "sub"));
    for (const Value& v : n.results()) {
      if ((passes_on && ranges_.is_masked(v)) || why == kMoreThanMask) outside_.insert(&v);
    }
    const bool scaled = is(n, "mul") && (n.input(0)->is_constant() || n.input(1)->is_constant() || n.input(0) == n.input(1));
    const bool grows = is_in(kGrow, n) || moves(n) || scaled;
    if (!(reads_large && grows) && why.empty()) continue;
    for (const Value& v : n.results()) {
      if (is_single(&v) && !fits(ranges_.bounds(v), kLargestHalf)) large_.insert(&v);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Runs

void SingleOps::probe(const std::function<bool(const Node&)>& is_half) {
  const HalfChoice choice{is_half, [&](const Value& v) { return ranges_.is_masked(v) && !open_masks_.contains(&v); }};
  constexpr int kRounds = 5;  // each finds the first ops that go wrong
  const Probe runs(function_);
  for (int round = 0; round < kRounds; ++round) {
    bool any = false;
    for (const ProbeFinding& f : runs.find(choice)) {
      const Node& n = *f.value->def();
      if (f.fault == ProbeFault::kOutside && !outside_.insert(f.value).second) continue;
      if (f.fault == ProbeFault::kSmall && (kept_.contains(&n) || is(n, "cast"))) continue;
      if (f.fault == ProbeFault::kComputation && demanded_.contains(f.value)) continue;
      any = true;
      if (!kept_.contains(&n) && !is(n, "cast")) keep(n, f.why);
      if (f.fault != ProbeFault::kComputation) continue;
      demanded_[f.value] = Through::kSums;
      for (const Use& u : n.operands()) demand(u.value, Through::kSums);
    }
    if (!any) return;
    drain();
    spread(function_);
  }
}

void SingleOps::observe(const HalfRanges& ranges) {
  const auto seen = [&](const Value* v) {
    const auto at = is_single(v) ? ranges.seen().find(v) : ranges.seen().end();
    return at != ranges.seen().end() ? at->second : Extent{0, 0};
  };
  const auto keep_small = [&](const Node& n, const Value* v, double magnitude, std::string_view why) {
    if (magnitude == 0 || magnitude >= kDigits) return false;
    if (!kept_.contains(&n)) keep(n, why);
    keep_makers(v, ranges);
    return true;
  };
  for (Graph* g : graphs_in(function_)) {
    for (Node& n : g->nodes()) {
      for (const OperandPrecision& row : kPrecisions) {
        if (row.precision != Precision::kDivisor || !is(n, row.op)) continue;
        const auto power = is(n, "pow") ? context_.splat(operand(n, context_, "y")) : std::nullopt;
        const Value* v = operand(n, context_, row.operand);
        const bool divides = !power || *power < 0;
        if (divides && keep_small(n, v, seen(v).least, "it divides by numbers below 2^-14 on the given inputs"))
          demand(v, Through::kSums);
      }
      const auto is_product = [&](size_t i) { return is_factor(n, i) || is(n, "mul") || is(n, "real_div"); };
      double largest = 0;
      for (size_t i = 0; i < n.num_inputs(); ++i) largest = std::max(largest, is_product(i) ? seen(n.input(i)).magnitude() : 0);
      for (size_t i = 0; i < n.num_inputs(); ++i) {
        const Extent e = seen(n.input(i));
        const bool each_counts = largest > kLargestHalf && e.magnitude() < largest;
        if (is_product(i))
          keep_small(n, n.input(i), each_counts ? e.least : e.magnitude(),
                     "it multiplies numbers below 2^-14 on the given inputs");
      }
    }
  }
  drain();
  spread(function_);
}

}  // namespace sardonyx::precision
