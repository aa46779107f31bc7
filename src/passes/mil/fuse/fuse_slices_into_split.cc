//   x ── slice [0, a), slice [a, b), ... slice [z, n)    =>    x ── split<a, b - a, ...>
//
// Adjacent slices of x along one axis that cover it, each element once. They may be in any order; other users
// of x do not matter. coremltools has no such pass: it gets split and chunk from PyTorch as they are.
#include <map>

#include "passes/mil/fuse/slices.h"
#include "passes/mil/precision/casts.h"

namespace sardonyx::mil {
namespace {

using Slices = std::vector<std::pair<Node*, AxisSlice>>;

// Whether the slices, in order of their begins, cover the axis.
bool covers(const Slices& all) {
  int64_t at = 0;
  for (const auto& [node, s] : all) {
    if (s.begin != at) return false;
    at = s.end;
  }
  return all.size() > 1 && at == all.front().second.size;
}

void split(Graph& g, Node& first, const Slices& all, PassContext& context) {
  const AxisSlice& s = all.front().second;
  Rewriter b(g, context);
  b.set_insertion_point(&first);
  b.set_provenance(first.provenance());
  std::vector<int64_t> sizes;
  for (const auto& [node, slice] : all) sizes.push_back(slice.end - slice.begin);
  const bool equal = std::ranges::all_of(sizes, [&](int64_t n) { return n == sizes[0]; });
  const auto axis = static_cast<int64_t>(s.axis), count = static_cast<int64_t>(sizes.size());
  Node& made = equal ? b.split(s.x, sizes.size(), {.axis = axis, .num_splits = count})
                     : b.split(s.x, sizes.size(), {.axis = axis, .split_sizes = sizes});
  made.set_name(first.name());
  for (size_t i = 0; i < all.size(); ++i) {
    Value& old = *all[i].first->result();
    made.result(i)->set_name(old.name());
    g.replace_uses(old, *made.result(i));
  }
  for (const auto& [node, slice] : all) g.erase(*node);
}

size_t run(Graph& g, PassContext& context) {
  std::map<std::pair<uint32_t, size_t>, Slices> found;  // by value and axis
  std::vector<std::pair<uint32_t, size_t>> order;
  for (Node& n : g.nodes()) {
    const auto s = axis_slice(n, context);
    if (!s || !takes(Rewriter(g, context), "split", s->x->dtype())) continue;
    const std::pair key{s->x->id(), s->axis};
    auto& slices = found[key];
    if (slices.empty()) order.push_back(key);
    slices.emplace_back(&n, *s);
  }
  size_t made = 0;
  for (const auto& key : order) {
    Slices& all = found[key];
    Node& first = *all.front().first;
    std::ranges::sort(all, {}, [](const auto& s) { return s.second.begin; });
    if (!covers(all)) continue;
    split(g, first, all, context);
    ++made;
  }
  return made;
}

}  // namespace

Pass fuse_slices_into_split() {
  return Pass::on_graph(Numerics::kExact, needs({"slice_by_index"}), [](Graph& top, PassContext& context) {
    size_t made = 0;
    for (Graph* g : graphs_in(top)) made += run(*g, context);
    context.log.count("splits", made);
    return made > 0;
  });
}

}  // namespace sardonyx::mil
