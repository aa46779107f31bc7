// Expresses operators that an older opset lacks in operators that it has, bit for bit.
//
//   x, [2, 3] ── GatherND ── y     =>   x ── Reshape [-1] ── Gather(2 * 7 + 3) ── y     before opset 11
//
// write_out_operators.cc first writes out operators that can only be matched up to rounding. All others are
// refused by name.
#include <algorithm>
#include <limits>
#include <numeric>

#include "dialects/onnx/readers.h"
#include "passes/onnx/convert/convert_opset.h"

namespace sardonyx::onnx {
namespace {

using Results = std::vector<Value*>;

constexpr int kOrderedIntegers = 9;          // from this opset on, Less and Greater take integers
constexpr int64_t kMostConstants = 1 << 16;  // largest table of positions, in elements

Value* cast(Rewriter& b, Value* v, DType to) {
  return v->dtype() == to ? v : b.op("Cast", {v}, {attr("to", static_cast<int64_t>(to))});
}

// The integer type to compute in: one that every release has kernels for.
DType wide_type(DType t) { return t == DType::kI32 || t == DType::kU64 ? t : DType::kI64; }

// Uses f64 where Less does not take integers. The conversion keeps the sign.
Value* is_negative(Rewriter& b, Value* v, OpsetConversion& c) {
  if (c.to() >= kOrderedIntegers) return b.Less(v, b.scalar_int(v->dtype(), 0));
  return b.Less(cast(b, v, DType::kF64), b.scalar(DType::kF64, 0));
}

std::optional<int64_t> size_of(const Value* v, size_t axis) {
  if (!v->ranked() || axis >= v->type()->rank() || !v->type()->dim(axis).is_int()) return std::nullopt;
  return v->type()->dim(axis).value();
}

Value* i64_tensor(Rewriter& b, const std::vector<int64_t>& values, const std::vector<int64_t>& shape) {
  return b.constant(b.i64s(values)->constant()->reshaped(shape));
}

// --- integers

// The remainder of the truncating division (C's, for fmod=1), else adjusted to the sign of the divisor.
Results modulo(Rewriter& b, Node& n, OpsetConversion& c) {
  const DType own = n.result()->dtype(), wide = wide_type(own);
  if (!is_integer(own)) return c.refuse(n, "it divides floats");
  Value *x = cast(b, n.input(0), wide), *y = cast(b, n.input(1), wide);
  Value* rest = b.Sub(x, b.Mul(b.Div(x, y), y));
  if (is_signed(own) && int_attr(n, "fmod") == 0) {
    Value* differs = is_negative(b, rest, c);
    if (c.context().splat(n.input(1)).value_or(-1) < 0) {
      Value* is_zero = b.Equal(rest, b.scalar_int(wide, 0));
      differs = b.And(b.Xor(differs, is_negative(b, y, c)), b.Not(is_zero));
    }
    rest = b.Add(rest, b.Mul(cast(b, differs, wide), y));
  }
  return {cast(b, rest, own)};
}

// Multiplies or divides by a power of two from a table.
Results shift(Rewriter& b, Node& n, OpsetConversion& c) {
  const DType own = n.result()->dtype();
  const bool is_left = string_attr(n, "direction") == "LEFT";
  if (!is_unsigned(own)) return c.refuse(n, "it shifts signed numbers");
  std::vector<int64_t> powers(static_cast<size_t>(bit_width(own)));
  for (size_t i = 0; i < powers.size(); ++i) powers[i] = static_cast<int64_t>(uint64_t{1} << i);
  Value* power = b.Gather(b.i64s(powers), cast(b, n.input(1), DType::kI64));
  if (is_left) return {cast(b, b.Mul(cast(b, n.input(0), DType::kI64), power), own)};
  const DType wide = own == DType::kU64 ? own : DType::kI64;
  return {cast(b, b.Div(cast(b, n.input(0), wide), cast(b, power, wide)), own)};
}

// start + delta * [0, 1, ...]
Results range(Rewriter& b, Node& n, OpsetConversion& c) {
  const DType own = n.result()->dtype();
  const auto delta = c.context().ints(n.input(2));
  if (c.to() < kOrderedIntegers || !is_integer(own) || !delta || delta->front() == 0)
    return c.refuse(n, "its step is not a constant integer");
  const int64_t step = delta->front();
  Value *start = cast(b, n.input(0), DType::kI64), *limit = cast(b, n.input(1), DType::kI64);
  Value* count = b.Div(b.Add(b.Sub(limit, start), b.i64(step > 0 ? step - 1 : step + 1)), b.i64(step));
  count = b.Where(b.Less(count, b.i64(0)), b.i64(0), count);
  Value* ones = b.op("ConstantOfShape", {b.Reshape(count, b.i64s({1}))}, {attr("value", Tensor::full(DType::kI64, {1}, 1))});
  Value* numbers = b.Reshape(b.NonZero(ones), b.i64s({-1}));
  return {cast(b, b.Add(start, b.Mul(numbers, b.i64(step))), own)};
}

// --- floats

// Rounds to nearest even: adding 1.5 * 2^52 leaves f64 no fraction bits. Values of at most a half keep their
// sign.
Results round(Rewriter& b, Node& n, OpsetConversion& c) {
  if (c.to() < kOrderedIntegers) return c.refuse(n, "it needs Where");
  const DType own = n.result()->dtype();
  const auto num = [&](double v) { return b.scalar(DType::kF64, v); };
  Value *x = cast(b, n.input(0), DType::kF64), *size = b.Abs(x);
  Value* whole = b.Sub(b.Add(x, num(0x1.8p52)), num(0x1.8p52));
  Value* small = b.Where(b.Less(size, num(0x1p51)), whole, x);
  return {cast(b, b.Where(b.Greater(size, num(0.5)), small, b.Mul(x, num(0))), own)};
}

double largest(DType t) {
  return t == DType::kF64 ? std::numeric_limits<double>::max() : t == DType::kF16 ? 65504 : std::numeric_limits<float>::max();
}

Results is_infinite(Rewriter& b, Node& n, OpsetConversion& c) {
  const auto positive = int_attr(n, "detect_positive"), negative = int_attr(n, "detect_negative");
  if (!positive || !negative || (*positive == 0 && *negative == 0)) return c.refuse(n, "it detects nothing");
  Value* x = n.input(0);
  const double most = largest(x->dtype());
  if (*negative == 0) return {b.Greater(x, b.scalar(x->dtype(), most))};
  if (*positive == 0) return {b.Less(x, b.scalar(x->dtype(), -most))};
  return {b.Greater(b.Abs(x), b.scalar(x->dtype(), most))};
}

Results is_nan(Rewriter& b, Node& n, OpsetConversion&) {
  Value* x = n.input(0);
  return {b.Not(b.Or(b.Less(x, b.scalar(x->dtype(), 1)), b.Greater(x, b.scalar(x->dtype(), -1))))};
}

// --- indexing by position

// Converts index tuples into positions in the flattened first k axes of `data`, where k is the length of a
// tuple: [..., k] => [...]. Null if the sizes of these axes are not known.
Value* positions(Rewriter& b, const Value* data, Value* indices, size_t k, OpsetConversion& c) {
  std::vector<int64_t> sizes, strides(k, 1);
  for (size_t i = 0; i < k; ++i) {
    const auto size = size_of(data, i);
    if (!size) return nullptr;
    sizes.push_back(*size);
  }
  for (size_t i = k; i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  Value* from_front = b.Add(indices, b.Mul(cast(b, is_negative(b, indices, c), DType::kI64), b.i64s(sizes)));
  const std::vector<int64_t> last{static_cast<int64_t>(indices->type()->rank()) - 1};
  return b.reduce("ReduceSum", b.Mul(from_front, b.i64s(strides)), last, /*keepdims=*/false);
}

// The sizes of `data` from axis k on, with -1 for an unknown one; nullopt if several are unknown or one is
// zero.
std::optional<std::vector<int64_t>> sizes_from(const Value* data, size_t k) {
  std::vector<int64_t> sizes;
  for (const Dim d : data->type()->dims().subspan(k)) sizes.push_back(d.is_int() ? d.value() : -1);
  if (std::ranges::count(sizes, -1) > 1 || std::ranges::find(sizes, 0) != sizes.end()) return std::nullopt;
  return sizes;
}

Results gather_nd(Rewriter& b, Node& n, OpsetConversion& c) {
  Value *data = n.input(0), *indices = n.input(1);
  const auto k = indices->ranked() ? size_of(indices, indices->type()->rank() - 1) : std::nullopt;
  if (!k || !data->ranked() || int_attr(n, "batch_dims").value_or(0) != 0) return c.refuse(n, "its sizes are not known");
  Value* at = positions(b, data, indices, static_cast<size_t>(*k), c);
  auto shape = sizes_from(data, static_cast<size_t>(*k));
  if (at == nullptr || !shape) return c.refuse(n, "its sizes are not known");
  int64_t count = 1;
  for (size_t i = 0; i < static_cast<size_t>(*k); ++i) count *= *size_of(data, i);
  shape->insert(shape->begin(), count);
  return {b.Gather(b.Reshape(data, b.i64s(*shape)), at)};
}

Results scatter_nd(Rewriter& b, Node& n, OpsetConversion& c) {
  Value *data = n.input(0), *indices = n.input(1);
  if (c.to() < kOrderedIntegers) return c.refuse(n, "it needs Scatter");
  if (n.attr("reduction") != nullptr && string_attr(n, "reduction") != "none") return c.refuse(n, "it reduces");
  const auto k = indices->ranked() ? size_of(indices, indices->type()->rank() - 1) : std::nullopt;
  if (!k || !data->ranked()) return c.refuse(n, "its sizes are not known");
  Value* at = positions(b, data, indices, static_cast<size_t>(*k), c);
  const auto rest = sizes_from(data, static_cast<size_t>(*k));
  if (at == nullptr || !rest || std::ranges::find(*rest, -1) != rest->end()) return c.refuse(n, "its sizes are not known");
  const int64_t row = std::accumulate(rest->begin(), rest->end(), int64_t{1}, std::multiplies<>());
  Value* rows = b.Reshape(at, b.i64s({-1, 1}));
  if (row != 1) rows = b.Expand(rows, b.i64s({1, row}));
  const auto flat = [&](Value* v) { return b.Reshape(v, b.i64s({-1, row})); };
  return {b.Reshape(b.op("Scatter", {flat(data), rows, flat(n.input(2))}), b.Shape(data))};
}

Results gather_elements(Rewriter& b, Node& n, OpsetConversion& c) {
  Value *data = n.input(0), *indices = n.input(1);
  const auto axis = read::Gather(n).axis();
  if (!axis || !data->ranked() || !data->type()->is_static() || !indices->ranked() || !indices->type()->is_static())
    return c.refuse(n, "its sizes are not known");
  const size_t rank = data->type()->rank(), along = *axis;
  std::vector<int64_t> shape, strides(rank, 1);
  for (const Dim d : indices->type()->dims()) shape.push_back(d.value());
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * *size_of(data, i);
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (count == 0 || count > kMostConstants) return c.refuse(n, "it takes too many elements");
  std::vector<int64_t> base(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i;
    for (size_t a = rank; a-- > 0; left /= shape[a])
      base[static_cast<size_t>(i)] += a == along ? 0 : left % shape[a] * strides[a];
  }
  Value* at = cast(b, indices, DType::kI64);
  at = b.Add(at, b.Mul(cast(b, is_negative(b, at, c), DType::kI64), b.i64(*size_of(data, along))));
  if (strides[along] != 1) at = b.Mul(at, b.i64(strides[along]));
  if (rank > 1) at = b.Add(at, i64_tensor(b, base, shape));
  return {b.Gather(b.Reshape(data, b.i64s({-1})), at)};
}

constexpr RespellingStep kAbsent[] = {
    {"IsNaN", 9, false, is_nan},
    {"IsInf", 10, false, is_infinite},
    {"Mod", 10, false, modulo},
    {"BitShift", 11, false, shift},
    {"GatherElements", 11, false, gather_elements},
    {"GatherND", 11, false, gather_nd},
    {"Range", 11, false, range},
    {"Round", 11, false, round},
    {"ScatterND", 11, false, scatter_nd},
};

}  // namespace

std::span<const RespellingStep> steps_of_absent() { return kAbsent; }

}  // namespace sardonyx::onnx
