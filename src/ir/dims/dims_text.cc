// The text form of Dims: prints and parses JAX's spelling.
#include <algorithm>
#include <cctype>
#include <charconv>

#include "ir/dims/dim_expr.h"
#include "ir/text/text.h"
#include "sardonyx/dim.h"
#include "sardonyx/error.h"
#include "support/printable.h"

namespace sardonyx {
namespace {

constexpr int kMaxNesting = 200;

bool is_name_start(unsigned char c) { return std::isalpha(c) || c == '_' || c >= 0x80; }
bool is_name_part(unsigned char c) { return is_name_start(c) || std::isdigit(c) || c == '.' || c == '\''; }

bool is_reserved(std::string_view s) { return s == "floordiv" || s == "ceildiv" || s == "mod" || s == "max" || s == "min"; }

bool is_plain(std::string_view s) {
  if (s.empty() || !is_name_start(static_cast<unsigned char>(s[0])) || is_reserved(s)) return false;
  if (printable(std::string(s)) != s) return false;
  return std::all_of(s.begin(), s.end(), [](char c) { return is_name_part(static_cast<unsigned char>(c)); });
}

class DimParser {
 public:
  DimParser(Dims& dims, std::string_view text) : dims_(dims), text_(text) {}

  Dim all() {
    Dim d = sum();
    skip();
    if (at_ < text_.size()) fail("an operator or the end");
    return d;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    std::string found = at_ < text_.size() ? "'" + std::string(text_.substr(at_, 1)) + "'" : "the end";
    throw Error(ErrorCode::kParse,
                "cannot read the dimension '" + std::string(text_) + "': found " + found + " at column " +
                    std::to_string(at_ + 1) + ", expected " + std::string(expected),
                {"help: dimensions read like 2*B + 1, floordiv(H, 2), mod(a, b), max(a, b), N^2"});
  }

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Dim sum() {
    if (++depth_ > kMaxNesting) throw Error(ErrorCode::kLimit, "a dimension has more than 200 nested parentheses");
    take("+");
    Dim d = product();
    for (;;) {
      if (take("+")) {
        d = dims_.add(d, product());
      } else if (take("-")) {
        d = dims_.sub(d, product());
      } else {
        --depth_;
        return d;
      }
    }
  }

  Dim product() {
    Dim d = negation();
    for (;;) {
      if (take("//")) {
        d = dims_.floordiv(d, negation());
      } else if (take("%")) {
        d = dims_.mod(d, negation());
      } else if (take("*")) {  // power() took "**" already
        d = dims_.mul(d, negation());
      } else {
        return d;
      }
    }
  }

  // As in Python, "-a // b" is (-a) // b and "-a**2" is -(a**2).
  Dim negation() {
    bool minus = false;
    while (take("-")) minus = !minus;
    Dim d = power();
    return minus ? dims_.sub(Dim::of(0), d) : d;
  }

  Dim power() {
    Dim base = primary();
    if (!take("^") && !take("**")) return base;
    if (!std::isdigit(static_cast<unsigned char>(peek()))) fail("an integer power");
    int64_t n = integer();
    if (n > 1024) throw Error(ErrorCode::kLimit, "a dimension has a power above 1024");
    Dim d = Dim::of(1);
    for (int64_t i = 0; i < n; ++i) d = dims_.mul(d, base);
    return d;
  }

  int64_t integer() {
    int64_t v = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      v = checked_add(checked_mul(v, 10), text_[at_++] - '0');
    return v;
  }

  Dim primary() {
    char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c))) return Dim::of(integer());
    if (take("?")) return dims_.fresh_unknown();
    if (take("(")) {
      Dim d = sum();
      if (!take(")")) fail("')'");
      return d;
    }
    if (c == '"') return quoted();
    if (!is_name_start(static_cast<unsigned char>(c))) fail("an integer, a name or '('");
    size_t start = at_;
    while (at_ < text_.size() && is_name_part(static_cast<unsigned char>(text_[at_]))) ++at_;
    std::string_view name = text_.substr(start, at_ - start);
    if (!is_reserved(name) || peek() != '(') return dims_.symbol(name);
    take("(");
    Dim a = sum();
    if (!take(",")) fail("','");
    Dim b = sum();
    if (!take(")")) fail("')'");
    if (name == "floordiv") return dims_.floordiv(a, b);
    if (name == "ceildiv") return dims_.ceildiv(a, b);
    if (name == "mod") return dims_.mod(a, b);
    return name == "max" ? dims_.max(a, b) : dims_.min(a, b);
  }

  Dim quoted() {
    std::string name;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\' || at_ + 1 >= text_.size()) {
        name += text_[at_];
        continue;
      }
      // Undoes text::quote().
      const char c = text_[++at_];
      unsigned byte = 0;
      const char* hex = text_.data() + at_ + 1;
      if (c == 'x' && text_.size() - at_ > 2 && std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
        name += static_cast<char>(byte);
        at_ += 2;
      } else {
        name += c == 'n' ? '\n' : c == 't' ? '\t' : c;
      }
    }
    if (at_ >= text_.size()) fail("'\"'");
    ++at_;
    if (name.empty()) fail("a name between the quotes");
    return dims_.symbol(name);
  }

  Dims& dims_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim Dims::Impl::evaluate(const Poly& p) {
  Dim sum = Dim::of(0);
  for (auto& [t, c] : p) {
    Dim product = Dim::of(c);
    for (const DimFactor& f : t->factors) {
      const DimAtom* a = f.atom;
      Dim value = a->kind == AtomKind::kFloorDiv ? floordiv(a->lhs, a->rhs)
                  : a->kind == AtomKind::kMod    ? add(a->lhs, mul(a->rhs, floordiv(a->lhs, a->rhs)), -1)
                                                 : of_atom(a);
      for (int32_t i = 0; i < f.power; ++i) product = mul(product, value);
    }
    sum = add(sum, product);
  }
  return sum;
}

Poly Dims::Impl::pretty(const Poly& p) {
  Poly best = p;
  // For an atom q = floordiv(a, b): k*(a - b*q) reads better as k*mod(a, b); for an integer b, a - q reads
  // better as the floordiv of -a, rounded the other way. A rewrite is kept if it saves terms and parses to
  // the same normal form.
  for (size_t i = 0; i < best.size(); ++i) {
    const auto [t, c] = best[i];
    const DimAtom* q = nullptr;
    for (const DimFactor& f : t->factors)
      if (f.atom->kind == AtomKind::kFloorDiv && f.power == 1) q = f.atom;
    if (q == nullptr) continue;
    try {
      std::vector<Poly> tries;
      // t must be (a term of b) * q; the coefficients give k.
      const DimTerm* qt = term({{q, 1}});
      const DimTerm* rest = divide(t, qt);
      for (auto& [u, d] : poly(q->rhs)) {
        if (u != rest || c % d != 0) continue;
        int64_t k = -c / d;
        Poly with_mod = best;
        for (auto& [v, e] : poly(q->lhs)) with_mod.emplace_back(v, checked_mul(-k, e));
        for (auto& [v, e] : poly(q->rhs)) with_mod.emplace_back(multiply(v, qt), checked_mul(k, e));
        with_mod.emplace_back(term({{op_atom(AtomKind::kMod, q->lhs, q->rhs), 1}}), k);
        tries.push_back(normal(std::move(with_mod)));
      }
      if (t == qt && q->rhs.is_int() && c < 0) {
        // -floor(x/d) = floor((d-1-x)/d) = sum of -ceil(c_i/d) * t_i + floor(mirrored/d)
        int64_t d = q->rhs.value();
        Poly mirrored{{one(), d - 1}}, negated = best;
        for (auto& [v, e] : poly(q->lhs)) mirrored.emplace_back(v, -e);
        mirrored = normal(std::move(mirrored));
        for (auto& [v, e] : mirrored) {
          int64_t whole = floor_div(e, d);
          e -= whole * d;
          negated.emplace_back(v, checked_mul(whole, -c));
        }
        negated.emplace_back(qt, -c);
        negated.emplace_back(term({{op_atom(AtomKind::kFloorDiv, make(std::move(mirrored)), q->rhs), 1}}), -c);
        tries.push_back(normal(std::move(negated)));
      }
      for (Poly& candidate : tries) {
        if (candidate.size() >= best.size() || !(evaluate(candidate) == make(p))) continue;
        best = std::move(candidate);
        i = static_cast<size_t>(-1);  // start over; this ends because the sum got shorter
        break;
      }
    } catch (const Error&) {  // overflow: leave it unchanged
    }
  }
  return best;
}

void Dims::Impl::print_atom(const DimAtom* a, std::string& out) {
  switch (a->kind) {
    case AtomKind::kSymbol:
      if (is_plain(a->name)) {
        out += a->name;
      } else {
        text::quote(out, a->name);
      }
      return;
    case AtomKind::kFloorDiv: out += "floordiv("; break;
    case AtomKind::kMax: out += "max("; break;
    case AtomKind::kMin: out += "min("; break;
    case AtomKind::kMod: out += "mod("; break;
  }
  print(a->lhs, out);
  out += ", ";
  print(a->rhs, out);
  out += ')';
}

void Dims::Impl::print(const Poly& p, std::string& out) {
  bool first = true;
  for (auto& [t, c] : p) {
    if (first) {
      if (c < 0) out += "-";
    } else {
      out += c < 0 ? " - " : " + ";
    }
    first = false;
    int64_t magnitude = c < 0 ? -c : c;
    bool need_star = magnitude != 1 || t->factors.empty();
    if (need_star) out += std::to_string(magnitude);
    for (const DimFactor& f : t->factors) {
      if (need_star) out += '*';
      need_star = true;
      print_atom(f.atom, out);
      if (f.power != 1) out += '^' + std::to_string(f.power);
    }
  }
}

void Dims::Impl::print(Dim d, std::string& out) {
  if (d.is_int()) {
    out += std::to_string(d.value());
  } else if (d.is_unknown()) {
    out += '?';
  } else {
    print(pretty(d.expr()->terms), out);
  }
}

std::string Dims::to_string(Dim d) const {
  std::string out;
  impl_->print(d, out);
  return out;
}

Dim Dims::parse(std::string_view text) {
  if (is_plain(text)) return symbol(text);
  return DimParser(*this, text).all();
}

}  // namespace sardonyx
