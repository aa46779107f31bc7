//   concat<3, interleave>(concat<2, interleave>(a, b), concat<2, interleave>(c, d))    =>    pixel_shuffle<2>(concat<1, interleave>(a, c, b, d))
//
// Of rank 4. The inner concats must have no other users. After coremltools' pass of this name.
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// The two values that n interleaves along `axis`, of rank 4; empty when it does something else. Only concat
// interleaves.
std::vector<Value*> interleaved(Node& n, PassContext& context, int64_t axis) {
  const std::vector<Value*> values = list(n, context, "values");
  const InferContext at = params(n, context);
  const auto found = rules::param_int(at, "axis");
  if (values.size() != 2 || !param_bool(at, "interleave") || !found || !values.front()->ranked() ||
      values.front()->type()->rank() != 4)
    return {};
  return (*found < 0 ? *found + 4 : *found) == axis ? values : std::vector<Value*>();
}

}  // namespace

Pass concat_to_pixel_shuffle() {
  using namespace pattern;
  namespace m = pattern::mil;
  return Rule{
      .match = m::concat(),
      .build = [](Rewriter& b, const Match& found) -> Value* {
        const auto columns = interleaved(found.root(), b.context(), 3);
        if (columns.empty()) return nullptr;
        std::vector<Value*> rows[2];
        for (size_t i = 0; i < 2; ++i) {
          Node* inner = columns[i]->def();
          if (inner == nullptr || !columns[i]->has_one_use() || inner->graph() != found.root().graph()) return nullptr;
          rows[i] = interleaved(*inner, b.context(), 2);
          if (rows[i].empty()) return nullptr;
        }
        Value* all = b.concat({rows[0][0], rows[1][0], rows[0][1], rows[1][1]}, {.axis = 1, .interleave = true});
        return b.pixel_shuffle(all, {.upscale_factor = 2});
      },
  };
}

}  // namespace sardonyx::mil
