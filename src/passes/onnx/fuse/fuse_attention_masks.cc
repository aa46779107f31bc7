// Brings attention masks into the form that kernels take: additive, with a query axis.
//
//   Where(m: bool[B,1,1,S], scores, -1e9)    =>   Attention(.., Expand(Where(m, 0, -1e30), [T,1]))
//   Add(scores, Where(m, 0, lowest))         =>   the same
//
// A fully masked row keeps its meaning. Where gives each of its scores the same number, so the softmax is the
// mean over all keys. Adding -1e30 has the same effect, because f32 absorbs the score. With the lowest number
// or a bool mask, a kernel gives 0 or NaN there, depending on its release. With a fill of -inf, JAX gives
// NaN, so such masks fuse only if each row provably sees a key. The same holds for additive masks that may be
// infinite. Nothing is known of a mask that is a graph input: it may hold a row of -inf, for which the
// arithmetic gives NaN and a kernel 0 or NaN, so the arithmetic stays. A guard against NaN, Where(IsNaN(p),
// 0, p), follows the operator.
//
// A constant condition that repeats over heads or groups loses the repetitions, since Where broadcasts. (JAX
// broadcasts masks before they are folded.)
#include <algorithm>
#include <cmath>
#include <limits>

#include "dialects/onnx/runtimes/runtimes.h"
#include "passes/onnx/fuse/attention.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

constexpr double kUnseen = -1e30;  // absorbs scores up to 3.7e22
constexpr double kTooLow = -1e37;  // kernels treat values near the lowest number as masked
constexpr double kLargest = std::numeric_limits<float>::max();
constexpr int kDepth = 12;

struct Bounds {
  double low, high;
};

std::optional<Bounds> finite(Bounds b) {
  return -kLargest <= b.low && b.high <= kLargest ? std::optional(b) : std::nullopt;  // NaN compares false
}

std::optional<Bounds> bounds_of_constant(const Tensor& t) {
  if (t.is_promise() || t.size() == 0 || !(is_float(t.dtype()) || is_integer(t.dtype()) || t.dtype() == DType::kBool))
    return std::nullopt;
  if (t.is_splat()) return finite({t.as_double(0), t.as_double(0)});
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  Bounds b{kLargest, -kLargest};
  for (int64_t i = 0; i < t.size(); ++i) {
    const double v = decode_element(t.dtype(), bytes.data(), i);
    if (!std::isfinite(v)) return std::nullopt;
    b = {std::min(b.low, v), std::max(b.high, v)};
  }
  return finite(b);
}

// Finite bounds of all elements of v.
std::optional<Bounds> bounds_of(const Value* v, PassContext& c, int depth = kDepth) {
  if (v->is_constant()) return bounds_of_constant(*v->constant());
  if (v->dtype() == DType::kBool) return Bounds{0, 1};
  if (is_integer(v->dtype())) return Bounds{-0x1p63, 0x1p64};
  const Node* n = v->def();
  if (n == nullptr || n->unchecked() || depth == 0) return std::nullopt;
  if (n->is("ConstantOfShape")) {
    const TensorPtr number = repeated_number(*n);
    return number == nullptr ? std::nullopt : bounds_of_constant(*number);
  }
  const auto operand = [&](size_t i) { return bounds_of(n->input(i), c, depth - 1); };
  if (is_view(*n) || n->is("Expand") || n->is("Slice") || n->is("Cast") || n->is("Gather") || n->is("Identity"))
    return operand(0);
  if (n->is("Trilu")) {
    const auto kept = operand(0);
    return kept ? std::optional(Bounds{std::min(kept->low, 0.0), std::max(kept->high, 0.0)}) : std::nullopt;
  }
  const bool is_choice = n->is("Where");
  if (!is_choice && !n->is("Mul") && !n->is("Add") && !n->is("Sub")) return std::nullopt;
  const auto a = operand(is_choice ? 1 : 0), b = operand(is_choice ? 2 : 1);
  if (!a || !b) return std::nullopt;
  if (is_choice) return Bounds{std::min(a->low, b->low), std::max(a->high, b->high)};
  if (n->is("Add")) return finite({a->low + b->low, a->high + b->high});
  if (n->is("Sub")) return finite({a->low - b->high, a->high - b->low});
  const auto [low, high] = std::minmax({a->low * b->low, a->low * b->high, a->high * b->low, a->high * b->high});
  return finite({low, high});
}

// Whether each row of a constant has an element that is true or does not vanish.
bool rows_see(const Tensor& t) {
  if (t.is_promise() || t.rank() == 0 || t.shape().back() == 0) return false;
  const double least = t.dtype() == DType::kBool ? 0.5 : kUnseen;
  if (t.is_splat()) return least <= t.as_double(0) && t.as_double(0) <= kLargest;
  std::vector<std::byte> scratch;
  const auto bytes = t.bytes(scratch);
  const int64_t keys = t.shape().back();
  for (int64_t row = 0; row < t.size(); row += keys) {
    bool sees = false;
    for (int64_t i = row; i < row + keys; ++i) {
      const double v = decode_element(t.dtype(), bytes.data(), i);
      if (!(v <= kLargest)) return false;
      sees |= v >= least;
    }
    if (!sees) return false;
  }
  return true;
}

bool every_row_sees(const AttentionMask& mask, PassContext& c) {
  if (mask.value->is_constant()) return rows_see(*mask.value->constant());
  return mask.fill ? is_causal(mask.value, c) : causes_of(mask.value, c) != nullptr;
}

bool is_finite(const AttentionMask& mask, PassContext& c) {
  return mask.fill ? std::isfinite(*mask.fill) : bounds_of(mask.value, c).has_value();
}

// Whether masked scores get -inf and no other number that kernels treat as masked.
bool hides_by_infinity(const AttentionMask& mask, PassContext& c) {
  if (mask.fill) return std::isinf(*mask.fill);
  const Node* n = mask.value->def();
  if (n == nullptr || n->unchecked() || !n->is("Where")) return false;
  const auto is_plain = [&](const Value* v) {
    const auto number = c.splat(v);
    return number && (*number == -std::numeric_limits<double>::infinity() || std::abs(*number) < -kTooLow);
  };
  return is_plain(n->input(1)) && is_plain(n->input(2));
}

// An additive mask with the numbers that kernels treat as masked raised to a safe one.
Value* without_lowest(Rewriter& b, Value* mask) {
  const auto bounds = bounds_of(mask, b.context());
  if (!bounds || bounds->low >= kTooLow) return mask;
  const Node* n = mask->def();
  if (n != nullptr && n->is("Where")) {
    const auto yes = b.context().splat(n->input(1)), no = b.context().splat(n->input(2));
    const auto number = [&](double v) { return b.scalar(mask->dtype(), std::max(v, kUnseen)); };
    const bool is_whole = n->input(0)->ranked() && std::ranges::equal(n->input(0)->type()->dims(), mask->type()->dims());
    if (yes && no && is_whole) return b.Where(n->input(0), number(*yes), number(*no));
  }
  return b.Max({mask, b.scalar(mask->dtype(), kUnseen)});
}

}  // namespace

namespace {

using namespace pattern;
constexpr Var condition{"condition"}, kept{"kept"};

// A constant with byte-sized elements, without repetitions: the axes along which all elements are equal, and
// the rest.
struct Repeated {
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
std::optional<Repeated> once(const Tensor& t) {
  std::vector<std::byte> scratch;
  const auto all = t.bytes(scratch);
  Repeated r{{t.shape().begin(), t.shape().end()}, {all.begin(), all.end()}};
  bool repeats = false;
  size_t inner = 1;
  for (size_t axis = r.shape.size(); axis-- > 0;) {
    const auto count = static_cast<size_t>(r.shape[axis]);
    const size_t block = inner * count;
    const auto is_same = [&](size_t at) {  // each element of the axis equals the one before
      return std::equal(r.bytes.begin() + at, r.bytes.begin() + at + block - inner, r.bytes.begin() + at + inner);
    };
    bool same = count > 1;
    for (size_t at = 0; same && at < r.bytes.size(); at += block) same = is_same(at);
    if (!same) {
      inner = block;
      continue;
    }
    std::vector<std::byte> left;
    for (size_t at = 0; at < r.bytes.size(); at += block)
      left.insert(left.end(), r.bytes.begin() + at, r.bytes.begin() + at + inner);
    r.bytes = std::move(left);
    r.shape[axis] = 1;
    repeats = true;
  }
  return repeats ? std::optional(std::move(r)) : std::nullopt;
}

bool repeats(const Match& m) {
  const Tensor& t = *m[condition]->constant();
  return same_shape(m[kept], m.root().result()) && !t.is_promise() && !t.is_splat() && t.size() > 1 && once(t).has_value();
}
Value* not_repeated(Rewriter& b, const Match& m) {
  Repeated r = *once(*m[condition]->constant());
  return b.Where(b.constant(Tensor::own(DType::kBool, std::move(r.shape), std::move(r.bytes))), m[kept], m.root().input(2));
}

}  // namespace

Rule mask_that_repeats() {
  return {.name = "repeated_mask", .match = Where(constant.as(condition), kept, any), .when = repeats, .build = not_repeated};
}

bool meets_axes(const Match& m, const Value* mask, const Value* scores) {
  if (!mask->ranked() || !scores->ranked() || mask->type()->rank() > scores->type()->rank())
    return m.refuse("the shape of the mask is not known");
  const auto dims = mask->type()->dims(), of_scores = scores->type()->dims().last(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is(1) && !(dims[i] == of_scores[i])) return m.refuse("an axis of the mask may have size one");
  }
  return true;
}

bool has_kernel(const Match& m) {
  return has_own_kernel(m.model().op("", "Attention"), m.root().result()->dtype()) ||
         m.refuse("onnxruntime computes the single operators faster in this element type or opset");
}

bool keeps_blind_rows(const Match& m, const AttentionMask& mask) {
  if (mask.value == nullptr) return true;
  PassContext& c = m.context();
  return is_finite(mask, c) || every_row_sees(mask, c) || (mask.guarded && hides_by_infinity(mask, c)) ||
         m.refuse("a row may be fully masked, which kernels treat differently");
}

Value* AttentionMask::added(Rewriter& b, const std::function<Value*(Value*)>& placed) const {
  if (!fill) return placed(without_lowest(b, value));
  const bool fits = !std::isfinite(*fill) || (kTooLow <= *fill && *fill <= kUnseen);
  return b.Where(placed(value), b.scalar(DType::kF32, 0), b.scalar(DType::kF32, fits ? *fill : kUnseen));
}

Value* AttentionMask::guard(Rewriter& b, Value* y) const {
  PassContext& c = b.context();
  if (!guarded || value == nullptr || is_finite(*this, c) || every_row_sees(*this, c)) return y;
  return b.Where(b.IsNaN(y), b.scalar(y->dtype(), 0), y);
}

Value* with_queries(Rewriter& b, Value* mask, Value* q) {
  const size_t axis = q->type()->rank() - 2, rank = mask->type()->rank();
  const Dim queries = q->type()->dim(axis);
  if (rank >= 2 && mask->type()->dim(rank - 2) == queries) return mask;
  if (queries.is_int()) return b.Expand(mask, b.i64s({queries.value(), 1}));
  const auto at = static_cast<int64_t>(axis);
  return b.Expand(mask, b.Concat({b.Shape(q, {.end = at + 1, .start = at}), b.i64s({1})}, {.axis = 0}));
}

}  // namespace sardonyx::onnx
