// Many threads, each with its own models. Shared objects (tables of operators, compiled patterns, registries)
// are built once, by whichever thread comes first. The thread sanitizer checks these tests (make tsan).
#include <gtest/gtest.h>

#include <atomic>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "sardonyx/convert.h"
#include "sardonyx/eval.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

constexpr int kThreads = 8, kRounds = 3;

constexpr std::string_view kGraphs[] = {
    R"(graph(x: f32[B,6], y: f32[B,6]) {
  r = Reciprocal(Sqrt(x))
  z = Mul(Add(r, f32 0), y)
  return Transpose<perm=[1,0]>(Transpose<perm=[1,0]>(z))
})",
    R"(graph(x: f32[2,5], w: f32[5,7]) {
  a = MatMul(x, w)
  b = Add(Identity(a), f32[7]{0.5...})
  return Relu(Relu(b)), Cast<to=1>(a)
})",
    R"(graph(c: bool[], x: f32[3]) {
  y = If<then_branch=graph() { t = Neg(Neg(x))  return t }, else_branch=graph() { e = Exp(x)  return e }>(c)
  return Mul(y, f32 1)
})",
};

constexpr std::string_view kProgram = R"(graph jax(x: f32[B,3]) {
  a: f32[B,3] = tanh(x)
  b: f32[B] = reduce_sum<axes=[1], out_sharding=none>(a)
  c: f32[B,3] = broadcast_in_dim<shape=[B, 3], broadcast_dimensions=[0], sharding=none>(b)
  y: f32[B,3] = add(a, c)
  return y
})";

// The evaluated values, the optimized graph, and its bytes.
std::string optimized(std::string_view text) {
  const auto model = parse(text);
  std::vector<EvalValue> inputs(model->graph().inputs().size());
  fill_inputs(model->graph(), inputs, /*seed=*/1);
  std::string out;
  for (const EvalValue& v : evaluate(model->graph(), inputs)) out += describe(v);
  run_passes(*model, {});
  const std::string bytes = serialize_onnx(*model);
  const auto again = read_onnx_bytes(std::as_bytes(std::span(bytes)), nullptr);
  verify(*again);
  return out + print(*model, {.full_constants = true}) + bytes;
}

std::string converted(std::string_view text) {
  const auto program = parse(text);
  const auto model = convert(*program, {.passes = {.passes = {"onnx"}}}, LoweringRegistry::builtin());
  return serialize_onnx(*model);
}

// Every thread must get the same result as a single thread.
template <class F>
void expect_the_same_from_all(const F& work) {
  std::vector<std::string> found(kThreads);
  std::atomic<int> ready = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < kThreads) std::this_thread::yield();  // all begin at once
      try {
        for (int k = 0; k < kRounds; ++k) found[static_cast<size_t>(i)] = work();
      } catch (const Error& e) {
        found[static_cast<size_t>(i)] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const std::string alone = work();
  for (const std::string& f : found) EXPECT_EQ(f, alone);
}

TEST(Threads, OptimizeEvaluateAndWrite) {
  expect_the_same_from_all([] {
    std::string all;
    for (std::string_view text : kGraphs) all += optimized(text);
    return all;
  });
}

TEST(Threads, LowerPrograms) {
  expect_the_same_from_all([] { return converted(kProgram); });
}

TEST(Threads, MultiplyOnThreadsOfTheirOwn) {  // a product of this size runs on two threads
  expect_the_same_from_all([] {
    const auto model = parse("graph(x: f32[193,179], w: f32[179,211]) { y = MatMul(x, w)  return y }");
    std::vector<EvalValue> inputs(2);
    fill_inputs(model->graph(), inputs, /*seed=*/1);
    const std::vector<EvalValue> results = evaluate(model->graph(), inputs);
    const Array& y = *results[0].array();
    return std::string(reinterpret_cast<const char*>(y.data()), static_cast<size_t>(y.size()) * sizeof(float));
  });
}

// Errors and refusals on many threads at once.
TEST(Threads, RefuseWhatIsBroken) {
  expect_the_same_from_all([] {
    try {
      parse("graph(x: f32[2]) { y = Relu(z)  return y }");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing was wrong");
  });
}

}  // namespace
}  // namespace sardonyx
