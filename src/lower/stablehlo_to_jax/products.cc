// dot_general, dot            =>   dot_general[dimension_numbers, preferred_element_type]
// convolution, dynamic_conv   =>   conv_general_dilated
// fft                         =>   fft[fft_type, fft_lengths]
// triangular_solve, cholesky  =>   the primitives of those names
// batch_norm_*                =>   their formulas
#include <algorithm>
#include <numeric>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

bool contains(const Ints& axes, size_t axis) { return std::ranges::find(axes, static_cast<int64_t>(axis)) != axes.end(); }

struct DotAxes {
  Ints contracting[2], batch[2];
};

Values product(Lowering& ctx, const DotAxes& axes) {
  DimList dims;
  for (size_t side : {0, 1}) {
    for (const Ints* all : {&axes.contracting[side], &axes.batch[side]}) {
      for (int64_t a : *all) {
        if (a < 0 || a >= static_cast<int64_t>(ctx.in_rank(side)))
          throw Error(ErrorCode::kInvalidModel, "dot_dimension_numbers name an axis that the operand lacks");
      }
    }
  }
  for (int64_t a : axes.batch[0]) dims.push_back(ctx.in_dims(0)[static_cast<size_t>(a)]);
  for (size_t side : {0, 1}) {
    for (size_t a = 0; a < ctx.in_rank(side); ++a) {
      if (!contains(axes.contracting[side], a) && !contains(axes.batch[side], a)) dims.push_back(ctx.in_dims(side)[a]);
    }
  }
  const Type* type = ctx.out_type(0, dims);
  AttrList numbers{AttrList{axes.contracting[0], axes.contracting[1]}, AttrList{axes.batch[0], axes.batch[1]}};
  return {ctx.make("dot_general", ctx.operands(), type,
                   {attr("dimension_numbers", std::move(numbers)), attr("out_sharding", Attr()), attr("precision", Attr()),
                    attr("preferred_element_type", type->dtype())})};
}

}  // namespace

Values lower_dot_general(Lowering& ctx) {
  static constexpr std::string_view kNumbers = "dot_dimension_numbers";
  return product(
      ctx, {{ctx.ints_field(kNumbers, "lhs_contracting_dimensions"), ctx.ints_field(kNumbers, "rhs_contracting_dimensions")},
            {ctx.ints_field(kNumbers, "lhs_batching_dimensions"), ctx.ints_field(kNumbers, "rhs_batching_dimensions")}});
}

Values lower_dot(Lowering& ctx) { return product(ctx, {{Ints{static_cast<int64_t>(ctx.in_rank(0)) - 1}, Ints{0}}, {}}); }

namespace {

Values convolved(Lowering& ctx, const std::vector<DimList>& padding) {
  static constexpr std::string_view kNumbers = "dimension_numbers";
  Dims& d = ctx.dims();
  const auto spec = [&](std::string_view first, std::string_view second, std::string_view spatial) {
    Ints all{ctx.int_field(kNumbers, first), ctx.int_field(kNumbers, second)};
    for (int64_t a : ctx.ints_field(kNumbers, spatial)) all.push_back(a);
    return all;
  };
  const Ints x_spec = spec("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"),
             w_spec = spec("kernel_output_feature_dimension", "kernel_input_feature_dimension", "kernel_spatial_dimensions"),
             y_spec = spec("output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions");
  const Ints strides = ctx.ints_attr("window_strides"), x_dilation = ctx.ints_attr("lhs_dilation"),
             w_dilation = ctx.ints_attr("rhs_dilation"), reversal = ctx.ints_attr("window_reversal");
  const int64_t groups = ctx.int_attr("feature_group_count"), batch_groups = ctx.int_attr("batch_group_count");
  const size_t n = x_spec.size() - 2;
  if (strides.size() != n || x_dilation.size() != n || w_dilation.size() != n || padding.size() != n ||
      y_spec.size() != n + 2 || w_spec.size() != n + 2 || ctx.in_rank(0) != n + 2 || ctx.in_rank(1) != n + 2)
    throw Error(ErrorCode::kInvalidModel, "the attributes of convolution are of different numbers of spatial dimensions");
  for (size_t k : {0, 1, 2}) {
    for (int64_t a : k == 0 ? x_spec : k == 1 ? w_spec : y_spec) {
      if (a < 0 || a >= static_cast<int64_t>(n + 2))
        throw Error(ErrorCode::kInvalidModel, "convolution names an axis that there is not");
    }
  }
  const auto size_of = [&](size_t operand, const Ints& axes, size_t i) {
    return ctx.in_dims(operand)[static_cast<size_t>(axes[i])];
  };
  Ints flipped;
  for (size_t i = 0; i < std::min(n, reversal.size()); ++i) {
    if (reversal[i] != 0) flipped.push_back(w_spec[i + 2]);
  }
  Value* w = flipped.empty() ? ctx.in(1) : ctx.reverse(ctx.in(1), flipped);
  DimList dims(n + 2);
  dims[static_cast<size_t>(y_spec[0])] = d.floordiv(size_of(0, x_spec, 0), Dim::of(batch_groups));
  dims[static_cast<size_t>(y_spec[1])] = size_of(1, w_spec, 0);
  AttrList rows;
  for (size_t i = 0; i < n; ++i) {
    const auto spread = [&](Dim size, int64_t by) { return d.add(d.mul(d.sub(size, Dim::of(1)), Dim::of(by)), Dim::of(1)); };
    const Dim whole = d.add(spread(size_of(0, x_spec, i + 2), x_dilation[i]), d.add(padding[i][0], padding[i][1]));
    const Dim last = d.sub(whole, spread(size_of(1, w_spec, i + 2), w_dilation[i]));
    dims[static_cast<size_t>(y_spec[i + 2])] = d.add(d.floordiv(last, Dim::of(strides[i])), Dim::of(1));
    rows.push_back(sizes_param(padding[i]));
  }
  const Type* type = ctx.out_type(0, dims);
  AttrDict numbers{{"lhs_spec", x_spec}, {"rhs_spec", w_spec}, {"out_spec", y_spec}};
  return {ctx.make("conv_general_dilated", {ctx.in(0), w}, type,
                   {attr("batch_group_count", batch_groups), attr("dimension_numbers", std::move(numbers)),
                    attr("feature_group_count", groups), attr("lhs_dilation", x_dilation), attr("padding", std::move(rows)),
                    attr("precision", Attr()), attr("preferred_element_type", type->dtype()), attr("rhs_dilation", w_dilation),
                    attr("window_strides", strides)})};
}

}  // namespace

Values lower_convolution(Lowering& ctx) {
  std::vector<DimList> padding;
  for (const Ints& row : ctx.rows_attr("padding")) padding.push_back({Dim::of(row[0]), Dim::of(row[1])});
  return convolved(ctx, padding);
}

Values lower_dynamic_conv(Lowering& ctx) {
  const DimList all = ctx.sizes(2, "the padding");
  std::vector<DimList> padding;
  for (size_t i = 0; i + 1 < all.size(); i += 2) padding.push_back({all[i], all[i + 1]});
  return convolved(ctx, padding);
}

Values lower_fft(Lowering& ctx) {
  const Ints lengths = ctx.ints_attr("fft_length");
  const std::string kind = ctx.string_attr("fft_type");
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  return {ctx.make("fft", {ctx.in(0)}, ctx.out_type(0, dims), {attr("fft_lengths", lengths), attr("fft_type", kind)})};
}

Values lower_triangular_solve(Lowering& ctx) {
  const std::string transpose = ctx.string_attr("transpose_a");
  return {ctx.make("triangular_solve", ctx.operands(), ctx.out_type(0, ctx.in_dims(1)),
                   {attr("conjugate_a", transpose == "ADJOINT"), attr("left_side", ctx.bool_attr("left_side")),
                    attr("lower", ctx.bool_attr("lower")), attr("transpose_a", transpose != "NO_TRANSPOSE"),
                    attr("unit_diagonal", ctx.bool_attr("unit_diagonal"))})};
}

namespace {

Value* adjoint(Lowering& ctx, Value* a) {
  Ints perm(a->type()->rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Value* t = ctx.transpose(a, perm);
  return is_complex(a->dtype()) ? ctx.map("conj", {t}) : t;
}

}  // namespace

// JAX's primitive reads and returns the lower triangle.
Values lower_cholesky(Lowering& ctx) {
  const bool is_lower = ctx.bool_attr("lower");
  Value* a = is_lower ? ctx.in(0) : adjoint(ctx, ctx.in(0));
  Value* l = ctx.map("cholesky", {a}, {attr("symmetrize_input", false)});
  return {is_lower ? l : adjoint(ctx, l)};
}

namespace {

// The arithmetic of batch normalization. Vectors are over the features.
struct BatchNorm {
  explicit BatchNorm(Lowering& lowering)
      : ctx(lowering), x(lowering.in(0)), axis(lowering.int_attr("feature_index")), epsilon(lowering.float_attr("epsilon")) {
    count = Dim::of(1);
    for (size_t i = 0; i < x->type()->rank(); ++i) {
      if (static_cast<int64_t>(i) == axis) continue;
      others.push_back(static_cast<int64_t>(i));
      count = ctx.dims().mul(count, x->type()->dim(i));
    }
  }
  Value* wide(Value* v) { return ctx.broadcast(v, Ints{axis}, x->type()); }
  Value* sum(Value* v, const Type* type) { return ctx.make("reduce_sum", {v}, type, {attr("axes", others)}); }
  Value* mean(Value* v, const Type* type) {
    Value* total = sum(v, type);
    if (count.is_int()) return ctx.map("div", {total, ctx.number(type, static_cast<double>(count.value()))});
    Value* n = ctx.make("dim_as_value", {}, ctx.b.types().scalar(DType::kI32), {attr("dim", count)});
    return ctx.map("div", {total, ctx.spread(ctx.cast(n, type->dtype()), type)});
  }
  Value* root(Value* variance) { return ctx.map("sqrt", {ctx.map("add", {variance, ctx.number(variance->type(), epsilon)})}); }
  Value* normalized(Value* mean, Value* variance) {
    return ctx.map("div", {ctx.map("sub", {x, wide(mean)}), wide(root(variance))});
  }
  Value* scaled(Value* v, Value* scale, Value* offset) {
    return ctx.map("add", {ctx.map("mul", {v, wide(scale)}), wide(offset)});
  }

  Lowering& ctx;
  Value* x;
  int64_t axis;
  double epsilon;
  Ints others;
  Dim count;
};

}  // namespace

Values lower_batch_norm_inference(Lowering& ctx) {
  BatchNorm f(ctx);
  return {f.scaled(f.normalized(ctx.in(3), ctx.in(4)), ctx.in(1), ctx.in(2))};
}

Values lower_batch_norm_training(Lowering& ctx) {
  BatchNorm f(ctx);
  const Type* vector = ctx.in_type(1);
  Value* mean = f.mean(f.x, vector);
  Value* centered = ctx.map("sub", {f.x, f.wide(mean)});
  Value* variance = f.mean(ctx.map("mul", {centered, centered}), vector);
  return {f.scaled(f.normalized(mean, variance), ctx.in(1), ctx.in(2)), mean, variance};
}

// Operands: x, scale, mean, variance, gradient of the result.
Values lower_batch_norm_grad(Lowering& ctx) {
  BatchNorm f(ctx);
  const Type* vector = ctx.in_type(1);
  Value* gradient = ctx.in(4);
  Value* normal = f.normalized(ctx.in(2), ctx.in(3));
  Value* of_scale = f.sum(ctx.map("mul", {gradient, normal}), vector);
  Value* of_offset = f.sum(gradient, vector);
  Value* mean_of_both = f.mean(ctx.map("mul", {gradient, normal}), vector);
  Value* rest = ctx.map("sub", {gradient, f.wide(f.mean(gradient, vector))});
  rest = ctx.map("sub", {rest, ctx.map("mul", {normal, f.wide(mean_of_both)})});
  Value* factor = ctx.map("div", {ctx.in(1), f.root(ctx.in(3))});
  return {ctx.map("mul", {f.wide(factor), rest}), of_scale, of_offset};
}

}  // namespace sardonyx::stablehlo_to_jax
