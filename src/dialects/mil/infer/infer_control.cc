// Blocks, lists, states, classifiers, compressed constants.
#include <fmt/format.h>

#include "dialects/mil/infer/rule_util.h"
#include "dialects/mil/infer/rules.h"
#include "dialects/onnx/infer/carried_types.h"

namespace sardonyx::mil::rules {
namespace {

using onnx::rules::output_type;
using onnx::rules::widened_to_hold;

Graph& body(const InferContext& c, std::string_view name) {
  Graph* g = c.node().body(name);
  if (g == nullptr) c.fail(fmt::format("needs the block '{}'", name));
  return *g;
}

}  // namespace

void cond(InferContext& c) {
  Graph &yes = body(c, "true_fn"), &no = body(c, "false_fn");
  c.infer_body(yes, {});
  c.infer_body(no, {});
  for (const Graph* g : {&yes, &no}) {
    if (g->outputs().size() != c.num_results())
      c.fail(fmt::format("a block has {} results, the op {}", g->outputs().size(), c.num_results()));
  }
  for (size_t i = 0; i < c.num_results(); ++i) {
    const Type *a = output_type(yes, i), *b = output_type(no, i);
    if (a == nullptr || b == nullptr) continue;
    const Type* both = c.types().join(a, b);
    if (both == nullptr) c.fail(fmt::format("result {} is {} in one block and {} in the other", i, c.show(a), c.show(b)));
    c.set(i, both);
  }
}

// A loop variable has one type in all iterations, so sizes that the body changes are unknown.
void while_loop(InferContext& c) {
  Graph &test = body(c, "cond"), &step = body(c, "body");
  const Range vars = list(c, "loop_vars");
  const size_t n = vars.last - vars.first;
  if (test.inputs().size() != n || step.inputs().size() != n || step.outputs().size() != n || c.num_results() != n)
    c.fail(fmt::format("{} loop variables, {} and {} inputs of the blocks, {} results", n, test.inputs().size(),
                       step.inputs().size(), step.outputs().size()));
  if (test.outputs().size() != 1) c.fail("the condition is one value");
  std::vector<const Type*> types;
  for (size_t i = 0; i < n; ++i) types.push_back(c.input(vars.first + i));
  constexpr int kRounds = 10;
  for (int round = 0;; ++round) {
    c.infer_body(step, types);
    bool stable = true;
    for (size_t i = 0; i < n; ++i) {
      const Type* out = output_type(step, i);
      if (types[i] == nullptr || out == nullptr || types[i] == out) continue;
      if (!types[i]->is_tensor() || !out->is_tensor()) continue;
      if (types[i]->dtype() != out->dtype() && types[i]->dtype() != DType::kUndefined && out->dtype() != DType::kUndefined)
        c.fail(fmt::format("loop variable {} is {} and becomes {}", i, c.show(types[i]), c.show(out)));
      const Type* wider = widened_to_hold(c.types(), types[i], out, /*gives_up=*/round + 1 >= kRounds);
      if (wider == nullptr) continue;
      types[i] = wider;
      stable = false;
    }
    if (stable || round > kRounds) break;
  }
  c.infer_body(test, types);
  for (size_t i = 0; i < n; ++i) {
    const Type* out = output_type(step, i);
    if (types[i] == nullptr || out == nullptr) continue;
    if (const Type* both = c.types().join(types[i], out)) c.set(i, both);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lists

namespace {

const Type* element_of(const InferContext& c, size_t i) {
  const Type* t = c.input(i);
  return t != nullptr && t->kind() == TypeKind::kList ? t->element() : nullptr;
}

}  // namespace

void make_list(InferContext& c) {
  const DType dtype = param_dtype(c, "dtype");
  const Range shape = list(c, "elem_shape");
  DimVec dims;
  for (size_t i = shape.first; i < shape.last; ++i) {
    const auto d = scalar_int(c, i);
    dims.push_back(d && *d >= 0 ? Dim::of(*d) : c.dims().fresh_unknown());
  }
  const auto length = param_int(c, "init_length");
  const Dim n = length && !param_bool(c, "dynamic_length", true) ? Dim::of(*length) : length ? Dim::of(*length) : Dim();
  const Type* element = c.types().tensor(dtype, dims);
  c.set(0, c.types().make(TypeKind::kList, DType::kUndefined, {&element, 1}, {&n, 1}, true));
}

void list_length(InferContext& c) { set_dims(c, DType::kI32, DimVec{}); }

void list_read(InferContext& c) { c.set(0, element_of(c, 0)); }

void list_gather(InferContext& c) {
  const Type *element = element_of(c, 0), *indices = c.ranked(1);
  if (element == nullptr || !element->is_tensor() || !element->ranked()) return;
  DimVec dims{indices != nullptr && indices->rank() > 0 ? indices->dim(0) : Dim()};
  dims.insert(dims.end(), element->dims().begin(), element->dims().end());
  set_dims(c, element->dtype(), dims);
}

// ---------------------------------------------------------------------------------------------------------------------
// States

void read_state(InferContext& c) {
  const Type* state = c.input(0);
  if (state == nullptr) return;
  if (state->kind() != TypeKind::kState) c.fail(fmt::format("the operand is {}, not a state", c.show(state)));
  c.set(0, state->element());
}

void write_state(InferContext& c) {
  const Type* state = c.input(0);
  if (state == nullptr) return;
  if (state->kind() != TypeKind::kState) c.fail(fmt::format("the first operand is {}, not a state", c.show(state)));
  const Type* value = c.input(1);
  if (value != nullptr && state->element() != nullptr && c.types().meet(state->element(), value) == nullptr)
    c.fail(fmt::format("a {} cannot be written to a {}", c.show(value), c.show(state)));
}

void update_state(InferContext& c) {
  write_state(c);
  if (c.input(1) != nullptr) c.set(0, c.input(1));
}

// ---------------------------------------------------------------------------------------------------------------------
// Classifiers and compressed constants

void classify(InferContext& c) {
  const size_t i = operand(c, "classes");
  const Type* classes = i == kNoSlot ? nullptr : c.input(i);
  if (classes == nullptr || classes->kind() != TypeKind::kList || classes->element() == nullptr) return;
  const DType key = classes->element()->dtype();
  const Type* value = c.types().scalar(DType::kF64);
  set_dims(c, key, DimVec{}, 0);
  c.set(1, c.types().make(TypeKind::kMap, key, {&value, 1}));
}

// Element type from `like`, shape from `shaped`.
namespace {

void set_from(InferContext& c, std::string_view like, std::string_view shaped, size_t result = 0) {
  const size_t a = operand(c, like), b = operand(c, shaped);
  if (a != kNoSlot && b != kNoSlot) set_same_shape(c, dtype_of(c, a), b, result);
}

// The same with an explicit shape, or with an axis along which each element stands for a vector.
void set_listed(InferContext& c, DType dtype) {
  const auto shape = param_ints(c, "shape");
  if (!shape) return c.set_unranked(0, dtype);
  DimVec dims;
  for (int64_t d : *shape) dims.push_back(Dim::of(d));
  set_dims(c, dtype, dims);
}

// The last axis of a lookup table holds vectors.
int64_t vector_size(const InferContext& c) {
  const size_t lut = operand(c, "lut");
  const Type* t = lut == kNoSlot ? nullptr : c.ranked(lut);
  if (t == nullptr || t->rank() == 0 || !t->dim(t->rank() - 1).is_int()) return 1;
  return t->dim(t->rank() - 1).value();
}

void set_looked_up(InferContext& c, DType dtype, std::string_view indices, size_t result) {
  const size_t i = operand(c, indices);
  const Type* t = i == kNoSlot ? nullptr : c.ranked(i);
  if (t == nullptr) return c.set_unranked(result, dtype);
  DimVec dims = dims_of(t);
  if (const int64_t n = vector_size(c); n > 1) {
    const auto axis = param_int(c, "vector_axis");
    if (dims.size() == 1) {
      dims[0] = mul(c, dims[0], Dim::of(n));
    } else if (axis) {
      Dim& d = dims[normal_axis(c, *axis, dims.size(), "vector_axis")];
      d = mul(c, d, Dim::of(n));
    }
  }
  set_dims(c, dtype, dims, result);
}

DType dtype_in(const InferContext& c, std::string_view slot) {
  const size_t i = operand(c, slot);
  return i == kNoSlot ? DType::kUndefined : dtype_of(c, i);
}

}  // namespace

void constexpr_affine_dequantize(InferContext& c) { set_from(c, "scale", "quantized_data"); }
void constexpr_cast(InferContext& c) { set_same_shape(c, param_dtype(c, "output_dtype")); }
void constexpr_blockwise_shift_scale(InferContext& c) { set_from(c, "scale", "data"); }

void constexpr_lut_to_dense(InferContext& c) {
  if (c.version() < 9) return set_listed(c, dtype_in(c, "lut"));
  set_looked_up(c, dtype_in(c, "lut"), "indices", 0);
}

void constexpr_sparse_to_dense(InferContext& c) {
  if (c.version() < 9) return set_listed(c, dtype_in(c, "nonzero_data"));
  set_from(c, "nonzero_data", "mask");
}

void constexpr_lut_to_sparse(InferContext& c) {
  set_looked_up(c, dtype_in(c, "indices_mask"), "indices_mask", 0);
  set_looked_up(c, dtype_in(c, "lut"), "indices_nonzero_data", 1);
}

void constexpr_sparse_blockwise_shift_scale(InferContext& c) {
  set_from(c, "data_mask", "data_mask", 0);
  set_from(c, "scale", "nonzero_data", 1);
}

}  // namespace sardonyx::mil::rules
