//   x: [B,T,K] ── Reshape [B*T,K] ── MatMul(w: [K,N]) ── Reshape [B,T,N] ── z         =>   x ── MatMul(w) ── z
//                                             ... ── Add(bias) ── Reshape             =>   x ── MatMul(w) ── Add(bias)
//
// A product with a matrix takes rows of any number of axes; what flattens them and what brings them back is not needed. A last
// Reshape to another shape (heads, for instance) stays, and the first goes with its last reader.
// What stops it: a first Reshape that changes the last axis, or may have none to keep (size 0), a shape that a constant cannot say for all sizes, other readers of the
// product, a bias of more than one axis.
#include "passes/onnx/shape_target.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, flat{"flat"}, w{"w"}, bias{"bias"};

// The type of the product without the flattening.
const Type* unflattened(const Match& m) {
  if (!m[x]->ranked() || !m[flat]->ranked() || !m[w]->ranked()) return nullptr;
  const auto from = m[x]->type()->dims(), to = m[flat]->type()->dims();
  if (from.size() < 3 || to.size() != 2 || m[w]->type()->rank() != 2 || !(from.back() == to.back())) return nullptr;
  // Without elements, a last axis of the same size says nothing of the rows.
  if (m.dims().range(from.back()).min.value_or(0) < 1) return nullptr;
  std::vector<Dim> dims(from.begin(), from.end());
  dims.back() = m[w]->type()->dim(1);
  return m.model().types().with_dims(m[x]->type(), dims);
}

bool fits(const Match& m) {
  const Type* t = unflattened(m);
  if (t == nullptr || !m.root().result()->ranked()) return false;
  if (m[bias] != nullptr && (!m[bias]->ranked() || m[bias]->type()->rank() > 1)) return false;
  return true;
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

}  // namespace

Pass unflatten_matmul() {
  const Pattern matmul = sole(MatMul(any_of(Reshape(x, rest).since(5), Flatten(x)).as(flat), w));
  const auto reshaping = [](const Pattern& of) { return any_of(Reshape(of, rest).since(5), Unsqueeze(of, rest)); };
  return Rule{
      .match = reshaping(any_of(matmul, sole(Add(matmul, bias)))),
      .when = fits,
      .build = build,
      .same_type = true,
  };
}

}  // namespace sardonyx::onnx
