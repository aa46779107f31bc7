// Requirements of onnxruntime's kernels beyond the standard, and the operators that have a kernel of their
// own. Found by trying releases 1.23, 1.31 and 1.32, and by reading core/providers/cpu of
// microsoft/onnxruntime; releases in between are treated like the older of their tested neighbors.
//
//   Attention            The mask has 2 to 4 axes, and the last two are exactly [queries, keys], though the
//                        standard broadcasts them. In 1.23 a mask that differs between heads requires as many
//                        key heads as query heads. Rows with no visible key give NaN in 1.23 and 0 later. A
//                        mask score of -3.4e38 counts as masked; a row of finite scores above that gives the
//                        mean. From version 25 on there is no kernel. Up to 1.31 a numeric mask has the type of
//                        the queries, which are not f64.
//   RMSNormalization,    1.23 requires more than one normalized element, and broadcasts neither scale nor bias.
//   LayerNormalization
//   RotaryEmbedding      Angles and positions are given per example. 1.23 rotates a part of each head only if
//                        the number of heads is given.
//   Resize               Interpolation resizes two axes, optionally with one more in front that keeps its size,
//                        or two in front, or one in front and the last. Cubic: two or four axes, of which the
//                        last keeps its size only if nothing shrinks.
//   MatMul               In f64 with an adjacent Transpose: releases before 1.26 fuse both into an operator for
//                        which they have no kernel.
//   Mul                  In f64 of a value and its own Sigmoid: releases before 1.31 fuse both likewise.
//   Gelu, Swish, GroupNormalization, DepthToSpace, SpaceToDepth, TensorScatter
//                        Restricted only in element types and opsets (runtime_kernels.gen.inc).
#include <algorithm>
#include <array>

#include "dialects/onnx/refusals.h"

namespace sardonyx::onnx {
namespace {

// --- answers

Fit both(Fit a, Fit b) { return std::max(a, b); }
Fit either(Fit a, Fit b) { return std::min(a, b); }

Fit is_equal(const Node& n, Dim a, Dim b) {
  switch (n.graph()->model().dims().compare(a, b)) {
    case Compare::kEqual: return Fit::kYes;
    case Compare::kDifferent: return Fit::kNo;
    default: return Fit::kUnknown;
  }
}

const Type* ranked(const Node& n, size_t i) {
  const Value* v = n.input(i);
  return v != nullptr && v->ranked() ? v->type() : nullptr;
}

// --- Attention

struct Lengths {
  Dim queries, keys;  // cached keys count
  Dim q_heads, kv_heads;
};

std::optional<Lengths> lengths_of(const Node& n) {
  const Type *q = ranked(n, 0), *k = ranked(n, 1);
  if (q == nullptr || k == nullptr || q->rank() != k->rank() || (q->rank() != 3 && q->rank() != 4)) return std::nullopt;
  const size_t length = q->rank() - 2;
  Lengths found{q->dim(length), k->dim(length), {}, {}};
  if (n.input(4) != nullptr) {
    const Type* past = ranked(n, 4);
    if (past == nullptr || past->rank() != 4) return std::nullopt;
    found.keys = n.graph()->model().dims().add(past->dim(2), found.keys);
  }
  const auto heads = [&](std::string_view name, const Type* t) {
    return t->rank() == 4 ? t->dim(1) : Dim::of(n.attr_int(name, 0));
  };
  found.q_heads = heads("q_num_heads", q);
  found.kv_heads = heads("kv_num_heads", k);
  return found;
}

Fit has_full_mask(const Node& n) {
  if (n.input(3) == nullptr) return Fit::kYes;
  const Type* mask = ranked(n, 3);
  if (mask == nullptr) return Fit::kUnknown;
  const size_t rank = mask->rank();
  if (rank < 2 || rank > 4) return Fit::kNo;
  const auto lengths = lengths_of(n);
  if (!lengths) return Fit::kUnknown;
  return both(is_equal(n, mask->dim(rank - 2), lengths->queries), is_equal(n, mask->dim(rank - 1), lengths->keys));
}

Fit has_heads_for_mask(const Node& n) {
  const Type* mask = ranked(n, 3);
  if (mask == nullptr || mask->rank() < 3) return Fit::kYes;
  const auto lengths = lengths_of(n);
  if (!lengths) return Fit::kUnknown;
  return either(is_equal(n, mask->dim(mask->rank() - 3), Dim::of(1)), is_equal(n, lengths->q_heads, lengths->kv_heads));
}

// Other masks are converted too late by some kernels: 1.23 loads no f64 at all, and computes f64 with f32
// masks wrongly if is_causal is set too.
Fit has_mask_like_queries(const Node& n) {
  const Value *q = n.input(0), *mask = n.input(3);
  if (q == nullptr || mask == nullptr || mask->dtype() == DType::kBool || mask->dtype() == DType::kUndefined) return Fit::kYes;
  return q->dtype() == mask->dtype() && q->dtype() != DType::kF64 ? Fit::kYes : Fit::kNo;
}

// --- normalizations

size_t first_normalized(const Node& n, size_t rank) {
  const int64_t at = n.attr_int("axis", -1);
  return static_cast<size_t>(at < 0 ? at + static_cast<int64_t>(rank) : at);
}

Fit has_many_elements(const Node& n) {
  const Type* x = ranked(n, 0);
  if (x == nullptr) return Fit::kUnknown;
  Fit many = Fit::kNo;
  for (Dim d : x->dims().subspan(std::min(first_normalized(n, x->rank()), x->rank()))) {
    many = either(many, d.is_int() ? (d.is(1) ? Fit::kNo : Fit::kYes) : Fit::kUnknown);
  }
  return many;
}

Fit has_whole_scale(const Node& n) {
  const Type* x = ranked(n, 0);
  if (x == nullptr) return Fit::kUnknown;
  const auto dims = x->dims().subspan(std::min(first_normalized(n, x->rank()), x->rank()));
  Fit fit = Fit::kYes;
  for (size_t i = 1; i < n.num_inputs(); ++i) {
    if (n.input(i) == nullptr) continue;
    const Type* scale = ranked(n, i);
    if (scale == nullptr) return Fit::kUnknown;
    if (scale->rank() < dims.size()) return Fit::kNo;
    const size_t extra = scale->rank() - dims.size();
    for (size_t a = 0; a < scale->rank(); ++a)
      fit = both(fit, is_equal(n, scale->dim(a), a < extra ? Dim::of(1) : dims[a - extra]));
  }
  return fit;
}

// --- RotaryEmbedding

// Angles are [batch, length, half], or rows selected by positions [batch, length].
Fit has_angles_of_each(const Node& n) {
  const bool chosen = n.input(3) != nullptr;
  const Type *x = ranked(n, 0), *angles = ranked(n, chosen ? 3 : 1);
  if (x == nullptr || angles == nullptr) return Fit::kUnknown;
  return angles->rank() == (chosen ? 2 : 3) ? is_equal(n, angles->dim(0), x->dim(0)) : Fit::kNo;
}

Fit has_number_of_heads(const Node& n) {
  return n.attr_int("rotary_embedding_dim", 0) != 0 && n.attr_int("num_heads", 0) == 0 ? Fit::kNo : Fit::kYes;
}

// --- Resize

Fit has_axes_to_resize(const Node& n) {
  const std::string mode = n.attr_string("mode", "nearest");
  if (mode == "nearest") return Fit::kYes;
  const Type* x = ranked(n, 0);
  const Type* y = n.result()->ranked() ? n.result()->type() : nullptr;
  if (x == nullptr || y == nullptr || y->rank() != x->rank()) return Fit::kUnknown;
  const size_t rank = x->rank();
  const auto keeps = [&](size_t axis) { return is_equal(n, x->dim(axis), y->dim(axis)); };
  if (rank == 2) return Fit::kYes;
  if (mode == "linear" && rank == 3) return keeps(0);
  if (rank < 4 || rank > 5 || (mode != "linear" && rank == 5)) return Fit::kNo;
  const Fit front = both(keeps(0), keeps(1));
  if (rank == 5) return front;
  Fit around = both(keeps(0), keeps(3));
  if (mode == "cubic") {
    Dims& dims = n.graph()->model().dims();
    for (size_t axis : {size_t{1}, size_t{2}})
      around = both(around, dims.less_equal(x->dim(axis), y->dim(axis)) ? Fit::kYes : Fit::kNo);
  }
  return either(front, around);
}

// --- others

// Releases before 1.26 fuse a Transpose into the MatMul that uses it, in f64 too, although they have no
// kernel for the fused operator.
Fit has_no_transposed_f64(const Node& n) {
  if (n.result()->dtype() != DType::kF64) return Fit::kYes;
  const auto is_matrix = [](const Value* v) { return v->ranked() && v->type()->rank() >= 2; };
  const auto is_transposed = [](const Value* v) { return v->def() != nullptr && v->def()->is("Transpose"); };
  const Value *a = n.input(0), *b = n.input(1);
  return is_matrix(a) && is_matrix(b) && (is_transposed(a) || is_transposed(b)) ? Fit::kNo : Fit::kYes;
}

// Releases before 1.31 fuse a product of a value with its own Sigmoid, in f64 too, although they have no
// kernel for the fused operator. The fusion takes Mul(x, Sigmoid(x)) and Mul(x, Sigmoid(Mul(x, c))).
Fit is_no_f64_activation(const Node& n) {
  if (n.result()->dtype() != DType::kF64) return Fit::kYes;
  const auto is_gate = [](const Value* v, const Value* x) {
    const Node* sigmoid = v->def();
    if (sigmoid == nullptr || !sigmoid->is("Sigmoid")) return false;
    const Value* of = sigmoid->input(0);
    const Node* scaled = of->def();
    return of == x || (scaled != nullptr && scaled->is("Mul") && (scaled->input(0) == x || scaled->input(1) == x));
  };
  const Value *a = n.input(0), *b = n.input(1);
  return is_gate(a, b) || is_gate(b, a) ? Fit::kNo : Fit::kYes;
}

// --- the table

struct Condition {
  std::string_view op;
  std::string_view last_release;  // the last release with this requirement; empty: all have it
  std::string_view asks;
  Fit (*holds)(const Node&);
};
constexpr std::string_view kBroadcasts = "a scale and a bias of just the normalized axes",
                           kMany = "more than one element to normalize";
constexpr std::array kConditions{
    Condition{"Attention", "", "a mask of 2 to 4 axes, the last of which are queries and keys", has_full_mask},
    Condition{"Attention", "ort-1.30", "as many heads of keys as of queries where the mask tells heads apart",
              has_heads_for_mask},
    Condition{"Attention", "ort-1.31", "a mask of bools, or of floats like the queries that are not f64",
              has_mask_like_queries},
    Condition{"RMSNormalization", "ort-1.30", kMany, has_many_elements},
    Condition{"RMSNormalization", "ort-1.30", kBroadcasts, has_whole_scale},
    Condition{"LayerNormalization", "ort-1.30", kMany, has_many_elements},
    Condition{"LayerNormalization", "ort-1.30", kBroadcasts, has_whole_scale},
    Condition{"RotaryEmbedding", "", "angles and positions of each example", has_angles_of_each},
    Condition{"RotaryEmbedding", "ort-1.30", "num_heads where rotary_embedding_dim is given", has_number_of_heads},
    Condition{"Resize", "", "two axes to resize, next to each other, and at most two in front or one on either side",
              has_axes_to_resize},
    Condition{"MatMul", "ort-1.25", "operands of f64 that no Transpose makes", has_no_transposed_f64},
    Condition{"Mul", "ort-1.30", "f64 that are not a value and its own Sigmoid", is_no_f64_activation},
};

// Operators that fusions make but not all releases compute with a kernel of their own.
struct OwnKernel {
  std::string_view op;
  int first_version, last_version;
  uint64_t types;
};
constexpr uint64_t bit(DType t) { return uint64_t{1} << static_cast<unsigned>(t); }
constexpr std::array kOwnKernels{
    // In f16 it takes 1.1 to 146 times as long as the nodes that it replaces.
    OwnKernel{"Attention", 23, 24, bit(DType::kF32)},
};

}  // namespace

KernelFit kernel_fit(const Runtime& runtime, const Node& n) {
  if (!n.op().domain.empty()) return {};
  KernelFit worst;
  for (const Condition& c : kConditions) {
    if (!n.is(c.op)) continue;
    const auto last = std::ranges::find(runtimes(), c.last_release, &Runtime::name);  // not found: all releases
    if (last != runtimes().end() && runtime.number > last->number) continue;
    if (const Fit fit = c.holds(n); fit > worst.fit) worst = {fit, c.asks};
  }
  return worst;
}

bool has_own_kernel(const Op& op, DType t) {
  for (const OwnKernel& k : kOwnKernels) {
    if (k.op == op.name && op.domain.empty())
      return k.first_version <= op.since_version && op.since_version <= k.last_version && (k.types & bit(t)) != 0;
  }
  return true;
}

bool pays_when_fused(const Node& n) {
  static const int oldest = runtime_named(kOldestSupported).number;
  const Value* x = n.input(0);
  if (x == nullptr || !has_own_kernel(n.op(), x->dtype())) return false;
  const auto opset = n.graph()->model().opset_version("");
  return std::ranges::all_of(runtimes(), [&](const Runtime& r) {
    if (r.number < oldest || (opset && *opset > r.opset)) return true;
    const auto found = kernels(r, n.op());
    const bool takes_type =
        std::ranges::any_of(found, [&](const Kernel* k) { return (k->of(n.op().inputs[0].type_var) & bit(x->dtype())) != 0; });
    return takes_type && kernel_fit(r, n).fit == Fit::kYes;
  });
}

}  // namespace sardonyx::onnx
