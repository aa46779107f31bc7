// ai.onnx.ml, strings and the operators of training.
#include <algorithm>

#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

size_t list_size(const InferContext& c, std::string_view name) {
  const Attr* a = c.attr(name);
  if (a == nullptr) return 0;
  if (const auto* list = a->get<Attr::Ints>()) return list->size();
  if (const auto* list = a->get<Attr::Floats>()) return list->size();
  if (const auto* list = a->get<Attr::Strings>()) return list->size();
  return 0;
}

Dim rows_of(const InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr || x->rank() == 0) return Dim();
  return x->rank() == 1 ? Dim::of(1) : x->dim(0);
}

bool has_list(const InferContext& c, std::string_view name) { return list_size(c, name) != 0; }

}  // namespace

void array_feature_extractor(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *x = c.ranked(0), *at = c.ranked(1);
  if (x == nullptr) return c.set_unranked(0, dtype);
  need_rank_at_least(c, 0, 1);
  Dim count;
  if (at != nullptr) count = at->rank() == 0 ? Dim::of(1) : at->rank() == 1 ? at->dim(0) : c.dims().product(at->dims());
  DimVec dims = x->rank() == 1 ? DimVec{Dim::of(1)} : DimVec(x->dims().begin(), x->dims().end() - 1);
  dims.push_back(count);
  c.set(0, dtype, dims);
}

void cast_map(InferContext& c) {
  const std::string to = c.attr_string("cast_to").value_or("TO_FLOAT");
  const DType dtype = to == "TO_STRING" ? DType::kString : to == "TO_INT64" ? DType::kI64 : DType::kF32;
  c.set_unranked(0, dtype);
}

void category_mapper(InferContext& c) {
  const DType from = dtype_of(c, 0);
  if (from == DType::kUndefined) return;
  set_same_shape(c, from == DType::kString ? DType::kI64 : DType::kString);
}

void dict_vectorizer(InferContext& c) {
  const Type* t = c.input(0);
  if (t == nullptr || t->kind() != TypeKind::kMap || t->element() == nullptr || !t->element()->is_tensor()) return;
  const size_t n = std::max(list_size(c, "string_vocabulary"), list_size(c, "int64_vocabulary"));
  c.set_unranked(0, t->element()->dtype());
  (void)n;
}

void label_encoder(InferContext& c) {
  DType dtype = DType::kUndefined;
  if (c.op().since_version == 1) {
    const DType from = dtype_of(c, 0);
    if (from != DType::kUndefined) dtype = from == DType::kString ? DType::kI64 : DType::kString;
  } else if (has_list(c, "values_strings")) {
    dtype = DType::kString;
  } else if (has_list(c, "values_int64s")) {
    dtype = DType::kI64;
  } else if (has_list(c, "values_floats")) {
    dtype = DType::kF32;
  } else if (const Attr* a = c.attr("values_tensor")) {
    if (const auto* t = a->get<TensorPtr>(); t != nullptr && *t != nullptr) dtype = (*t)->dtype();
  }
  set_same_shape(c, dtype);
}

// Classifiers: a label per row and a score per row and class.
namespace {
void classifier(InferContext& c, size_t strings, size_t ints) {
  const Dim rows = rows_of(c);
  const Dim classes = strings != 0 || ints != 0 ? Dim::of(static_cast<int64_t>(std::max(strings, ints))) : Dim();
  c.set(0, strings != 0 ? DType::kString : DType::kI64, DimVec{rows});
  c.set(1, DType::kF32, DimVec{rows, classes});
}
}  // namespace

void linear_classifier(InferContext& c) {
  const size_t strings = list_size(c, "classlabels_strings"), ints = list_size(c, "classlabels_ints");
  const Dim rows = rows_of(c);
  size_t classes = std::max(strings, ints);
  if (strings == 0 && ints == 0) classes = list_size(c, "intercepts");
  c.set(0, strings != 0 ? DType::kString : DType::kI64, DimVec{rows});
  const bool binary = classes == 2 && list_size(c, "intercepts") == 1;
  c.set(1, DType::kF32, DimVec{rows, classes == 0 || binary ? Dim() : Dim::of(static_cast<int64_t>(classes))});
}

void svm_classifier(InferContext& c) { classifier(c, list_size(c, "classlabels_strings"), list_size(c, "classlabels_ints")); }

void tree_classifier(InferContext& c) {
  classifier(c, list_size(c, "classlabels_strings"), list_size(c, "classlabels_int64s"));
}

void regressor(InferContext& c) {
  const int64_t targets = c.attr_int(c.op().name == "LinearRegressor" ? "targets" : "n_targets", 1);
  c.set(0, DType::kF32, DimVec{rows_of(c), c.op().name == "SVMRegressor" ? Dim() : Dim::of(targets)});
}

void tree_ensemble(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const auto targets = c.attr_int("n_targets");
  const Type* x = c.ranked(0);
  if (x != nullptr) need_rank(c, 0, 2);
  if (dtype == DType::kUndefined) return;
  c.set(0, dtype, DimVec{x ? x->dim(0) : Dim(), targets ? Dim::of(*targets) : Dim()});
}

void one_hot_encoder(InferContext& c) {
  const size_t n = std::max(list_size(c, "cats_int64s"), list_size(c, "cats_strings"));
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, DType::kF32);
  DimVec dims = dims_of(x);
  dims.push_back(n == 0 ? Dim() : Dim::of(static_cast<int64_t>(n)));
  c.set(0, DType::kF32, dims);
}

void zip_map(InferContext& c) {
  const bool strings = has_list(c, "classlabels_strings"), ints = has_list(c, "classlabels_int64s");
  if (!strings && !ints) return;
  const Type* value = c.types().scalar(DType::kF32);
  const Type* map = c.types().make(TypeKind::kMap, strings ? DType::kString : DType::kI64, {&value, 1});
  c.set(0, c.types().sequence(map));
}

void f32_same_shape(InferContext& c) { set_same_shape(c, DType::kF32); }

void feature_vectorizer(InferContext& c) {
  const Type* first = c.ranked(0);
  const auto sizes = c.attr_ints("inputdimensions");
  Dim total;
  if (sizes) {
    total = Dim::of(0);
    for (int64_t s : *sizes) total = add(c, total, s);
  }
  if (first == nullptr || first->rank() != 2) return c.set_unranked(0, DType::kF32);
  c.set(0, DType::kF32, DimVec{first->dim(0), total});
}

// ---------------------------------------------------------------------------------------------------------------------
// Strings

void string_normalizer(InferContext& c) {
  const Type* x = c.ranked(0);
  if (x == nullptr) return c.set_unranked(0, DType::kString);
  // [C] or [1,C]. Stop words are removed, so the length is unknown.
  if (x->rank() == 1) {
    c.set(0, DType::kString, DimVec{Dim()});
  } else if (x->rank() == 2) {
    if (x->dim(0).is_int() && !x->dim(0).is(1)) c.fail(fmt::format("takes [C] or [1,C], not {}", c.show(x)));
    c.set(0, DType::kString, DimVec{Dim::of(1), Dim()});
  } else {
    c.fail(fmt::format("takes [C] or [1,C], not {}", c.show(x)));
  }
}

void string_split(InferContext& c) {
  const Type* x = c.ranked(0);
  set_same_shape(c, DType::kI64, 0, 1);
  if (x == nullptr) return c.set_unranked(0, DType::kString);
  DimVec dims = dims_of(x);
  dims.push_back(Dim());
  c.set(0, DType::kString, dims);
}

void tf_idf(InferContext& c) {
  const auto indexes = c.attr_ints("ngram_indexes");
  const Type* x = c.ranked(0);
  int64_t last = -1;
  for (int64_t i : indexes.value_or(std::vector<int64_t>())) last = std::max(last, i);
  if (x == nullptr) return c.set_unranked(0, DType::kF32);
  if (x->rank() < 1 || x->rank() > 2) c.fail(fmt::format("takes rank 1 or 2, not {}", c.show(x)));
  DimVec dims;
  if (x->rank() == 2) dims.push_back(x->dim(0));
  dims.push_back(indexes ? add(c, Dim::of(last), 1) : Dim());
  c.set(0, DType::kF32, dims);
}

// ---------------------------------------------------------------------------------------------------------------------
// Training: operands are R and T, then groups of optimized tensors, gradients and states; results are the
// groups without the gradients. `groups` is the number of states returned per tensor.

namespace {
void optimizer(InferContext& c, size_t per_tensor_in, size_t per_tensor_out) {
  if (c.num_inputs() < 2 || (c.num_inputs() - 2) % per_tensor_in != 0) {
    c.fail(fmt::format("takes R, T and {} operands per tensor", per_tensor_in));
  }
  const size_t n = (c.num_inputs() - 2) / per_tensor_in;
  if (c.num_results() != n * per_tensor_out) c.fail(fmt::format("has {} results for {} tensors", c.num_results(), n));
  for (size_t i = 0; i < n; ++i) {
    set_same(c, 2 + i, i);
    // Operands: tensors, gradients, states; results: tensors, states.
    for (size_t s = 1; s < per_tensor_out; ++s) set_same(c, 2 + (s + 1) * n + i, s * n + i);
  }
}
}  // namespace

void adagrad(InferContext& c) { optimizer(c, 3, 2); }
void momentum(InferContext& c) { optimizer(c, 3, 2); }
void adam(InferContext& c) { optimizer(c, 4, 3); }

}  // namespace sardonyx::onnx::rules
