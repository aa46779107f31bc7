#include "ir/dims/dim_facts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "ir/dims/dim_expr.h"
#include "sardonyx/error.h"

namespace sardonyx {

bool assume(Dims& dims, std::string_view relation) {
  size_t at = std::string_view::npos;
  for (std::string_view sign : {">=", "<=", "=="}) at = std::min(at, relation.find(sign));
  if (at == std::string_view::npos)
    throw Error(ErrorCode::kParse, "'" + std::string(relation) + "' is not a relation between sizes",
                {"expected >=, <= or == between two expressions, as in \"B >= 2\""});
  const char sign = relation[at];
  Dim difference = dims.sub(dims.parse(relation.substr(0, at)), dims.parse(relation.substr(at + 2)));
  if (sign == '<') difference = dims.mul(difference, Dim::of(-1));
  const auto empty = [&]() { return Error(ErrorCode::kInvalidArgument, "no size satisfies '" + std::string(relation) + "'"); };
  // difference = coefficient * symbol + constant, which is >= 0 (or == 0).
  int64_t coefficient = 0, constant = 0;
  std::string symbol;
  std::vector<Dim> terms =
      dims.parts(difference).form == Dims::Form::kAdd ? dims.parts(difference).operands : std::vector<Dim>{difference};
  for (Dim term : terms) {
    if (term.is_int()) {
      constant = term.value();
      continue;
    }
    std::vector<Dim> factors = dims.parts(term).form == Dims::Form::kMul ? dims.parts(term).operands : std::vector<Dim>{term};
    const int64_t scale = factors[0].is_int() ? factors[0].value() : 1;
    if (factors[0].is_int()) factors.erase(factors.begin());
    if (!symbol.empty() || factors.size() != 1 || dims.parts(factors[0]).form != Dims::Form::kSymbol) return false;
    symbol = dims.symbol_name(factors[0]);
    coefficient = scale;
  }
  if (symbol.empty()) {
    if (sign == '=' ? constant != 0 : constant < 0) throw empty();
    return true;
  }
  DimRange r = dims.symbol_range(symbol);
  const auto at_least = [&](int64_t n) { r.min = std::max(n, r.min.value_or(n)); };
  const auto at_most = [&](int64_t n) { r.max = std::min(n, r.max.value_or(n)); };
  if (sign == '=') {
    if (constant % coefficient != 0) throw empty();
    at_least(-constant / coefficient);
    at_most(-constant / coefficient);
  } else if (coefficient > 0) {
    at_least(-floor_div(constant, coefficient));
  } else {
    at_most(floor_div(constant, -coefficient));
  }
  if (r.min && r.max && *r.min > *r.max) throw empty();
  dims.set_range(symbol, r);
  return true;
}

bool is_nonempty_by_default(Dims& dims, Dim d) {
  const Dims::Parts p = dims.parts(d);
  if (p.form == Dims::Form::kSymbol) return !dims.has_range(dims.symbol_name(d));
  if (p.form != Dims::Form::kMul) return false;
  bool by_default = false;
  for (Dim factor : p.operands) {
    if (factor.is_int() ? factor.value() <= 0 : dims.symbol_name(factor).empty()) return false;
    by_default |= !factor.is_int() && is_nonempty_by_default(dims, factor);
  }
  return by_default;
}

bool contradict(const Dims& dims, Dim a, Dim b) {
  const auto may_be_empty = [&](Dim d) { return d.is_expr() && dims.range(d).min.value_or(0) <= 1; };
  if ((a.is(0) && may_be_empty(b)) || (b.is(0) && may_be_empty(a))) return false;
  return dims.compare(a, b) == Compare::kDifferent;
}

}  // namespace sardonyx
