// Inference over a chain of a million nodes: types are interned, so a shape-preserving rule copies a pointer.
#include <benchmark/benchmark.h>

#include "sardonyx/infer.h"

namespace sardonyx {
namespace {

void infer_chain(benchmark::State& state) {
  const auto length = state.range(0);
  Model m(DialectId::kOnnx);
  m.set_opset_version("", 23);
  m.add_function("main");
  Graph& g = m.graph();
  const Dim dims[] = {m.dims().symbol("B"), Dim::of(3)};
  Value* x = g.add_input("x", m.types().tensor(DType::kF32, dims));
  const Op& relu = m.op("", "Relu");
  for (int64_t i = 0; i < length; ++i) {
    Value* operand[] = {x};
    Node& n = m.new_node(relu, operand, 1);
    g.append(n);
    x = n.result();
  }
  g.add_output(*x, "y");
  for (auto _ : state) {
    ValueFacts facts;
    benchmark::DoNotOptimize(infer_model(m, facts, /*tolerant=*/false));
    state.PauseTiming();
    for (Node& n : g.nodes()) n.result()->set_type(nullptr);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * length);
}
BENCHMARK(infer_chain)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sardonyx
