// custom_call   =>   by its target:
//   shape_assertion                               nothing; the equality that it asserts is used
//   Sharding, SPMDFullToShardShape, ...           the operand: there is one device
//   mhlo.erf, mhlo.asin, ...                      the primitive of that name
//   mhlo.topk, TopK                               top_k
//   lapack_?{potrf,getrf,geqrf,orgqr,ungqr,syevd,heevd,gesdd,trsm,geev}_ffi
//                                                 cholesky, lu, geqrf, householder_product, eigh, svd,
//                                                 triangular_solve, eig: what JAX writes for these on CPUs
#include <fmt/format.h>

#include <algorithm>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

// The letter that LAPACK takes for an argument: 'L' for 76.
char letter(const Lowering& ctx, std::string_view name, char otherwise) {
  const Attr* config = ctx.node.attr("mhlo.backend_config");
  const auto* fields = config != nullptr ? config->get<AttrDict>() : nullptr;
  if (fields == nullptr) return otherwise;
  for (const auto& [key, value] : *fields) {
    if (key == name && value.get<int64_t>() != nullptr) return static_cast<char>(*value.get<int64_t>());
  }
  return otherwise;
}

// The type of result i, with the batch of operand 0.
const Type* type_of(const Lowering& ctx, size_t i) {
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  dims.resize(ctx.out_rank(i));
  return ctx.out_type(i, dims);
}

Value* no_error(Lowering& ctx, size_t i) { return ctx.integer(type_of(ctx, i), 0); }

Value* transposed(Lowering& ctx, Value* a) {
  Ints perm(a->type()->rank());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Value* t = ctx.transpose(a, perm);
  return is_complex(a->dtype()) ? ctx.map("conj", {t}) : t;
}

Values potrf(Lowering& ctx) {
  const bool is_lower = letter(ctx, "uplo", 'L') == 'L';
  Value* l = ctx.map("cholesky", {is_lower ? ctx.in(0) : transposed(ctx, ctx.in(0))}, {attr("symmetrize_input", false)});
  return {is_lower ? l : transposed(ctx, l), no_error(ctx, 1)};
}

// LAPACK counts pivots from 1.
Values getrf(Lowering& ctx) {
  const Type *pivots = type_of(ctx, 1), *a = ctx.in_type(0);
  DimList rows(a->dims().begin(), a->dims().end() - 1);
  const Type* types[] = {a, pivots, ctx.tensor(DType::kI32, rows)};
  const Values lu = ctx.make("lu", ctx.operands(), types);
  return {lu[0], ctx.map("add", {lu[1], ctx.integer(pivots, 1)}), no_error(ctx, 2)};
}

Values geqrf(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1)};
  Values results = ctx.make("geqrf", ctx.operands(), types);
  if (ctx.node.num_results() > 2) results.push_back(no_error(ctx, 2));
  return results;
}

Values orgqr(Lowering& ctx) {
  Values results{ctx.make("householder_product", ctx.operands(), ctx.in_type(0))};
  if (ctx.node.num_results() > 1) results.push_back(no_error(ctx, 1));
  return results;
}

Values syevd(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1)};
  Values results = ctx.make(
      "eigh", ctx.operands(), types,
      {attr("lower", letter(ctx, "uplo", 'L') == 'L'), attr("sort_eigenvalues", true), attr("subset_by_index", Attr())});
  results.push_back(no_error(ctx, 2));
  return results;
}

// Results: a copy of the operand, which JAX drops, s, u, vt, info.
Values gesdd(Lowering& ctx) {
  const char mode = letter(ctx, "mode", 'A');
  if (ctx.node.result(0)->has_uses()) ctx.unsupported("a use of the overwritten operand");
  AttrInit params{attr("compute_uv", mode != 'N'), attr("full_matrices", mode == 'A'), attr("subset_by_index", Attr())};
  std::vector<const Type*> types{type_of(ctx, 1)};
  if (mode != 'N') types.insert(types.end(), {type_of(ctx, 2), type_of(ctx, 3)});
  Values usv = ctx.make("svd", ctx.operands(), types, std::move(params));
  Values results(5);
  std::ranges::copy(usv, results.begin() + 1);
  results[4] = no_error(ctx, 4);
  return results;
}

Values trsm(Lowering& ctx) {
  const char transpose = letter(ctx, "trans_x", 'N');
  return {ctx.make("triangular_solve", ctx.operands(), ctx.in_type(1),
                   {attr("conjugate_a", transpose == 'C'), attr("left_side", letter(ctx, "side", 'L') == 'L'),
                    attr("lower", letter(ctx, "uplo", 'L') == 'L'), attr("transpose_a", transpose != 'N'),
                    attr("unit_diagonal", letter(ctx, "diag", 'N') == 'U')})};
}

Values lapack(Lowering& ctx, std::string_view routine) {
  if (routine == "potrf") return potrf(ctx);
  if (routine == "getrf") return getrf(ctx);
  if (routine == "geqrf") return geqrf(ctx);
  if (routine == "orgqr" || routine == "ungqr") return orgqr(ctx);
  if (routine == "syevd" || routine == "heevd") return syevd(ctx);
  if (routine == "gesdd") return gesdd(ctx);
  if (routine == "trsm") return trsm(ctx);
  ctx.unsupported(fmt::format("the routine {} of LAPACK", routine));
}

// The predicate is the comparison of two sizes: they are equal where the module runs.
void use_assertion(Lowering& ctx) {
  const Node* n = ctx.node.input(0)->def();
  if (n == nullptr || !n->is("compare") || n->attr_string("comparison_direction", "") != "EQ") return;
  const auto a = ctx.context().elements(*ctx.context().value(*n->input(0), ctx.b));
  const auto b = ctx.context().elements(*ctx.context().value(*n->input(1), ctx.b));
  if (a && b && a->size() == 1 && b->size() == 1) ctx.context().equate(a->front(), b->front());
}

}  // namespace

Values lower_custom_call(Lowering& ctx) {
  static constexpr std::string_view kNothing[] = {"Sharding",
                                                  "SPMDFullToShardShape",
                                                  "SPMDShardToFullShape",
                                                  "LayoutConstraint",
                                                  "annotate_device_placement",
                                                  "xla.sdy.FuncResultSharding",
                                                  "xla.sdy.GlobalToLocalShape",
                                                  "xla.sdy.LocalToGlobalShape"};
  static constexpr std::string_view kPrimitives[] = {"acos", "acosh", "asin", "asinh", "atanh", "cosh", "erf", "sinh", "tan"};
  const std::string target = ctx.string_attr("call_target_name");
  if (target == "shape_assertion") return use_assertion(ctx), Values();
  if (std::ranges::find(kNothing, target) != std::end(kNothing)) return ctx.operands();
  if ((target == "mhlo.topk" || target == "TopK" || target == "stablehlo.dynamic_top_k") && ctx.node.num_results() == 2)
    return top_k(ctx, ctx.out_type(0, ctx.in_dims(0))->dims().back());
  if (target == "stablehlo.dynamic_reduce_window") return lower_dynamic_reduce_window(ctx);
  if (target.starts_with("mhlo.")) {
    const auto at = std::ranges::find(kPrimitives, std::string_view(target).substr(5));
    if (at != std::end(kPrimitives)) return {ctx.make(*at, ctx.operands(), ctx.map_type())};
  }
  constexpr std::string_view kLapack = "lapack_", kEnd = "_ffi";
  if (target.starts_with(kLapack) && target.ends_with(kEnd) && target.size() > kLapack.size() + kEnd.size() + 1)
    return lapack(ctx, std::string_view(target).substr(kLapack.size() + 1, target.size() - kLapack.size() - kEnd.size() - 1));
  ctx.unsupported(fmt::format("the target '{}'", target));
}

}  // namespace sardonyx::stablehlo_to_jax
