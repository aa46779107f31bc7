// Compilers may evaluate the parts of an expression in any order, and the output must not depend on it. These
// tests run the cases of all lowerings and passes with shuffled batches (src/ir/graph/arrange.h). `make
// test-determinism` compares real compilers.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cases/sx_test_files.h"
#include "ir/graph/arrange.h"
#include "sardonyx/coreml.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"
#include "sardonyx/lower.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3};

// The text before "=>" of each case in the folder's files whose graph begins with `kind`.
std::vector<std::string> graphs_of(const std::string& folder, std::string_view kind) {
  std::vector<std::string> graphs;
  for (const auto& path : case_files({folder})) {
    const CaseFile f = read_cases(path);
    for (const Case& c : f.cases) {
      std::string graph = text_of(f, c.input_begin, c.input_end);
      const size_t first = graph.find_first_not_of('\n');
      if (first != std::string::npos && std::string_view(graph).substr(first).starts_with(kind))
        graphs.push_back(std::move(graph));
    }
  }
  return graphs;
}

// Expects the same result from `make` in every order; it is empty where `make` refuses. Returns the number of
// graphs that were not refused.
size_t expect_the_same(const std::vector<std::string>& graphs, const std::function<std::string(const std::string&)>& make) {
  size_t made = 0;
  for (const std::string& graph : graphs) {
    const auto attempt = [&] {
      try {
        return make(graph);
      } catch (const Error&) {
        return std::string();
      }
    };
    const std::string plain = attempt();
    made += plain.empty() ? 0 : 1;
    for (uint64_t seed : kSeeds) {
      const ShuffledMaking shuffled(seed);
      if (attempt() != plain) {
        ADD_FAILURE() << "another order of making is seen in what is written (seed " << seed << "):\n" << graph;
        break;
      }
    }
  }
  return made;
}

TEST(MakingOrder, OfLoweredProgramsIsNotSeen) {
  const auto programs = graphs_of("src/lower", "graph jax");
  const size_t made = expect_the_same(programs, [](const std::string& text) {
    const auto program = parse(text);
    const auto model = lower_to_onnx(*program);
    std::string all = serialize_onnx(*model);
    run_passes(*model, {});
    return all + serialize_onnx(*model);
  });
  EXPECT_GT(made, 150u);
}

TEST(MakingOrder, OfProgramsForCoremlIsNotSeen) {
  const size_t made = expect_the_same(graphs_of("src/lower/onnx_to_mil", "graph("), [](const std::string& text) {
    const auto model = parse(text);
    return print(*to_coreml(*model, {}));
  });
  EXPECT_GT(made, 250u);
}

TEST(MakingOrder, OfOptimizedModelsIsNotSeen) {
  const size_t made = expect_the_same(graphs_of("src/passes", "graph("), [](const std::string& text) {
    const auto model = parse(text);
    run_passes(*model, {});
    return serialize_onnx(*model);
  });
  EXPECT_GT(made, 500u);
}

}  // namespace
}  // namespace sardonyx
