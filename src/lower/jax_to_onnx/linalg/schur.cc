// schur[compute_schur_vectors] a   =>   T, Z with a = Z T Z^H: T triangular for complex a
//
// For real a, T may have diagonal blocks of two rows with complex eigenvalues and equal diagonal elements.
// Francis' implicit double shift (Golub and Van Loan, "Matrix computations", 7.5) uses only real arithmetic.
// A sweep of reflections of three rows and columns passes over the part that is not finished; each matrix of
// a batch has its own such part.
#include "lower/jax_to_onnx/linalg/schur.h"

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int64_t kSweepsPerRow = 30;

// Facts about the subdiagonal element of each row, left of its diagonal element: [..., n, 1].
struct Below {
  Num is_left;  // not zero
  Num is_open;  // not zero, and not part of a final block
};

// For row i the element (i + down, i + right); zero if that lies outside: [..., n, 1].
Num band(const Num& t, int64_t down, int64_t right) {
  Complex m(t);
  Num i = row_numbers(m), j = column_numbers(m);
  // Shift the rows first: row i of `shifted` is row i + down.
  Num shifted = t;
  if (down != 0) {
    Num from = eq(i + static_cast<double>(down), j);
    shifted = matmul(cast(from, t.dtype()), t);
  }
  return sum(where(eq(j, i + static_cast<double>(right)), shifted, 0), -1, true);
}

// x shifted by `down` rows, filled with zeros.
Num from_row(const Num& x, const Num& t, int64_t down) {
  Complex m(t);
  Num from = eq(row_numbers(m) + static_cast<double>(down), column_numbers(m));
  return matmul(cast(from, t.dtype()), x);
}

// The blocks [[a, b], [c, d]] of rows i - 1 and i.
struct Blocks {
  Num a, b, c, d;
  Num discriminant() const {
    Num delta = (a - d) * 0.5;
    return delta * delta + b * c;
  }
};

Blocks blocks_of(const Num& t) { return {band(t, -1, -1), band(t, -1, 0), band(t, 0, -1), band(t, 0, 0)}; }

Num deflated(const Num& t) {
  Complex m(t);
  Blocks k = blocks_of(t);
  Num scale = abs(k.a) + abs(k.d);
  Num whole = sqrt(reduce("ReduceSum", t * t, {-2, -1}, true));
  scale = where(eq(scale, 0), whole, scale);
  Num small = abs(k.c) <= scale * epsilon(t);
  Num distance = row_numbers(m) - column_numbers(m);
  return where(distance > 1, 0, where(eq(distance, 1) & small, 0, t));
}

Below below(const Num& t) {
  Blocks k = blocks_of(t);
  Num is_left = ne(k.c, 0);
  Num as_number = cast(is_left, t.dtype());
  Num alone = eq(from_row(as_number, t, -1), 0) & eq(from_row(as_number, t, 1), 0);
  return {is_left, is_left & !(alone & (k.discriminant() < 0))};
}

Num pick(const Num& t, const Num& i, const Num& j) {
  Complex m(t);
  return sum(sum(where(eq(row_numbers(m), i) & eq(column_numbers(m), j), t, 0), -1, true), -2, true);
}

// Applies a reflection to T from both sides, and to Z.
void reflect(std::vector<Num>& s, const Reflection& h) {
  s[0] = reflect_columns(h.v, h.tau, reflect_rows(h.v, h.tau, s[0])).re;
  s[1] = reflect_columns(h.v, h.tau, s[1]).re;
}

void sweep_once(std::vector<Num>& s, const Num& sweep) {
  Num t = s[0];
  Complex m(t);
  Num rows = row_numbers(m);
  Below f = below(t);
  Num high = reduce("ReduceMax", where(f.is_open, rows, 0), {-2}, true);
  Num low = reduce("ReduceMax", where((!f.is_left) & (rows <= high), rows, 0), {-2}, true);
  Num g = max(high - 1, 0);
  Num a = pick(t, g, g), b = pick(t, g, high), c = pick(t, high, g), d = pick(t, high, high);
  Num is_odd = eq(sweep - sweep / 11 * 11, 10);
  Num size = (abs(c) + abs(d)) * 1.5;
  Num trace = where(is_odd, size, a + d), determinant = where(is_odd, size * size * 0.5, a * d - b * c);

  // The first column of T^2 - trace T + determinant.
  Num one_more = low + 1, two_more = low + 2;
  Num t00 = pick(t, low, low), t10 = pick(t, one_more, low), t01 = pick(t, low, one_more), t11 = pick(t, one_more, one_more);
  Num x0 = (t00 - trace) * t00 + t01 * t10 + determinant;
  Num x1 = t10 * (t00 + t11 - trace), x2 = t10 * pick(t, two_more, one_more);
  // For a block of two with real eigenvalues: the column minus the farther eigenvalue.
  Num is_pair = eq(one_more, high);
  Num delta = (t00 - t11) * 0.5;
  Num root = sqrt(max(delta * delta + t01 * t10, 0));
  x0 = where(is_pair, delta + where(delta >= 0, root, -root), x0);
  x1 = where(is_pair, t10, x1);
  x2 = where(two_more <= high, x2, 0);
  Num first = where(eq(rows, low), x0, where(eq(rows, one_more), x1, where(eq(rows, two_more), x2, 0)));

  Dim steps = t.ctx().b.dims().sub(t.dim(-1), Dim::of(1));
  s = repeat(sweep.scope(), count(m, steps), s, [&](const Num& p, std::vector<Num>& state) {
    Complex now(state[0]);
    Num number = row_numbers(now), last = min(high, p + 2);
    Num chased = where((number >= p) & (number <= last), column(now, max(p - 1, 0)).re, 0);
    Num x = where(eq(low, p), first, chased);
    Num is_active = (low <= p) & (p < high);
    Reflection h = reflection(Complex(where(is_active, x, 0)), p);
    reflect(state, h);
  });
  s[0] = deflated(s[0]);
}

// Rotates the remaining blocks of two so that their diagonal elements are equal.
void standardize(std::vector<Num>& s) {
  Num t = s[0];
  Complex m(t);
  Dim steps = t.ctx().b.dims().sub(t.dim(-1), Dim::of(1));
  s = repeat(t.scope(), count(m, steps), s, [&](const Num& p, std::vector<Num>& state) {
    Complex now(state[0]);
    Num next = p + 1;
    auto entry = [&](const Num& i, const Num& j) { return element(now, i, j).re; };
    Num a = entry(p, p), b = entry(p, next), c = entry(next, p), d = entry(next, next);
    Num angle = where(ne(c, 0), atan2(d - a, b + c) * 0.5, 0);
    Num cosine = cos(angle), sine = sin(angle);
    Num rows = row_numbers(now), columns = column_numbers(now);
    Num upper = row(now, p).re, lower = row(now, next).re;
    Num rotated =
        where(eq(rows, p), cosine * upper + sine * lower, where(eq(rows, next), cosine * lower - sine * upper, state[0]));
    auto turn_columns = [&](const Num& v) {
      Num left = column(Complex(v), p).re, right = column(Complex(v), next).re;
      return where(eq(columns, p), cosine * left + sine * right, where(eq(columns, next), cosine * right - sine * left, v));
    };
    state[0] = turn_columns(rotated);
    state[1] = turn_columns(state[1]);
  });
}

Schur real_schur(const Complex& x) {
  Factored f = hessenberg(x);
  std::vector<Num> s{deflated(upper_triangle(f.packed, -1).re), hessenberg_orthogonal(f).re};
  Dims& dims = x.ctx().b.dims();
  Num start = any(below(s[0]).is_open);
  s = loop(x.scope(), count(x, dims.mul(x.dim(-1), Dim::of(kSweepsPerRow))), start, std::move(s),
           [&](const Num& sweep, std::vector<Num>& state) {
             sweep_once(state, sweep);
             return any(below(state[0]).is_open);
           });
  standardize(s);
  return {Complex(deflated(s[0])), Complex(s[1])};
}

}  // namespace

std::vector<Value*> lower_schur(Lowering& ctx) {
  if (ctx.bool_param("sort_eig_vals", false)) ctx.unsupported("sorted eigenvalues");
  Complex a = operand(ctx, 0);
  Schur s = a.is_real() ? real_schur(a) : schur(a);
  std::vector<Value*> results{result(ctx, s.t, 0)};
  if (ctx.bool_param("compute_schur_vectors")) results.push_back(result(ctx, s.z, 1));
  return results;
}

}  // namespace sardonyx::jax_to_onnx
