//   x: [B,T,K] ── Reshape [B*T,K] ── MatMul(w: [K,N]) ── Reshape [B,T,N] ── z   =>   x ── MatMul(w) ── z
//                                          ... ── Add(bias) ── Reshape          =>   x ── MatMul(w) ── Add(bias)
//   x: [B,H,T,K] ── Reshape [B*H,T,K] ── MatMul ── Reshape [B,H,T,N] ── z       =>   x ── MatMul(w) ── z
//   w: [B,H,K,N] ── Reshape [B*H,K,N] ────┘                   (either may be transposed behind its Reshape)
//
// A matrix product takes rows with any number of axes, so flattening them and restoring them is unnecessary.
// The same holds for batches. A last Reshape to another shape (heads, for instance) stays. The first Reshape
// disappears with its last user.
// What stops it: a first Reshape that changes the last axis, or whose last axis may have size 0; a shape that
// a constant cannot express for all sizes; other users of the product; a bias of more than one axis.
#include <algorithm>

#include "passes/onnx/shapes/shape_target.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, flat{"flat"}, w{"w"}, bias{"bias"}, other{"other"}, x_transposed{"x_transposed"},
    w_transposed{"w_transposed"};

// The type of the product without the flattening; null if it is not known.
const Type* unflattened(const Match& m) {
  if (!m[x]->ranked() || !m[flat]->ranked() || !m[w]->ranked()) return nullptr;
  const auto from = m[x]->type()->dims(), to = m[flat]->type()->dims();
  if (from.size() < 3 || to.size() != 2 || m[w]->type()->rank() != 2 || !(from.back() == to.back())) return nullptr;
  // If the last axis may be empty, its equal size says nothing about the rows.
  if (m.dims().range(from.back()).min.value_or(0) < 1) return nullptr;
  std::vector<Dim> dims(from.begin(), from.end());
  dims.back() = m[w]->type()->dim(1);
  return m.model().types().with_dims(m[x]->type(), dims);
}

bool fits(const Match& m) {
  if (unflattened(m) == nullptr || !m.root().result()->ranked()) return false;
  return m[bias] == nullptr || (m[bias]->ranked() && m[bias]->type()->rank() <= 1);
}

Value* build(Rewriter& b, const Match& m) {
  const Type* t = unflattened(m);
  Value* v = b.MatMul(m[x], m[w]);
  v->set_type(t);
  if (m[bias] != nullptr) v = b.Add(v, m[bias]);
  const Type* wanted = m.root().result()->type();
  if (Types::equal(v->type(), wanted)) return v;
  const auto target = constant_target(*v, *wanted, m.dims());
  return target ? b.Reshape(v, b.i64s(*target)) : nullptr;
}

// How many leading axes of `whole` are joined into the first axis of `flat`, whose other two axes are the
// same.
std::optional<size_t> joined_batches(const Match& m, const Value* whole, const Value* flat) {
  if (!whole->ranked() || !flat->ranked()) return std::nullopt;
  const auto from = whole->type()->dims(), to = flat->type()->dims();
  if (from.size() < 4 || to.size() != 3 || !(from[from.size() - 1] == to[2]) || !(from[from.size() - 2] == to[1]))
    return std::nullopt;
  const size_t batches = from.size() - 2;
  return m.dims().product(from.first(batches)) == to[0] ? std::optional(batches) : std::nullopt;
}

bool swaps_last(const Match& m, Var transposed) {
  return m[transposed] == nullptr || ints_attr(m.node(transposed), "perm") == std::vector<int64_t>{0, 2, 1};
}

bool fits_batches(const Match& m) {
  const auto left = joined_batches(m, m[x], m[flat]), right = joined_batches(m, m[w], m[other]);
  if (!left || left != right || !swaps_last(m, x_transposed) || !swaps_last(m, w_transposed)) return false;
  // The driver checks that the product has the type of the result.
  const auto a = m[x]->type()->dims(), b = m[w]->type()->dims();
  return std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(*left), b.begin());
}

Value* build_batches(Rewriter& b, const Match& m) {
  const auto operand = [&](Var v, Var transposed) {
    if (m[transposed] == nullptr) return m[v];
    std::vector<int64_t> perm(m[v]->type()->rank());
    for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
    std::swap(perm[perm.size() - 2], perm.back());
    return b.Transpose(m[v], {.perm = perm});
  };
  Value* left = operand(x, x_transposed);
  return b.MatMul(left, operand(w, w_transposed));
}

}  // namespace

Pass unflatten_matmul() {
  const Pattern matmul = sole(MatMul(any_of(Reshape(x, rest).since(5), Flatten(x)).as(flat), w));
  const auto reshaping = [](const Pattern& of) { return any_of(Reshape(of, rest).since(5), Unsqueeze(of, rest)); };
  std::vector<Rule> rules;
  rules.push_back({.name = "rows",
                   .match = reshaping(any_of(matmul, sole(Add(matmul, bias)))),
                   .when = fits,
                   .build = build,
                   .same_type = true});
  const auto batches = [](Var whole, Var joined, Var transposed) {
    const Pattern p = Reshape(whole, rest).since(5).as(joined);
    return any_of(p, sole(Transpose(p).as(transposed)));
  };
  rules.push_back(
      {.name = "batches",
       .match = Reshape(sole(MatMul(batches(x, flat, x_transposed), batches(w, other, w_transposed))), rest).since(5),
       .when = fits_batches,
       .build = build_batches});
  return rules;
}

}  // namespace sardonyx::onnx
