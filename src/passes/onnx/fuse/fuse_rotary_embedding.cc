//   x ── halves a, b ── Concat(a cos - b sin, b cos + a sin)     =>   RotaryEmbedding(x, cos, sin)   JAX models
//   x cos + Concat(-b, a) sin, with cos and sin of Concat(f, f)  =>   the same                   PyTorch models
//   Concat(RotaryEmbedding(first elements of x), the others)     =>   RotaryEmbedding<rotary_embedding_dim>(x)
//
// Replaces six to eight nodes by one, at opset 23. Heads may come before the positions, [B,H,T,D], or after
// them, [B,T,H,D]. In the second case the operator stands between reshapes to [B,T,H*D], which merge with
// those that split the heads.
//
// Angles that are equal for all examples are expanded to [B,T,D/2], as the operator requires, once per model.
//
// What stops it: angles that are not per position, parts that are not halves, an inner value with another
// user, types other than f32; in the second form, angles that are not provably the same in both halves.
// Rounds: one kernel computes the four products and two sums.
#include <algorithm>
#include <array>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/simplify/slices.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, first{"first"}, second{"second"}, rotated{"rotated"}, cosine{"cosine"}, sine{"sine"};
constexpr int kSteps = 8;
constexpr size_t kMostBytes = 4 << 20;

// Whether the axis of a Split or Concat is the last one.
bool is_on_last_axis(const Node& n, size_t rank) { return read::OpReader(n).axis_in("axis", rank) == rank - 1; }

// Whether v is the first or second half of x. It is a cut along one axis, which must be the last if that is
// half as long.
bool is_half(const Match& m, Var v, int64_t size, bool is_second) {
  const Value* part = m[v];
  if (!part->ranked() || !part->type()->dim(3).is(size / 2)) return false;
  const Node& n = *part->def();
  if (n.is("Split")) return n.num_results() == 2;
  const auto one = [&](size_t i) -> std::optional<int64_t> {
    const auto list = n.input(i) != nullptr ? m.context().ints(n.input(i)) : std::nullopt;
    return list && list->size() == 1 ? std::optional(list->front()) : std::nullopt;
  };
  auto start = one(1);
  const auto step = n.input(4) == nullptr ? std::optional<int64_t>(1) : one(4);
  if (!start || !step) return false;
  if (*start < 0) *start += size;
  return *step == 1 && *start == (is_second ? size / 2 : 0);
}

bool is_rotation(const Match& m) {
  const Value *v = m[x], *y = m.root().result();
  if (v->dtype() != DType::kF32 || !v->ranked() || v->type()->rank() != 4 || !same_shape(v, y)) return false;
  const Dim size = v->type()->dim(3);
  if (!size.is_int() || size.value() < 2) return m.refuse("the size of a head is not known, or one");
  if (!is_half(m, first, size.value(), false) || !is_half(m, second, size.value(), true))
    return m.refuse("the parts are not halves");
  return has_no_other_users(m, m[x]) || m.refuse("a part of it has another user");
}

// Whether v has one element along the head axis, seen as [B,T,H,D] or [B,H,T,D]. It broadcasts to a value of
// these axes.
bool is_one_along(const Value* v, size_t heads) {
  const size_t missing = 4 - v->type()->rank();
  return heads < missing || v->type()->dim(heads - missing).is(1);
}

// The first half of a float constant whose last axis holds the same numbers twice; null for other constants.
TensorPtr first_half(const Value& v) {
  const TensorPtr& t = v.constant();
  if (t->is_promise() || t->byte_size() > kMostBytes || t->rank() < 2) return nullptr;
  std::vector<std::byte> scratch;
  const auto bytes = t->bytes(scratch);
  const auto row = static_cast<size_t>(t->shape().back()) * sizeof(float);
  if (row % (2 * sizeof(float)) != 0) return nullptr;
  std::vector<std::byte> half;
  for (size_t at = 0; at < bytes.size(); at += row) {
    const auto first = bytes.subspan(at, row / 2), others = bytes.subspan(at + row / 2);
    if (!std::equal(first.begin(), first.end(), others.begin())) return nullptr;
    half.insert(half.end(), first.begin(), first.end());
  }
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  shape.back() /= 2;
  return Tensor::own(t->dtype(), std::move(shape), std::move(half));
}

// The cosine or sine of the angles as [B,T,D/2], where B may be 1; null if v does not have that form. `heads`
// is the axis that must have size one in v. `twice`: v holds every angle twice, side by side.
Value* angles(Rewriter& b, Value* v, const Type& t, size_t heads, bool twice) {
  std::vector<Node*> chain;  // nodes that compute v, from its end
  Value* at = v;
  bool has_heads = true;  // whether the head axis still exists
  for (int i = 0; i < kSteps; ++i) {
    if (twice && at->is_constant()) {
      TensorPtr half = first_half(*at);
      if (half == nullptr) return nullptr;
      at = b.constant(std::move(half), at->name().view());
      twice = false;
      break;
    }
    Node* n = at->def();
    if (n == nullptr || n->unchecked() || n->graph() != &b.graph()) break;
    const bool adds = (n->is("Unsqueeze") || n->is("Reshape")) && n->input(0)->ranked() && n->input(0)->type()->rank() == 3 &&
                      n->result()->ranked() && n->result()->type()->rank() == 4;
    if (!twice && !adds) break;
    if (adds) {  // the head axis
      const auto from = n->input(0)->type()->dims(), to = n->result()->type()->dims();
      for (size_t k = 0; k < 3; ++k) {
        if (!(from[k] == to[k < heads ? k : k + 1])) return nullptr;
      }
      at = n->input(0);
      has_heads = false;
      continue;
    }
    if (n->is("Concat")) {
      if (n->input(0) != n->input(1) || !n->result()->ranked() || !is_on_last_axis(*n, n->result()->type()->rank()))
        return nullptr;
      at = n->input(0);
      twice = false;
      continue;
    }
    const bool scales = n->is("Mul") && n->input(1)->is_constant() && n->input(1)->constant()->size() == 1;
    if (!n->is("Cos") && !n->is("Sin") && !scales) return nullptr;
    chain.push_back(n);
    at = n->input(0);
  }
  if (twice || !at->ranked()) return nullptr;
  if (has_heads) {
    const size_t rank = at->type()->rank();
    if (rank == 4) at = b.squeeze(at, std::array{static_cast<int64_t>(heads)});
    if (rank == 3 && heads == 2) at = b.unsqueeze(b.squeeze(at, std::array{int64_t{1}}), std::array{int64_t{0}});
    if (rank == 2) at = b.unsqueeze(at, std::array{int64_t{0}});
  }
  const auto has = at->ranked() ? at->type()->dims() : std::span<const Dim>();
  if (has.size() != 3 || !(has[1] == t.dim(heads == 1 ? 2 : 1)) || !has[2].is(t.dim(3).value() / 2)) return nullptr;
  for (auto n = chain.rbegin(); n != chain.rend(); ++n) at = b.like(**n, *(*n)->input(0), *at);
  return at;
}

// The angles for every example, expanded if they are all equal.
Value* cache(Rewriter& b, Value* v, const Value& x, size_t heads, bool twice) {
  const Type& t = *x.type();
  v = angles(b, v, t, heads, twice);
  if (v == nullptr || v->type()->dim(0) == t.dim(0)) return v;
  if (!v->type()->dim(0).is(1)) return nullptr;
  const Dim count = t.dim(0);
  Value* shape = count.is_int()
                     ? b.i64s({count.value(), 1, 1})
                     : b.Concat({b.Shape(const_cast<Value*>(&x), {.end = 1, .start = 0}), b.i64s({1, 1})}, {.axis = 0});
  return b.Expand(v, shape);
}

Value* rotary(Rewriter& b, const Match& m) {
  const Type& t = *m.type(x);
  const bool twice = m[rotated] != nullptr;
  for (size_t heads : {size_t{1}, size_t{2}}) {
    if (!is_one_along(m[cosine], heads) || !is_one_along(m[sine], heads)) continue;
    if (heads == 2 && !t.dim(2).is_int()) continue;
    Value *c = cache(b, m[cosine], *m[x], heads, twice), *s = cache(b, m[sine], *m[x], heads, twice);
    if (c == nullptr || s == nullptr) continue;
    if (heads == 1) return b.RotaryEmbedding(m[x], c, s);
    const int64_t count = t.dim(2).value(), size = t.dim(3).value();
    Value* y = b.RotaryEmbedding(b.Reshape(m[x], b.i64s({0, 0, count * size})), c, s, nullptr, {.num_heads = count});
    return b.Reshape(y, b.i64s({0, 0, count, size}));
  }
  m.refuse("the angles are not per position");
  return nullptr;
}

// --- rotation of a part of each head

// Whether v holds the elements [from, to) of the last axis of x, which has `size` elements.
bool is_cut(const Match& m, const Value& v, bool is_first, int64_t from, int64_t to, int64_t size) {
  const Node& n = *v.def();
  if (n.is("Split")) return n.num_results() == 2 && n.result(is_first ? 0 : 1) == &v && is_on_last_axis(n, 4);
  const auto bounds = bounds_of(n, m.context());
  if (!bounds || bounds->axes != std::vector<int64_t>{3} || bounds->steps != std::vector<int64_t>{1}) return false;
  const Piece p = piece_of(bounds->starts[0], bounds->ends[0], 1, size);
  return p.first == from && p.count == to - from;
}

bool is_partial(const Match& m) {
  const Node& rotary = m.node(rotated);
  const Value &whole = *m[x], &head = *m[first];
  if (!whole.ranked() || whole.type()->rank() != 4 || !head.ranked() || !is_on_last_axis(m.root(), 4)) return false;
  if (rotary.attr("rotary_embedding_dim") != nullptr && int_attr(rotary, "rotary_embedding_dim") != 0) return false;
  const Dim size = whole.type()->dim(3), part = head.type()->dim(3);
  return whole.type()->dim(1).is_int() && size.is_int() && part.is_int() &&
         is_cut(m, head, true, 0, part.value(), size.value()) &&
         is_cut(m, *m[second], false, part.value(), size.value(), size.value());
}

Value* partial(Rewriter& b, const Match& m) {
  const Node& n = m.node(rotated);
  std::vector<Value*> operands = operands_of(n);
  operands[0] = m[x];
  // onnxruntime 1.23 also requires the number of heads.
  return b.op("RotaryEmbedding", operands,
              attrs_with(n, {attr("num_heads", m[x]->type()->dim(1).value()),
                             attr("rotary_embedding_dim", m[first]->type()->dim(3).value())}));
}

}  // namespace

Pass fuse_rotary_embedding() {
  const Pattern a = any_of(Split(x, rest), Slice(x, rest)).as(first);
  const Pattern b = any_of(Split(x, rest).result(1), Slice(x, rest)).as(second);
  return std::vector<Rule>{
      {.name = "halves",
       .numerics = Numerics::kRounds,
       .match = any_of(Concat(Sub(Mul(a, cosine), Mul(b, sine)), Add(Mul(b, cosine), Mul(a, sine))),
                       Add(Mul(x, cosine), Mul(Concat(Neg(b), a).as(rotated), sine))),
       .when = is_rotation,
       .build = rotary,
       .opset = 23,
       .same_type = true},
      {.name = "part",
       .match = Concat(sole(RotaryEmbedding(a, rest).as(rotated)), b),
       .when = is_partial,
       .build = partial,
       .opset = 23,
       .same_type = true},
  };
}

}  // namespace sardonyx::onnx
