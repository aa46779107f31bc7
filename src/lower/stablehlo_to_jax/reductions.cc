// reduce[body]         =>   reduce_sum, reduce_max, ... if the body is one known primitive and the initial value
//                           is its neutral element; argmax, argmin if the body is JAX's for these; else reduce
// reduce_window[body]  =>   under the same condition: cumsum, cumprod, cummax, cummin for windows of all
//                           elements up to each, or reduce_window_sum, _max, _min; else reduce_window
// select_and_scatter   =>   select_and_scatter_add, for a select by GE or LE and a sum (of bools: an or)
#include <algorithm>
#include <optional>

#include "lower/stablehlo_to_jax/context.h"
#include "lower/stablehlo_to_jax/expression.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

std::string reduction_of(std::string_view primitive) {
  if (primitive == "add") return "reduce_sum";
  if (primitive == "mul") return "reduce_prod";
  return "reduce_" + std::string(primitive);
}

DimList without(std::span<const Dim> dims, const Ints& axes) {
  DimList kept;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end()) kept.push_back(dims[i]);
  }
  return kept;
}

// The type of result i, which has these sizes.
const Type* reduced_type(const Lowering& ctx, size_t i, const DimList& dims) {
  if (ctx.out_rank(i) != dims.size()) throw Error(ErrorCode::kInvalidModel, "a result has another number of axes");
  return ctx.out_type(i, dims);
}

// "argmax" or "argmin" if `body` returns the greater or the smaller of two elements, the first NaN before
// all, and its index, the smaller one of equals; else "". a, i and b, j are the two pairs.
std::string_view index_of_extreme(const Graph& body) {
  if (body.inputs().size() != 4 || body.outputs().size() != 2) return {};
  const Value* names[] = {body.input(0), body.input(1), body.input(2), body.input(3)};
  const auto text = [&](size_t i) { return expression(*body.output(i), names, "aibj"); };
  for (const std::string_view primitive : {"argmax", "argmin"}) {
    const std::string better = primitive == "argmax" ? "GT(a,b)" : "LT(a,b)";
    for (const std::string& picks : {better, "or(" + better + ",NE(a,a))"}) {
      const std::string ties = "or(" + picks + ",and(EQ(a,b),LT(i,j)))", other_ties = "or(and(EQ(a,b),LT(i,j))," + picks + ")";
      if (text(0) != "select(" + picks + ",a,b)") continue;
      if (text(1) == "select(" + ties + ",i,j)" || text(1) == "select(" + other_ties + ",i,j)") return primitive;
    }
  }
  return {};
}

}  // namespace

bool counts_along(const Value& v, int64_t axis) {
  const Node* n = v.def();
  return n != nullptr && (n->is("iota") || n->is("dynamic_iota")) && n->attr_int("iota_dimension", -1) == axis;
}

Values lower_reduce(Lowering& ctx) {
  const Graph& body = ctx.body("body");
  const Ints axes = ctx.ints_attr("dimensions");
  const size_t n = ctx.num_inputs() / 2;
  for (size_t i = 1; i < n; ++i) {
    if (ctx.in_rank(i) != ctx.in_rank(0)) throw Error(ErrorCode::kInvalidModel, "operands have different numbers of axes");
    for (size_t axis = 0; axis < ctx.in_rank(i); ++axis) ctx.context().equate(ctx.in_dims(0)[axis], ctx.in_dims(i)[axis]);
  }
  const DimList dims = without(ctx.in_dims(0), axes);
  std::vector<const Type*> types;
  for (size_t i = 0; i < n; ++i) types.push_back(reduced_type(ctx, i, dims));
  const DType element = ctx.in_dtype(0);
  std::string_view how = n == 1 ? for_elements(combiner(body), element) : std::string_view();
  if (how == "sub") how = {};
  if (!how.empty() && axes.empty()) return {ctx.map(how, {ctx.in(0), ctx.spread(ctx.in(1), ctx.in_type(0))})};
  const Value* init = ctx.in(n);
  if (!how.empty() && is_neutral(how, *init)) return {ctx.make(reduction_of(how), {ctx.in(0)}, types[0], {attr("axes", axes)})};
  if (n == 2 && axes.size() == 1 && counts_along(*ctx.node.input(1), axes[0])) {
    const std::string_view primitive = index_of_extreme(body);
    const bool from_0 = ctx.in(3)->is_constant() && lower::splat_value(ctx.in(3)->constant(), 1) == 0.0;
    const std::string_view extreme = primitive == "argmax" ? "max" : "min";
    if (!primitive.empty() && from_0 && is_neutral(for_elements(extreme, element), *init)) {
      Values results(2);
      if (ctx.node.result(0)->has_uses())
        results[0] = ctx.make(reduction_of(for_elements(extreme, element)), {ctx.in(0)}, types[0], {attr("axes", axes)});
      results[1] = ctx.make(primitive, {ctx.in(0)}, types[1], {attr("axes", axes), attr("index_dtype", types[1]->dtype())});
      return results;
    }
  }
  std::vector<const Type*> scalars;
  for (size_t i = 0; i < 2 * n; ++i) scalars.push_back(ctx.b.types().scalar(ctx.in_dtype(i % n)));
  const Closed closed = ctx.close(body, scalars, "jaxpr");
  if (!closed.consts.empty()) ctx.unsupported("its body uses values from outside");
  const Body bodies[] = {{ctx.b.model().name("jaxpr"), closed.graph}};
  return ctx.make("reduce", ctx.operands(), types, {attr("consts", AttrList()), attr("dimensions", axes)}, bodies);
}

namespace {

AttrList rows(const std::vector<DimList>& padding) {
  AttrList list;
  for (const DimList& row : padding) list.push_back(sizes_param(row));
  return list;
}

std::vector<DimList> padding_of(const Lowering& ctx) {
  std::vector<DimList> padding;
  for (const Ints& row : ctx.rows_attr("padding")) padding.push_back({Dim::of(row[0]), Dim::of(row[1])});
  return padding;
}

struct Windows {
  DimList size;
  Ints stride, base, dilation;
  std::vector<DimList> padding;
};

// The axis and the direction of a cumulative reduction: each window holds an element and all before it, or
// all behind it.
struct Cumulative {
  int64_t axis;
  bool reverse;
};

std::optional<Cumulative> cumulative(Dims& dims, std::span<const Dim> operand, const Windows& w) {
  std::optional<Cumulative> found;
  for (size_t i = 0; i < operand.size(); ++i) {
    if (w.stride[i] != 1 || w.base[i] != 1 || w.dilation[i] != 1) return {};
    const Dim low = w.padding[i][0], high = w.padding[i][1];
    if (w.size[i].is(1) && low.is(0) && high.is(0)) continue;
    const Dim others = dims.sub(operand[i], Dim::of(1));
    const bool before = low == others && high.is(0), behind = low.is(0) && high == others;
    if (found || !(w.size[i] == operand[i]) || (!before && !behind)) return {};
    found = {static_cast<int64_t>(i), behind};
  }
  return found;
}

// Operands 0 to n - 1, with the initial values n to 2n - 1.
Values reduced_windows(Lowering& ctx, size_t n, const Windows& w, const Graph& body) {
  const size_t rank = ctx.in_rank(0);
  if (w.size.size() != rank || w.stride.size() != rank || w.base.size() != rank || w.dilation.size() != rank ||
      w.padding.size() != rank)
    throw Error(ErrorCode::kInvalidModel, "the windows must have one entry for each axis of the operand");
  Dims& d = ctx.dims();
  DimList dims;
  for (size_t i = 0; i < rank; ++i) {
    const auto spread = [&](Dim size, int64_t by) { return d.add(d.mul(d.sub(size, Dim::of(1)), Dim::of(by)), Dim::of(1)); };
    const Dim whole = d.add(spread(ctx.in_dims(0)[i], w.base[i]), d.add(w.padding[i][0], w.padding[i][1]));
    dims.push_back(d.add(d.floordiv(d.sub(whole, spread(w.size[i], w.dilation[i])), Dim::of(w.stride[i])), Dim::of(1)));
  }
  std::vector<const Type*> types;
  for (size_t i = 0; i < n; ++i) types.push_back(reduced_type(ctx, i, dims));
  AttrInit params{attr("base_dilation", w.base), attr("padding", rows(w.padding)), attr("window_dilation", w.dilation),
                  attr("window_dimensions", sizes_param(w.size)), attr("window_strides", w.stride)};
  const std::string_view how = n == 1 && ctx.in_dtype(0) != DType::kBool ? combiner(body) : std::string_view();
  const bool is_simple = !how.empty() && how != "sub" && is_neutral(how, *ctx.in(1));
  const auto along = is_simple ? cumulative(d, ctx.in_dims(0), w) : std::nullopt;
  if (along && (how == "add" || how == "mul" || how == "max" || how == "min")) {
    const std::string primitive = how == "add" ? "cumsum" : how == "mul" ? "cumprod" : "cum" + std::string(how);
    return {ctx.make(primitive, {ctx.in(0)}, types[0], {attr("axis", along->axis), attr("reverse", along->reverse)})};
  }
  if (is_simple && (how == "add" || how == "max" || how == "min"))
    return {ctx.make(how == "add"   ? "reduce_window_sum"
                     : how == "max" ? "reduce_window_max"
                                    : "reduce_window_min",
                     {ctx.in(0)}, types[0], std::move(params))};
  std::vector<const Type*> scalars;
  for (size_t i = 0; i < 2 * n; ++i) scalars.push_back(ctx.b.types().scalar(ctx.in_dtype(i % n)));
  const Closed closed = ctx.close(body, scalars, "jaxpr");
  if (!closed.consts.empty()) ctx.unsupported("its body uses values from outside");
  params.push_back(attr("consts", AttrList()));
  const Body bodies[] = {{ctx.b.model().name("jaxpr"), closed.graph}};
  const Values operands = ctx.operands();
  return ctx.make("reduce_window", std::span(operands).first(2 * n), types, std::move(params), bodies);
}

}  // namespace

Values lower_reduce_window(Lowering& ctx) {
  Windows w{
      {}, ctx.ints_attr("window_strides"), ctx.ints_attr("base_dilations"), ctx.ints_attr("window_dilations"), padding_of(ctx)};
  for (int64_t size : ctx.ints_attr("window_dimensions")) w.size.push_back(Dim::of(size));
  return reduced_windows(ctx, ctx.num_inputs() / 2, w, ctx.body("body"));
}

// JAX's custom call stablehlo.dynamic_reduce_window: behind operands and initial values come the sizes,
// strides, base dilations, dilations and the padding of the windows. The body is a function.
Values lower_dynamic_reduce_window(Lowering& ctx) {
  const auto* called = ctx.attr("called_computations").get<Attr::Strings>();
  const Function* f =
      called != nullptr && called->size() == 1 ? ctx.context().source().find_function("", called->front()) : nullptr;
  if (f == nullptr || ctx.num_inputs() < 7) throw Error(ErrorCode::kInvalidModel, "dynamic_reduce_window has no body");
  const size_t n = (ctx.num_inputs() - 5) / 2;
  Windows w{ctx.sizes(2 * n, "the size of the windows"),
            ctx.numbers(2 * n + 1, "the stride"),
            ctx.numbers(2 * n + 2, "the base dilation"),
            ctx.numbers(2 * n + 3, "the dilation"),
            {}};
  const DimList padding = ctx.sizes(2 * n + 4, "the padding");
  for (size_t i = 0; i + 1 < padding.size(); i += 2) w.padding.push_back({padding[i], padding[i + 1]});
  return reduced_windows(ctx, n, w, f->graph());
}

Values lower_select_and_scatter(Lowering& ctx) {
  const Graph &select = ctx.body("select"), &scatter = ctx.body("scatter");
  const Value* names[] = {select.input(0), select.input(1)};
  const std::string picks = expression(*select.output(0), names, "ab");
  if (picks != "GE(a,b)" && picks != "LE(a,b)") ctx.unsupported("a select other than GE and LE");
  const Type* own = ctx.out_type(0, ctx.in_dims(0));
  const bool of_bools = own->dtype() == DType::kBool;
  if (for_elements(combiner(scatter), own->dtype()) != (of_bools ? "or" : "add")) ctx.unsupported("a scatter other than a sum");
  const DType wide = of_bools ? DType::kI32 : own->dtype();
  const Type* type = ctx.b.types().with_dtype(own, wide);
  Value* sum = ctx.make(
      "select_and_scatter_add", {ctx.cast(ctx.in(1), wide), ctx.cast(ctx.in(0), wide)}, type,
      {attr("padding", rows(padding_of(ctx))), attr("select_prim", picks == "GE(a,b)" ? "ge" : "le"),
       attr("window_dimensions", ctx.ints_attr("window_dimensions")), attr("window_strides", ctx.ints_attr("window_strides"))});
  sum = ctx.cast(sum, own->dtype());
  if (is_neutral("add", *ctx.in(2))) return {sum};
  return {ctx.map(of_bools ? "or" : "add", {sum, ctx.spread(ctx.in(2), own)})};
}

}  // namespace sardonyx::stablehlo_to_jax
