// If, Loop, Scan: bodies run on the interpreter.
#include <fmt/format.h>

#include <algorithm>

#include "eval/kernel.h"

namespace sardonyx::eval {
namespace {

bool truth(const Call& c, const EvalValue& v) {
  const Array* a = v.array();
  if (a == nullptr || a->size() != 1) c.fail(fmt::format("expected a condition of one boolean, found {}", describe(v)));
  return a->int_at(0) != 0;
}

// Stacks arrays of one shape, one per iteration, along a new axis.
Array stacked(Call& c, std::span<const EvalValue> parts, int64_t new_axis, bool reverse) {
  const Array* first = parts.front().array();
  if (first == nullptr) c.fail(fmt::format("a collected result is {}, not a tensor", describe(parts.front())));
  const size_t axis = c.axis(new_axis, first->rank() + 1);
  std::vector<int64_t> shape(first->shape());
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<int64_t>(parts.size()));
  Array out = c.make(first->dtype(), shape);
  std::vector<int64_t> strides(out.strides());
  const int64_t step = strides[axis];
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  for (size_t i = 0; i < parts.size(); ++i) {
    const Array* part = parts[i].array();
    if (part == nullptr || part->shape() != first->shape() || part->dtype() != first->dtype()) {
      c.fail(fmt::format("a collected result changes between iterations: {} and {}", describe(parts[0]), describe(parts[i])));
    }
    Array to = out.view(part->shape(), strides, static_cast<int64_t>(reverse ? parts.size() - 1 - i : i) * step);
    copy_elements(*part, to);
  }
  return out;
}

// A scan output without iterations: the declared sizes where they are known, and size 0 along the new axis.
Array nothing_stacked(Call& c, const Graph& body, size_t output, int64_t axis) {
  const Value* v = body.outputs()[output].use->value;
  const Type* t = v != nullptr && v->type() != nullptr ? v->type() : body.outputs()[output].declared;
  std::vector<int64_t> shape;
  DType dtype = DType::kF32;
  if (t != nullptr && t->is_tensor()) {
    dtype = t->dtype();
    if (t->ranked()) {
      for (Dim d : t->dims()) shape.push_back(d.is_int() ? d.value() : 0);
    }
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(c.axis(axis, shape.size() + 1)), 0);
  return c.make(dtype, std::move(shape));
}

}  // namespace

namespace kernels {

void If(Call& c) {
  const bool yes = truth(c, c.value(0));
  c.results = c.run_body(c.body(yes ? "then_branch" : "else_branch"), {});
}

void Loop(Call& c) {
  const size_t index = c.body("body");
  const Graph& body = *c.node.bodies()[index].graph;
  const int64_t trips = c.has(0) ? c.int_scalar(0) : INT64_MAX;
  bool go_on = !c.has(1) || truth(c, c.value(1));
  const size_t carried = c.num_inputs() < 2 ? 0 : c.num_inputs() - 2;
  if (body.inputs().size() != carried + 2 || body.outputs().size() < carried + 1) {
    c.fail(fmt::format("the body has {} inputs and {} results, expected {} and at least {}", body.inputs().size(),
                       body.outputs().size(), carried + 2, carried + 1));
  }
  std::vector<EvalValue> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(c.has(i + 2) ? c.take(i + 2) : EvalValue());
  const size_t scans = body.outputs().size() - 1 - carried;
  std::vector<std::vector<EvalValue>> collected(scans);
  for (int64_t i = 0; i < trips && go_on; ++i) {
    c.count_iteration();
    std::vector<EvalValue> inputs;
    inputs.reserve(carried + 2);
    Array number = c.make(DType::kI64, {}), condition = c.make(DType::kBool, {});
    *number.as<int64_t>() = i;
    *condition.as<uint8_t>() = 1;
    inputs.emplace_back(number);
    inputs.emplace_back(condition);
    for (EvalValue& v : state) inputs.push_back(std::move(v));
    std::vector<EvalValue> results = c.run_body(index, std::move(inputs));
    go_on = truth(c, results[0]);
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(results[1 + k]);
    for (size_t k = 0; k < scans; ++k) collected[k].push_back(std::move(results[1 + carried + k]));
  }
  for (size_t i = 0; i < carried; ++i) c.set(i, std::move(state[i]));
  for (size_t k = 0; k < scans; ++k) {
    c.set(carried + k,
          collected[k].empty() ? nothing_stacked(c, body, 1 + carried + k, 0) : stacked(c, collected[k], 0, false));
  }
}

namespace {

// One sequence of a Scan (all of opset 9 and later; one batch of opset 8).
struct ScanSpec {
  size_t scan_inputs = 0;
  std::vector<int64_t> input_axes, output_axes, input_reverse, output_reverse;
};

std::vector<EvalValue> scan(Call& c, const ScanSpec& spec, std::vector<EvalValue> state, std::span<const Array> sequences,
                            std::optional<int64_t> given_length) {
  const size_t index = c.body("body");
  const Graph& body = *c.node.bodies()[index].graph;
  const size_t carried = state.size();
  if (body.inputs().size() != carried + sequences.size() || body.outputs().size() < carried) {
    c.fail("the body's inputs and results do not fit the operands");
  }
  const size_t scans = body.outputs().size() - carried;
  auto entry = [](const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; };
  int64_t length = given_length.value_or(-1);
  for (size_t k = 0; k < sequences.size(); ++k) {
    const int64_t n = sequences[k].dim(c.axis(entry(spec.input_axes, k), sequences[k].rank()));
    if (length < 0) length = n;
    if (n < length || (!given_length && n != length)) c.fail("the scanned operands differ in length");
  }
  std::vector<std::vector<EvalValue>> collected(scans);
  for (int64_t i = 0; i < length; ++i) {
    c.count_iteration();
    std::vector<EvalValue> inputs;
    for (EvalValue& v : state) inputs.push_back(std::move(v));
    for (size_t k = 0; k < sequences.size(); ++k) {
      const Array& x = sequences[k];
      const size_t axis = c.axis(entry(spec.input_axes, k), x.rank());
      std::vector<int64_t> shape(x.shape()), strides(x.strides());
      const int64_t at = entry(spec.input_reverse, k) != 0 ? length - 1 - i : i;
      const int64_t offset = at * strides[axis];
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
      strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
      inputs.emplace_back(x.view(std::move(shape), std::move(strides), offset));
    }
    std::vector<EvalValue> results = c.run_body(index, std::move(inputs));
    for (size_t k = 0; k < carried; ++k) state[k] = std::move(results[k]);
    for (size_t k = 0; k < scans; ++k) collected[k].push_back(std::move(results[carried + k]));
  }
  std::vector<EvalValue> out = std::move(state);
  for (size_t k = 0; k < scans; ++k) {
    const int64_t axis = entry(spec.output_axes, k);
    out.emplace_back(collected[k].empty() ? nothing_stacked(c, body, carried + k, axis)
                                          : stacked(c, collected[k], axis, entry(spec.output_reverse, k) != 0));
  }
  return out;
}

}  // namespace

void Scan(Call& c) {
  ScanSpec spec;
  spec.scan_inputs = static_cast<size_t>(c.int_attr("num_scan_inputs"));
  const bool batched = c.version() < 9;
  const size_t first = batched ? 1 : 0;
  c.require(spec.scan_inputs + first <= c.num_inputs(), "num_scan_inputs is larger than the number of operands");
  const size_t carried = c.num_inputs() - first - spec.scan_inputs;
  auto list = [&](std::string_view name) { return c.attr(name) ? *c.ints_attr(name) : std::vector<int64_t>{}; };
  std::vector<Array> sequences;
  for (size_t i = 0; i < spec.scan_inputs; ++i) sequences.push_back(c.in(first + carried + i));
  if (!batched) {
    spec.input_axes = list("scan_input_axes");
    spec.output_axes = list("scan_output_axes");
    spec.input_reverse = list("scan_input_directions");
    spec.output_reverse = list("scan_output_directions");
    std::vector<EvalValue> state;
    for (size_t i = 0; i < carried; ++i) state.push_back(c.take(i));
    c.results = scan(c, spec, std::move(state), sequences, std::nullopt);
    return;
  }
  // Opset 8: axis 0 is a batch, axis 1 the sequence.
  spec.input_reverse = list("directions");
  c.require(!sequences.empty(), "the scan has no operands");
  const int64_t batch = sequences[0].dim(0);
  const std::vector<int64_t> lengths = c.has(0) ? c.ints(0) : std::vector<int64_t>{};
  auto slice = [](const Array& x, int64_t i) {
    return x.view({x.shape().begin() + 1, x.shape().end()}, {x.strides().begin() + 1, x.strides().end()}, i * x.strides()[0]);
  };
  std::vector<std::vector<EvalValue>> per_batch;
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<EvalValue> state;
    std::vector<Array> parts;
    for (size_t i = 0; i < carried; ++i) state.emplace_back(slice(c.in(1 + i), b));
    for (const Array& s : sequences) parts.push_back(slice(s, b));
    per_batch.push_back(scan(c, spec, std::move(state), parts,
                             lengths.empty() ? std::nullopt : std::optional(lengths[static_cast<size_t>(b)])));
  }
  for (size_t k = 0; k < c.results.size() && !per_batch.empty(); ++k) {
    std::vector<EvalValue> parts;
    for (const auto& results : per_batch) parts.push_back(results[k]);
    c.set(k, stacked(c, parts, 0, false));
  }
}

}  // namespace kernels
}  // namespace sardonyx::eval
