// sort[comparator]   =>   sort[dimension, num_keys], if the comparator compares keys one after another
// chlo.top_k         =>   top_k[k, axis = last]
//
// JAX sorts in ascending order, NaNs last and -0 equal to 0. Keys in descending order are sorted by their
// negatives, and keys in StableHLO's total order by their bits as integers.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lower/stablehlo_to_jax/context.h"
#include "lower/stablehlo_to_jax/expression.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

struct Key {
  size_t operand;
  bool descending;
  bool total;                  // -0 before 0, NaNs by their signs
  std::string_view part = {};  // of a complex element: "real" or "imag"; "" for the whole
  friend bool operator==(const Key&, const Key&) = default;
};

// The spellings of a key: as it is, and with zeros and NaNs made one.
std::vector<std::string> spellings(const std::string& x) {
  const std::string zero = fmt::format("select(EQ({0},0),0,{0})", x);
  return {x, zero, fmt::format("select(NE({0},{0}),nan,{1})", x, zero), fmt::format("select(NE({0},{0}),nan,{0})", x)};
}

// The key if `v` is the comparison of the two elements of one operand: for order, or for equality.
std::optional<Key> key_of(const Value& v, bool for_equality, std::span<const Value* const> names, std::string_view letters) {
  const std::string text = expression(v, names, letters);
  for (size_t i = 0; i + 1 < names.size(); i += 2) {
    for (const std::string_view part : {"", "real", "imag"}) {
      const auto element = [&](char x) { return part.empty() ? std::string(1, x) : fmt::format("{}({})", part, x); };
      const auto first = spellings(element(letters[i])), second = spellings(element(letters[i + 1]));
      for (size_t k = 0; k < first.size(); ++k) {
        const auto is = [&](std::string_view f, bool swapped) {
          const std::string &x = swapped ? second[k] : first[k], &y = swapped ? first[k] : second[k];
          return text == fmt::format("{}({},{})", f, x, y) || text == fmt::format("{}t({},{})", f, x, y);
        };
        // In total order, an element as it is has its own place for -0 and for each NaN.
        const bool total = k == 0 && text.starts_with(text.substr(0, 2) + "t(");
        if (for_equality && is("EQ", false)) return Key{i / 2, false, false, part};
        if (!for_equality && (is("LT", false) || is("GT", true))) return Key{i / 2, false, total, part};
        if (!for_equality && (is("GT", false) || is("LT", true))) return Key{i / 2, true, total, part};
      }
    }
  }
  return {};
}

// Keys, most significant first; empty if the comparator is none that compares keys.
std::vector<Key> keys_of(const Graph& comparator) {
  static constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
  if (comparator.inputs().size() > kLetters.size() || comparator.outputs().size() != 1) return {};
  std::vector<const Value*> names;
  for (size_t i = 0; i < comparator.inputs().size(); ++i) names.push_back(comparator.input(i));
  std::vector<Key> keys;
  // before(k0) or equal(k0) and (before(k1) or ..), or select(equal(k0), .., before(k0))
  for (const Value* v = comparator.output(0); v != nullptr;) {
    if (const auto last = key_of(*v, false, names, kLetters)) {
      keys.push_back(*last);
      return keys;
    }
    const Node* n = v->def();
    if (n == nullptr) return {};
    const Value *before = nullptr, *equal = nullptr, *rest = nullptr;
    if (n->is("or")) {
      for (const size_t i : {0, 1}) {
        const Node* both = n->input(1 - i)->def();
        if (both == nullptr || !both->is("and") || !key_of(*n->input(i), false, names, kLetters)) continue;
        for (const size_t k : {0, 1}) {
          if (!key_of(*both->input(k), true, names, kLetters)) continue;
          before = n->input(i), equal = both->input(k), rest = both->input(1 - k);
          break;
        }
      }
    } else if (n->is("select")) {
      equal = n->input(0), rest = n->input(1), before = n->input(2);
    }
    if (before == nullptr) return {};
    const auto first = key_of(*before, false, names, kLetters), same = key_of(*equal, true, names, kLetters);
    if (!first || !same || first->operand != same->operand || first->part != same->part) return {};
    keys.push_back(*first);
    v = rest;
  }
  return {};
}

// Real and imaginary part, one after the other, are the whole element: JAX orders complex numbers so.
std::vector<Key> with_whole_elements(const std::vector<Key>& keys) {
  std::vector<Key> whole;
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool is_pair = i + 1 < keys.size() && keys[i] == Key{keys[i].operand, false, false, "real"} &&
                         keys[i + 1] == Key{keys[i].operand, false, false, "imag"};
    whole.push_back(is_pair ? Key{keys[i].operand, false, false} : keys[i]);
    i += is_pair ? 1 : 0;
  }
  return whole;
}

// Integers in the total order of the floats x.
Value* by_bits(Lowering& ctx, Value* x) {
  const int width = bit_width(x->dtype());
  const DType whole = width == 64 ? DType::kI64 : width == 32 ? DType::kI32 : width == 16 ? DType::kI16 : DType::kI8;
  const Type* type = ctx.b.types().with_dtype(x->type(), whole);
  Value* bits = ctx.make("bitcast_convert_type", {x}, type, {attr("new_dtype", whole)});
  const int64_t all_but_sign = width == 64 ? INT64_MAX : (int64_t{1} << (width - 1)) - 1;
  Value* flipped = ctx.map("xor", {bits, ctx.integer(type, all_but_sign)});
  return ctx.select(ctx.compare("lt", bits, ctx.integer(type, 0)), flipped, bits);
}

}  // namespace

Values lower_sort(Lowering& ctx) {
  const std::vector<Key> keys = with_whole_elements(keys_of(ctx.body("comparator")));
  if (keys.empty()) ctx.unsupported("a comparator that does not compare keys one after another");
  std::vector<const Type*> types;
  Values operands;
  bool in_place = true;
  for (size_t i = 0; i < keys.size(); ++i) in_place = in_place && keys[i] == Key{i, false, false};
  if (!in_place) {
    for (const Key& key : keys) {
      Value* x = ctx.in(key.operand);
      if (key.part.empty() == is_complex(x->dtype())) ctx.unsupported("complex keys in this order");
      if (!key.part.empty()) {
        const DType part = x->dtype() == DType::kC128 ? DType::kF64 : DType::kF32;
        x = ctx.make(key.part, {x}, ctx.b.types().with_dtype(x->type(), part));
      }
      if (key.total && is_float(x->dtype())) x = by_bits(ctx, x);
      if (key.descending && x->dtype() == DType::kBool) x = ctx.cast(x, DType::kU8);
      if (key.descending) x = ctx.map(is_float(x->dtype()) ? "neg" : "not", {x});
      operands.push_back(x);
      types.push_back(x->type());
    }
  }
  const size_t added = operands.size();
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  for (size_t i = 0; i < ctx.num_inputs(); ++i) {
    operands.push_back(ctx.in(i));
    types.push_back(ctx.out_type(i, dims));
  }
  Values results = ctx.make("sort", operands, types,
                            {attr("dimension", ctx.int_attr("dimension")), attr("is_stable", ctx.bool_attr("is_stable")),
                             attr("num_keys", static_cast<int64_t>(keys.size()))});
  results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(added));
  return results;
}

Values top_k(Lowering& ctx, Dim k) {
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  if (dims.empty() || ctx.node.num_results() != 2)
    throw Error(ErrorCode::kInvalidModel, "top_k needs an axis, and has two results");
  dims.back() = k;
  const Type* types[] = {ctx.out_type(0, dims), ctx.out_type(1, dims)};
  return ctx.make("top_k", std::vector<Value*>{ctx.in(0)}, types,
                  {attr("axis", static_cast<int64_t>(dims.size()) - 1), attr("k", k)});
}

Values lower_top_k(Lowering& ctx) { return top_k(ctx, Dim::of(ctx.int_attr("k"))); }

}  // namespace sardonyx::stablehlo_to_jax
