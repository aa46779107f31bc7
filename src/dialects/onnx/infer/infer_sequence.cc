// Sequences and optionals.
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

const Type* element_of(const InferContext& c, size_t i) {
  const Type* t = c.input(i);
  return t != nullptr && t->kind() == TypeKind::kSequence ? t->element() : nullptr;
}

}  // namespace

void sequence_construct(InferContext& c) {
  const Type* element = c.input(0);
  for (size_t i = 1; i < c.num_inputs() && element != nullptr; ++i) {
    element = c.input(i) ? c.types().join(element, c.input(i)) : nullptr;
  }
  if (element == nullptr) {
    for (size_t i = 0; i < c.num_inputs() && element == nullptr; ++i) {
      if (dtype_of(c, i) != DType::kUndefined) element = c.types().unranked(dtype_of(c, i));
    }
  }
  if (element != nullptr) c.set(0, c.types().sequence(element));
}

void sequence_empty(InferContext& c) {
  const DType dtype = dtype_attr(c, c.attr_int("dtype", 1), "dtype");
  c.set(0, c.types().sequence(c.types().unranked(dtype)));
}

void sequence_at(InferContext& c) { c.set(0, element_of(c, 0)); }

void sequence_insert(InferContext& c) {
  const Type *element = element_of(c, 0), *added = c.input(1);
  if (element == nullptr || added == nullptr) {
    if (element == nullptr && added != nullptr) c.set(0, c.types().sequence(c.types().unranked(added->dtype())));
    if (element != nullptr) c.set(0, c.types().sequence(c.types().unranked(element->dtype())));
    return;
  }
  if (element->dtype() != added->dtype())
    c.fail(fmt::format("a {} goes into a sequence of {}", c.show(added), c.show(element)));
  const Type* both = c.types().join(element, added);
  c.set(0, c.types().sequence(both ? both : c.types().unranked(element->dtype())));
}

void sequence_length(InferContext& c) { c.set(0, c.types().scalar(DType::kI64)); }

void concat_from_sequence(InferContext& c) {
  const Type* element = element_of(c, 0);
  if (element == nullptr || !element->is_tensor()) return;
  const bool new_axis = c.attr_int("new_axis", 0) != 0;
  const auto axis_attr = c.attr_int("axis");
  if (!element->ranked() || !axis_attr) return c.set_unranked(0, element->dtype());
  DimVec dims = dims_of(element);
  const size_t axis = normal_axis(c, *axis_attr, element->rank() + (new_axis ? 1 : 0));
  if (new_axis) {
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), Dim());
  } else {
    dims[axis] = Dim();
  }
  c.set(0, element->dtype(), dims);
}

void split_to_sequence(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  if (dtype == DType::kUndefined) return;
  if (x == nullptr) return c.set(0, c.types().sequence(c.types().unranked(dtype)));
  const size_t axis = normal_axis(c, c.attr_int("axis", 0), x->rank());
  DimVec dims = dims_of(x);
  const Dim whole = dims[axis];
  const auto sizes = c.has_input(1) ? c.value(1) : std::nullopt;
  // By the standard, keepdims counts only without sizes of the parts. onnxruntime, as PyTorch's exporter
  // expects, also drops the axis if one number gives the size of all parts and it is 1.
  const bool drops = c.attr_int("keepdims", 1) == 0;
  const Dim each = !c.has_input(1) ? Dim::of(1) : sizes && sizes->scalar ? sizes->elements[0] : Dim();
  const bool is_listed = c.has_input(1) && c.ranked(1) != nullptr && c.input(1)->rank() > 0;
  if (drops && !is_listed && !each.is_int()) return c.set(0, c.types().sequence(c.types().unranked(dtype)));
  if (each.is(1)) {
    if (drops) {
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    } else {
      dims[axis] = Dim::of(1);
    }
  } else {
    dims[axis] = Dim();
    if (each.is_int()) {
      const int64_t part = each.value();
      if (part <= 0) c.fail("the size of a part is not positive");
      // The last part may be smaller.
      if (whole.is_int() && whole.value() % part == 0) dims[axis] = Dim::of(part);
    } else if (sizes && !sizes->scalar && !sizes->elements.empty()) {
      bool equal = true;
      for (Dim d : sizes->elements) equal = equal && d == sizes->elements[0];
      if (equal) dims[axis] = sizes->elements[0];
    }
  }
  c.set(0, c.types().sequence(c.types().freshen(c.types().tensor(dtype, dims))));
}

void sequence_map(InferContext& c) {
  std::vector<const Type*> inputs;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    const Type* t = c.input(i);
    inputs.push_back(t != nullptr && t->kind() == TypeKind::kSequence ? t->element() : t);
  }
  Graph* body = c.node().body("body");
  if (body == nullptr) c.fail("has no body");
  if (body->inputs().size() != inputs.size())
    c.fail(fmt::format("the body has {} inputs for {} operands", body->inputs().size(), inputs.size()));
  if (body->outputs().size() != c.num_results())
    c.fail(fmt::format("the body has {} results for {}", body->outputs().size(), c.num_results()));
  c.infer_body(*body, inputs);
  for (size_t i = 0; i < c.num_results(); ++i) {
    if (const Type* t = body->output(i) ? body->output(i)->type() : nullptr) c.set(i, c.types().sequence(t));
  }
}

void optional_op(InferContext& c) {
  if (const Attr* a = c.attr("type")) {
    if (const auto* t = a->get<const Type*>(); t != nullptr && *t != nullptr) return c.set(0, c.types().optional(*t));
  }
  if (c.input(0) != nullptr) c.set(0, c.types().optional(c.input(0)));
}

void optional_has_element(InferContext& c) { c.set(0, c.types().scalar(DType::kBool)); }

void optional_get_element(InferContext& c) {
  const Type* t = c.input(0);
  if (t == nullptr) return;
  c.set(0, t->kind() == TypeKind::kOptional ? t->element() : t);
}

}  // namespace sardonyx::onnx::rules
