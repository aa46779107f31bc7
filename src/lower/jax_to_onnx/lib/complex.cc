#include "lower/jax_to_onnx/lib/complex.h"

#include <algorithm>
#include <limits>

#include "lower/jax_to_onnx/lib/pairs.h"

namespace sardonyx::jax_to_onnx {
namespace {

template <class F>
Complex product(const Complex& x, const Complex& y, F&& times) {
  Num re = times(x.re, y.re);
  if (x.is_real() && y.is_real()) return re;
  if (x.is_real()) return {re, times(x.re, *y.im)};
  if (y.is_real()) return {re, times(*x.im, y.re)};
  return {re - times(*x.im, *y.im), times(x.re, *y.im) + times(*x.im, y.re)};
}

}  // namespace

// The operands of a Concat of two Unsqueeze nodes that form a last axis of 2; else nothing.
std::optional<std::pair<Value*, Value*>> joined_parts(Value* x) {
  const Node* n = x->def();
  if (n == nullptr || !n->is("Concat") || n->num_inputs() != 2 ||
      n->attr_int("axis", 0) != static_cast<int64_t>(x->type()->rank()) - 1)
    return {};
  Value* parts[2];
  for (size_t i = 0; i < 2; ++i) {
    const Node* part = n->input(i)->def();
    if (part == nullptr || !part->is("Unsqueeze")) return {};
    auto axes = part->input(1)->constant() ? part->input(1)->constant()->to_ints() : std::nullopt;
    if (!axes || axes->size() != 1 || axes->front() != static_cast<int64_t>(x->type()->rank()) - 1) return {};
    parts[i] = part->input(0);
  }
  return std::pair(parts[0], parts[1]);
}

// A real operand leaves the other's imaginary part alone: its shape is never the larger one.
Complex operator+(const Complex& x, const Complex& y) {
  if (x.is_real() || y.is_real()) return {x.re + y.re, x.im ? x.im : y.im};
  return {x.re + y.re, *x.im + *y.im};
}

Complex operator-(const Complex& x, const Complex& y) {
  if (y.is_real()) return {x.re - y.re, x.im};
  return {x.re - y.re, x.im ? *x.im - *y.im : -*y.im};
}

Complex operator*(const Complex& x, const Complex& y) {
  return product(x, y, [](const Num& a, const Num& b) { return a * b; });
}

Complex matmul(const Complex& x, const Complex& y) {
  return product(x, y, [](const Num& a, const Num& b) { return matmul(a, b); });
}

// Divides by the larger part of y first: R. L. Smith, "Algorithm 116: complex division" (1962).
Complex operator/(const Complex& x, const Complex& y) {
  if (y.is_real()) {
    return each_part(x, [&](const Num& v) { return v / y.re; });
  }
  Num by_real = abs(y.re) >= abs(*y.im);
  Num large = where(by_real, y.re, *y.im), small = where(by_real, *y.im, y.re);
  // small / large is NaN if both are zero or infinite: the signs give the ratio of equal sizes.
  Num ratio = where(eq(abs(small), abs(large)), sign(small) * sign(large), small / large);
  Num scale = large + small * ratio;
  Num re = x.re, im = x.imaginary();
  Num first = where(by_real, re + im * ratio, re * ratio + im), second = where(by_real, im - re * ratio, im * ratio - re);
  return {first / scale, second / scale};
}

Complex conj(const Complex& x) { return x.im ? Complex(x.re, -*x.im) : x; }

Num square_of_abs(const Complex& x) { return x.im ? x.re * x.re + *x.im * *x.im : x.re * x.re; }

Num abs(const Complex& x) {
  if (x.is_real()) return abs(x.re);
  Num a = abs(x.re), b = abs(*x.im);
  Num large = max(a, b), small = min(a, b);
  Num ratio = small / large;
  Num size = large * sqrt(ratio * ratio + 1);
  // 0 / 0 and infinity / infinity. An infinite part wins over NaN.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  size = where(eq(large, 0), large, size);
  return where(eq(a, kInfinity) | eq(b, kInfinity), kInfinity, size);
}

Complex where(const Num& condition, const Complex& x, const Complex& y) {
  Num re = where(condition, x.re, y.re);
  if (x.is_real() && y.is_real()) return re;
  return {re, where(condition, x.im ? *x.im : x.re.of(0), y.im ? *y.im : y.re.of(0))};
}

Complex full_like(const Complex& x, double v) {
  return {full_like(x.re, v), x.im ? std::optional<Num>(full_like(*x.im, 0)) : std::nullopt};
}

Complex concat(std::initializer_list<Complex> xs, int64_t axis) {
  bool is_real = true;
  for (const Complex& x : xs) is_real = is_real && x.is_real();
  SX_CHECK(xs.size() == 2, "pairs only");
  const Complex &x = *xs.begin(), &y = *(xs.begin() + 1);
  Num re = concat({x.re, y.re}, axis);
  return is_real ? Complex(re) : Complex(re, concat({x.imaginary(), y.imaginary()}, axis));
}

namespace {

// Every second element of pairs of reals, starting at the first or the second.
TensorPtr every_second(const Tensor& t, int64_t from) {
  std::vector<std::byte> scratch;
  auto bytes = t.bytes(scratch);
  auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
  std::vector<std::byte> out;
  for (size_t at = static_cast<size_t>(from) * width; at < bytes.size(); at += 2 * width)
    out.insert(out.end(), bytes.begin() + static_cast<ptrdiff_t>(at), bytes.begin() + static_cast<ptrdiff_t>(at + width));
  return Tensor::own(t.dtype(), {t.shape().begin(), t.shape().end() - 1}, std::move(out));
}

}  // namespace

Complex split(Lowering& ctx, Value* x) {
  if (const TensorPtr& t = x->constant(); t && t->byte_size() <= 4096) {
    return {Num(ctx, ctx.b.constant(every_second(*t, 0))), Num(ctx, ctx.b.constant(every_second(*t, 1)))};
  }
  if (auto parts = joined_parts(x)) return {Num(ctx, parts->first), Num(ctx, parts->second)};
  auto part = [&](int64_t i) { return Num(ctx, ctx.b.Gather(x, ctx.b.i64(i), {.axis = -1})); };
  return {part(0), part(1)};
}

Complex operand(Lowering& ctx, size_t i) {
  return is_pair(ctx.in_dtype(i)) ? split(ctx, ctx.in(i)) : Complex(Num(ctx, ctx.in(i)));
}

Value* join(const Complex& x) {
  if (x.is_real()) return x.re.value();
  return concat({unsqueeze(x.re, -1), unsqueeze(*x.im, -1)}, -1).value();
}

Value* result(Lowering& ctx, const Complex& x, size_t i) {
  return is_complex(ctx.out_dtype(i)) ? join({x.re, x.imaginary()}) : x.re.value();
}

namespace {

std::vector<Complex> all_operands(Lowering& ctx) {
  std::vector<Complex> xs;
  for (size_t i = 0; i < ctx.num_inputs(); ++i) xs.push_back(operand(ctx, i));
  return xs;
}

bool is_put_together(Lowering& ctx) {
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    if (is_complex(ctx.in_dtype(i)) && joined_parts(ctx.in(i))) return true;
  }
  return false;
}

}  // namespace

std::vector<Value*> part_by_part(Lowering& ctx, const LowerFn& real) {
  auto xs = all_operands(ctx);
  auto run = [&](bool imaginary) {
    std::vector<Value*> parts;
    for (const Complex& x : xs) parts.push_back((imaginary && x.im ? *x.im : x.re).value());
    Lowering on_parts = ctx.on_parts(std::move(parts));
    return real(on_parts);
  };
  auto re = run(false), im = run(true);
  // If inference knows less than the equation says, sets the types of the parts here, since the core checks
  // only the joined result.
  for (size_t i = 0; i < re.size(); ++i) {
    if (!is_pair(ctx.out_dtype(i))) continue;
    const Type* expected = ctx.b.types().with_dtype(ctx.out_type(i), pair_part(ctx.out_dtype(i)));
    for (Value* part : {re[i], im[i]}) {
      bool same_rank = part->type() != nullptr && part->ranked() && part->type()->rank() == expected->rank();
      bool is_vague = same_rank && std::ranges::any_of(part->type()->dims(), [](Dim d) { return !d.is_int() && !d.is_expr(); });
      if (is_vague && part->kind() != ValueKind::kInput && ctx.b.types().meet(part->type(), expected) != nullptr)
        part->set_type(expected);
    }
  }
  std::vector<Value*> results;
  for (size_t i = 0; i < re.size(); ++i)
    results.push_back(is_pair(ctx.out_dtype(i)) ? join({Num(ctx, re[i]), Num(ctx, im[i])}) : re[i]);
  return results;
}

std::vector<Value*> moved(Lowering& ctx, const LowerFn& real) {
  return is_put_together(ctx) ? part_by_part(ctx, real) : real(ctx);
}

std::vector<Value*> product_of_parts(Lowering& ctx, const LowerFn& real) {
  auto xs = all_operands(ctx);
  auto run = [&](const Num& x, const Num& y) {
    std::vector<Value*> parts{x.value(), y.value()};
    for (size_t i = 2; i < xs.size(); ++i) parts.push_back(xs[i].re.value());
    Lowering on_parts = ctx.on_parts(std::move(parts));
    return Num(ctx, real(on_parts)[0]);
  };
  return {result(ctx, product(xs[0], xs[1], run))};
}

std::vector<Complex> loop(Scope scope, Value* trips, std::optional<Num> go_on, std::vector<Complex> s,
                          const ComplexBody& body) {
  std::vector<Num> flat;
  for (const Complex& x : s) {
    flat.push_back(x.re);
    if (x.im) flat.push_back(*x.im);
  }
  auto gathered = [&](const std::vector<Num>& parts) {
    std::vector<Complex> out;
    size_t next = 0;
    for (const Complex& x : s) {
      out.emplace_back(parts[next]);
      ++next;
      if (x.im) out.back().im = parts[next++];
    }
    return out;
  };
  auto results = loop(scope, trips, go_on, flat, [&](const Num& i, std::vector<Num>& parts) {
    std::vector<Complex> state = gathered(parts);
    std::optional<Num> again = body(i, state);
    parts.clear();
    for (size_t k = 0; k < s.size(); ++k) {
      SX_CHECK(s[k].im || state[k].is_real(), "a real state became complex");
      parts.push_back(state[k].re);
      if (s[k].im) parts.push_back(state[k].imaginary());
    }
    return again;
  });
  return gathered(results);
}

std::vector<Complex> repeat(Scope scope, Value* trips, std::vector<Complex> s,
                            const std::function<void(const Num& i, std::vector<Complex>& s)>& body) {
  return loop(scope, trips, {}, std::move(s), [&](const Num& i, std::vector<Complex>& state) -> std::optional<Num> {
    body(i, state);
    return {};
  });
}

}  // namespace sardonyx::jax_to_onnx
