// The implementation of Dims: atoms, terms and expressions in normal form. Only dims*.cc include this.
//
// An expression is a sum of integer * term, a term is a product of atom^power, and an atom is a symbol or the
// floordiv, max or min of two expressions. All three are interned in their table, so equal content means
// equal pointers. Terms are in JAX's order (larger first, the integer last), factors within a term smaller
// first. The order depends on sizes and texts, never on addresses.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/dim.h"

namespace sardonyx {

enum class AtomKind : uint8_t {
  kSymbol,
  kFloorDiv,
  kMax,
  kMin,
  kMod,  // never in a normal form: used for printing and for bounds
};

struct DimAtom {
  AtomKind kind = AtomKind::kSymbol;
  std::string name;    // kSymbol
  Dim lhs, rhs;        // the others; integers or expressions
  uint64_t size = 1;   // JAX's size measure, saturated; terms are ordered by it
  uint32_t nodes = 1;  // number of atoms, nested ones included
  uint32_t depth = 1;
};

struct DimFactor {
  const DimAtom* atom;
  int32_t power;
  bool operator==(const DimFactor&) const = default;
};

struct DimTerm {
  std::vector<DimFactor> factors;  // empty: the constant 1
  uint64_t size = 0;
};

using Poly = std::vector<std::pair<const DimTerm*, int64_t>>;

class DimExpr {
 public:
  Poly terms;  // normal: ordered, no zero coefficients, not a bare integer
  uint64_t size = 0;
  uint32_t nodes = 0;
  uint32_t depth = 0;
  // The last bounds found, and the version of the ranges that they are based on.
  mutable uint64_t bounds_version = 0;
  mutable int64_t lo = 0, hi = 0;
};

// A closed interval of integers; the extremes of int64 mean "unbounded".
struct Interval {
  static constexpr int64_t kMinusInf = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kPlusInf = std::numeric_limits<int64_t>::max();
  int64_t lo = kMinusInf, hi = kPlusInf;

  bool bounded() const { return lo != kMinusInf && hi != kPlusInf; }
  Interval both(Interval o) const { return {lo > o.lo ? lo : o.lo, hi < o.hi ? hi : o.hi}; }
};

struct Dims::Impl {
  Impl();

  // --- interning
  const DimAtom* symbol_atom(std::string_view name);
  const DimAtom* op_atom(AtomKind kind, Dim lhs, Dim rhs);
  const DimTerm* term(std::vector<DimFactor> factors);  // sorts and merges
  const DimTerm* one() const { return one_; }
  Dim make(Poly p);  // sorts, merges, drops zeros, interns
  Dim of_atom(const DimAtom* a) { return make({{term({{a, 1}}), 1}}); }
  Dim unknown();

  // --- arithmetic; operands are integers or expressions
  Poly poly(Dim d) const;
  Dim add(Dim a, Dim b, int64_t factor_of_b = 1);
  Dim mul(Dim a, Dim b);
  Dim floordiv(Dim a, Dim b);
  Dim floordiv_int(const Poly& a, int64_t d);
  Dim extreme(AtomKind kind, Dim a, Dim b);
  std::optional<Dim> divide_exactly(Dim a, Dim b);
  const DimTerm* multiply(const DimTerm* a, const DimTerm* b);
  const DimTerm* divide(const DimTerm* a, const DimTerm* b);  // null unless b divides a
  // p with duplicates merged and zeros dropped, in order.
  Poly normal(Poly p) const;
  // The same sum, using mod(a, b) and rounded-up division where that saves terms; not in normal form.
  Poly pretty(const Poly& p);
  // The normal form of a sum that pretty() made.
  Dim evaluate(const Poly& p);

  // --- bounds
  Interval atom_bounds(const DimAtom* a, int budget);
  Interval term_bounds(const DimTerm* t, int budget);
  Interval poly_bounds(const Poly& p, int budget);
  Interval bounds(Dim d);

  // --- text
  void print(const Poly& p, std::string& out);
  void print(Dim d, std::string& out);
  void print_atom(const DimAtom* a, std::string& out);

  std::map<std::string, DimRange, std::less<>> ranges;
  uint64_t ranges_version = 1;

 private:
  Interval shifted_bounds(const Poly& p, int budget);
  Interval split_bounds(const Poly& p, int budget);

  std::deque<DimAtom> atoms_;
  std::deque<DimTerm> terms_;
  std::deque<DimExpr> exprs_;
  std::unordered_map<std::string_view, const DimAtom*> symbols_;
  std::unordered_multimap<uint64_t, const DimAtom*> op_index_;
  std::unordered_multimap<uint64_t, const DimTerm*> term_index_;
  std::unordered_multimap<uint64_t, const DimExpr*> expr_index_;
  const DimTerm* one_ = nullptr;
  uint64_t unknown_base_ = 0;
  uint64_t unknown_count_ = 0;
};

// Three-way comparison in the order above.
int compare_terms(const DimTerm* a, const DimTerm* b);
int compare_atoms(const DimAtom* a, const DimAtom* b);
int compare_dims(Dim a, Dim b);

int64_t floor_div(int64_t a, int64_t b);  // b != 0
// The constant term of a polynomial, or 0.
int64_t constant_of(const Poly& p);
[[noreturn]] void dim_overflow();
int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);

}  // namespace sardonyx
