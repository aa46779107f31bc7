// Arithmetic on sizes: what operations on small integer values compute, as expressions of sizes of inputs.
//
// StableHLO divides towards zero. Where the sign of an operand is unknown, quotients, remainders, signs and
// comparisons are opaque symbols; a select that corrects such a quotient to the floor is recognized.
#include <fmt/format.h>

#include <algorithm>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

class Arithmetic {
 public:
  explicit Arithmetic(Context& context) : context_(context), dims_(context.model().dims()) {}

  Dim opaque(std::string_view f, Dim a, Dim b) {
    return context_.opaque(fmt::format("{}({}, {})", f, dims_.to_string(a), dims_.to_string(b)));
  }
  bool at_least(Dim a, int64_t n) { return !is_opaque(a) && dims_.less_equal(Dim::of(n), a); }
  bool at_most(Dim a, int64_t n) { return !is_opaque(a) && dims_.less_equal(a, Dim::of(n)); }
  bool is_opaque(Dim a) { return !context_.is_known(a); }

  Dim quotient(Dim a, Dim b) {
    if (b.is(0)) return opaque("quotient", a, b);
    if (at_least(a, 0) && at_least(b, 1)) return dims_.floordiv(a, b);
    if (at_most(a, 0) && at_least(b, 1)) return negative(dims_.floordiv(negative(a), b));
    return opaque("quotient", a, b);
  }
  Dim remainder(Dim a, Dim b) {
    if (b.is(0)) return opaque("remainder", a, b);
    if (at_least(a, 0) && at_least(b, 1)) return dims_.mod(a, b);
    if (at_most(a, 0) && at_least(b, 1)) return negative(dims_.mod(negative(a), b));
    return opaque("remainder", a, b);
  }
  Dim sign(Dim a) {
    if (at_least(a, 1)) return Dim::of(1);
    if (at_most(a, -1)) return Dim::of(-1);
    return a.is(0) ? a : opaque("sign", a, a);
  }
  Dim compare(std::string_view direction, Dim a, Dim b) {
    if (direction == "GT") return compare("LT", b, a);
    if (direction == "GE") return compare("LE", b, a);
    const bool known = !is_opaque(a) && !is_opaque(b);
    if (direction == "LT" && known && dims_.less(a, b)) return Dim::of(1);
    if (direction == "LT" && known && dims_.less_equal(b, a)) return Dim::of(0);
    if (direction == "LE" && known && dims_.less_equal(a, b)) return Dim::of(1);
    if (direction == "LE" && known && dims_.less(b, a)) return Dim::of(0);
    if (direction == "EQ" || direction == "NE") {
      const Compare c = dims_.compare(a, b);
      if (c == Compare::kEqual || c == Compare::kDifferent)
        return Dim::of((c == Compare::kEqual) == (direction == "EQ") ? 1 : 0);
    }
    return opaque(direction, a, b);
  }
  Dim both(Dim a, Dim b) {
    if (a.is(0) || b.is(0)) return Dim::of(0);
    if (a.is(1)) return b;
    return b.is(1) ? a : opaque("and", a, b);
  }
  Dim either(Dim a, Dim b) {
    if (a.is(1) || b.is(1)) return Dim::of(1);
    if (a.is(0)) return b;
    return b.is(0) ? a : opaque("or", a, b);
  }

  // condition ? x : y
  Dim select(Dim condition, Dim x, Dim y) {
    if (condition.is_int()) return condition.is(0) ? y : x;
    if (x == y) return x;
    // The floor of a / b: the quotient towards zero, less one if the signs differ and there is a remainder.
    // The remainder of the floor: that towards zero, plus b in the same case.
    for (const auto& [a, b] : context_.divisions) {
      const Dim r = remainder(a, b), zero = Dim::of(0);
      const Dim has_rest = compare("NE", r, zero);
      const Dim signs = compare("NE", sign(a), sign(b)), below = compare("NE", compare("LT", r, zero), compare("LT", b, zero));
      const Dim q = quotient(a, b);
      const bool floors = condition == both(signs, has_rest) || condition == both(has_rest, signs);
      if (floors && y == q && x == dims_.sub(q, Dim::of(1))) return dims_.floordiv(a, b);
      const bool wraps = condition == both(below, has_rest) || condition == both(has_rest, below);
      if (wraps && y == r && x == dims_.add(r, b)) return dims_.mod(a, b);
    }
    return context_.opaque(
        fmt::format("select({}, {}, {})", dims_.to_string(condition), dims_.to_string(x), dims_.to_string(y)));
  }
  void note_division(Dim a, Dim b) {
    const std::pair<Dim, Dim> division(a, b);
    if (std::ranges::find(context_.divisions, division) == context_.divisions.end()) context_.divisions.push_back(division);
  }

 private:
  Dim negative(Dim a) { return dims_.sub(Dim::of(0), a); }

  Context& context_;
  Dims& dims_;
};

// The common length of operands: all of one shape, or scalars beside it.
size_t length_of(std::span<const std::optional<Elements>> xs) {
  size_t n = 1;
  for (const auto& x : xs) n = std::max(n, x->size());
  return n;
}

std::optional<Elements> moved(const Node& n, std::span<const std::optional<Elements>> xs) {
  if (n.is("reshape") || n.is("convert") || n.is("optimization_barrier") || n.is("dynamic_reshape")) return xs[0];
  if (n.is("broadcast_in_dim") && xs[0]->size() == 1) {
    const auto size = n.result()->type()->static_size();
    if (size && *size <= 64) return Elements(static_cast<size_t>(*size), xs[0]->front());
  }
  if (n.is("concatenate") && n.attr_int("dimension", -1) == 0) {
    Elements all;
    for (const auto& x : xs) all.insert(all.end(), x->begin(), x->end());
    return all.size() <= 64 ? std::optional(std::move(all)) : std::nullopt;
  }
  if (n.is("slice")) {
    const auto from = n.attr_ints("start_indices"), to = n.attr_ints("limit_indices"), step = n.attr_ints("strides");
    if (!from || !to || !step || from->size() != 1) return {};
    Elements all;
    for (int64_t i = from->front(); i < to->front() && i >= 0 && i < static_cast<int64_t>(xs[0]->size());
         i += std::max<int64_t>(step->front(), 1))
      all.push_back((*xs[0])[static_cast<size_t>(i)]);
    return all;
  }
  return {};
}

using Binary = Dim (*)(Arithmetic&, Dims&, Dim, Dim);
constexpr std::pair<std::string_view, Binary> kBinary[] = {
    {"add", [](Arithmetic&, Dims& d, Dim a, Dim b) { return d.add(a, b); }},
    {"subtract", [](Arithmetic&, Dims& d, Dim a, Dim b) { return d.sub(a, b); }},
    {"multiply", [](Arithmetic&, Dims& d, Dim a, Dim b) { return d.mul(a, b); }},
    {"maximum", [](Arithmetic&, Dims& d, Dim a, Dim b) { return d.max(a, b); }},
    {"minimum", [](Arithmetic&, Dims& d, Dim a, Dim b) { return d.min(a, b); }},
    {"divide",
     [](Arithmetic& f, Dims&, Dim a, Dim b) {
       f.note_division(a, b);
       return f.quotient(a, b);
     }},
    {"remainder",
     [](Arithmetic& f, Dims&, Dim a, Dim b) {
       f.note_division(a, b);
       return f.remainder(a, b);
     }},
};

}  // namespace

std::optional<Elements> computed_elements(Context& context, const Node& n, std::span<const std::optional<Elements>> xs) {
  const Type* t = n.result()->type();
  if (t->rank() > 2 || xs.empty() || is_float(t->dtype()) || is_complex(t->dtype())) return {};
  if (!std::ranges::all_of(xs, [](const auto& x) { return x.has_value(); })) return {};
  if (auto all = moved(n, xs)) return all;
  Arithmetic f(context);
  Dims& dims = context.model().dims();
  const size_t count = length_of(xs);
  const auto at = [&](size_t operand, size_t i) { return (*xs[operand])[xs[operand]->size() == 1 ? 0 : i]; };
  const auto each = [&](auto&& compute) -> std::optional<Elements> {
    Elements all;
    for (size_t i = 0; i < count; ++i) all.push_back(compute(i));
    return all;
  };
  if (!std::ranges::all_of(xs, [&](const auto& x) { return x->size() == 1 || x->size() == count; })) return {};
  const bool is_bool = t->dtype() == DType::kBool;
  for (const auto& [name, op] : kBinary) {
    if (!is_bool && n.is(name)) return each([&, op = op](size_t i) { return op(f, dims, at(0, i), at(1, i)); });
  }
  if (n.is("sign")) return each([&](size_t i) { return f.sign(at(0, i)); });
  if (n.is("negate")) return each([&](size_t i) { return dims.sub(Dim::of(0), at(0, i)); });
  if (n.is("select")) return each([&](size_t i) { return f.select(at(0, i), at(1, i), at(2, i)); });
  if (n.is("clamp")) return each([&](size_t i) { return dims.min(dims.max(at(0, i), at(1, i)), at(2, i)); });
  if (n.is("compare"))
    return each([&](size_t i) { return f.compare(n.attr_string("comparison_direction", ""), at(0, i), at(1, i)); });
  if (is_bool && n.is("and")) return each([&](size_t i) { return f.both(at(0, i), at(1, i)); });
  if (is_bool && n.is("or")) return each([&](size_t i) { return f.either(at(0, i), at(1, i)); });
  return {};
}

}  // namespace sardonyx::stablehlo_to_jax
