//   Loop (..., zeros(0,5)) { all' = Concat(all, row) }      =>   Loop (...) { row, stacked } ── Reshape
//
// Stacks what a loop appends to a tensor, as TorchScript writes lists. For runtimes whose loop variables keep
// their sizes, as Core ML's. What stops it: another user of the tensor within the loop, rows of an open size,
// and rows of more than one place with other open sizes. Exact: no element changes.
#include <fmt/format.h>

#include "dialects/onnx/readers.h"
#include "passes/onnx/control_flow/control_flow.h"

namespace sardonyx::onnx {
namespace {

struct Appended {
  Node* concat = nullptr;
  Value* row = nullptr;
  size_t axis = 0;
};

// What the body appends to carried value i; no node if it does something else.
Appended appended(const Graph& body, size_t i) {
  const Value* all = body.input(i + 2);
  Node* n = body.output(i + 1)->def();
  if (n == nullptr || n->unchecked() || !n->is("Concat") || n->num_inputs() != 2 || n->graph() != &body) return {};
  if (n->input(0) != all || !all->has_one_use() || !n->result()->has_one_use()) return {};
  Value* row = n->input(1);
  if (row == nullptr || !row->ranked() || row->type()->rank() == 0 || row->graph() != &body) return {};
  const auto axis = read::OpReader(*n).axis_in("axis", row->type()->rank());
  if (!axis || (!row->type()->dim(*axis).is(1) && !row->type()->is_static())) return {};
  return {n, row, *axis};
}

// The rows, [iterations, ...row] (or without the row's axis of size 1), one after the other along that axis.
Value* merged(Rewriter& b, Value* stacked, const Type& row, size_t axis) {
  const bool single = row.dim(axis).is(1);
  const size_t rank = row.rank() + (single ? 0 : 1);
  std::vector<int64_t> perm, shape;
  for (size_t d = 1; d < rank; ++d) perm.push_back(static_cast<int64_t>(d));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(axis), 0);
  if (axis != 0) stacked = b.Transpose(stacked, {.perm = perm});
  if (single) return stacked;
  for (size_t d = 0; d < row.rank(); ++d) shape.push_back(d == axis ? -1 : row.dim(d).value());
  return b.Reshape(stacked, b.i64s(shape));
}

bool is_empty_along(const Value& v, size_t axis) { return v.ranked() && axis < v.type()->rank() && v.type()->dim(axis).is(0); }

// Stacks what carried value i of a Loop appends. Returns the Loop in its place.
Node& stack(Node& n, size_t carried, size_t i, const Appended& found, PassContext& context) {
  Graph &g = *n.graph(), &body = *n.body("body");
  const Type& row = *found.row->type();
  Rewriter inside(body, context);
  inside.set_insertion_point(found.concat);
  inside.set_provenance(found.concat->provenance());
  const std::vector<int64_t> axes{static_cast<int64_t>(found.axis)};
  Value* piece = found.row;
  if (row.dim(found.axis).is(1)) {
    Node* made = piece->def();
    const bool adds = made != nullptr && made->is("Unsqueeze") && context.ints(made->input(1)) == axes;
    piece = adds && made->input(0)->graph() == &body ? made->input(0) : inside.squeeze(piece, axes);
  }
  body.remove_output(i + 1);
  body.erase(*found.concat);
  if (Node* unused = found.row->def(); piece != found.row && !unused->any_result_used()) body.erase(*unused);
  body.remove_input(i + 2);
  body.add_output(*piece, fmt::format("rows_{}", n.num_results() - carried));

  Rewriter b(g, context);
  b.set_insertion_point(n.next());
  b.set_provenance(n.provenance());
  Value *start = n.input(i + 2), *old = n.result(i);
  std::vector<Value*> operands{n.input(0), n.input(1)};
  std::vector<size_t> kept;
  for (size_t k = 0; k < n.num_results(); ++k) {
    if (k == i) continue;
    kept.push_back(k);
    if (k < carried) operands.push_back(n.input(k + 2));
  }
  std::vector<Dim> dims{Dim()};
  for (Dim d : piece->type()->dims()) dims.push_back(d.is_int() ? d : Dim());
  Value& stacked = n.model().new_placeholder({}, b.types().tensor(piece->dtype(), dims));
  Value* all = merged(b, &stacked, row, found.axis);
  if (!is_empty_along(*start, found.axis)) all = b.Concat({start, all}, {.axis = static_cast<int64_t>(found.axis)});
  g.replace_uses(*old, *all);
  Node& made = with_slots(n, operands, kept, &n.attrs(), /*more=*/1);
  made.result(kept.size())->set_type(stacked.type());
  g.replace_uses(stacked, *made.result(kept.size()));
  return made;
}

// The Loop in place of n, whose first such tensor is stacked; null if there is none.
Node* stack_first(Node& n, PassContext& context) {
  const Graph* body = n.body("body");
  const size_t carried = body != nullptr && n.num_inputs() > 2 ? n.num_inputs() - 2 : 0;
  for (size_t i = 0; i < carried; ++i) {
    const Appended found = appended(*body, i);
    if (found.concat == nullptr || n.input(i + 2) == nullptr) continue;
    return &stack(n, carried, i, found, context);
  }
  return nullptr;
}

}  // namespace

Pass stack_appended_rows() {
  return Pass::on_graph(Numerics::kExact, needs({"Loop"}), [](Graph& top, PassContext& context) {
    bool changed = false;
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (!n.is("Loop") || n.unchecked()) continue;
        for (Node* left = stack_first(n, context); left != nullptr; left = stack_first(*left, context)) changed = true;
      }
    }
    return changed;
  });
}

}  // namespace sardonyx::onnx
