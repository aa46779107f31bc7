#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ir/tensor/tensor_transform.h"
#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/kernels.h"
#include "lower/jax_to_onnx/lib/narrow.h"
#include "lower/jax_to_onnx/lib/pairs.h"

namespace sardonyx::jax_to_onnx {
namespace {

// A static iota or fill up to this many bytes becomes a constant; a larger one becomes an operator.
constexpr size_t kInlineConstantBytes = 1024;

std::vector<int64_t> static_dims(std::span<const Dim> dims) {
  std::vector<int64_t> out;
  for (Dim d : dims) out.push_back(d.value());
  return out;
}

bool all_static(std::span<const Dim> dims) {
  return std::ranges::all_of(dims, [](Dim d) { return d.is_int(); });
}

std::vector<Dim> without_axes(std::span<const Dim> dims, std::span<const int64_t> axes) {
  std::vector<Dim> out;
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t i = 0; i < rank; ++i) {
    if (std::ranges::none_of(axes, [&](int64_t a) { return (a < 0 ? a + rank : a) == i; }))
      out.push_back(dims[static_cast<size_t>(i)]);
  }
  return out;
}

// `dims` with axes of size 1 added at the positions `axes` of the result.
std::vector<Dim> with_axes(std::span<const Dim> dims, std::span<const int64_t> axes) {
  std::vector<Dim> out;
  const auto rank = static_cast<int64_t>(dims.size() + axes.size());
  for (int64_t i = 0, from = 0; i < rank; ++i) {
    const bool added = std::ranges::any_of(axes, [&](int64_t a) { return (a < 0 ? a + rank : a) == i; });
    out.push_back(added ? Dim::of(1) : dims[static_cast<size_t>(from++)]);
  }
  return out;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Operands, results, parameters

Lowering::Lowering(Context& context, const Node& eqn, OnnxBuilder& builder) : LoweringOf(context, eqn, builder) {
  operands_.reserve(eqn.num_inputs());
  for (const Use& u : eqn.operands()) operands_.push_back(u.value ? context.value(*u.value, builder) : nullptr);
}

Lowering::Lowering(Context& context, const Node& eqn, OnnxBuilder& builder, std::vector<Value*> operands)
    : LoweringOf(context, eqn, builder), operands_(std::move(operands)) {}

Value* Lowering::in(size_t i) const {
  SX_CHECK(i < operands_.size(), fmt::format("'{}' has no operand {}", node.op().name, i));
  return operands_[i];
}

const Type* Lowering::in_type(size_t i) const {
  SX_CHECK(i < node.num_inputs() && node.input(i) != nullptr, fmt::format("'{}' has no operand {}", node.op().name, i));
  return part(context_.import(node.input(i)->type()));
}

const Type* Lowering::out_type(size_t i) const {
  SX_CHECK(i < node.num_results(), fmt::format("'{}' has no result {}", node.op().name, i));
  return part(context_.import(node.result(i)->type()));
}

const Type* Lowering::part(const Type* t) const {
  if (!t->is_tensor()) return t;
  const DType own = t->dtype(), part = on_parts_ && is_pair(own) ? pair_part(own) : context_.computed_as(own);
  return part == own ? t : context_.model().types().with_dtype(t, part);
}

Lowering Lowering::on_parts(std::vector<Value*> operands) const {
  Lowering parts(context_, node, b, std::move(operands));
  parts.on_parts_ = true;
  return parts;
}

const Type* Lowering::stored_in_type(size_t i) const { return context_.stored(in_type(i)); }
const Type* Lowering::stored_out_type(size_t i) const { return context_.stored(out_type(i)); }

bool Lowering::may_stay_narrow(size_t i) const { return context_.may_stay_narrow(*node.result(i)); }

const Attr* Lowering::find_param(std::string_view name) const {
  const Attr* a = node.attr(name);
  return a == nullptr || a->is_none() ? nullptr : a;
}

const Attr& Lowering::param(std::string_view name) const {
  if (const Attr* a = node.attr(name)) return *a;
  unsupported(fmt::format("the equation has no parameter '{}'", name));
}

namespace {

[[noreturn]] void wrong_param(const Lowering& ctx, std::string_view name, std::string_view wanted, const Attr& found) {
  ctx.unsupported(
      fmt::format("parameter '{}' is {} where {} is expected", name, to_string(found, ctx.context().source().types()), wanted));
}

}  // namespace

int64_t Lowering::int_param(std::string_view name) const {
  const Attr& a = param(name);
  if (const auto* v = a.get<int64_t>()) return *v;
  if (const auto* v = a.get<bool>()) return *v ? 1 : 0;
  if (const auto* d = a.get<Dim>(); d && d->is_int()) return d->value();
  wrong_param(*this, name, "an integer", a);
}

bool Lowering::bool_param(std::string_view name, std::optional<bool> otherwise) const {
  const Attr* a = find_param(name);
  if (a == nullptr && otherwise) return *otherwise;
  if (a == nullptr) a = &param(name);
  if (const auto* v = a->get<bool>()) return *v;
  if (const auto* v = a->get<int64_t>()) return *v != 0;
  wrong_param(*this, name, "a truth value", *a);
}

double Lowering::float_param(std::string_view name) const {
  const Attr& a = param(name);
  if (const auto* v = a.get<double>()) return *v;
  if (const auto* v = a.get<int64_t>()) return static_cast<double>(*v);
  wrong_param(*this, name, "a number", a);
}

std::string Lowering::string_param(std::string_view name) const {
  const Attr& a = param(name);
  if (const auto* v = a.get<std::string>()) return *v;
  if (const auto* v = a.get<OpaqueAttr>()) return v->text;
  wrong_param(*this, name, "a string", a);
}

std::vector<int64_t> Lowering::ints_param(std::string_view name) const {
  const Attr& a = param(name);
  if (const auto* v = a.get<Attr::Ints>()) return *v;
  if (const auto* v = a.get<AttrList>(); v && v->empty()) return {};
  if (const auto* v = a.get<Attr::DimList>()) {
    std::vector<int64_t> out;
    for (Dim d : *v) {
      if (!d.is_int()) wrong_param(*this, name, "a tuple of integers", a);
      out.push_back(d.value());
    }
    return out;
  }
  wrong_param(*this, name, "a tuple of integers", a);
}

std::vector<Dim> Lowering::dims_param(std::string_view name) const {
  const Attr& a = param(name);
  std::vector<Dim> out;
  if (const auto* v = a.get<Attr::Ints>()) {
    for (int64_t i : *v) out.push_back(Dim::of(i));
    return out;
  }
  if (const auto* v = a.get<Attr::DimList>()) {
    for (Dim d : *v) out.push_back(context_.import(d));
    return out;
  }
  if (const auto* v = a.get<AttrList>(); v && v->empty()) return {};
  wrong_param(*this, name, "a tuple of sizes", a);
}

Dim Lowering::dim_param(std::string_view name) const {
  const Attr& a = param(name);
  if (const auto* v = a.get<int64_t>()) return Dim::of(*v);
  if (const auto* v = a.get<Dim>()) return context_.import(*v);
  wrong_param(*this, name, "a size", a);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes

Value* Lowering::dim(Dim d) { return context_.dim_scalar(d); }
Value* Lowering::shape(std::span<const Dim> dims) {
  return all_static(dims) ? b.i64s(static_dims(dims)) : context_.shape(dims);
}
Value* Lowering::dim_as(Dim d, DType dtype) {
  if (d.is_int() && is_integer(dtype)) return b.scalar_int(dtype, d.value());
  return cast(dim(d), dtype);
}

// ---------------------------------------------------------------------------------------------------------------------
// What most lowerings need

Value* Lowering::cast(Value* x, DType to) {
  if (x->dtype() == to) return x;
  if (const TensorPtr& payload = x->constant(); payload && can_cast(*payload, to)) {
    return context_.derived_constant(*x, "Cast", {static_cast<int64_t>(to)}, [&] { return casted(*payload, to); });
  }
  if (is_narrow(to) && is_float(to)) return to_small_float(*this, x, to);
  return b.Cast(x, {.to = to});
}

namespace {

bool has_dims(const Value* x, std::span<const Dim> dims) {
  return x->ranked() && std::ranges::equal(x->type()->dims(), dims, [](Dim p, Dim q) { return p == q; });
}

// Counts the sizes of `to` that are symbolic and not at the same position in `from`.
size_t open_sizes(std::span<const Dim> from, std::span<const Dim> to) {
  size_t open = 0;
  for (size_t i = 0; i < to.size(); ++i) open += !to[i].is_int() && !(i < from.size() && from[i] == to[i]);
  return open;
}

// Looks through nodes that only regroup axes: returns the first operand with these dims, else the last one.
Value* regrouped_from(Value* x, std::span<const Dim> dims) {
  while (!has_dims(x, dims)) {
    const Node* n = x->def();
    if (n == nullptr || !(n->is("Reshape") || n->is("Squeeze") || n->is("Unsqueeze")) || !n->input(0)->ranked()) break;
    x = n->input(0);
  }
  return x;
}

}  // namespace

Value* Lowering::reshape(Value* x, std::span<const Dim> dims) {
  SX_CHECK(x->ranked(), "a value of unknown rank cannot be reshaped");
  Value* source = regrouped_from(x, dims);
  if (has_dims(source, dims)) return source;
  // With symbolic sizes, a Reshape of x itself may be the one that needs no size at run time.
  if (open_sizes(source->type()->dims(), dims) <= std::max<size_t>(1, open_sizes(x->type()->dims(), dims))) x = source;
  const Type* from = x->type();
  const bool has_zero = std::ranges::any_of(dims, [](Dim d) { return d.is(0); });
  if (all_static(dims)) {
    if (const TensorPtr& payload = x->constant()) {
      const std::vector<int64_t> sizes = static_dims(dims);
      int64_t count = 1;
      bool fits = true;
      for (int64_t size : sizes) fits = fits && !__builtin_mul_overflow(count, size, &count);
      if (!fits || count != payload->size()) {
        throw Error(ErrorCode::kInvalidModel,
                    fmt::format("{} elements cannot have the shape [{}]", payload->size(), fmt::join(sizes, ",")));
      }
      return context_.derived_constant(*x, "Reshape", static_dims(dims), [&] { return payload->reshaped(static_dims(dims)); });
    }
    return b.Reshape(x, b.i64s(static_dims(dims)), {.allowzero = has_zero});
  }
  if (has_zero) return b.Reshape(x, shape(dims), {.allowzero = true});
  // In a constant shape, 0 copies the size at its position, and -1 stands for one other size. The shape must
  // be computed if there are more unknown sizes, or if a copied size may be zero next to a -1, which would be
  // undetermined. In a computed shape, a zero is a size and copies nothing.
  const auto may_be_empty = [&](Dim d) { return !d.is_int() && context_.model().dims().range(d).min.value_or(0) < 1; };
  std::vector<int64_t> spelled;
  size_t open = 0;
  bool copies_empty = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is_int()) {
      spelled.push_back(dims[i].value());
    } else if (i < from->rank() && from->dim(i) == dims[i]) {
      spelled.push_back(0);
      copies_empty |= may_be_empty(dims[i]);
    } else {
      spelled.push_back(-1);
      ++open;
    }
  }
  if (open == 0 || (open == 1 && !copies_empty)) return b.Reshape(x, b.i64s(spelled));
  return b.Reshape(x, shape(dims), {.allowzero = std::ranges::any_of(dims, may_be_empty)});
}

Value* Lowering::expand(Value* x, std::span<const Dim> dims) {
  const Type* from = x->type();
  if (from != nullptr && from->ranked() && std::ranges::equal(from->dims(), dims, [](Dim p, Dim q) { return p == q; }))
    return x;
  // onnxruntime has no Expand of bf16.
  const DType own = x->dtype(), wide = kernel_dtype(*this, {"Expand"}, own);
  if (wide == DType::kUndefined || wide == own) return b.Expand(x, shape(dims));
  return cast(b.Expand(cast(x, wide), shape(dims)), own);
}

Value* Lowering::transpose(Value* x, std::span<const int64_t> perm) {
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i) identity &= perm[i] == static_cast<int64_t>(i);
  if (identity) return x;
  if (const TensorPtr& payload = x->constant(); payload && can_transpose(*payload)) {
    const std::vector<int64_t> order(perm.begin(), perm.end());
    return context_.derived_constant(*x, "Transpose", order, [&] { return transposed(payload, order); });
  }
  return b.Transpose(x, {.perm = std::vector<int64_t>(perm.begin(), perm.end())});
}

Value* Lowering::squeeze(Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  const std::vector<Dim> dims = without_axes(x->type()->dims(), axes);
  if (x->constant() || has_dims(regrouped_from(x, dims), dims)) return reshape(x, dims);
  return b.Squeeze(x, b.i64s(axes));
}

Value* Lowering::unsqueeze(Value* x, std::span<const int64_t> axes) {
  if (axes.empty()) return x;
  const std::vector<Dim> dims = with_axes(x->type()->dims(), axes);
  if (x->constant() || has_dims(regrouped_from(x, dims), dims)) return reshape(x, dims);
  return b.Unsqueeze(x, b.i64s(axes));
}

Value* Lowering::slice(Value* x, int64_t axis, Dim start, Dim stop, int64_t step) {
  if (step == 1 && start.is(0) && x->type()->dim(static_cast<size_t>(axis)) == stop) return x;
  auto bound = [&](Dim d) { return shape({&d, 1}); };
  Value* axes = b.i64s({axis});
  if (step == 1) return b.Slice(x, bound(start), bound(stop), axes);
  return b.Slice(x, bound(start), bound(stop), axes, b.i64s({step}));
}

Value* Lowering::concat(std::span<Value* const> xs, int64_t axis) {
  return xs.size() == 1 ? xs[0] : b.Concat(xs, {.axis = axis});
}

Value* Lowering::iota(DType dtype, Dim size) {
  if (size.is_int() && byte_size(dtype, static_cast<uint64_t>(size.value())) <= kInlineConstantBytes && bit_width(dtype) >= 8) {
    const auto n = static_cast<size_t>(size.value());
    std::vector<std::byte> bytes(byte_size(dtype, n));
    for (size_t i = 0; i < n; ++i) encode_element(dtype, bytes.data(), static_cast<int64_t>(i), static_cast<double>(i));
    return b.constant(Tensor::own(dtype, {size.value()}, std::move(bytes)));
  }
  return cast(b.Range(b.i64(0), dim(size), b.i64(1)), dtype);
}

Value* Lowering::full(DType dtype, std::span<const Dim> dims, double v) {
  if (all_static(dims)) {
    const std::vector<int64_t> shape = static_dims(dims);
    const auto size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (byte_size(dtype, static_cast<uint64_t>(size)) <= kInlineConstantBytes) return b.full(dtype, shape, v);
  }
  if (is_narrow(dtype)) return cast(full(is_float(dtype) ? DType::kF32 : DType::kI32, dims, v), dtype);
  // onnxruntime's ConstantOfShape has no bf16 kernel: expand a scalar instead.
  if (dtype == DType::kBF16) return expand(b.scalar(dtype, v), dims);
  return b.ConstantOfShape(shape(dims), {.value = Tensor::full(dtype, {1}, v)});
}

// ---------------------------------------------------------------------------------------------------------------------
// Bodies

std::vector<Value*> Lowering::inline_body(const Graph& body, std::span<Value* const> args) {
  // The jaxpr computes in its own types, even if the equation is lowered in wider ones.
  const auto converted = [&](Value* v, DType own, DType to) { return context_.computed_as(own) == own ? v : cast(v, to); };
  std::vector<Value*> own_args(args.begin(), args.end());
  for (size_t i = 0; i < std::min(args.size(), body.inputs().size()); ++i) {
    const DType own = body.input(i)->type()->dtype();
    own_args[i] = converted(args[i], own, own);
  }
  std::vector<Value*> results = LoweringOf::inline_body(body, own_args, b);
  for (size_t i = 0; i < results.size(); ++i) {
    const DType own = body.output(i)->type()->dtype();
    results[i] = converted(results[i], own, context_.computed_as(own));
  }
  return results;
}

Graph& Lowering::make_body(std::string_view name, const std::function<void(Lowering& inside)>& fill) {
  OnnxBuilder inner = new_body(name);
  Lowering inside(context_, node, inner, operands_);
  inside.on_parts_ = on_parts_;
  {
    Context::InBody here(context_, inner);
    fill(inside);
  }
  mark(b);
  return inner.graph();
}

}  // namespace sardonyx::jax_to_onnx
