// In which order the parts of an expression are made is left to the compiler; what is written must not tell. The cases of all
// lowerings and passes are run with their batches shuffled (src/ir/arrange.h). `make test-determinism` compares real compilers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "ir/arrange.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"
#include "sardonyx/lower.h"
#include "sardonyx/passes.h"

namespace sardonyx {
namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3};

// What stands before "=>" in each case of the folder's files that begins with `kind`.
std::vector<std::string> graphs_of(const std::string& folder, std::string_view kind) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".sx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> graphs;
  for (const auto& path : files) {
    std::ifstream in(path);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (size_t at = text.find("\ncase \""); at != std::string::npos; at = text.find("\ncase \"", at + 1)) {
      const size_t begin = text.find('\n', at + 1), end = text.find("\n=>", at + 1);
      if (begin == std::string::npos || end == std::string::npos || end < begin) continue;
      std::string graph = text.substr(begin + 1, end - begin);
      if (graph.starts_with(kind)) graphs.push_back(std::move(graph));
    }
  }
  return graphs;
}

// What `make` returns, whatever the order; empty when it refuses. How many of the graphs give something is counted.
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
