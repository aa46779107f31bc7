#include "passes/loading.h"

#include <fmt/format.h>

#include <algorithm>

#include "rewrite/pass.h"

namespace sardonyx {
namespace {

template <class F>
void for_each_node(const Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    for (const Graph* g : graphs_in(function->graph())) {
      for (const Node& n : g->nodes()) f(n);
    }
  }
}

bool has_newer_opset(const onnx::Runtime& runtime, const Model& m) { return m.opset_version("").value_or(0) > runtime.opset; }

}  // namespace

std::vector<std::string> load_problems(const onnx::Runtime& runtime, const Model& m) {
  std::vector<std::string> problems;
  if (has_newer_opset(runtime, m))
    problems.push_back(
        fmt::format("{} loads opset {} at most, and the model imports {}", runtime.name, runtime.opset, *m.opset_version("")));
  for_each_node(m, [&](const Node& n) {
    const auto refused = onnx::refusal(runtime, n);
    if (!refused) return;
    const std::string name = n.name().view().empty() ? "" : fmt::format(" ('{}')", n.name().view());
    problems.push_back(fmt::format("{}{}", refused->text(), name));
  });
  return problems;
}

const onnx::Runtime* runtime_that_loads(const Model& m, std::string_view name) {
  const onnx::Runtime& runtime = name.empty() ? onnx::newest_runtime() : onnx::runtime_named(name);
  bool loads = !has_newer_opset(runtime, m);
  for_each_node(m, [&](const Node& n) {
    loads = loads && !onnx::refusal(runtime, n) && onnx::kernel_fit(runtime, n).fit == onnx::Fit::kYes;
  });
  return loads ? &runtime : nullptr;
}

}  // namespace sardonyx
