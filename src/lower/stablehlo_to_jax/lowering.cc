#include "lower/stablehlo_to_jax/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {

// ---------------------------------------------------------------------------------------------------------------------
// Types

const Type* Lowering::out_type(size_t i, std::span<const Dim> dims) const {
  const Type* stated = node.result(i)->type();
  SX_CHECK(stated != nullptr && stated->ranked(), "a result of StableHLO has a type");
  DimList known(stated->dims().begin(), stated->dims().end());
  for (size_t axis = 0; axis < known.size(); ++axis) {
    if (!known[axis].is_unknown()) continue;
    if (axis < dims.size()) known[axis] = dims[axis];
    if (context_.is_known(known[axis])) continue;
    const std::string what = fmt::format("the size of axis {} of the result depends on data", axis);
    // Only a stand-in for the result of a refused operation has unknown sizes: that one is reported.
    for (size_t k = 0; k < num_inputs(); ++k) {
      if (std::ranges::any_of(in_dims(k), [](Dim d) { return d.is_unknown(); })) throw Error(ErrorCode::kInvalidModel, what);
    }
    unsupported(what);
  }
  return b.types().tensor(stated->dtype(), known);
}

const Type* Lowering::map_type(size_t i) const {
  const size_t rank = out_rank(i);
  DimList known(rank);
  for (size_t axis = 0; axis < rank; ++axis) {
    for (size_t k = 1; k < num_inputs(); ++k) {
      if (in_rank(k) == rank && in_rank(k - 1) == rank) context_.equate(in_dims(k - 1)[axis], in_dims(k)[axis]);
    }
    for (size_t k = 0; k < num_inputs(); ++k) {  // equate() may have changed the types
      if (in_rank(k) == rank && !known[axis].is_int()) known[axis] = in_dims(k)[axis];
    }
  }
  return out_type(i, known);
}

// ---------------------------------------------------------------------------------------------------------------------
// Attributes

const Attr& Lowering::attr(std::string_view name) const {
  const Attr* a = node.attr(name);
  if (a == nullptr) throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' has no attribute '{}'", node.op().name, name));
  return *a;
}

namespace {

template <class T>
const T& need(const Node& n, std::string_view name, const Attr& a, std::string_view kind) {
  const T* v = a.get<T>();
  if (v == nullptr)
    throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' of '{}' is not {}", name, n.op().name, kind));
  return *v;
}

const Attr& field_of(const Node& n, std::string_view name, const Attr& a, std::string_view field) {
  for (const auto& [key, value] : need<AttrDict>(n, name, a, "a structure")) {
    if (key == field) return value;
  }
  throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' of '{}' has no field '{}'", name, n.op().name, field));
}

// Empty lists have several kinds.
Ints ints_of(const Node& n, std::string_view name, const Attr& a) {
  if (const auto* list = a.get<AttrList>(); list != nullptr && list->empty()) return {};
  if (const auto* list = a.get<Attr::DimList>(); list != nullptr && list->empty()) return {};
  return need<Attr::Ints>(n, name, a, "a list of integers");
}

}  // namespace

int64_t Lowering::int_attr(std::string_view name) const { return need<int64_t>(node, name, attr(name), "an integer"); }
bool Lowering::bool_attr(std::string_view name) const { return need<bool>(node, name, attr(name), "true or false"); }
double Lowering::float_attr(std::string_view name) const { return need<double>(node, name, attr(name), "a number"); }
std::string Lowering::string_attr(std::string_view name) const { return need<std::string>(node, name, attr(name), "a string"); }
Ints Lowering::ints_attr(std::string_view name) const { return ints_of(node, name, attr(name)); }
Ints Lowering::per_axis(std::string_view name) const {
  Ints all = ints_attr(name);
  if (all.size() == in_rank(0)) return all;
  throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' of '{}' has {} entries for an operand of rank {}", name,
                                                    node.op().name, all.size(), in_rank(0)));
}
int64_t Lowering::int_field(std::string_view name, std::string_view field) const {
  return need<int64_t>(node, field, field_of(node, name, attr(name), field), "an integer");
}
Ints Lowering::ints_field(std::string_view name, std::string_view field) const {
  return ints_of(node, field, field_of(node, name, attr(name), field));
}

std::vector<Ints> Lowering::rows_attr(std::string_view name) const {
  const TensorPtr& t = need<TensorPtr>(node, name, attr(name), "a tensor");
  const auto all = t->to_ints();
  if (t->rank() != 2 || t->shape()[1] != 2 || !all)
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("attribute '{}' of '{}' has no rows of two integers", name, node.op().name));
  std::vector<Ints> rows;
  for (int64_t i = 0; i < t->shape()[0]; ++i) {
    const auto first = all->begin() + i * t->shape()[1];
    rows.emplace_back(first, first + t->shape()[1]);
  }
  return rows;
}

const Graph& Lowering::body(std::string_view name) const {
  const Graph* g = node.body(name);
  if (g == nullptr) throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' has no body '{}'", node.op().name, name));
  return *g;
}

DimList Lowering::sizes(size_t i, std::string_view what) const {
  auto known = context_.elements(*in(i));
  for (size_t k = 0; known && k < known->size(); ++k) {
    context_.with_inputs_as_sizes((*known)[k]);  // may change the elements of all values
    known = context_.elements(*in(i));
  }
  if (!known || !std::ranges::all_of(*known, [&](Dim d) { return context_.is_known(d); }))
    unsupported(fmt::format("{} depends on data", what));
  return *known;
}

Ints Lowering::numbers(size_t i, std::string_view what) const {
  Ints all;
  for (Dim d : sizes(i, what)) {
    if (!d.is_int()) unsupported(fmt::format("{} depends on open sizes", what));
    all.push_back(d.value());
  }
  return all;
}

// ---------------------------------------------------------------------------------------------------------------------
// Equations

Attr sizes_param(std::span<const Dim> dims) {
  if (!std::ranges::all_of(dims, [](Dim d) { return d.is_int(); })) return DimList(dims.begin(), dims.end());
  Ints ints;
  for (Dim d : dims) ints.push_back(d.value());
  return ints;
}

Values Lowering::make(std::string_view primitive, std::span<Value* const> xs, std::span<const Type* const> types,
                      AttrInit params, std::span<const Body> bodies) {
  Node& n = b.node(primitive, xs, types.size(), std::move(params), {}, bodies);
  Values results;
  for (size_t i = 0; i < types.size(); ++i) {
    n.result(i)->set_type(types[i]);
    results.push_back(n.result(i));
  }
  return results;
}

Value* Lowering::make(std::string_view primitive, std::span<Value* const> xs, const Type* type, AttrInit params) {
  return make(primitive, xs, std::span(&type, 1), std::move(params))[0];
}

Value* Lowering::compare(std::string_view primitive, Value* x, Value* y) {
  return make(primitive, {x, y}, b.types().with_dtype(x->type(), DType::kBool));
}

Value* Lowering::select(Value* condition, Value* if_true, Value* if_false) {
  return make("select_n", {condition, if_false, if_true}, if_true->type());
}

Value* Lowering::cast(Value* x, DType to) {
  if (x->dtype() == to) return x;
  return make("convert_element_type", {x}, b.types().with_dtype(x->type(), to),
              {sardonyx::attr("new_dtype", to), sardonyx::attr("weak_type", false)});
}

Value* Lowering::number(const Type* like, double v) { return spread(b.scalar(like->dtype(), v), like); }
Value* Lowering::integer(const Type* like, int64_t v) {
  return spread(is_float(like->dtype()) ? b.scalar(like->dtype(), static_cast<double>(v)) : b.scalar_int(like->dtype(), v),
                like);
}

Value* Lowering::spread(Value* x, const Type* like) {
  if (x->type()->rank() != 0 || like->rank() == 0) return x;
  return broadcast(x, {}, b.types().with_dtype(like, x->dtype()));
}

Value* Lowering::broadcast(Value* x, std::span<const int64_t> axes, const Type* type) {
  return make("broadcast_in_dim", {x}, type,
              {sardonyx::attr("broadcast_dimensions", Ints(axes.begin(), axes.end())),
               sardonyx::attr("shape", sizes_param(type->dims()))});
}

Value* Lowering::reshape(Value* x, std::span<const Dim> dims) {
  return make("reshape", {x}, tensor(x->dtype(), dims),
              {sardonyx::attr("dimensions", Attr()), sardonyx::attr("new_sizes", sizes_param(dims))});
}

Value* Lowering::transpose(Value* x, std::span<const int64_t> perm) {
  DimList dims;
  bool moves = false;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (perm.size() != x->type()->rank() || perm[i] < 0 || perm[i] >= static_cast<int64_t>(perm.size()))
      throw Error(ErrorCode::kInvalidModel, fmt::format("'{}' permutes axes that its operand lacks", node.op().name));
    dims.push_back(x->type()->dim(static_cast<size_t>(perm[i])));
    moves |= perm[i] != static_cast<int64_t>(i);
  }
  if (!moves) return x;
  return make("transpose", {x}, tensor(x->dtype(), dims), {sardonyx::attr("permutation", Ints(perm.begin(), perm.end()))});
}

Value* Lowering::reverse(Value* x, std::span<const int64_t> axes) {
  return make("rev", {x}, x->type(), {sardonyx::attr("dimensions", Ints(axes.begin(), axes.end()))});
}

Value* Lowering::slice(Value* x, std::span<const Dim> from, std::span<const Dim> to, std::span<const int64_t> steps) {
  DimList dims_of_result;
  for (size_t i = 0; i < from.size(); ++i) {
    const Dim length = dims().sub(to[i], from[i]);
    dims_of_result.push_back(steps.empty() ? length : dims().ceildiv(length, Dim::of(steps[i])));
  }
  return make("slice", {x}, tensor(x->dtype(), dims_of_result),
              {sardonyx::attr("start_indices", sizes_param(from)), sardonyx::attr("limit_indices", sizes_param(to)),
               sardonyx::attr("strides", steps.empty() ? Attr() : Attr(Ints(steps.begin(), steps.end())))});
}

// ---------------------------------------------------------------------------------------------------------------------
// Bodies

std::vector<const Value*> captures(const Graph& g) {
  std::vector<const Value*> found;
  std::vector<const Graph*> graphs{&g};
  const auto is_inside = [&](const Value& v) {
    for (const Graph* at = v.graph(); at != nullptr; at = at->enclosing()) {
      if (at == &g) return true;
    }
    return false;
  };
  const auto look = [&](const Value* v) {
    if (v == nullptr || v->is_constant() || is_inside(*v) || std::ranges::find(found, v) != found.end()) return;
    found.push_back(v);
  };
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const Node& n : graphs[i]->nodes()) {
      for (const Use& u : n.operands()) look(u.value);
      for (const Body& inner : n.bodies()) graphs.push_back(inner.graph);
    }
    for (size_t k = 0; k < graphs[i]->outputs().size(); ++k) look(graphs[i]->output(k));
  }
  return found;
}

Closed Lowering::close(const Graph& source, std::span<const Type* const> inputs, std::string_view name) {
  return close(source, inputs, name, captures(source));
}

Closed Lowering::close(const Graph& source, std::span<const Type* const> inputs, std::string_view name,
                       std::span<const Value* const> outer) {
  Closed made;
  Builder inside = new_body(name);
  made.graph = &inside.graph();
  const Context::OpenGraph open(context_, *made.graph);
  for (const Value* v : outer) made.consts.push_back(context_.value(*v, b));
  for (size_t i = 0; i < outer.size(); ++i) {
    Value* port = made.graph->add_input({}, made.consts[i]->type());
    if (auto known = context_.elements(*made.consts[i])) context_.set_elements(*port, *known);
    context_.bind(*outer[i], port);
  }
  Values args;
  for (const Type* t : inputs) args.push_back(made.graph->add_input({}, t));
  for (Value* v : inline_body(source, args, inside)) made.graph->add_output(*v, {}, v->type());
  for (size_t i = 0; i < outer.size(); ++i) context_.bind(*outer[i], made.consts[i]);
  return made;
}

std::string_view combiner(const Graph& body) {
  static constexpr std::pair<std::string_view, std::string_view> kAll[] = {
      {"add", "add"}, {"multiply", "mul"}, {"maximum", "max"}, {"minimum", "min"},
      {"and", "and"}, {"or", "or"},        {"xor", "xor"},     {"subtract", "sub"}};
  if (body.num_nodes() != 1 || body.inputs().size() != 2 || body.outputs().size() != 1) return {};
  const Node& only = *body.first();
  if (only.num_inputs() != 2 || body.output(0) != only.result()) return {};
  const bool in_order = only.input(0) == body.input(0) && only.input(1) == body.input(1);
  const bool swapped = only.input(0) == body.input(1) && only.input(1) == body.input(0);
  if (!in_order && (!swapped || only.is("subtract"))) return {};
  for (const auto& [operation, primitive] : kAll) {
    if (only.is(operation)) return primitive;
  }
  return {};
}

bool returns_second(const Graph& body) {
  return body.num_nodes() == 0 && body.inputs().size() == 2 && body.outputs().size() == 1 && body.output(0) == body.input(1);
}

std::string_view for_elements(std::string_view combiner, DType d) {
  if (d != DType::kBool) return combiner;
  if (combiner == "add" || combiner == "max") return "or";
  if (combiner == "mul" || combiner == "min") return "and";
  return combiner;
}

bool is_neutral(std::string_view primitive, const Value& v) {
  if (!v.is_constant()) return false;
  const DType d = v.dtype();
  const TensorPtr& t = v.constant();
  if (is_complex(d)) {
    if ((primitive != "add" && primitive != "mul") || t->size() != 1) return false;
    std::vector<std::byte> scratch;
    const auto parts = t->bytes(scratch);
    const auto part = [&](int64_t i) { return decode_element(d == DType::kC64 ? DType::kF32 : DType::kF64, parts.data(), i); };
    return part(0) == (primitive == "mul" ? 1 : 0) && part(1) == 0;
  }
  if (d == DType::kBool || !is_float(d)) {
    const auto all = t->to_ints(1);
    if (!all || all->size() != 1) return false;
    const int64_t n = all->front();
    const int width = bit_width(d);
    if (primitive == "add" || primitive == "or" || primitive == "xor") return n == 0;
    if (primitive == "mul") return n == 1;
    if (primitive == "and") return d == DType::kBool ? n == 1 : n == -1 || (is_unsigned(d) && n == (int64_t{1} << width) - 1);
    if (d == DType::kBool || width > 63) {
      const bool least = n == std::numeric_limits<int64_t>::min(), greatest = n == std::numeric_limits<int64_t>::max();
      if (d == DType::kI64) return primitive == "max" ? least : greatest;
      return d == DType::kU64 && (primitive == "max" ? n == 0 : n == -1);
    }
    const int64_t top = int64_t{1} << (is_unsigned(d) ? width : width - 1);
    return primitive == "max" ? n == (is_unsigned(d) ? 0 : -top) : n == top - 1;
  }
  const auto n = lower::splat_value(t, 1);
  if (!n) return false;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (primitive == "add") return *n == 0;
  if (primitive == "mul") return *n == 1;
  return *n == (primitive == "max" ? -kInfinity : kInfinity);
}

}  // namespace sardonyx::stablehlo_to_jax
