//   i: [...] ── Unsqueeze(-1) ── GatherND(x) ── y      =>   Gather(x, i) ── y
//
// Index tuples of one number select rows. PyTorch's newer exporter writes x[i] this way. Both operators count
// negative ids from the end and fail for ids out of range. Saves a node if the tuples have no other users.
// What stops it: batches; a last axis that no Unsqueeze added.
#include <algorithm>

#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, i{"i"}, tuples{"tuples"};

bool are_of_one(const Match& m) {
  if (int_attr(m.root(), "batch_dims") != 0) return m.refuse("it has batches");
  if (!m[i]->ranked() || !m[tuples]->ranked()) return false;
  const auto from = m[i]->type()->dims(), to = m[tuples]->type()->dims();
  return to.size() == from.size() + 1 && to.back().is(1) && std::equal(from.begin(), from.end(), to.begin());
}

}  // namespace

Pass rewrite_gather_nd_as_gather() {
  return Rule{
      .numerics = Numerics::kExact,
      .match = GatherND(x, any_of(Unsqueeze(i, rest), Reshape(i, rest)).as(tuples)),
      .when = are_of_one,
      .build = [](Rewriter& b, const Match& m) { return b.Gather(m[x], m[i]); },
      .opset = 12,
  };
}

}  // namespace sardonyx::onnx
