//   a ── MatMul(b) ── Add(c) ── y         =>   Gemm(a, b, c)             two axes each
//   Gemm(a, b, c) ── Add(d) ── y          =>   Gemm(a, b, c + d)         of constants c and d
//   Transpose(a) ── MatMul or Gemm        =>   Gemm<transA>(a, ...)      likewise for b
//   Gemm or MatMul ── Transpose           =>   Gemm of the operands, swapped and transposed
//   x ── Transpose, Reshape [I, N] ── w: [O,I] MatMul ── Reshape [O, ...] ── Transpose
//     =>   MatMul(x, Transpose(w))
//
// The last form is what a vectorized  w @ x  becomes (Equinox): it moves the features first, joins all other
// axes, and undoes both afterwards. The transposed weights are a constant that is folded.
//
// What stops it: more than two axes (a Gemm between reshapes costs more than it saves), a bias that
// broadcasts the product, element types without a kernel, an inner value with another user, weights that have
// other users.
// Before opset 11 Gemm requires a bias, and half precision has no kernel.
// Rounds: the sum of products starts at the bias, or runs in another order.
// After onnxruntime's MatMulAddFusion and GemmTransposeFusion.
#include "dialects/onnx/refusals.h"
#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var a{"a"}, b_{"b"}, c{"c"}, d{"d"}, p{"p"}, g{"g"}, w{"w"}, z{"z"}, flat{"flat"};

bool is_matrix(const Value* v) { return v != nullptr && v->ranked() && v->type()->rank() == 2; }

// Whether the bias broadcasts to the product, and not the other way round.
bool is_bias(const Value* bias, const Value* product) {
  if (!bias->ranked() || bias->type()->rank() > 2) return false;
  const size_t rank = bias->type()->rank();
  for (size_t i = 0; i < rank; ++i) {
    const Dim d = bias->type()->dim(i);
    if (!d.is(1) && !(d == product->type()->dim(2 - rank + i))) return false;
  }
  return true;
}

// The flags of a Gemm; nullopt if they are not known.
struct Flags {
  bool a, b;
  double alpha, beta;
};
std::optional<Flags> flags(const Node& n) {
  if (n.is("MatMul")) return Flags{false, false, 1, 1};
  const read::Gemm gemm(n);
  const auto ta = gemm.transA(), tb = gemm.transB();
  const auto alpha = gemm.alpha(), beta = gemm.beta();
  if (!ta || !tb || !alpha || !beta) return std::nullopt;
  return Flags{*ta, *tb, *alpha, *beta};
}

Value* gemm(Rewriter& b, Value* x, Value* y, Value* bias, const Flags& f) {
  AttrInit attrs;
  if (f.alpha != 1) attrs.push_back(attr("alpha", f.alpha));
  if (f.beta != 1) attrs.push_back(attr("beta", f.beta));
  if (f.a) attrs.push_back(attr("transA", 1));
  if (f.b) attrs.push_back(attr("transB", 1));
  if (bias == nullptr) return b.op("Gemm", {x, y}, attrs);
  return b.op("Gemm", {x, y, bias}, attrs);
}

// Whether the model's opset has a Gemm for these results, with or without a bias.
bool has_gemm(const Match& m, const Value* product, bool biased) {
  if (m.model().opset_version("") >= 11) return true;
  return biased && product->dtype() != DType::kF16;
}

bool is_product(const Match& m, Var product) {
  const Node& n = m.node(product);
  return is_matrix(n.input(0)) && is_matrix(n.input(1)) && has_kernel(m.model(), "Gemm", n.result()->dtype()) &&
         flags(n).has_value();
}

// The operand of a two-axis transpose that is worth absorbing. Transposed constants are not: they are folded.
Value* untransposed(Value* v, const Node& reader) {
  const auto t = read::Transpose::of(v->def());
  if (!t || t->node().graph() != reader.graph() || !is_matrix(t->node().input(0))) return nullptr;
  return t->perm() == std::vector<int64_t>{1, 0} ? t->node().input(0) : nullptr;
}

bool takes_transpose(const Match& m) {
  return is_product(m, g) && has_gemm(m, m[g], m.root().input(2) != nullptr) &&
         (untransposed(m.root().input(0), m.root()) != nullptr || untransposed(m.root().input(1), m.root()) != nullptr);
}
Value* take_transpose(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  Flags f = *flags(n);
  Value *x = n.input(0), *y = n.input(1);
  if (Value* under = untransposed(x, n)) x = under, f.a = !f.a;
  if (Value* under = untransposed(y, n)) y = under, f.b = !f.b;
  return gemm(b, x, y, n.input(2), f);
}

// Reshape(w @ z), where z has its features first: how z joins its axes, and what the result has of them.
struct Vectorised {
  Value* source;          // with the features first
  size_t features, rest;  // numbers of its feature axes and of its other axes
  size_t parts;           // number of feature axes in the result
};
std::optional<Vectorised> vectorised(const Match& m) {
  const Node& product = m.node(p);
  Value* weights = m[w];
  Value* from = m[z];
  const Value* result = m.root().result();
  if (!is_matrix(weights) || !is_matrix(m[flat]) || !from->ranked() || !result->ranked() ||
      !has_kernel(m.model(), "Gemm", result->dtype()))
    return std::nullopt;
  if (!weights->is_constant() || !weights->has_one_use() || !product.result()->has_one_use()) return std::nullopt;
  const int64_t in = weights->type()->dim(1).value(), out = weights->type()->dim(0).value();
  const auto joined = [](const Type* t, int64_t size) -> size_t {
    int64_t count = 1;
    for (size_t i = 0; i < t->rank() && t->dim(i).is_int() && count <= size; ++i) {
      count *= t->dim(i).value();
      if (count == size) return i + 1;
    }
    return 0;
  };
  const size_t rank = from->type()->rank(), features = joined(from->type(), in);
  const Vectorised v{from, features, rank - features, joined(result->type(), out)};
  if (v.features == 0 || v.parts == 0 || v.rest == 0) return std::nullopt;
  // Only between transposes, which merge with the new ones.
  const Node* before = from->def();
  if (before == nullptr || !before->is("Transpose") || before->graph() != m.root().graph()) return std::nullopt;
  if (!result->has_one_use() || !(*result->uses().begin()).owner->is("Transpose")) return std::nullopt;
  return v;
}

// A permutation: the axes from `at` on, then those before.
std::vector<int64_t> rotation(size_t rank, size_t at) {
  std::vector<int64_t> perm;
  for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>((i + at) % rank));
  return perm;
}

Value* unvectorised(Rewriter& b, const Match& m) {
  const auto v = vectorised(m);
  if (!v) return nullptr;
  Value* x = b.Transpose(v->source, {.perm = rotation(v->features + v->rest, v->features)});
  std::vector<int64_t> lead;  // 0 copies the axis at the same position
  for (size_t i = 0; i < v->rest; ++i) {
    const Dim d = v->source->type()->dim(v->features + i);
    lead.push_back(d.is_int() ? d.value() : 0);
  }
  if (v->features > 1) {
    auto shape = lead;
    shape.push_back(m.type(w)->dim(1).value());
    x = b.Reshape(x, b.i64s(shape));
  }
  Value* y = b.MatMul(x, b.Transpose(m[w], {.perm = {1, 0}}));
  if (v->parts > 1) {
    auto shape = lead;
    for (size_t i = 0; i < v->parts; ++i) shape.push_back(m.root().result()->type()->dim(i).value());
    y = b.Reshape(y, b.i64s(shape));
  }
  return b.Transpose(y, {.perm = rotation(v->parts + v->rest, v->rest)});
}

}  // namespace

Pass fuse_gemm() {
  std::vector<Rule> rules;
  rules.push_back({.name = "vectorised",
                   .numerics = Numerics::kRounds,
                   .match = Reshape(MatMul(w, Reshape(z, any).as(flat)).as(p), any),
                   .when = [](const Match& m) { return vectorised(m).has_value(); },
                   .build = unvectorised,
                   .opset = 13});
  rules.push_back({.name = "transposed_operand",
                   .numerics = Numerics::kRounds,
                   .match = any_of(MatMul(any, any).as(g), Gemm(any, any, rest).as(g)),
                   .when = takes_transpose,
                   .build = take_transpose,
                   .opset = 7});
  rules.push_back(
      {.name = "transposed_result",
       .numerics = Numerics::kRounds,
       .match = Transpose(sole(any_of(MatMul(a, b_).as(g), Gemm(a, b_).as(g)))),
       .when =
           [](const Match& m) { return is_product(m, g) && read::Transpose(m.root()).perm() == std::vector<int64_t>{1, 0}; },
       .build =
           [](Rewriter& b, const Match& m) {
             Flags f = *flags(m.node(g));
             f = {!f.b, !f.a, f.alpha, f.beta};
             if (!f.a && !f.b && f.alpha == 1) return b.MatMul(m[b_], m[a]);
             return gemm(b, m[b_], m[a], nullptr, f);
           },
       .opset = 11});
  rules.push_back(
      {.name = "bias",
       .numerics = Numerics::kRounds,
       .match = Add(sole(any_of(MatMul(a, b_).as(g), Gemm(a, b_).as(g))), c),
       .when = [](const Match& m) { return is_product(m, g) && is_bias(m[c], m[g]) && has_gemm(m, m[g], /*biased=*/true); },
       .build =
           [](Rewriter& b, const Match& m) {
             Flags f = *flags(m.node(g));
             f.beta = 1;
             return gemm(b, m[a], m[b_], m[c], f);
           },
       .opset = 7});
  rules.push_back({.name = "second_bias",  // the sum of the constants is folded
                   .numerics = Numerics::kRounds,
                   .match = Add(sole(Gemm(a, b_, constant.as(d)).as(g)), constant.as(c)),
                   .when =
                       [](const Match& m) {
                         const auto f = flags(m.node(g));
                         return f && f->beta == 1 && is_bias(m[c], m[g]) && is_bias(m[d], m[g]) && m[d]->has_one_use();
                       },
                   .build =
                       [](Rewriter& b, const Match& m) {
                         Value* operands[] = {m[a], m[b_], b.Add(m[d], m[c])};
                         return b.like(m.node(g), operands);
                       },
                   .opset = 7});
  return rules;
}

}  // namespace sardonyx::onnx
