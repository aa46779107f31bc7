#include "dialects/stablehlo/dialect.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

TEST(StablehloDialect, FindsEachOperationOnce) {
  const Dialect& d = dialect(DialectId::kStablehlo);
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const Op& op : d.ops()) {
    EXPECT_TRUE(names.emplace(op.domain, op.name).second) << op.name << " has two rows";
    EXPECT_EQ(d.find(op.domain, op.name, 1), &op);
  }
  EXPECT_GT(names.size(), 150u);
  EXPECT_EQ(d.find("", "erf", 1), nullptr) << "CHLO has a domain of its own";
  EXPECT_NE(d.find("chlo", "erf", 1), nullptr);
  EXPECT_EQ(d.ops().front().id, dialect(DialectId::kJax).ops().back().id + 1);
}

TEST(StablehloDialect, PrintsAndParses) {
  const std::string text = R"(graph stablehlo(arg0: f32[2,3], arg1: f32[3,5]) {
  %0: f32[2,5] = dot_general<dot_dimension_numbers={lhs_batching_dimensions: [], rhs_batching_dimensions: [], lhs_contracting_dimensions: [1], rhs_contracting_dimensions: [0]}>(arg0, arg1)
  %1: f32[2,5] = chlo::erf(%0)
  %2: f32[2,5] = func::call<callee="f">(%1)
  return result: f32[2,5] = %2
}
)";
  const auto m = parse(text);
  EXPECT_EQ(m->dialect(), DialectId::kStablehlo);
  EXPECT_EQ(print(*m), text);
}

}  // namespace
}  // namespace sardonyx
