// Runs the presets onnx-spec and onnx over large graphs: the time per node must not grow. Counters report
// each pass's time in ns per node.
#include <benchmark/benchmark.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

class Maker {
 public:
  Maker() : m(std::make_unique<Model>(DialectId::kOnnx)) {
    m->set_opset_version("", 23);
    m->add_function("main");
    const Dim dims[] = {m->dims().symbol("B"), Dim::of(3), Dim::of(5)};
    x = m->graph().add_input("x", m->types().tensor(DType::kF32, dims));
    flat = m->graph().add_constant(Tensor::vector(std::vector<int64_t>{0, 15}));
    deep = m->graph().add_constant(Tensor::vector(std::vector<int64_t>{0, 3, 5}));
    one = m->graph().add_constant(Tensor::full(DType::kF32, {}, 1));
  }
  Value* op(std::string_view name, std::initializer_list<Value*> in, const Attrs* attrs = nullptr) {
    Node& n = m->new_node(m->op("", name), std::span<Value* const>(in.begin(), in.size()), 1, attrs);
    m->graph().append(n);
    ++nodes;
    return n.result();
  }
  const Attrs* perm(std::vector<int64_t> p) { return m->attrs({attr("perm", Attr(std::move(p)))}); }
  const Attrs* to(int64_t dtype) { return m->attrs({attr("to", Attr(dtype))}); }

  std::unique_ptr<Model> m;
  Value *x, *flat, *deep, *one;
  int64_t nodes = 0;
};

// Pairs of casts, transposes and reshapes, alone and around elementwise nodes. Three of twelve nodes stay.
std::unique_ptr<Model> chain(int64_t length) {
  Maker b;
  const Attrs *to64 = b.to(11), *to32 = b.to(1), *there = b.perm({0, 2, 1}), *further = b.perm({2, 0, 1}),
              *back = b.perm({1, 2, 0});
  Value* v = b.x;
  while (b.nodes < length) {
    v = b.op("Cast", {b.op("Cast", {v}, to64)}, to32);
    v = b.op("Transpose", {b.op("Relu", {b.op("Transpose", {v}, there)})}, there);
    v = b.op("Transpose", {b.op("Transpose", {v}, further)}, back);
    v = b.op("Reshape", {b.op("Neg", {b.op("Reshape", {v, b.flat})}), b.deep});
    v = b.op("Add", {v, b.one});
    v = b.op("Cast", {v}, to32);
  }
  b.m->graph().add_output(*v, "y");
  return std::move(b.m);
}

// Rows of nodes in which each is computed twice, so half of them are merged.
std::unique_ptr<Model> mesh(int64_t length) {
  Maker b;
  Value *u = b.x, *v = b.x;
  while (b.nodes < length) {
    Value *p = b.op("Exp", {u}), *q = b.op("Exp", {v});
    Value *r = b.op("Mul", {p, u}), *s = b.op("Mul", {v, q});
    u = b.op("Add", {r, q});
    v = b.op("Add", {p, s});
  }
  b.m->graph().add_output(*b.op("Sub", {u, v}), "y");
  return std::move(b.m);
}

void run(benchmark::State& state, std::unique_ptr<Model> (*make)(int64_t), const char* preset) {
  PipelineReport report;
  size_t left = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto m = make(state.range(0));
    state.ResumeTiming();
    report = run_passes(*m, {.passes = {preset}, .strict = true});
    state.PauseTiming();
    left = m->num_nodes();
    m.reset();
    state.ResumeTiming();
  }
  const auto nodes = static_cast<double>(state.range(0));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["left"] = static_cast<double>(left) / nodes;
  for (const PassReport& p : report.passes) state.counters[p.name] = p.seconds * 1e9 / nodes;
}

void spec_chain(benchmark::State& state) { run(state, chain, "onnx-spec"); }
void spec_mesh(benchmark::State& state) { run(state, mesh, "onnx-spec"); }
void onnx_chain(benchmark::State& state) { run(state, chain, "onnx"); }
void onnx_mesh(benchmark::State& state) { run(state, mesh, "onnx"); }
BENCHMARK(spec_chain)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(spec_mesh)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(onnx_chain)->Arg(1'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(onnx_mesh)->Arg(1'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sardonyx
