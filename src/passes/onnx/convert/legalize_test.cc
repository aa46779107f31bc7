// Covers what the text of a graph does not show: where the program made a node that the runtime cannot run.
#include <gtest/gtest.h>

#include "passes/catalog.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// The error for a node with this source.
std::string refusal(const Source& source) {
  const auto m = parse("graph(x: u64[3]) { y = Relu(x)  return y }");
  m->graph().first()->set_provenance(m->add_provenance({.sources = {source}, .source_count = 1}));
  try {
    run_passes(*m, {.passes = {"legalize"}, .strict = true});
  } catch (const Error& e) {
    return e.what();
  }
  return "none";
}

TEST(Legalize, names_the_source_line_of_unsupported_nodes) {
  EXPECT_NE(refusal({.file = "model.py", .line = 41}).find("\n  Relu-14 of u64, at model.py:41\n"), std::string::npos);
  EXPECT_NE(refusal({.function = "f"}).find("\n  Relu-14 of u64\n"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx
