// erf x       =>   Erf(x)
// erfc x      =>   1 - Erf(x) if all users are products, as in gelu; else that below 1,
//                  and above exp(-x^2) p(1/x^2) / x, p one of two polynomials of Cephes (S. Moshier, ndtrf.c)
// erf_inv x   =>   x p(w), w = -log1p(-x^2), p one of two polynomials: in w - 2.5; from w = 5 on in sqrt(w) - 3
//
// In a product, the digits that 1 - Erf(x) loses lie below the last bit of the other factor. The polynomials
// of erf_inv are those of M. Giles, "Approximating the erfinv function" (GPU Computing Gems, 2011), accurate
// to f32; XLA uses them too. In f64, where runtimes have no Erf, erf and erfc are the rational approximations
// of FreeBSD's s_erf.c (Sun Microsystems 1993), and erf_inv takes two Newton steps on erfc from the f32
// value.
#include <cmath>
#include <limits>
#include <numbers>

#include "lower/jax_to_onnx/special/special.h"

namespace sardonyx::jax_to_onnx {
namespace {

struct Erf {
  Value* erf;
  Value* erfc;
};

Value* ratio(Lowering& ctx, Value* x, std::initializer_list<double> p, std::initializer_list<double> q) {
  return ctx.b.Div(polynomial(ctx, x, p), polynomial(ctx, x, q));
}

// Both functions of a = |x|.
Erf erf_of_magnitude(Lowering& ctx, Value* a) {
  OnnxBuilder& b = ctx.b;
  auto c = [&](double v) { return ctx.like(a, v); };
  Value* one = c(1);
  Value* square = b.Mul(a, a);

  // a < 0.84375
  Value* near_zero =
      b.Add(a, b.Mul(a, ratio(ctx, square,
                              {1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
                               -5.77027029648944159157e-03, -2.37630166566501626084e-05},
                              {1, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
                               1.32494738004321644526e-04, -3.96022827877536812320e-06})));
  // a < 1.25
  Value* near_one =
      ratio(ctx, b.Sub(a, one),
            {-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
             -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03},
            {1, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02, 1.26171219808761642112e-01,
             1.36370839120290507362e-02, 1.19844998467991074170e-02});
  constexpr double kErfOne = 8.45062911510467529297e-01;
  Value* erf_near_one = b.Add(near_one, c(kErfOne));
  Value* erfc_near_one = b.Sub(c(1 - kErfOne), near_one);

  // above: exp(-a^2) r(1/a^2) / a; the leading bits of a make the square exact
  Value* far = b.Clip(a, c(1), c(40));
  Value* inverse = b.Reciprocal(b.Mul(far, far));
  Value* middle = ratio(
      ctx, inverse,
      {-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01, -6.23753324503260060396e+01,
       -1.62396669462573470355e+02, -1.84605092906711035994e+02, -8.12874355063065934246e+01, -9.81432934416914548592e+00},
      {1, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02, 6.45387271733267880336e+02,
       4.29008140027567833386e+02, 1.08635005541779435134e+02, 6.57024977031928170135e+00, -6.04244152148580987438e-02});
  Value* outer =
      ratio(ctx, inverse,
            {-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01, -1.60636384855821916062e+02,
             -6.37566443368389627722e+02, -1.02509513161107724954e+03, -4.83519191608651397019e+02},
            {1, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03, 3.19985821950859553908e+03,
             2.55305040643316442583e+03, 4.74528541206955367215e+02, -2.24409524465858183362e+01});
  Value* rest = b.Where(b.Less(far, c(1 / 0.35)), middle, outer);
  Value* lead = ctx.cast(ctx.cast(far, DType::kF32), DType::kF64);
  Value* exponent = b.Add(b.Mul(b.Sub(lead, far), b.Add(lead, far)), rest);
  Value* tail = b.Div(b.Mul(b.Exp(b.Sub(c(-0.5625), b.Mul(lead, lead))), b.Exp(exponent)), far);

  Value *is_near_zero = b.Less(a, c(0.84375)), *is_near_one = b.Less(a, c(1.25));
  Value* erfc = b.Where(is_near_zero, b.Sub(one, near_zero), b.Where(is_near_one, erfc_near_one, tail));
  Value* erf = b.Where(is_near_zero, near_zero, b.Where(is_near_one, erf_near_one, b.Sub(one, tail)));
  // Comparisons with NaN are false, and Clip may have replaced it.
  Value* nan = b.IsNaN(a);
  return {b.Where(nan, a, erf), b.Where(nan, a, erfc)};
}

}  // namespace

Value* erf_f64(Lowering& ctx, Value* x) { return ctx.b.Mul(erf_of_magnitude(ctx, ctx.b.Abs(x)).erf, ctx.b.Sign(x)); }

Value* erfc_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* upper = erf_of_magnitude(ctx, b.Abs(x)).erfc;
  return b.Where(b.Less(x, ctx.like(x, 0)), b.Sub(ctx.like(x, 2), upper), upper);
}

std::vector<Value*> lower_erf(Lowering& ctx) {
  Value* x = ctx.operands()[0];
  if (x->dtype() == DType::kF64) return {erf_f64(ctx, x)};
  return {ctx.via("Erf", {x})};
}

namespace {

// Whether all users are products. Products with an exponential (as in erfcx) do not count: they magnify what
// erfc has lost.
bool feeds_products_only(const Value& v) {
  for (const Use& u : v.uses()) {
    if (!u.owner->is("mul")) return false;
    const Node* other = u.owner->input(1 - u.owner->operand_index(u))->def();
    if (other != nullptr && (other->is("exp") || other->is("exp2"))) return false;
  }
  return true;
}

// exp(-a^2) as the product of two: from the leading 12 bits of a, whose square is exact, and from the rest.
Value* exp_of_minus_square(Lowering& ctx, Value* a) {
  OnnxBuilder& b = ctx.b;
  Value* spread = b.Mul(a, ctx.like(a, 4097));
  Value* lead = b.Sub(spread, b.Sub(spread, a));
  Value* rest = b.Mul(b.Sub(lead, a), b.Add(lead, a));
  return b.Mul(b.Exp(b.Neg(b.Mul(lead, lead))), b.Exp(rest));
}

Value* erfc_f32(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value *one = ctx.like(x, 1), *two = ctx.like(x, 2);
  Value* a = b.Clip(b.Abs(x), one, ctx.like(x, 16));
  Value* inverse = b.Reciprocal(a);
  Value* square = b.Mul(inverse, inverse);
  Value* middle = polynomial(
      ctx, square,
      {5.638259427386472e-1, -2.741127028184656e-1, 3.404879937665872e-1, -4.944515323274145e-1, 6.210004621745983e-1,
       -5.824733027278666e-1, 3.687424674597105e-1, -1.387039388740657e-1, 2.326819970068386e-2});
  Value* outer = polynomial(ctx, square,
                            {5.641895067754075e-1, -2.820767439740514e-1, 4.218463358204948e-1, -1.015265279202700e+0,
                             2.921019019210786e+0, -7.495518717768503e+0, 1.297719955372516e+1, -1.047766399936249e+1});
  Value* tail = b.Mul(b.Mul(exp_of_minus_square(ctx, a), inverse), b.Where(b.Less(a, two), middle, outer));
  // NaN is not greater than 1 and takes the second branch, in which Erf keeps it.
  return b.Where(b.Greater(x, one), tail, b.Sub(one, b.Erf(x)));
}

}  // namespace

std::vector<Value*> lower_erfc(Lowering& ctx) {
  OnnxBuilder& b = ctx.b;
  Value* x = ctx.operands()[0];
  if (x->dtype() == DType::kF64) return {erfc_f64(ctx, x)};
  bool is_short = feeds_products_only(*ctx.node.result());
  return {ctx.via({"Erf"}, x, [&](Value* v) { return is_short ? b.Sub(ctx.like(v, 1), b.Erf(v)) : erfc_f32(ctx, v); })};
}

namespace {

// Giles' approximation, in the dtype of x.
Value* erf_inv_f32(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* w = b.Neg(log1p(ctx, b.Neg(b.Mul(x, x))));
  Value* center = polynomial(ctx, b.Sub(w, ctx.like(x, 2.5)),
                             {1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06,
                              -3.5233877e-06, 3.43273939e-07, 2.81022636e-08});
  Value* tail = polynomial(ctx, b.Sub(b.Sqrt(w), ctx.like(x, 3)),
                           {2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
                            0.000100950558, -0.000200214257});
  // At +-1 the logarithm is infinite, and so is the result.
  Value* p = b.Where(b.Less(w, ctx.like(x, 5)), center, tail);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return b.Mul(x, b.Where(b.Equal(b.Abs(x), ctx.like(x, 1)), ctx.like(x, kInfinity), p));
}

// Newton: y += (|x| - erf(y)) sqrt(pi)/2 exp(y^2). Near 1 the difference is taken between the complements,
// which keep their digits there.
Value* erf_inv_f64(Lowering& ctx, Value* x) {
  OnnxBuilder& b = ctx.b;
  Value* a = b.Abs(x);
  Value* wanted = b.Sub(ctx.like(x, 1), a);
  Value* start = erf_inv_f32(ctx, a);
  Value* y = start;
  for (int step = 0; step < 2; ++step) {
    Erf found = erf_of_magnitude(ctx, y);
    Value* excess = b.Where(b.Less(a, ctx.like(x, 0.5)), b.Sub(a, found.erf), b.Sub(found.erfc, wanted));
    Value* slope = b.Mul(b.Exp(b.Mul(y, y)), ctx.like(x, std::sqrt(std::numbers::pi) / 2));
    y = b.Add(y, b.Mul(excess, slope));
  }
  Value* inside = b.Less(a, ctx.like(x, 1));
  return b.Mul(b.Where(inside, y, start), b.Sign(x));
}

}  // namespace

Value* erf_inv(Lowering& ctx, Value* x) { return x->dtype() == DType::kF64 ? erf_inv_f64(ctx, x) : erf_inv_f32(ctx, x); }

std::vector<Value*> lower_erf_inv(Lowering& ctx) {
  return {ctx.via({"Log", "Sqrt", "Where"}, ctx.operands()[0], [&](Value* v) { return erf_inv(ctx, v); })};
}

}  // namespace sardonyx::jax_to_onnx
