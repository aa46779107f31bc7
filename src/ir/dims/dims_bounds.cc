// Bounds of symbolic dimensions, and comparisons based on them.
//
// The best of three methods counts: interval arithmetic; interval arithmetic after shifting every atom to
// start at zero (B*T - B becomes b*t + t with b, t >= 0); and replacing floordiv(x, d), max and min by their
// own bounds (N - floordiv(N, 2) is at least N/2).
#include <algorithm>
#include <map>
#include <numeric>

#include "ir/dims/dim_expr.h"
#include "sardonyx/dim.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

constexpr int64_t kMinusInf = Interval::kMinusInf;
constexpr int64_t kPlusInf = Interval::kPlusInf;

bool infinite(int64_t v) { return v == kMinusInf || v == kPlusInf; }

// Larger than any dimension: a bound beyond this carries no information.
constexpr int64_t kFar = int64_t{1} << 62;
int64_t saturate(int64_t v) { return v >= kFar ? kPlusInf : v <= -kFar ? kMinusInf : v; }

int64_t times(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t r;
  if (infinite(a) || infinite(b) || __builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? kPlusInf : kMinusInf;
  return saturate(r);
}

// Adds two lower (or two upper) bounds; infinities of opposite sign never meet here.
int64_t plus(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  if (infinite(b)) return b;
  return saturate(a + b);  // both are below 2^62
}

Interval operator*(Interval a, Interval b) {
  int64_t c[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

Interval operator+(Interval a, Interval b) {
  // A sum beyond the representable range is unbounded on that side, whatever was added.
  Interval r{plus(a.lo, b.lo), plus(a.hi, b.hi)};
  if (r.lo == kPlusInf) r.lo = int64_t{1} << 61;
  if (r.hi == kMinusInf) r.hi = -(int64_t{1} << 61);
  return r;
}

Interval power(Interval base, int32_t n) {
  Interval r = base;
  for (int32_t i = 1; i < n; ++i) r = r * base;
  if (n % 2 == 0) r.lo = std::max<int64_t>(r.lo, 0);
  return r;
}

// Repairs a product that overflowed towards the inside of a bound: [2^62, inf) is stored as such.
Interval sane(Interval i) {
  if (i.lo == kPlusInf) i.lo = int64_t{1} << 61;
  if (i.hi == kMinusInf) i.hi = -(int64_t{1} << 61);
  return i;
}

int64_t floor_bound(int64_t a, int64_t b) { return infinite(a) ? a : infinite(b) ? (a < 0 ? -1 : 0) : floor_div(a, b); }

Interval quotient(Interval a, Interval b) {
  if (b.hi < 0) {
    auto minus = [](int64_t v) { return v == kMinusInf ? kPlusInf : v == kPlusInf ? kMinusInf : -v; };
    a = {minus(a.hi), minus(a.lo)};
    b = {minus(b.hi), minus(b.lo)};
  }
  if (b.lo < 0) {  // the divisor is not 0, so the magnitude does not grow
    if (!a.bounded()) return {};
    int64_t m = std::max(std::abs(a.lo), std::abs(a.hi));
    return {-m, m};
  }
  b.lo = std::max<int64_t>(b.lo, 1);
  int64_t c[] = {floor_bound(a.lo, b.lo), floor_bound(a.lo, b.hi), floor_bound(a.hi, b.lo), floor_bound(a.hi, b.hi)};
  return {*std::min_element(c, c + 4), *std::max_element(c, c + 4)};
}

int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

}  // namespace

Interval Dims::Impl::atom_bounds(const DimAtom* a, int budget) {
  switch (a->kind) {
    case AtomKind::kSymbol: {
      auto it = ranges.find(a->name);
      if (it == ranges.end()) return {1, kPlusInf};
      return {it->second.min.value_or(kMinusInf), it->second.max.value_or(kPlusInf)};
    }
    case AtomKind::kFloorDiv: return quotient(poly_bounds(poly(a->lhs), budget), poly_bounds(poly(a->rhs), budget));
    case AtomKind::kMax: {
      Interval l = poly_bounds(poly(a->lhs), budget), r = poly_bounds(poly(a->rhs), budget);
      return {std::max(l.lo, r.lo), std::max(l.hi, r.hi)};
    }
    case AtomKind::kMin: {
      Interval l = poly_bounds(poly(a->lhs), budget), r = poly_bounds(poly(a->rhs), budget);
      return {std::min(l.lo, r.lo), std::min(l.hi, r.hi)};
    }
    case AtomKind::kMod: {
      Interval d = poly_bounds(poly(a->rhs), budget);
      if (d.lo > 0) return {0, d.hi == kPlusInf ? kPlusInf : d.hi - 1};
      if (d.hi < 0) return {d.lo == kMinusInf ? kMinusInf : d.lo + 1, 0};
      return {};
    }
  }
  return {};
}

Interval Dims::Impl::term_bounds(const DimTerm* t, int budget) {
  Interval r{1, 1};
  for (const DimFactor& f : t->factors) r = sane(r * sane(power(atom_bounds(f.atom, budget), f.power)));
  return r;
}

// `budget` limits the work: how many more levels may use the expensive methods.
Interval Dims::Impl::poly_bounds(const Poly& p, int budget) {
  Interval sum{0, 0};
  for (auto& [t, c] : p) sum = sum + sane(Interval{c, c} * term_bounds(t, budget > 0 ? budget - 1 : 0));
  if (sum.bounded() && sum.lo == sum.hi) return sum;
  if (budget <= 0 || p.size() < 2 || p.size() > 16) return sum;
  sum = sum.both(shifted_bounds(p, budget));
  return sum.both(split_bounds(p, budget));
}

Interval Dims::Impl::shifted_bounds(const Poly& p, int budget) {
  // Here atoms stand for their distance from a bound: v = lo + v' or v = hi - v'.
  std::map<const DimAtom*, Interval> bounds;
  auto of = [&](const DimAtom* a) {
    auto [it, fresh] = bounds.try_emplace(a);
    if (fresh) it->second = atom_bounds(a, budget - 1);
    return it->second;
  };
  Poly moved;
  try {
    for (auto& [t, c] : p) {
      Poly product{{one(), c}};
      int degree = 0;
      for (const DimFactor& f : t->factors) {
        Interval b = of(f.atom);
        const DimTerm* v = term({{f.atom, 1}});
        Poly shifted;
        if (b.lo != kMinusInf) {
          shifted = {{v, 1}, {one(), b.lo}};
        } else if (b.hi != kPlusInf) {
          shifted = {{v, -1}, {one(), b.hi}};
        } else {
          shifted = {{v, 1}};
        }
        degree += f.power;
        if (degree > 6) return {};
        for (int i = 0; i < f.power; ++i) {
          Poly next;
          for (auto& [u, d] : product)
            for (auto& [w, e] : shifted) next.emplace_back(multiply(u, w), checked_mul(d, e));
          product = normal(std::move(next));
        }
      }
      moved.insert(moved.end(), product.begin(), product.end());
      if (moved.size() > 256) return {};
    }
    moved = normal(std::move(moved));
  } catch (const Error&) {  // overflow: this method finds no bound
    return {};
  }
  Interval sum{0, 0};
  for (auto& [t, c] : moved) {
    Interval product{1, 1};
    for (const DimFactor& f : t->factors) {
      Interval b = bounds[f.atom];
      Interval distance;
      if (b.lo != kMinusInf || b.hi != kPlusInf) distance = {0, b.bounded() ? plus(b.hi, -b.lo) : kPlusInf};
      product = sane(product * sane(power(distance, f.power)));
    }
    sum = sum + sane(Interval{c, c} * product);
  }
  return sum;
}

Interval Dims::Impl::split_bounds(const Poly& p, int budget) {
  Interval best;
  int tried = 0;
  for (size_t i = 0; i < p.size() && tried < 3; ++i) {
    const auto [t, c] = p[i];
    if (t->factors.size() != 1 || t->factors[0].power != 1) continue;
    const DimAtom* a = t->factors[0].atom;
    if (a->kind == AtomKind::kSymbol || a->kind == AtomKind::kMod) continue;
    if (a->kind == AtomKind::kFloorDiv && !a->rhs.is_int()) continue;
    ++tried;
    try {
      // The sum without this term, times `scale`, plus c times `x` and `extra`.
      auto with = [&](Dim x, int64_t scale, int64_t extra) {
        Poly q;
        for (size_t j = 0; j < p.size(); ++j)
          if (j != i) q.emplace_back(p[j].first, checked_mul(p[j].second, scale));
        for (auto& [u, d] : poly(x)) q.emplace_back(u, checked_mul(d, c));
        if (extra != 0) q.emplace_back(one(), extra);
        return poly_bounds(normal(std::move(q)), budget - 1);
      };
      if (a->kind == AtomKind::kFloorDiv) {  // (x - d + 1) / d <= floordiv(x, d) <= x / d
        int64_t d = a->rhs.value();
        int64_t slack = checked_mul(c, 1 - d);
        Interval low = with(a->lhs, d, c > 0 ? slack : 0), high = with(a->lhs, d, c > 0 ? 0 : slack);
        if (low.lo != kMinusInf) best.lo = std::max(best.lo, ceil_div(low.lo, d));
        if (high.hi != kPlusInf) best.hi = std::min(best.hi, floor_div(high.hi, d));
      } else {  // max and min equal one operand, and bound the other
        Interval l = with(a->lhs, 1, 0), r = with(a->rhs, 1, 0);
        Interval either{std::min(l.lo, r.lo), std::max(l.hi, r.hi)};
        if ((a->kind == AtomKind::kMax) == (c > 0)) {
          either.lo = std::max(l.lo, r.lo);
        } else {
          either.hi = std::min(l.hi, r.hi);
        }
        best = best.both(either);
      }
    } catch (const Error&) {  // overflow: this method finds no bound
    }
  }
  return best;
}

Interval Dims::Impl::bounds(Dim d) {
  if (d.is_int()) return {d.value(), d.value()};
  const DimExpr* e = d.expr();
  if (e->bounds_version != ranges_version) {
    Interval i = poly_bounds(e->terms, 3);
    Poly shorter = pretty(e->terms);
    if (shorter.size() < e->terms.size()) i = i.both(poly_bounds(shorter, 3));
    e->lo = i.lo;
    e->hi = i.hi;
    e->bounds_version = ranges_version;
  }
  return {e->lo, e->hi};
}

Compare Dims::compare(Dim a, Dim b) const {
  if (a == b) return Compare::kEqual;
  if (a.is_unknown() || b.is_unknown()) return Compare::kUnknown;
  if (a.is_int() && b.is_int()) return Compare::kDifferent;
  Dim gap;
  try {
    gap = impl_->add(a, b, -1);
  } catch (const Error&) {  // too large to subtract
    return Compare::kUnknown;
  }
  if (gap.is_int()) return gap.is(0) ? Compare::kEqual : Compare::kDifferent;
  Interval i = impl_->bounds(gap);
  if (i.lo > 0 || i.hi < 0) return Compare::kDifferent;
  if (i.lo == 0 && i.hi == 0) return Compare::kEqual;
  // 2*a + 4*b never equals an odd number.
  int64_t g = 0;
  for (auto& [t, c] : gap.expr()->terms)
    if (t != impl_->one()) g = std::gcd(g, c);
  return constant_of(gap.expr()->terms) % g != 0 ? Compare::kDifferent : Compare::kUnknown;
}

bool Dims::less_equal(Dim a, Dim b) {
  if (a.is_unknown() || b.is_unknown()) return a == b;
  try {
    return impl_->bounds(impl_->add(b, a, -1)).lo >= 0;
  } catch (const Error&) {
    return false;
  }
}

bool Dims::less(Dim a, Dim b) {
  if (a.is_unknown() || b.is_unknown()) return false;
  try {
    return impl_->bounds(impl_->add(b, a, -1)).lo > 0;
  } catch (const Error&) {
    return false;
  }
}

DimRange Dims::range(Dim d) const {
  if (d.is_unknown()) return {};
  Interval i = impl_->bounds(d);
  DimRange r;
  if (i.lo != kMinusInf) r.min = i.lo;
  if (i.hi != kPlusInf) r.max = i.hi;
  return r;
}

void Dims::set_range(std::string_view symbol, DimRange range) {
  if (range.min && range.max && *range.min > *range.max)
    throw Error(ErrorCode::kInvalidArgument, "the range of '" + std::string(symbol) + "' is empty: its least size is " +
                                                 std::to_string(*range.min) + ", its largest " + std::to_string(*range.max));
  impl_->ranges.insert_or_assign(std::string(symbol), range);
  ++impl_->ranges_version;
}

DimRange Dims::symbol_range(std::string_view symbol) const {
  auto it = impl_->ranges.find(symbol);
  return it == impl_->ranges.end() ? DimRange{.min = 1, .max = {}} : it->second;
}

bool Dims::has_range(std::string_view symbol) const { return impl_->ranges.contains(symbol); }

}  // namespace sardonyx
