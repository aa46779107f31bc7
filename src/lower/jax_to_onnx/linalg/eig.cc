// eig[compute_left_eigenvectors, compute_right_eigenvectors] a   =>   eigenvalues and eigenvectors
//
// Eigenvectors have length 1, and their largest element is real.
//
// The QR algorithm on the Hessenberg form, with Wilkinson's shift, in complex arithmetic (Golub and Van Loan,
// "Matrix computations", 7.5). Sweeps of rotations run over the part that is not triangular yet, until no
// element below the diagonal is left. Each matrix of a batch has its own such part. Substitution in the
// triangular form gives the eigenvectors.
#include "lower/jax_to_onnx/linalg/schur.h"
#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

constexpr int64_t kSweepsPerRow = 30;

Complex complex_sqrt(const Complex& z) {
  Num large = sqrt((abs(z) + abs(z.re)) * 0.5);
  Num is_zero = eq(large, 0);
  Num small = where(is_zero, large, abs(*z.im) / (where(is_zero, 1, large) * 2));
  Num right = z.re >= 0, negative = *z.im < 0;
  Num im = where(right, small, large);
  return {where(right, large, small), where(negative, -im, im)};
}

// The part [low, high] of each matrix that is not triangular yet: numbers [..., 1, 1]; high is 0 if there is
// none.
struct Active {
  Num low, high;
};

// The sizes of the elements below the diagonal, indexed by their row: [..., n, 1].
Num below_diagonal(const Complex& t) {
  Num on = eq(row_numbers(t), column_numbers(t) + 1);
  return sum(where(on, abs(t), 0), -1, true);
}

// t without elements that are negligible next to the diagonal, and without those below the first subdiagonal.
Complex deflated(const Complex& t) {
  Num main = where(eq(row_numbers(t), column_numbers(t)), abs(t), 0);
  Num sizes = sum(main, -1, true);
  // The size of the diagonal elements of this row and the previous one; if both are zero, the size of the
  // whole matrix.
  Num before = sum(where(eq(row_numbers(t), column_numbers(t) + 1), sum(main, -2, true), 0), -1, true);
  Num scale = sizes + before;
  Num whole = sqrt(reduce("ReduceSum", square_of_abs(t), {-2, -1}, true));
  scale = where(eq(scale, 0), whole, scale);
  Num small = below_diagonal(t) <= scale * epsilon(t.re);
  Complex zero(t.re.of(0));
  Num is_below = eq(row_numbers(t), column_numbers(t) + 1);
  return where(row_numbers(t) > column_numbers(t) + 1, zero, where(is_below & small, zero, t));
}

Active active_part(const Complex& t) {
  Num rows = row_numbers(t);
  Num is_left = below_diagonal(t) > 0;
  Num high = reduce("ReduceMax", where(is_left, rows, 0), {-2}, true);
  Num ends = (!is_left) & (rows <= high);
  Num low = reduce("ReduceMax", where(ends, rows, 0), {-2}, true);
  return {low, high};
}

// Element (i, j) of each matrix; i and j are [..., 1, 1].
Complex pick(const Complex& t, const Num& i, const Num& j) {
  Num here = eq(row_numbers(t), i) & eq(column_numbers(t), j);
  return sum(sum(where(here, t, Complex(t.re.of(0))), -1, true), -2, true);
}

// The eigenvalue of the active part's last 2 x 2 block that is nearest to its last element. Every eleventh
// sweep uses another shift, to break cycles.
Complex shift_of(const Complex& t, const Active& part, const Num& sweep) {
  Num h = part.high, g = max(h - 1, 0);
  Complex a = pick(t, g, g), b = pick(t, g, h), c = pick(t, h, g), d = pick(t, h, h);
  Complex delta = (a - d) * 0.5, bc = b * c;
  Complex root = complex_sqrt(delta * delta + bc);
  Num same = delta.re * root.re + *delta.im * *root.im >= 0;
  Complex below = delta + where(same, root, -root);
  Num is_zero = eq(abs(below), 0);
  Complex shift = where(is_zero, d, d - bc / where(is_zero, Complex(t.re.of(1), t.re.of(0)), below));
  Num is_odd = eq(sweep - sweep / 11 * 11, 10);
  return where(is_odd, d + Complex(abs(c) * 0.75), shift);
}

// Rotates adjacent rows and columns once over the active part.
void sweep_once(std::vector<Complex>& state, const Num& sweep, bool with_vectors) {
  Complex t = state[0];
  Active part = active_part(t);
  Complex shift = shift_of(t, part, sweep);
  Dim steps = t.ctx().b.dims().sub(t.dim(-1), Dim::of(1));
  state = repeat(sweep.scope(), count(t, steps), state, [&](const Num& k, std::vector<Complex>& s) {
    Complex m = s[0];
    Num next = k + 1, before = max(k - 1, 0);
    Num is_first = eq(part.low, k), is_active = (part.low <= k) & (part.high > k);
    Complex lead = column(m, k), bulge = column(m, before);
    Complex x = where(is_first, row(lead, k) - shift, row(bulge, k)), y = where(is_first, row(lead, next), row(bulge, next));
    Num r = abs(Complex(abs(x), abs(y)));
    Num turns = is_active & (r > 0);
    Num safe = where(turns, r, 1);
    Complex c = where(turns, x / Complex(safe), Complex(m.re.of(1), m.re.of(0)));
    Complex sine = where(turns, y / Complex(safe), Complex(m.re.of(0), m.re.of(0)));
    Num rows = row_numbers(m), columns = column_numbers(m);
    Complex upper = row(m, k), lower = row(m, next);
    m = where(eq(rows, k), conj(c) * upper + conj(sine) * lower, where(eq(rows, next), c * lower - sine * upper, m));
    auto turn_columns = [&](const Complex& v) {
      Complex left = column(v, k), right = column(v, next);
      return where(eq(columns, k), c * left + sine * right, where(eq(columns, next), conj(c) * right - conj(sine) * left, v));
    };
    s[0] = turn_columns(m);
    if (with_vectors) s[1] = turn_columns(s[1]);
  });
  state[0] = deflated(state[0]);
}

// T, and Z with the same rotations applied; without vectors Z is T.
Schur triangularize(const Complex& x, bool with_vectors) {
  Factored f = hessenberg(x);
  Complex t = deflated(upper_triangle(f.packed, -1));
  std::vector<Complex> s{t};
  if (with_vectors) s.push_back(hessenberg_orthogonal(f));
  Dims& dims = x.ctx().b.dims();
  Value* limit = count(x, dims.mul(x.dim(-1), Dim::of(kSweepsPerRow)));
  s = loop(x.scope(), limit, any(below_diagonal(t) > 0), std::move(s), [&](const Num& sweep, std::vector<Complex>& state) {
    sweep_once(state, sweep, with_vectors);
    return any(below_diagonal(state[0]) > 0);
  });
  return {upper_triangle(s[0]), with_vectors ? s[1] : s[0]};
}

// Columns x with t x = x diag(t), for a triangular t. The result is triangular with ones on its diagonal.
Complex triangular_eigenvectors(const Complex& t, bool is_upper) {
  Complex values = unsqueeze(diagonal(t), -2);
  Dim n = t.dim(-1);
  Num last(t.scope(), count(t, t.ctx().b.dims().sub(n, Dim::of(1))));
  Num whole = reduce("ReduceMax", abs(t), {-2, -1}, true);
  // Equal eigenvalues get a difference of the size of a rounding error.
  Num least = where(eq(whole, 0), 1, whole) * epsilon(t.re);
  Complex zero(t.re.of(0));
  std::vector<Complex> s{expand(identity_like(t, n, n), t.dims())};
  s = repeat(t.scope(), count(t, n), std::move(s), [&](const Num& step, std::vector<Complex>& state) {
    Num j = is_upper ? last - step : step;
    Num rows = row_numbers(t), columns = column_numbers(t);
    Num is_behind = is_upper ? columns > j : columns < j;
    Complex line = where(is_behind, row(t, j), zero);
    Complex difference = element(t, j, j) - values;
    Num too_small = abs(difference) < least;
    difference = where(too_small, Complex(least), difference);
    Complex found = -(matmul(line, state[0]) / difference);
    state[0] = where(eq(rows, j) & is_behind, found, state[0]);
  });
  return s[0];
}

// Scales columns to length 1, with a real largest element.
Complex normalized(const Complex& v) {
  Num sizes = abs(v);
  Num largest = reduce("ReduceMax", sizes, {-2}, true);
  Complex scaled = v / Complex(largest);
  Num length = sqrt(sum(square_of_abs(scaled), -2, true));
  Num first = apply("ArgMax", {sizes}, {attr("axis", static_cast<int64_t>(v.rank()) - 2)});
  Complex lead = sum(where(eq(row_numbers(v), first), scaled, Complex(v.re.of(0))), -2, true);
  return scaled * (conj(lead) / Complex(length * abs(lead)));
}

}  // namespace

Schur schur(const Complex& x) { return triangularize(x, true); }

std::vector<Value*> lower_eig(Lowering& ctx) {
  bool left = ctx.bool_param("compute_left_eigenvectors"), right = ctx.bool_param("compute_right_eigenvectors");
  Complex a = operand(ctx, 0);
  a = Complex(a.re, a.imaginary());
  Schur s = triangularize(a, left || right);
  std::vector<Value*> results{result(ctx, diagonal(s.t), 0)};
  // y^H a = w y^H means a^H y = conj(w) y, and a^H = Z T^H Z^H.
  if (left) results.push_back(join(normalized(matmul(s.z, triangular_eigenvectors(adjoint(s.t), false)))));
  if (right) results.push_back(join(normalized(matmul(s.z, triangular_eigenvectors(s.t, true)))));
  return results;
}

}  // namespace sardonyx::jax_to_onnx
