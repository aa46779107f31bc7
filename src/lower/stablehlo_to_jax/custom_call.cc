// custom_call   =>   by its target:
//   shape_assertion                               nothing; the equality that it asserts is used
//   Sharding, SPMDFullToShardShape, ...           the operand: there is one device
//   mhlo.erf, mhlo.asin, ...                      the primitive of that name
//   mhlo.topk, TopK, stablehlo.dynamic_top_k      top_k
//   ApproxTopK                                    approx_top_k
//   stablehlo.dynamic_{reduce_window,rng_bit_generator}   as without the prefix
//   lapack_?{potrf,getrf,geqrf,orgqr,ungqr,syevd,heevd,gesdd,trsm,gtsv,geev,gees,gehrd,sytrd,hetrd}_ffi
//                                                 cholesky, lu, geqrf, householder_product, eigh, svd,
//                                                 triangular_solve, tridiagonal_solve, eig, schur, hessenberg,
//                                                 tridiagonal: what JAX writes for these on CPUs
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lower/stablehlo_to_jax/context.h"

namespace sardonyx::stablehlo_to_jax {
namespace {

// An integer of what the call gives its target.
std::optional<int64_t> setting(const Lowering& ctx, std::string_view name) {
  const Attr* config = ctx.node.attr("mhlo.backend_config");
  const auto* fields = config != nullptr ? config->get<AttrDict>() : nullptr;
  if (fields == nullptr) return std::nullopt;
  for (const auto& [key, value] : *fields) {
    if (key == name && value.get<int64_t>() != nullptr) return *value.get<int64_t>();
  }
  return std::nullopt;
}

// The letter that LAPACK takes for an argument: 'L' for 76.
char letter(const Lowering& ctx, std::string_view name, char otherwise) {
  return static_cast<char>(setting(ctx, name).value_or(otherwise));
}

// The type of result i, with the batch of operand 0.
const Type* type_of(const Lowering& ctx, size_t i) {
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  dims.resize(ctx.out_rank(i));
  return ctx.out_type(i, dims);
}

// The first operands. The shapes of results follow them if sizes are open.
Values operands(const Lowering& ctx, size_t count) {
  Values all = ctx.operands();
  all.resize(std::min(count, all.size()));
  return all;
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
  const Values lu = ctx.make("lu", operands(ctx, 1), types);
  return {lu[0], ctx.map("add", {lu[1], ctx.integer(pivots, 1)}), no_error(ctx, 2)};
}

Values geqrf(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1)};
  Values results = ctx.make("geqrf", operands(ctx, 1), types);
  if (ctx.node.num_results() > 2) results.push_back(no_error(ctx, 2));
  return results;
}

Values orgqr(Lowering& ctx) {
  Values results{ctx.make("householder_product", operands(ctx, 2), ctx.in_type(0))};
  if (ctx.node.num_results() > 1) results.push_back(no_error(ctx, 1));
  return results;
}

Values syevd(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1)};
  Values results = ctx.make(
      "eigh", operands(ctx, 1), types,
      {attr("lower", letter(ctx, "uplo", 'L') == 'L'), attr("sort_eigenvalues", true), attr("subset_by_index", Attr())});
  results.push_back(no_error(ctx, 2));
  return results;
}

// Results: a copy of the operand, s, u, vt, info.
Values gesdd(Lowering& ctx) {
  const char mode = letter(ctx, "mode", 'A');
  AttrInit params{attr("compute_uv", mode != 'N'), attr("full_matrices", mode == 'A'), attr("subset_by_index", Attr())};
  std::vector<const Type*> types{type_of(ctx, 1)};
  if (mode != 'N') types.insert(types.end(), {type_of(ctx, 2), type_of(ctx, 3)});
  Values usv = ctx.make("svd", operands(ctx, 1), types, std::move(params));
  Values results(5);
  std::ranges::copy(usv, results.begin() + 1);
  results[4] = no_error(ctx, 4);
  return results;
}

Values trsm(Lowering& ctx) {
  const char transpose = letter(ctx, "trans_x", 'N');
  return {ctx.make("triangular_solve", operands(ctx, 2), ctx.in_type(1),
                   {attr("conjugate_a", transpose == 'C'), attr("left_side", letter(ctx, "side", 'L') == 'L'),
                    attr("lower", letter(ctx, "uplo", 'L') == 'L'), attr("transpose_a", transpose != 'N'),
                    attr("unit_diagonal", letter(ctx, "diag", 'N') == 'U')})};
}

// Results: the real and imaginary parts of w (or w, if the operand is complex), vl, vr, info.
Values geev(Lowering& ctx) {
  const bool has_left = letter(ctx, "compute_left", 'N') == 'V', has_right = letter(ctx, "compute_right", 'N') == 'V';
  const bool is_real = !is_complex(ctx.in_dtype(0));
  const size_t first = is_real ? 2 : 1;  // the number of vl
  const Type* w = type_of(ctx, 0);
  std::vector<const Type*> types{ctx.tensor(type_of(ctx, first)->dtype(), w->dims())};
  if (has_left) types.push_back(type_of(ctx, first));
  if (has_right) types.push_back(type_of(ctx, first + 1));
  const Values made = ctx.make("eig", operands(ctx, 1), types,
                               {attr("compute_left_eigenvectors", has_left), attr("compute_right_eigenvectors", has_right)});
  Values results(first + 3);
  if (is_real) {
    results[0] = ctx.make("real", {made[0]}, w);
    results[1] = ctx.make("imag", {made[0]}, w);
  } else {
    results[0] = made[0];
  }
  if (has_left) results[first] = made[1];
  if (has_right) results[first + 1] = made.back();
  results.back() = no_error(ctx, first + 2);
  return results;
}

// Results: the form, the vectors, the eigenvalues (two results for real operands), the number of those that
// were selected, info.
Values gees(Lowering& ctx) {
  const bool has_vectors = letter(ctx, "mode", 'N') == 'V';
  const size_t count = ctx.node.num_results();
  if (letter(ctx, "sort", 'N') != 'N') ctx.unsupported("sorted eigenvalues");
  std::vector<const Type*> types(has_vectors ? 2 : 1, ctx.in_type(0));
  Values results =
      ctx.make("schur", operands(ctx, 1), types, {attr("compute_schur_vectors", has_vectors), attr("sort_eig_vals", false)});
  results.resize(count);
  results.back() = no_error(ctx, count - 1);
  return results;
}

Values gehrd(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1)};
  Values results = ctx.make("hessenberg", operands(ctx, 1), types);
  results.push_back(no_error(ctx, 2));
  return results;
}

Values sytrd(Lowering& ctx) {
  const Type* types[] = {ctx.in_type(0), type_of(ctx, 1), type_of(ctx, 2), type_of(ctx, 3)};
  Values results = ctx.make("tridiagonal", operands(ctx, 1), types, {attr("lower", letter(ctx, "uplo", 'L') == 'L')});
  results.push_back(no_error(ctx, 4));
  return results;
}

// Results: the three diagonals of the factors, x in the place of b, info.
Values gtsv(Lowering& ctx) {
  Values results(3);
  results.push_back(ctx.make("tridiagonal_solve", operands(ctx, 4), ctx.in_type(3), {attr("perturb_singular", false)}));
  results.push_back(no_error(ctx, 4));
  return results;
}

Values routine_of_lapack(Lowering& ctx, std::string_view routine) {
  if (routine == "potrf") return potrf(ctx);
  if (routine == "getrf") return getrf(ctx);
  if (routine == "geqrf") return geqrf(ctx);
  if (routine == "orgqr" || routine == "ungqr") return orgqr(ctx);
  if (routine == "syevd" || routine == "heevd") return syevd(ctx);
  if (routine == "gesdd") return gesdd(ctx);
  if (routine == "trsm") return trsm(ctx);
  if (routine == "gtsv") return gtsv(ctx);
  if (routine == "geev") return geev(ctx);
  if (routine == "gees") return gees(ctx);
  if (routine == "gehrd") return gehrd(ctx);
  if (routine == "sytrd" || routine == "hetrd") return sytrd(ctx);
  ctx.unsupported(fmt::format("the routine {} of LAPACK", routine));
}

// Refuses uses of results that have no primitive: JAX drops them.
Values lapack(Lowering& ctx, std::string_view routine) {
  Values results = routine_of_lapack(ctx, routine);
  for (size_t i = 0; i < std::min(results.size(), ctx.node.num_results()); ++i) {
    if (results[i] == nullptr && ctx.node.result(i)->has_uses())
      ctx.unsupported(fmt::format("a use of result {} of {}", i, routine));
  }
  return results;
}

// Operands: x, the numbers of its elements, what is before all others in their order, and its number.
Values approx_top_k(Lowering& ctx) {
  const auto k = setting(ctx, "top_k"), axis = setting(ctx, "reduction_dim");
  if (!k || !axis || *axis < 0 || *axis >= std::ssize(ctx.in_dims(0)) || ctx.num_inputs() < 4 || ctx.node.num_results() != 2)
    throw Error(ErrorCode::kInvalidModel, "ApproxTopK lacks top_k or an axis that its operand has");
  const bool is_max = is_neutral("max", *ctx.in(2));
  if (!counts_along(*ctx.node.input(1), *axis) || (!is_max && !is_neutral("min", *ctx.in(2))))
    ctx.unsupported("an order other than that of the greatest or least elements");
  DimList dims(ctx.in_dims(0).begin(), ctx.in_dims(0).end());
  dims[static_cast<size_t>(*axis)] = Dim::of(*k);
  const Type* types[] = {ctx.out_type(0, dims), ctx.out_type(1, dims)};
  return ctx.make("approx_top_k", operands(ctx, 1), types,
                  {attr("k", *k), attr("reduction_dimension", *axis), attr("is_max_k", is_max)});
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
  if (target == "ApproxTopK") return approx_top_k(ctx);
  if (target == "stablehlo.dynamic_reduce_window") return lower_dynamic_reduce_window(ctx);
  if (target == "stablehlo.dynamic_rng_bit_generator") return lower_dynamic_rng_bit_generator(ctx);
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
