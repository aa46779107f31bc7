//   concat<3, interleave>(concat<2, interleave>(a, b), concat<2, interleave>(c, d))    =>    pixel_shuffle<2>(concat<1, interleave>(a, c, b, d))
//
// Of rank 4. The inner concats must have no other users. After coremltools' pass of this name.
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

// The two values that n interleaves along `axis`, of rank 4; empty when it does something else.
std::vector<Value*> interleaved(Node& n, PassContext& context, size_t axis) {
  const auto concat = Concat::of(n, context.facts);
  if (!concat || !concat->interleave() || concat->axis() != axis) return {};
  const std::vector<Value*> values = concat->values();
  const bool fits = values.size() == 2 && values.front()->ranked() && values.front()->type()->rank() == 4;
  return fits ? values : std::vector<Value*>();
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
