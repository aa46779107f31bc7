// Symbolic dimensions: integers, or polynomials over symbols with floordiv, mod, max and min, in a normal
// form.
#pragma once

#include <cassert>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx {

class DimExpr;  // interned by Dims; defined in src/ir/dims/dim_expr.h

// One word: an integer, a symbolic expression of one Dims table, or an unknown that equals only itself.
// Within one table, == compares normal forms.
class Dim {
 public:
  Dim() = default;               // an anonymous unknown: equal to nothing, not even itself (see same())
  static Dim of(int64_t value);  // |value| < 2^61; throws kLimit beyond
  static Dim unknown(uint64_t id) { return Dim((id << 2) | 2); }
  static Dim expr(const DimExpr* e) { return Dim(reinterpret_cast<uint64_t>(e)); }

  bool is_int() const { return (word_ & 3) == 1; }
  bool is_expr() const { return (word_ & 3) == 0 && word_ != 0; }
  bool is_unknown() const { return word_ == 0 || (word_ & 3) == 2; }
  bool is_anonymous() const { return word_ == 0; }
  int64_t value() const {
    assert(is_int());
    return static_cast<int64_t>(word_) >> 2;
  }
  const DimExpr* expr() const { return reinterpret_cast<const DimExpr*>(word_); }
  uint64_t unknown_id() const { return word_ >> 2; }

  bool is(int64_t v) const { return is_int() && value() == v; }

  // Provably equal: same integer, same normal form, or the same unknown.
  friend bool operator==(Dim a, Dim b) { return a.word_ == b.word_ && a.word_ != 0; }
  // The same word; used for interning and hashing.
  bool same(Dim other) const { return word_ == other.word_; }
  uint64_t word() const { return word_; }

 private:
  explicit Dim(uint64_t word) : word_(word) {}
  uint64_t word_ = 0;
};

enum class Compare { kEqual, kDifferent, kUnknown };

struct DimRange {  // inclusive; nullopt = unbounded on that side
  std::optional<int64_t> min, max;
};

// The table of symbolic expressions of one model. Not thread-safe: one table belongs to one model. Arithmetic
// is exact on integers and throws kLimit on overflow. An unknown operand gives a fresh unknown. Normal form:
// sum of coefficient * product of atom^power; atoms are symbols, floordiv(a,b), max(a,b), min(a,b), ordered
// by text and never by address; mod(a,b) is written a - b*floordiv(a,b); constants and coefficients inside
// floordiv are reduced modulo an integer divisor; max/min of provably ordered operands is that operand.
class Dims {
 public:
  Dims();
  ~Dims();
  Dims(const Dims&) = delete;
  Dims& operator=(const Dims&) = delete;

  Dim symbol(std::string_view name);
  Dim fresh_unknown();

  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floordiv(Dim a, Dim b);  // rounds to minus infinity, as Python; division by the integer 0 throws kInvalidArgument
  Dim mod(Dim a, Dim b);       // sign of the divisor, as Python
  Dim max(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim ceildiv(Dim a, Dim b);  // -floordiv(-a, b)
  // a / b if it provably has no remainder, else nullopt; computes the size for Reshape's -1.
  std::optional<Dim> divide_exactly(Dim a, Dim b);
  Dim product(std::span<const Dim> dims);

  Compare compare(Dim a, Dim b) const;
  // True when provable from ranges: a <= b, a < b.
  bool less_equal(Dim a, Dim b);
  bool less(Dim a, Dim b);
  DimRange range(Dim d) const;
  // Symbols are >= 1 by default; names of data-dependent sizes are declared with min = 0.
  void set_range(std::string_view symbol, DimRange range);
  DimRange symbol_range(std::string_view symbol) const;
  bool has_range(std::string_view symbol) const;  // whether one was set; by default it is 1 or more

  // The symbols in d, each once, ordered by name.
  std::vector<std::string> symbols(Dim d) const;
  // The symbol's name if d is a single symbol, else empty.
  std::string_view symbol_name(Dim d) const;
  // Replaces each symbol of d by `value_of(name)`; nullopt keeps it.
  Dim substitute(Dim d, const std::function<std::optional<Dim>(std::string_view)>& value_of);
  // The same expression in this table; used when a graph moves between models.
  Dim import(Dim d, const Dims& from);

  // The parts of an expression, for computing it at run time. The form determines the operands: kAdd and kMul
  // have at least two, kFloorDiv, kMax and kMin exactly two. kAdd's operands are terms; kMul's are an
  // optional integer coefficient first, then factors (a power repeats its factor).
  enum class Form { kInt, kSymbol, kAdd, kMul, kFloorDiv, kMax, kMin, kUnknown };
  struct Parts {
    Form form;
    std::vector<Dim> operands;
  };
  Parts parts(Dim d);

  // JAX's spelling: "2*B*T + 1", "floordiv(H, 2)", "mod(a, b)", "max(a, b)"; an unknown prints as "?".
  std::string to_string(Dim d) const;
  // Parses that spelling, and also "//", "%", "ceildiv", a leading "-", parentheses and "^"/"**" with integer
  // powers. Throws kParse with the column of the error. Any other identifier (letters, digits, _, ., ', also
  // "unk__0") is a symbol.
  Dim parse(std::string_view text);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sardonyx
