// Dims: interning and exact arithmetic on symbolic dimensions. Bounds are in dims_bounds.cc, text in
// dims_text.cc.
#include "sardonyx/dim.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "ir/dims/dim_expr.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

constexpr int64_t kDimLimit = int64_t{1} << 61;
// Expressions beyond these limits are useless; they come from hostile files or from a rule that loops.
constexpr size_t kMaxTerms = 4096;
constexpr uint32_t kMaxNodes = 1u << 16;
constexpr uint32_t kMaxDepth = 200;
constexpr int32_t kMaxPower = 1024;

constexpr uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

uint64_t saturating_add(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }
uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t r;
  return __builtin_mul_overflow(a, b, &r) ? UINT64_MAX : r;
}

int sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

std::string_view op_name(AtomKind k) {
  switch (k) {
    case AtomKind::kFloorDiv: return "floordiv";
    case AtomKind::kMax: return "max";
    case AtomKind::kMin: return "min";
    case AtomKind::kMod: return "mod";
    case AtomKind::kSymbol: break;
  }
  return "";
}

uint64_t size_of(Dim d) { return d.is_expr() ? d.expr()->size : 1; }
uint32_t nodes_of(Dim d) { return d.is_expr() ? d.expr()->nodes : 1; }
uint32_t depth_of(Dim d) { return d.is_expr() ? d.expr()->depth : 0; }

// Lexicographic by the largest atom, its power first. Unlike the printing order, multiplication preserves it,
// which polynomial division requires.
int compare_for_division(const DimTerm* a, const DimTerm* b) {
  size_t i = a->factors.size(), j = b->factors.size();
  while (i > 0 && j > 0) {
    const DimFactor &f = a->factors[i - 1], &g = b->factors[j - 1];
    if (int c = f.atom == g.atom ? 0 : compare_atoms(f.atom, g.atom)) return c;
    if (int c = sign(f.power, g.power)) return c;
    --i, --j;
  }
  return sign(i, j);
}

const std::pair<const DimTerm*, int64_t>& leading(const Poly& p) {
  return *std::max_element(p.begin(), p.end(), [](auto& a, auto& b) { return compare_for_division(a.first, b.first) < 0; });
}

// The only term with floordivs, if there is exactly one and it is ±floordiv(x, integer).
const std::pair<const DimTerm*, int64_t>* stacked_floordiv(const Poly& p) {
  const std::pair<const DimTerm*, int64_t>* found = nullptr;
  for (auto& term : p) {
    const std::vector<DimFactor>& f = term.first->factors;
    if (std::none_of(f.begin(), f.end(), [](const DimFactor& x) { return x.atom->kind == AtomKind::kFloorDiv; })) continue;
    bool plain = f.size() == 1 && f[0].power == 1 && f[0].atom->rhs.is_int() && std::abs(term.second) == 1;
    if (found != nullptr || !plain) return nullptr;
    found = &term;
  }
  return found;
}

}  // namespace

void dim_overflow() {
  throw Error(ErrorCode::kLimit, "a dimension is too large: its size must stay below 2^61",
              {"help: check the shapes that were multiplied"});
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) dim_overflow();
  return r;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) dim_overflow();
  return r;
}

int64_t floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t constant_of(const Poly& p) {
  for (auto& [t, c] : p)
    if (t->factors.empty()) return c;
  return 0;
}

int compare_atoms(const DimAtom* a, const DimAtom* b) {
  if (a == b) return 0;
  if (int c = sign(a->size, b->size)) return c;
  if (a->kind == AtomKind::kSymbol && b->kind == AtomKind::kSymbol) return a->name.compare(b->name);
  if (int c = op_name(a->kind).compare(op_name(b->kind))) return c;
  if (int c = compare_dims(a->lhs, b->lhs)) return c;
  return compare_dims(a->rhs, b->rhs);
}

int compare_terms(const DimTerm* a, const DimTerm* b) {
  if (a == b) return 0;
  if (int c = sign(a->size, b->size)) return c;
  size_t n = std::min(a->factors.size(), b->factors.size());
  for (size_t i = 0; i < n; ++i) {
    if (int c = compare_atoms(a->factors[i].atom, b->factors[i].atom)) return c;
    if (int c = sign(a->factors[i].power, b->factors[i].power)) return c;
  }
  return sign(a->factors.size(), b->factors.size());
}

int compare_dims(Dim a, Dim b) {
  if (a == b) return 0;
  if (int c = sign(size_of(a), size_of(b))) return c;
  if (a.is_int() && b.is_int()) return sign(a.value(), b.value());
  if (a.is_int() || b.is_int()) return a.is_int() ? -1 : 1;
  const Poly &p = a.expr()->terms, &q = b.expr()->terms;
  size_t n = std::min(p.size(), q.size());
  for (size_t i = 0; i < n; ++i) {
    if (int c = compare_terms(p[i].first, q[i].first)) return c;
    if (int c = sign(p[i].second, q[i].second)) return c;
  }
  return sign(p.size(), q.size());
}

// ---------------------------------------------------------------------------------------------------------------------
// Interning

Dims::Impl::Impl() {
  terms_.push_back({});
  one_ = &terms_.back();
  term_index_.emplace(0, one_);
  // Unknowns of different tables differ, so an unknown that moves to another model keeps its word.
  static std::atomic<uint64_t> tables{0};
  unknown_base_ = (tables.fetch_add(1, std::memory_order_relaxed) & ((1u << 28) - 1)) << 32;
}

Dim Dims::Impl::unknown() {
  if (unknown_count_ >> 32 != 0) throw Error(ErrorCode::kLimit, "more than 2^32 unknown dimensions in one model");
  return Dim::unknown(unknown_base_ | unknown_count_++);
}

const DimAtom* Dims::Impl::symbol_atom(std::string_view name) {
  if (auto it = symbols_.find(name); it != symbols_.end()) return it->second;
  if (name.empty()) throw Error(ErrorCode::kInvalidArgument, "a symbolic dimension needs a name");
  DimAtom& a = atoms_.emplace_back();
  a.name = name;
  symbols_.emplace(a.name, &a);
  return &a;
}

const DimAtom* Dims::Impl::op_atom(AtomKind kind, Dim lhs, Dim rhs) {
  uint64_t h = mix(mix(static_cast<uint64_t>(kind), lhs.word()), rhs.word());
  auto [first, last] = op_index_.equal_range(h);
  for (; first != last; ++first)
    if (const DimAtom* a = first->second; a->kind == kind && a->lhs == lhs && a->rhs == rhs) return a;
  DimAtom made;
  made.kind = kind;
  made.lhs = lhs;
  made.rhs = rhs;
  made.size = saturating_add(1, saturating_add(size_of(lhs), size_of(rhs)));
  made.nodes = 1 + nodes_of(lhs) + nodes_of(rhs);
  made.depth = 1 + std::max(depth_of(lhs), depth_of(rhs));
  if (made.nodes > kMaxNodes || made.depth > kMaxDepth)
    throw Error(ErrorCode::kLimit, "a symbolic dimension grew beyond " + std::to_string(kMaxNodes) + " parts or " +
                                       std::to_string(kMaxDepth) + " levels");
  const DimAtom* a = &atoms_.emplace_back(std::move(made));
  op_index_.emplace(h, a);
  return a;
}

const DimTerm* Dims::Impl::term(std::vector<DimFactor> factors) {
  std::sort(factors.begin(), factors.end(),
            [](const DimFactor& a, const DimFactor& b) { return compare_atoms(a.atom, b.atom) < 0; });
  size_t n = 0;
  for (const DimFactor& f : factors) {
    if (n > 0 && factors[n - 1].atom == f.atom) {
      factors[n - 1].power += f.power;
    } else {
      factors[n++] = f;
    }
  }
  factors.resize(n);
  uint64_t h = 0, size = 0;
  for (const DimFactor& f : factors) {
    if (f.power > kMaxPower) throw Error(ErrorCode::kLimit, "a symbolic dimension has a power above 1024");
    h = mix(mix(h, reinterpret_cast<uintptr_t>(f.atom)), static_cast<uint64_t>(f.power));
    size = saturating_add(size, saturating_add(1, saturating_mul(static_cast<uint64_t>(f.power), f.atom->size)));
  }
  auto [first, last] = term_index_.equal_range(h);
  for (; first != last; ++first)
    if (first->second->factors == factors) return first->second;
  const DimTerm* t = &terms_.emplace_back(DimTerm{std::move(factors), size});
  term_index_.emplace(h, t);
  return t;
}

Poly Dims::Impl::normal(Poly p) const {
  std::sort(p.begin(), p.end(), [](auto& a, auto& b) { return compare_terms(a.first, b.first) > 0; });
  size_t n = 0;
  for (size_t i = 0; i < p.size();) {
    const DimTerm* t = p[i].first;
    int64_t sum = p[i].second;
    for (++i; i < p.size() && p[i].first == t; ++i) sum = checked_add(sum, p[i].second);
    if (sum != 0) p[n++] = {t, sum};
  }
  p.resize(n);
  return p;
}

Dim Dims::Impl::make(Poly p) {
  p = normal(std::move(p));
  if (p.empty()) return Dim::of(0);
  if (p.size() == 1 && p[0].first == one_) return Dim::of(p[0].second);
  if (p.size() > kMaxTerms) throw Error(ErrorCode::kLimit, "a symbolic dimension has more than 4096 terms");
  uint64_t h = 1, size = 0, nodes = 0;
  uint32_t depth = 0;
  for (auto& [t, c] : p) {
    if (c >= kDimLimit || c <= -kDimLimit) dim_overflow();
    h = mix(mix(h, reinterpret_cast<uintptr_t>(t)), static_cast<uint64_t>(c));
    uint64_t magnitude = static_cast<uint64_t>(c < 0 ? -c : c);
    size = saturating_add(size, saturating_add(1, saturating_mul(magnitude, t->size)));
    nodes += 1;
    for (const DimFactor& f : t->factors) {
      nodes += f.atom->nodes;
      depth = std::max(depth, f.atom->depth);
    }
  }
  if (nodes > kMaxNodes) throw Error(ErrorCode::kLimit, "a symbolic dimension grew beyond 65536 parts");
  auto [first, last] = expr_index_.equal_range(h);
  for (; first != last; ++first)
    if (first->second->terms == p) return Dim::expr(first->second);
  DimExpr& e = exprs_.emplace_back();
  e.terms = std::move(p);
  e.size = size;
  e.nodes = static_cast<uint32_t>(nodes);
  e.depth = depth;
  expr_index_.emplace(h, &e);
  return Dim::expr(&e);
}

// ---------------------------------------------------------------------------------------------------------------------
// Arithmetic

Poly Dims::Impl::poly(Dim d) const {
  if (d.is_expr()) return d.expr()->terms;
  if (d.value() == 0) return {};
  return {{one_, d.value()}};
}

Dim Dims::Impl::add(Dim a, Dim b, int64_t factor_of_b) {
  if (a.is_int() && b.is_int()) return Dim::of(checked_add(a.value(), checked_mul(b.value(), factor_of_b)));
  Poly p = poly(a);
  for (auto& [t, c] : poly(b)) p.emplace_back(t, checked_mul(c, factor_of_b));
  return make(std::move(p));
}

const DimTerm* Dims::Impl::multiply(const DimTerm* a, const DimTerm* b) {
  if (a == one_) return b;
  if (b == one_) return a;
  std::vector<DimFactor> f = a->factors;
  f.insert(f.end(), b->factors.begin(), b->factors.end());
  return term(std::move(f));
}

const DimTerm* Dims::Impl::divide(const DimTerm* a, const DimTerm* b) {
  std::vector<DimFactor> f = a->factors;
  for (const DimFactor& g : b->factors) {
    auto it = std::find_if(f.begin(), f.end(), [&](const DimFactor& x) { return x.atom == g.atom; });
    if (it == f.end() || it->power < g.power) return nullptr;
    it->power -= g.power;
    if (it->power == 0) f.erase(it);
  }
  return term(std::move(f));
}

Dim Dims::Impl::mul(Dim a, Dim b) {
  if (a.is_int() && b.is_int()) return Dim::of(checked_mul(a.value(), b.value()));
  Poly p = poly(a), q = poly(b), r;
  if (p.size() * q.size() > kMaxTerms) throw Error(ErrorCode::kLimit, "a symbolic dimension has more than 4096 terms");
  r.reserve(p.size() * q.size());
  for (auto& [t, c] : p)
    for (auto& [u, d] : q) r.emplace_back(multiply(t, u), checked_mul(c, d));
  return make(std::move(r));
}

std::optional<Dim> Dims::Impl::divide_exactly(Dim a, Dim b) {
  if (b.is(0)) return std::nullopt;
  if (a.is_int() && b.is_int()) {
    if (a.value() % b.value() != 0) return std::nullopt;
    return Dim::of(a.value() / b.value());
  }
  if (a == b) return Dim::of(1);
  Poly rest = poly(a), divisor = poly(b), quotient;
  if (rest.empty()) return Dim::of(0);
  const auto [lead, factor] = leading(divisor);
  // Each step removes the leading term of the remainder, and all new terms are smaller.
  for (int step = 0; !rest.empty(); ++step) {
    if (step > 1000) return std::nullopt;
    const auto [t, c] = leading(rest);
    const DimTerm* q = divide(t, lead);
    if (q == nullptr || c % factor != 0) return std::nullopt;
    int64_t k = c / factor;
    quotient.emplace_back(q, k);
    for (auto& [u, d] : divisor) rest.emplace_back(multiply(q, u), checked_mul(-k, d));
    rest = normal(std::move(rest));
  }
  return make(std::move(quotient));
}

// floor(a / d), d > 0.
Dim Dims::Impl::floordiv_int(const Poly& a, int64_t d) {
  if (d == 1) return make(a);
  // floor((±floor(x/e) + y) / d) = floor((±x [+ e-1] + e*y) / (e*d)): stacked strides become one division.
  if (const auto* stacked = stacked_floordiv(a)) {
    const auto [only, only_factor] = *stacked;
    const DimAtom* q = only->factors[0].atom;
    int64_t e = q->rhs.value();
    Poly inner;
    for (auto& [t, c] : poly(q->lhs)) inner.emplace_back(t, checked_mul(c, only_factor));
    if (only_factor < 0) inner.emplace_back(one_, e - 1);
    for (auto& [t, c] : a)
      if (t != only) inner.emplace_back(t, checked_mul(c, e));
    return floordiv_int(normal(std::move(inner)), checked_mul(d, e));
  }

  // A division with equal results at both bounds is an integer. Tried on each form, because one form may have
  // tighter bounds.
  auto settled = [&](const Poly& x) -> std::optional<int64_t> {
    Interval i = poly_bounds(x, 2);
    if (!i.bounded() || floor_div(i.lo, d) != floor_div(i.hi, d)) return std::nullopt;
    return floor_div(i.lo, d);
  };
  if (auto v = settled(a)) return Dim::of(*v);

  Poly quotient, rest;
  int64_t g = d;  // gcd of the divisor and the coefficients, without the constant
  for (auto& [t, c] : a) {
    int64_t q = floor_div(c, d), r = c - q * d;
    if (q != 0) quotient.emplace_back(t, q);
    if (r != 0) rest.emplace_back(t, r);
    if (t != one_) g = std::gcd(g, r);
  }
  if (g > 1) {
    for (auto& [t, c] : rest) c = floor_div(c, g);
    rest = normal(std::move(rest));
    d /= g;
  }
  if (d == 1 || rest.empty() || (rest.size() == 1 && rest[0].first == one_)) {
    if (d == 1) quotient.insert(quotient.end(), rest.begin(), rest.end());
    return make(std::move(quotient));
  }
  if (auto v = settled(rest)) {
    quotient.emplace_back(one_, *v);
    return make(std::move(quotient));
  }
  // floor(x/d) = -floor((d-1-x)/d): keep the form with the smaller coefficients.
  int flip = 0;
  for (auto& [t, c] : rest) {
    if (t == one_) continue;
    flip = sign(c, d - c);
    if (flip != 0) break;
  }
  int64_t k = constant_of(rest);
  if (flip == 0) flip = sign(k, d - 1 - k);
  if (flip <= 0) {
    if (stacked_floordiv(rest)) return add(make(std::move(quotient)), floordiv_int(rest, d));
    quotient.emplace_back(term({{op_atom(AtomKind::kFloorDiv, make(std::move(rest)), Dim::of(d)), 1}}), 1);
    return make(std::move(quotient));
  }
  Poly mirrored;
  for (auto& [t, c] : rest) {
    if (t == one_) continue;
    mirrored.emplace_back(t, d - c);
    quotient.emplace_back(t, 1);
  }
  if (d - 1 - k != 0) mirrored.emplace_back(one_, d - 1 - k);
  if (auto v = settled(mirrored)) {
    quotient.emplace_back(one_, -*v);
    return make(std::move(quotient));
  }
  if (stacked_floordiv(mirrored)) return add(make(std::move(quotient)), floordiv_int(normal(std::move(mirrored)), d), -1);
  quotient.emplace_back(term({{op_atom(AtomKind::kFloorDiv, make(std::move(mirrored)), Dim::of(d)), 1}}), -1);
  return make(std::move(quotient));
}

Dim Dims::Impl::floordiv(Dim a, Dim b) {
  if (b.is(0)) throw Error(ErrorCode::kInvalidArgument, "a dimension is divided by zero");
  if (a.is_int() && b.is_int()) return Dim::of(floor_div(a.value(), b.value()));
  if (b.is_int()) {
    if (b.value() > 0) return floordiv_int(poly(a), b.value());
    return floordiv_int(poly(mul(a, Dim::of(-1))), -b.value());
  }
  if (auto exact = divide_exactly(a, b)) return *exact;
  Poly p = poly(a), d = poly(b);
  if (leading(d).second < 0) {
    for (auto& [t, c] : p) c = -c;
    for (auto& [t, c] : d) c = -c;
  }
  // Terms divisible by a one-term divisor leave the division.
  Poly quotient;
  if (d.size() == 1) {
    Poly rest;
    for (auto& [t, c] : p) {
      const DimTerm* q = divide(t, d[0].first);
      int64_t k = q ? floor_div(c, d[0].second) : 0;
      if (k != 0) quotient.emplace_back(q, k);
      if (c - k * d[0].second != 0) rest.emplace_back(t, c - k * d[0].second);
    }
    p = std::move(rest);
    if (p.empty()) return make(std::move(quotient));
  }
  // A factor common to all terms of both sides is not zero wherever the division is defined, so it cancels.
  std::vector<DimFactor> common = d[0].first->factors;
  int64_t content = 0;
  for (const Poly* side : {&p, &d}) {
    for (auto& [t, c] : *side) {
      content = std::gcd(content, c);
      for (DimFactor& f : common) {
        auto it = std::find_if(t->factors.begin(), t->factors.end(), [&](const DimFactor& x) { return x.atom == f.atom; });
        f.power = it == t->factors.end() ? 0 : std::min(f.power, it->power);
      }
    }
  }
  std::erase_if(common, [](const DimFactor& f) { return f.power == 0; });
  if (content > 1 || !common.empty()) {
    const DimTerm* m = term(common);
    for (Poly* side : {&p, &d})
      for (auto& [t, c] : *side) t = divide(t, m), c /= content;
    quotient.emplace_back(one_, 0);
    Dim rest = floordiv(make(p), make(d));
    return add(make(std::move(quotient)), rest);
  }
  Interval denominator = poly_bounds(d, 2), numerator = poly_bounds(p, 2);
  if (denominator.lo > 0) {
    Poly gap = d;  // d - p
    for (auto& [t, c] : p) gap.emplace_back(t, -c);
    if (numerator.lo >= 0 && poly_bounds(normal(std::move(gap)), 2).lo > 0) return make(std::move(quotient));
  }
  quotient.emplace_back(term({{op_atom(AtomKind::kFloorDiv, make(std::move(p)), make(std::move(d))), 1}}), 1);
  return make(std::move(quotient));
}

Dim Dims::Impl::extreme(AtomKind kind, Dim a, Dim b) {
  // Flatten nested max(max(a, b), c), sort the operands, and drop those that another one dominates.
  std::vector<Dim> all;
  auto gather = [&](auto& self, Dim d) -> void {
    if (d.is_expr() && d.expr()->terms.size() == 1 && d.expr()->terms[0].second == 1) {
      const DimTerm* t = d.expr()->terms[0].first;
      if (t->factors.size() == 1 && t->factors[0].power == 1 && t->factors[0].atom->kind == kind) {
        self(self, t->factors[0].atom->lhs);
        self(self, t->factors[0].atom->rhs);
        return;
      }
    }
    all.push_back(d);
  };
  gather(gather, a);
  gather(gather, b);
  // Symbols before expressions, integers last.
  std::sort(all.begin(), all.end(), [](Dim x, Dim y) {
    if (x.is_int() != y.is_int()) return y.is_int();
    return compare_dims(x, y) < 0;
  });
  std::vector<Dim> kept;
  for (Dim d : all) {
    bool dominated = false;
    for (size_t i = 0; i < kept.size() && !dominated;) {
      Interval gap = bounds(add(d, kept[i], -1));  // d - kept
      if (kind == AtomKind::kMin)
        gap = {gap.hi == Interval::kPlusInf ? Interval::kMinusInf : -gap.hi,
               gap.lo == Interval::kMinusInf ? Interval::kPlusInf : -gap.lo};
      if (gap.hi <= 0)
        dominated = true;
      else if (gap.lo >= 0)
        kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    }
    if (!dominated) kept.push_back(d);
  }
  Dim result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = of_atom(op_atom(kind, result, kept[i]));
  return result;
}

// ---------------------------------------------------------------------------------------------------------------------
// Public functions

Dim Dim::of(int64_t value) {
  if (value >= kDimLimit || value <= -kDimLimit) dim_overflow();
  return Dim((static_cast<uint64_t>(value) << 2) | 1);
}

Dims::Dims() : impl_(std::make_unique<Impl>()) {}
Dims::~Dims() = default;

Dim Dims::symbol(std::string_view name) { return impl_->of_atom(impl_->symbol_atom(name)); }
Dim Dims::fresh_unknown() { return impl_->unknown(); }

Dim Dims::add(Dim a, Dim b) {
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  if (a.is_unknown() || b.is_unknown()) return fresh_unknown();
  return impl_->add(a, b);
}

Dim Dims::sub(Dim a, Dim b) {
  if (b.is(0)) return a;
  if (a.is_unknown() || b.is_unknown()) return a == b ? Dim::of(0) : fresh_unknown();
  return impl_->add(a, b, -1);
}

Dim Dims::mul(Dim a, Dim b) {
  if (a.is(0) || b.is(0)) return Dim::of(0);
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  if (a.is_unknown() || b.is_unknown()) return fresh_unknown();
  return impl_->mul(a, b);
}

Dim Dims::floordiv(Dim a, Dim b) {
  if (b.is(1)) return a;
  if (a.is_unknown() || b.is_unknown()) {
    if (b.is(0)) throw Error(ErrorCode::kInvalidArgument, "a dimension is divided by zero");
    return fresh_unknown();
  }
  return impl_->floordiv(a, b);
}

Dim Dims::mod(Dim a, Dim b) { return b.is(1) ? Dim::of(0) : sub(a, mul(b, floordiv(a, b))); }

Dim Dims::max(Dim a, Dim b) {
  if (a == b) return a;
  if (a.is_unknown() || b.is_unknown()) return fresh_unknown();
  return impl_->extreme(AtomKind::kMax, a, b);
}

Dim Dims::min(Dim a, Dim b) {
  if (a == b) return a;
  if (a.is_unknown() || b.is_unknown()) return fresh_unknown();
  return impl_->extreme(AtomKind::kMin, a, b);
}

Dim Dims::ceildiv(Dim a, Dim b) {
  if (b.is(1)) return a;
  return sub(Dim::of(0), floordiv(sub(Dim::of(0), a), b));
}

std::optional<Dim> Dims::divide_exactly(Dim a, Dim b) {
  if (b.is(1)) return a;
  if (a.is_unknown() || b.is_unknown()) {
    if (a == b) return Dim::of(1);
    return std::nullopt;
  }
  return impl_->divide_exactly(a, b);
}

Dim Dims::product(std::span<const Dim> dims) {
  Dim result = Dim::of(1);
  bool unknown = false;
  for (Dim d : dims) {
    if (d.is(0)) return d;
    unknown |= d.is_unknown();
  }
  if (unknown) return dims.size() == 1 ? dims[0] : fresh_unknown();
  for (Dim d : dims) result = mul(result, d);
  return result;
}

std::vector<std::string> Dims::symbols(Dim d) const {
  std::vector<std::string> out;
  std::vector<const DimAtom*> todo;
  auto push = [&](Dim x) {
    if (!x.is_expr()) return;
    for (auto& [t, c] : x.expr()->terms)
      for (const DimFactor& f : t->factors) todo.push_back(f.atom);
  };
  push(d);
  while (!todo.empty()) {
    const DimAtom* a = todo.back();
    todo.pop_back();
    if (a->kind == AtomKind::kSymbol) {
      out.push_back(a->name);
    } else {
      push(a->lhs);
      push(a->rhs);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

std::string_view Dims::symbol_name(Dim d) const {
  if (!d.is_expr() || d.expr()->terms.size() != 1) return {};
  auto& [t, c] = d.expr()->terms[0];
  if (c != 1 || t->factors.size() != 1 || t->factors[0].power != 1) return {};
  const DimAtom* a = t->factors[0].atom;
  return a->kind == AtomKind::kSymbol ? std::string_view(a->name) : std::string_view();
}

Dim Dims::substitute(Dim d, const std::function<std::optional<Dim>(std::string_view)>& value_of) {
  std::unordered_map<const DimAtom*, Dim> done;
  auto expr = [&](auto& self, Dim x) -> Dim {  // recursion depth is bounded by kMaxDepth
    if (!x.is_expr()) return x;
    auto atom = [&](const DimAtom* a) -> Dim {
      if (auto it = done.find(a); it != done.end()) return it->second;
      Dim r;
      switch (a->kind) {
        case AtomKind::kSymbol: r = value_of(a->name).value_or(symbol(a->name)); break;
        case AtomKind::kFloorDiv: r = floordiv(self(self, a->lhs), self(self, a->rhs)); break;
        case AtomKind::kMax: r = max(self(self, a->lhs), self(self, a->rhs)); break;
        case AtomKind::kMin: r = min(self(self, a->lhs), self(self, a->rhs)); break;
        case AtomKind::kMod: r = mod(self(self, a->lhs), self(self, a->rhs)); break;
      }
      return done[a] = r;
    };
    Dim sum = Dim::of(0);
    for (auto& [t, c] : x.expr()->terms) {
      Dim product = Dim::of(c);
      for (const DimFactor& f : t->factors) {
        Dim value = atom(f.atom);
        for (int i = 0; i < f.power; ++i) product = mul(product, value);
      }
      sum = add(sum, product);
    }
    return sum;
  };
  return expr(expr, d);
}

Dim Dims::import(Dim d, const Dims& from) {
  if (&from == this || !d.is_expr()) return d;
  return substitute(d, [&](std::string_view name) -> std::optional<Dim> {
    auto range = from.impl_->ranges.find(name);
    if (range != from.impl_->ranges.end() && !impl_->ranges.contains(name)) set_range(name, range->second);
    return symbol(name);
  });
}

Dims::Parts Dims::parts(Dim d) {
  if (d.is_int()) return {Form::kInt, {}};
  if (d.is_unknown()) return {Form::kUnknown, {}};
  const Poly& p = d.expr()->terms;
  if (p.size() > 1) {
    Parts sum{Form::kAdd, {}};
    for (auto& term : p) sum.operands.push_back(impl_->make({term}));
    return sum;
  }
  auto& [t, c] = p[0];
  if (c == 1 && t->factors.size() == 1 && t->factors[0].power == 1) {
    const DimAtom* a = t->factors[0].atom;
    switch (a->kind) {
      case AtomKind::kSymbol: return {Form::kSymbol, {}};
      case AtomKind::kFloorDiv: return {Form::kFloorDiv, {a->lhs, a->rhs}};
      case AtomKind::kMax: return {Form::kMax, {a->lhs, a->rhs}};
      case AtomKind::kMin: return {Form::kMin, {a->lhs, a->rhs}};
      case AtomKind::kMod: SX_CHECK(false, "mod in a normal form");
    }
  }
  Parts product{Form::kMul, {}};
  if (c != 1) product.operands.push_back(Dim::of(c));
  for (const DimFactor& f : t->factors)
    for (int i = 0; i < f.power; ++i) product.operands.push_back(impl_->of_atom(f.atom));
  return product;
}

}  // namespace sardonyx
