// If, Loop and Scan, whose types flow into bodies and out of them; and Constant.
#include <algorithm>

#include "dialects/onnx/infer/carried_types.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {
namespace {

Graph& body_of(const InferContext& c, std::string_view name) {
  Graph* g = c.node().body(name);
  if (g == nullptr) c.fail(fmt::format("needs the graph '{}'", name));
  return *g;
}

// Finds the types that carried values have in any iteration: starts from the loop's operands and widens until
// the body returns them. `fixed` are the types of the body's other inputs, of which `before` come before the
// carried ones and the rest after.
void settle(InferContext& c, Graph& body, std::vector<const Type*>& inputs, size_t first_carried, size_t carried,
            size_t first_result) {
  Types& types = c.types();
  const auto with_declared = [&](size_t input, const Type* t) {
    const Type* declared = body.inputs()[input].declared;
    if (declared == nullptr || t == nullptr) return t == nullptr ? declared : t;
    if (const Type* both = types.meet(declared, t)) return both;
    if (!declared->is_tensor() || !t->is_tensor() || declared->dtype() != t->dtype())
      c.fail(fmt::format("input {} of the body is {}, it gets {}", input, c.show(declared), c.show(t)));
    // onnxruntime runs a loop whose body declares other sizes than it gets.
    body.input_port(input).declared = nullptr;
    return t;
  };
  for (size_t i = 0; i < carried; ++i) inputs[first_carried + i] = with_declared(first_carried + i, inputs[first_carried + i]);
  // A type has few ways to widen: sizes become unknown one by one, then the rank.
  constexpr int kRounds = 8;
  for (int round = 0;; ++round) {
    c.infer_body(body, inputs);
    bool stable = true;
    for (size_t i = 0; i < carried; ++i) {
      const Type*& in = inputs[first_carried + i];
      const Type* out = output_type(body, first_result + i);
      if (in == nullptr || out == nullptr || in == out) continue;
      if (in->is_tensor() != out->is_tensor() || (in->is_tensor() && in->dtype() != DType::kUndefined &&
                                                  out->dtype() != DType::kUndefined && in->dtype() != out->dtype())) {
        c.fail(fmt::format("the body turns {} into {}", c.show(in), c.show(out)));
      }
      if (!in->is_tensor()) continue;
      const Type* wider = widened_to_hold(types, in, out, /*gives_up=*/round >= kRounds);
      if (wider == nullptr) continue;
      wider = with_declared(first_carried + i, wider);
      if (wider == in) continue;
      // The declared types of the body's inputs hold, whatever inference finds.
      if (wider->is_tensor() && in->is_tensor() && wider->ranked() && in->ranked() && wider->rank() == in->rank()) {
        bool differs = false;
        for (size_t k = 0; k < in->rank(); ++k)
          differs = differs || (!(wider->dim(k) == in->dim(k)) && !in->dim(k).is_unknown());
        if (!differs) continue;
      }
      in = wider;
      stable = false;
    }
    if (stable || round > kRounds + 1) return;
  }
}

}  // namespace

void if_op(InferContext& c) {
  Graph &then_branch = body_of(c, "then_branch"), &else_branch = body_of(c, "else_branch");
  if (const Type* cond = c.ranked(0); cond != nullptr && cond->is_static() && *cond->static_size() != 1) {
    c.fail(fmt::format("the condition is {}", c.show(cond)));
  }
  c.infer_body(then_branch, {});
  c.infer_body(else_branch, {});
  for (Graph* g : {&then_branch, &else_branch}) {
    if (g->outputs().size() != c.num_results())
      c.fail(fmt::format("a branch has {} results, the node {}", g->outputs().size(), c.num_results()));
    if (!g->inputs().empty()) c.fail("a branch has inputs; branches must capture outer values instead");
  }
  for (size_t i = 0; i < c.num_results(); ++i) {
    const Type *a = output_type(then_branch, i), *b = output_type(else_branch, i);
    if (a == nullptr || b == nullptr) continue;
    const bool tensors = a->is_tensor() && b->is_tensor();
    if (tensors && a->dtype() != DType::kUndefined && b->dtype() != DType::kUndefined && a->dtype() != b->dtype()) {
      c.fail(fmt::format("result {} is {} in one branch and {} in the other", i, c.show(a), c.show(b)));
    }
    if (const Type* both = c.types().join(a, b)) {
      c.set(i, both);
    } else if (tensors) {
      c.set_unranked(i, a->dtype());
    }
  }
}

namespace {

// The value that v is a copy of.
const Value* original(const Value* v) {
  while (v != nullptr && v->def() != nullptr && v->def()->is("Identity")) v = v->def()->input(0);
  return v;
}

bool is_true(const Value* v) {
  const TensorPtr payload = v != nullptr ? v->constant() : nullptr;
  return payload != nullptr && payload->size() == 1 && payload->dtype() == DType::kBool && payload->as_int(0) != 0;
}

// How often the body of a Loop runs: M, when the condition is always true; else unknown.
Dim trip_count(const InferContext& c, const Graph& body) {
  if (c.has_input(1) && !is_true(original(c.node().input(1)))) return Dim();
  const Value* go_on = original(body.output(0));
  if (go_on != body.input(1) && !is_true(go_on)) return Dim();
  const auto limit = scalar_value(c, 0);
  if (!limit || limit->is_unknown()) return Dim();
  if (limit->is_int()) return Dim::of(std::max<int64_t>(0, limit->value()));
  return c.dims().less_equal(Dim::of(0), *limit) ? *limit : c.dims().max(*limit, Dim::of(0));
}

}  // namespace

void loop(InferContext& c) {
  Graph& body = body_of(c, "body");
  const size_t carried = c.num_inputs() < 2 ? 0 : c.num_inputs() - 2;
  if (body.inputs().size() != carried + 2)
    c.fail(fmt::format("the body has {} inputs, not {}", body.inputs().size(), carried + 2));
  if (body.outputs().size() != c.num_results() + 1) {
    c.fail(fmt::format("the body has {} results, the node {}", body.outputs().size(), c.num_results()));
  }
  if (c.num_results() < carried) c.fail(fmt::format("{} results for {} carried values", c.num_results(), carried));
  std::vector<const Type*> inputs{c.types().scalar(DType::kI64), c.types().scalar(DType::kBool)};
  // Exporters also write the counter and the condition as [1]; a declaration in the body decides.
  for (size_t i = 0; i < 2; ++i) {
    const Type* declared = body.inputs()[i].declared;
    if (declared == nullptr) continue;
    if (declared->is_tensor() && declared->dtype() != DType::kUndefined && declared->dtype() != inputs[i]->dtype()) {
      c.fail(fmt::format("input {} of the body is {}", i, c.show(declared)));
    }
    if (declared->is_tensor() && declared->ranked() && declared->rank() == 1) inputs[i] = declared;
  }
  for (size_t i = 0; i < carried; ++i) inputs.push_back(c.input(i + 2));
  settle(c, body, inputs, 2, carried, 1);
  for (size_t i = 0; i < carried; ++i) {
    // A loop may run no iteration: a result is either the loop's operand or what the body returns.
    const Type *in = inputs[i + 2], *out = output_type(body, i + 1);
    if (in != nullptr && out != nullptr && in->kind() == TypeKind::kOptional && out->kind() == TypeKind::kSequence)
      in = in->element();
    if (in == nullptr || out == nullptr) continue;
    if (const Type* both = c.types().join(in, out)) {
      c.set(i, both);
    } else if (out->is_tensor()) {
      c.set_unranked(i, out->dtype());
    }
  }
  const Dim trips = trip_count(c, body);
  for (size_t i = carried; i < c.num_results(); ++i) {
    const Type* out = output_type(body, i + 1);
    if (out == nullptr || !out->is_tensor()) continue;
    if (!out->ranked()) {
      c.set_unranked(i, out->dtype());
      continue;
    }
    DimVec dims{trips};
    // A size that varies between iterations is known only inside the body.
    dims.insert(dims.end(), out->dims().begin(), out->dims().end());
    c.set(i, out->dtype(), dims);
  }
}

void scan(InferContext& c) {
  Graph& body = body_of(c, "body");
  const bool batched = c.op().since_version < 9;  // the first version had a batch dim and sequence lengths
  const size_t skip = batched ? 1 : 0;
  const auto scanned_attr = c.attr_int("num_scan_inputs");
  if (!scanned_attr || *scanned_attr < 1) c.fail("num_scan_inputs must be positive");
  const auto scanned = static_cast<size_t>(*scanned_attr);
  if (c.num_inputs() < skip + scanned) c.fail(fmt::format("{} operands for {} scan inputs", c.num_inputs(), scanned));
  const size_t carried = c.num_inputs() - skip - scanned;
  if (body.inputs().size() != carried + scanned) {
    c.fail(fmt::format("the body has {} inputs, not {}", body.inputs().size(), carried + scanned));
  }
  if (body.outputs().size() != c.num_results() || c.num_results() < carried) {
    c.fail(fmt::format("the body has {} results, the node {}", body.outputs().size(), c.num_results()));
  }
  const auto axes = c.attr_ints("scan_input_axes"), out_axes = c.attr_ints("scan_output_axes");
  if (axes && axes->size() != scanned) c.fail(fmt::format("scan_input_axes has {} entries", axes->size()));
  if (out_axes && out_axes->size() != c.num_results() - carried)
    c.fail(fmt::format("scan_output_axes has {} entries", out_axes->size()));
  const auto without = [&](const Type* t, size_t axis) {
    DimVec dims = dims_of(t);
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
    return c.types().tensor(t->dtype(), dims);
  };
  Dim length, batch;
  std::vector<const Type*> inputs;
  for (size_t i = 0; i < carried; ++i) {
    const Type* t = c.input(i + skip);
    if (batched && c.ranked(i + skip) != nullptr) {
      need_rank_at_least(c, i + skip, 1);
      batch = batch.is_anonymous() ? t->dim(0) : same_dim(c, batch, t->dim(0), "the batch sizes of the operands");
      t = without(t, 0);
    } else if (batched) {
      t = nullptr;
    }
    inputs.push_back(t);
  }
  for (size_t i = 0; i < scanned; ++i) {
    const size_t at = skip + carried + i;
    const Type* t = c.ranked(at);
    if (t == nullptr) {
      inputs.push_back(dtype_of(c, at) != DType::kUndefined ? c.types().unranked(dtype_of(c, at)) : nullptr);
      continue;
    }
    if (batched) {
      need_rank_at_least(c, at, 2);
      batch = batch.is_anonymous() ? t->dim(0) : same_dim(c, batch, t->dim(0), "the batch sizes of the operands");
      length = length.is_anonymous() ? t->dim(1) : same_dim(c, length, t->dim(1), "the lengths of the scan inputs");
      inputs.push_back(without(without(t, 1), 0));
    } else {
      need_rank_at_least(c, at, 1);
      const size_t axis = normal_axis(c, axes ? (*axes)[i] : 0, t->rank());
      length = length.is_anonymous() ? t->dim(axis) : same_dim(c, length, t->dim(axis), "the lengths of the scan inputs");
      inputs.push_back(without(t, axis));
    }
  }
  // The standard gives state variables one shape in all iterations, so facts about either end hold for both.
  for (size_t i = 0; i < carried; ++i) {
    const Type* declared = body.inputs()[i].declared;
    if (declared == nullptr || inputs[i] == nullptr) continue;
    const Type* both = c.types().meet(declared, inputs[i]);
    if (both == nullptr) c.fail(fmt::format("input {} of the body is {}, it gets {}", i, c.show(declared), c.show(inputs[i])));
    inputs[i] = both;
  }
  c.infer_body(body, inputs);
  for (size_t i = 0; i < carried; ++i) {
    const Type *in = inputs[i], *out = output_type(body, i);
    if (in == nullptr || out == nullptr) {
      if (in == nullptr) in = out;
      if (in == nullptr) continue;
    } else {
      const Type* both = c.types().meet(in, out);
      if (both == nullptr) c.fail(fmt::format("the body turns state {} from {} into {}", i, c.show(in), c.show(out)));
      in = both;
    }
    if (batched && in->is_tensor() && in->ranked()) {
      DimVec dims{batch};
      dims.insert(dims.end(), in->dims().begin(), in->dims().end());
      c.set(i, in->dtype(), dims);
    } else if (!batched) {
      c.set(i, in);
    }
  }
  for (size_t i = carried; i < c.num_results(); ++i) {
    const Type* out = output_type(body, i);
    if (out == nullptr || !out->is_tensor()) continue;
    if (!out->ranked()) {
      c.set_unranked(i, out->dtype());
      continue;
    }
    DimVec dims = dims_of(out);
    if (batched) {
      dims.insert(dims.begin(), {batch, length});
    } else {
      const size_t axis = normal_axis(c, out_axes ? (*out_axes)[i - carried] : 0, out->rank() + 1);
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), length);
    }
    c.set(i, out->dtype(), dims);
  }
}

void constant(InferContext& c) {
  if (const TensorPtr& payload = c.node().result(0)->constant()) {
    c.set(0, c.types().tensor(payload->dtype(), payload->shape()));
    return;
  }
  const auto vector = [&](DType dtype, size_t n) { c.set(0, dtype, DimVec{Dim::of(static_cast<int64_t>(n))}); };
  if (const Attr* a = c.attr("value")) {
    if (const auto* t = a->get<TensorPtr>(); t != nullptr && *t != nullptr)
      c.set(0, c.types().tensor((*t)->dtype(), (*t)->shape()));
  } else if (c.attr("value_int") != nullptr) {
    c.set(0, c.types().scalar(DType::kI64));
  } else if (c.attr("value_float") != nullptr) {
    c.set(0, c.types().scalar(DType::kF32));
  } else if (c.attr("value_string") != nullptr) {
    c.set(0, c.types().scalar(DType::kString));
  } else if (const Attr* ints = c.attr("value_ints")) {
    if (const auto* list = ints->get<Attr::Ints>()) vector(DType::kI64, list->size());
  } else if (const Attr* floats = c.attr("value_floats")) {
    if (const auto* list = floats->get<Attr::Floats>()) vector(DType::kF32, list->size());
  } else if (const Attr* strings = c.attr("value_strings")) {
    if (const auto* list = strings->get<Attr::Strings>()) vector(DType::kString, list->size());
  }
}

}  // namespace sardonyx::onnx::rules
