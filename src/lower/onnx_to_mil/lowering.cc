#include "lower/onnx_to_mil/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "dialects/mil/ops.h"
#include "ir/tensor/tensor_transform.h"
#include "lower/onnx_to_mil/context.h"

namespace sardonyx::onnx_to_mil {

std::vector<int64_t> iota(size_t n, int64_t from) {
  std::vector<int64_t> v(n);
  std::iota(v.begin(), v.end(), from);
  return v;
}

// ---------------------------------------------------------------------------------------------------------------------
// Operands, results, attributes

const Type* Lowering::known(const Value& v, std::string_view what) {
  const Type* t = context_.stored_type(v.type());
  if (t == nullptr || !t->ranked()) {
    unsupported(fmt::format("{} is {}, and Core ML takes only tensors of known rank", what,
                            context_.source().types().to_string(v.type())));
  }
  return t;
}

const Type* Lowering::in_type(size_t i) {
  if (!has(i)) throw Error(ErrorCode::kInvalidModel, fmt::format("{} has no operand {}", node.op().name, i));
  return known(*node.input(i), fmt::format("operand {}", i));
}

const Type* Lowering::stored_type(const Type* onnx) { return context_.stored_type(onnx); }

const Type* Lowering::out_type(size_t i) { return known(*node.result(i), fmt::format("result {}", i)); }

TensorPtr Lowering::constant(size_t i) const { return has(i) ? node.input(i)->constant() : nullptr; }

std::optional<std::vector<int64_t>> Lowering::ints(size_t i, std::string_view attr) const {
  if (!attr.empty()) {
    if (auto list = node.attr_ints(attr)) return list;
  }
  if (!has(i)) return std::nullopt;
  if (const TensorPtr& t = node.input(i)->constant()) return t->to_ints();
  const SymbolicValue* s = context_.onnx_facts().find(*node.input(i));
  if (s == nullptr || !std::ranges::all_of(s->elements, [](Dim d) { return d.is_int(); })) return std::nullopt;
  std::vector<int64_t> list;
  for (Dim d : s->elements) list.push_back(d.value());
  return list;
}

std::vector<int64_t> Lowering::need_ints(size_t i, std::string_view attr, std::string_view what) const {
  if (auto list = ints(i, attr)) return *list;
  unsupported(fmt::format("{} computed at run time, and Core ML wants {} as a constant", what, what));
}

bool Lowering::is_never_negative(size_t i) const {
  if (!has(i)) return false;
  const Value& v = *node.input(i);
  if (is_unsigned(v.dtype()) || v.dtype() == DType::kBool) return true;
  if (const TensorPtr& t = v.constant()) {
    const auto list = t->to_ints();
    return list && std::ranges::all_of(*list, [](int64_t k) { return k >= 0; });
  }
  const SymbolicValue* s = context_.onnx_facts().find(v);
  return s != nullptr && std::ranges::all_of(s->elements, [&](Dim d) {
           if (d.is_unknown()) return false;
           const DimRange range = context_.source().dims().range(d);
           return range.min && *range.min >= 0;
         });
}

bool Lowering::is_from_u32(size_t i) const {
  if (!has(i)) return false;
  const Value& v = *node.input(i);
  if (v.dtype() == DType::kU32) return true;
  const Node* n = v.def();
  return n != nullptr && n->is("Cast") && is_integer(v.dtype()) && bit_width(v.dtype()) == 64 &&
         n->input(0)->dtype() == DType::kU32;
}

bool Lowering::are_from_u32() const {
  bool any = false;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (!has(i)) continue;
    any |= is_from_u32(i);
    if (!is_from_u32(i) && !is_never_negative(i)) return false;
  }
  return any;
}

Value* Lowering::flip_sign_bit(Value* x) { return b.add(x, b.i32(std::numeric_limits<int32_t>::min())); }

std::vector<int64_t> Lowering::ints_attr(std::string_view name, size_t count, int64_t otherwise) const {
  auto list = node.attr_ints(name);
  if (!list || list->empty()) return std::vector<int64_t>(count, otherwise);
  if (list->size() != count)
    throw Error(ErrorCode::kInvalidModel, fmt::format("{} has {} elements, expected {}", name, list->size(), count));
  return *list;
}

bool Lowering::takes(std::string_view op, DType d) const {
  const Op* found = b.find(op);
  if (found == nullptr) return false;
  const auto data = std::ranges::find_if(found->inputs, [](const Slot& s) { return !s.parameter; });
  return data != found->inputs.end() && (data->types.any || (data->types.tensor >> static_cast<int>(d) & 1) != 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes

Value* Lowering::size_of(Value* x, size_t axis) {
  const Dim d = x->type()->dim(axis);
  if (d.is_int()) return b.i32s(std::vector<int64_t>{d.value()});
  return b.slice_by_index(b.shape(x), {as_int(axis)}, {as_int(axis + 1)});
}

Value* Lowering::shape_of(Value* x) {
  if (!x->type()->is_static()) return b.shape(x);
  std::vector<int64_t> sizes;
  for (Dim d : x->type()->dims()) sizes.push_back(d.value());
  return b.i32s(sizes);
}

Value* Lowering::size(Dim d) {
  std::vector<Value*> near;
  for (size_t i = 0; !d.is_int() && i < node.num_inputs(); ++i) {
    if (has(i) && node.input(i)->type() != nullptr && node.input(i)->type()->is_tensor() && !node.input(i)->is_constant())
      near.push_back(in(i));
  }
  if (Value* v = context_.size(d, near, b)) return v;
  unsupported(fmt::format("the size {} is known only at run time, and no tensor has it", dims().to_string(d)));
}

Value* Lowering::shape(std::span<const Dim> wanted) {
  if (std::ranges::all_of(wanted, [](Dim d) { return d.is_int(); })) {
    std::vector<int64_t> ints;
    for (Dim d : wanted) ints.push_back(d.value());
    return b.i32s(ints);
  }
  std::vector<Value*> pieces;
  std::vector<int64_t> run;
  const auto flush = [&] {
    if (!run.empty()) pieces.push_back(b.i32s(run));
    run.clear();
  };
  for (Dim d : wanted) {
    if (d.is_int()) {
      run.push_back(d.value());
      continue;
    }
    flush();
    pieces.push_back(size(d));
  }
  flush();
  return join(pieces);
}

Value* Lowering::join(std::span<Value* const> pieces) {
  // Merges adjacent constants.
  std::vector<Value*> joined;
  for (size_t i = 0; i < pieces.size();) {
    size_t end = i;
    std::vector<int64_t> numbers;
    for (; end < pieces.size() && pieces[end]->is_constant(); ++end) {
      const auto list = pieces[end]->constant()->to_ints();
      numbers.insert(numbers.end(), list->begin(), list->end());
    }
    joined.push_back(end > i + 1 ? b.i32s(numbers) : pieces[i]);
    i = std::max(end, i + 1);
  }
  return joined.size() == 1 ? joined[0] : b.concat(joined, {.axis = 0, .interleave = false});
}

// ---------------------------------------------------------------------------------------------------------------------
// Helpers for lowerings

Value* Lowering::cast(Value* x, DType to) { return x->dtype() == to ? x : b.cast(x, {.dtype = to}); }

Value* Lowering::reshape(Value* x, std::span<const Dim> wanted) {
  const auto same = [](Dim p, Dim q) { return p == q; };
  if (x->ranked() && std::ranges::equal(x->type()->dims(), wanted, same)) return x;
  if (const Node* n = x->def(); n != nullptr && n->is("reshape")) {
    Value* before = n->input(0);
    if (before->ranked() && std::ranges::equal(before->type()->dims(), wanted, same)) return before;
  }
  if (wanted.empty()) {
    const bool known = x->ranked() && x->type()->is_static() && !context_.knows_more(*x);
    if (known) return b.squeeze(x, {.axes = iota(x->type()->rank())});
    return b.squeeze(b.reshape(x, {1}), {.axes = {0}});
  }
  // At most one unknown size is written as -1.
  std::vector<int64_t> sizes;
  size_t open = 0;
  bool has_zero = false;
  for (Dim d : wanted) {
    open += d.is_int() ? 0 : 1;
    has_zero |= d.is(0);
    sizes.push_back(d.is_int() ? d.value() : -1);
  }
  if (has_zero) unsupported("tensors without elements cannot be reshaped in Core ML, where 0 copies a size");
  if (open <= 1) return b.reshape(x, sizes);
  // One size may be -1: preferably one that no operand has.
  std::vector<Dim> known(wanted.begin(), wanted.end());
  auto rest = std::ranges::find_if(known, [](Dim d) { return d.is_anonymous(); });
  if (rest == known.end()) {
    const auto last = std::ranges::find_if(known.rbegin(), known.rend(), [](Dim d) { return !d.is_int(); });
    rest = last.base() - 1;
  }
  *rest = Dim::of(-1);
  return b.reshape(x, shape(known));
}

namespace {

// The operand of the expand_dims that added exactly these axes to make x; else null. A recurrent layer adds
// an axis that most models remove at once.
Value* without_added(Value* x, std::span<const int64_t> axes) {
  const Node* n = x->def();
  if (n == nullptr || !n->is("expand_dims") || n->input(1) == nullptr || !n->input(1)->is_constant()) return nullptr;
  const auto added = n->input(1)->constant()->to_ints();
  const size_t rank = x->type()->rank();
  if (!added || added->size() != axes.size()) return nullptr;
  const auto is_gone = [&](int64_t a) {
    return std::ranges::any_of(axes, [&](int64_t g) { return from_front(g, rank) == from_front(a, rank); });
  };
  return std::ranges::all_of(*added, is_gone) ? n->input(0) : nullptr;
}

}  // namespace

Value* Lowering::squeeze(Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  if (Value* before = without_added(x, axes)) return before;
  std::vector<bool> gone(x->type()->rank());
  bool known = !context_.knows_more(*x);
  for (int64_t a : axes) {
    gone[from_front(a, gone.size())] = true;
    known &= x->type()->dim(from_front(a, gone.size())).is(1);
  }
  if (known) return b.squeeze(x, {.axes = std::vector<int64_t>(axes.begin(), axes.end())});
  std::vector<Dim> rest;
  for (size_t i = 0; i < gone.size(); ++i) {
    if (!gone[i]) rest.push_back(x->type()->dim(i));
  }
  return reshape(x, rest);
}

Value* Lowering::unsqueeze(Value* x, std::span<const int64_t> axes) {
  return axes.empty() ? x : b.expand_dims(x, {.axes = std::vector<int64_t>(axes.begin(), axes.end())});
}

namespace {

// The operand of the transpose that made x, if a transpose by `perm` undoes it; else null.
Value* before_inverse(Value* x, std::span<const int64_t> perm) {
  const Node* n = x->def();
  if (n == nullptr || !n->is("transpose") || n->input(1) == nullptr || !n->input(1)->is_constant()) return nullptr;
  const auto first = n->input(1)->constant()->to_ints();
  if (!first || first->size() != perm.size()) return nullptr;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (from_front((*first)[from_front(perm[i], perm.size())], perm.size()) != i) return nullptr;
  }
  return n->input(0);
}

}  // namespace

Value* Lowering::transpose(Value* x, std::span<const int64_t> perm) {
  if (std::ranges::equal(perm, iota(perm.size()))) return x;
  if (Value* before = before_inverse(x, perm)) return before;
  const std::vector<int64_t> order(perm.begin(), perm.end());
  if (x->is_constant() && can_transpose(*x->constant())) return b.constant(transposed(x->constant(), order));
  return b.transpose(x, {.perm = order});
}

Value* Lowering::expand(Value* x, std::span<const Dim> wanted) {
  const auto same = [](Dim p, Dim q) { return p == q; };
  if (std::ranges::equal(x->type()->dims(), wanted, same)) return x;
  const size_t missing = wanted.size() - std::min(wanted.size(), x->type()->rank());
  bool is_static = x->type()->is_static();
  for (Dim d : wanted) is_static &= d.is_int();
  if (is_static) {
    if (x->is_constant() && x->constant()->size() == 1) {
      std::vector<int64_t> shape;
      for (Dim d : wanted) shape.push_back(d.value());
      std::vector<std::byte> scratch;
      return b.constant(Tensor::splat(x->dtype(), shape, x->constant()->bytes(scratch)));
    }
    Value* full = unsqueeze(x, iota(missing));
    std::vector<int64_t> reps;
    for (size_t i = 0; i < wanted.size(); ++i) reps.push_back(full->type()->dim(i).is(1) ? wanted[i].value() : 1);
    return via("tile", full, [&](Value* v) { return b.tile(v, reps); });
  }
  // Broadcasts by multiplying with ones, which is exact for every number.
  if (x->dtype() == DType::kBool) return b.logical_and(x, b.cast(b.fill(shape(wanted), {.value = 1}), {.dtype = "bool"}));
  const TensorPtr one = Tensor::full(x->dtype(), {}, 1);
  return b.mul(x, b.fill(shape(wanted), {.value = one}));
}

Value* Lowering::select(Value* condition, Value* a, Value* other) {
  // The result has the broadcast shape of a and other; the condition must not extend it.
  const auto broadcast = [&](const Type* s, const Type* t) -> std::optional<std::vector<Dim>> {
    const size_t n = std::max(s->rank(), t->rank());
    std::vector<Dim> out(n);
    for (size_t i = 0; i < n; ++i) {
      const Dim p = i + s->rank() < n ? Dim::of(1) : s->dim(i + s->rank() - n);
      const Dim q = i + t->rank() < n ? Dim::of(1) : t->dim(i + t->rank() - n);
      if (!p.is(1) && !q.is(1) && !(p == q)) return std::nullopt;
      out[i] = p.is(1) ? q : p;
    }
    return out;
  };
  const auto whole = out_dims();
  const auto found = broadcast(a->type(), other->type());
  const auto same = [](Dim p, Dim q) { return p == q; };
  if (!found || !std::ranges::equal(*found, whole, same)) a = expand(a, whole);
  return b.select(condition, a, other);
}

Value* Lowering::wrapped(Value* x, DType to) {
  if (!is_integer(to) || bit_width(to) >= 32) return x;
  const int64_t range = int64_t{1} << bit_width(to);
  if (is_unsigned(to)) return b.mod(x, range);
  return b.sub(b.mod(b.add(x, range / 2), range), range / 2);
}

Value* Lowering::via(std::string_view op, Value* x, const std::function<Value*(Value*)>& f) {
  if (takes(op, x->dtype())) return f(x);
  for (const DType d : {DType::kI32, DType::kF32}) {
    if (x->dtype() == DType::kBool && takes(op, d)) return b.not_equal(f(b.cast(x, {.dtype = d})), b.scalar(d, 0));
  }
  // f32 is exact for integers only up to 2^24.
  unsupported(fmt::format("Core ML's {} takes no {} in {}", op, to_string(x->dtype()), coreml_target_name(version())));
}

void Lowering::needs(int version, std::string_view what) const {
  unsupported(fmt::format("{} needs {}", what, coreml_target_name(version)));
}

}  // namespace sardonyx::onnx_to_mil
