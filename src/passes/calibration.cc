#include "passes/calibration.h"

#include <fmt/format.h>

#include <unordered_map>

#include "passes/compress/groups.h"

namespace sardonyx {
namespace {

// Values of the main graph, in an order that copies share.
std::vector<Value*> values_of(const Graph& g) {
  std::vector<Value*> all;
  for (const Port& p : g.inputs()) all.push_back(p.value);
  all.insert(all.end(), g.constants().begin(), g.constants().end());
  for (Node& n : g.nodes()) {
    for (Value& v : n.results()) all.push_back(&v);
  }
  return all;
}

}  // namespace

RunModel Calibration::prepare(const Model& m) const {
  if (runner) return runner(m);
  return [&m](std::span<const EvalValue> inputs) { return evaluate(m.graph(), inputs, {.fast_products = true}); };
}

void observe_values(const Model& m, std::span<const Value* const> values, const Calibration& calibration,
                    const std::function<void(size_t number, const Array&)>& visit) {
  const auto copy = clone_model(m);
  Graph& g = copy->graph();
  std::unordered_map<const Value*, Value*> copied;
  const std::vector<Value*> before = values_of(m.graph()), after = values_of(g);
  for (size_t i = 0; i < before.size(); ++i) copied.emplace(before[i], after[i]);
  const size_t first = g.outputs().size();
  for (size_t i = 0; i < values.size(); ++i) {
    Value& v = *copied.at(values[i]);
    g.add_output(v, fmt::format("observed_{}", i), v.type());
  }
  const RunModel run = calibration.prepare(*copy);
  for (const std::vector<EvalValue>& inputs : calibration.runs) {
    const std::vector<EvalValue> results = run(inputs);
    for (size_t i = 0; i < values.size(); ++i) {
      if (const Array* seen = results[first + i].array()) visit(i, *seen);
    }
  }
}

std::span<const float> floats_of(const Array& x, std::vector<float>& scratch) {
  if (x.dtype() == DType::kF32 && x.is_dense()) return {x.as<float>(), static_cast<size_t>(x.size())};
  const TensorPtr t = x.to_tensor();
  const compress::Floats floats(*t);
  scratch.resize(static_cast<size_t>(x.size()));
  for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = floats[static_cast<int64_t>(i)];
  return scratch;
}

}  // namespace sardonyx
