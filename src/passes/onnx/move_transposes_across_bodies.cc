//   If(c) {... Transpose<p>} else {... Transpose<p>} ── y          =>   If(c) {...} else {...} ── Transpose<p> ── y
//   s ── Loop { Transpose<p>(s) ... Transpose<inverse p> } ── y    =>   s ── Transpose<p> ── Loop {...} ── Transpose<inverse p> ── y
//
// Transposes at the borders of bodies go outside, where they meet others: at the end of both branches of an If (of one, if all who read the
// result turn it back, or if the other returns a constant), and around what a Loop or Scan carries from one iteration to the next, where it
// turns the state when an iteration begins and back when it ends. One-operand elementwise nodes behind the last transpose of a body do not
// count. move_transposes does the rest: it moves transposes within graphs.
//
// What stops it: a state that is also read as it is, or that an iteration only turns over; a transposed result that is read inside too. Stacked
// results stay.
// Exact: elements only move. A Loop that runs no time transposes twice for nothing; it is taken to run.
#include <algorithm>

#include "dialects/views.h"
#include "ir/tensor_transform.h"
#include "passes/layout/layout.h"
#include "passes/onnx/fusion.h"
#include "rewrite/present.h"

namespace sardonyx::onnx {
namespace {

using layout::Layout;
constexpr size_t kMaxSteps = 16;

std::optional<Layout> permutation_of(Node* n) {
  if (n == nullptr || n->unchecked()) return std::nullopt;
  const view::Transpose t(*n);
  return t ? Layout::permutation(t.perm()) : std::nullopt;
}

// A transpose at the end of a graph, and the elementwise nodes of one operand behind it, the last one first.
struct End {
  Node* transpose = nullptr;
  Layout perm;
  std::vector<Node*> after;
};
std::optional<End> end_of(const Graph& g, size_t output) {
  End e;
  for (Value* v = g.output(output); e.after.size() < kMaxSteps; v = v->def()->input(0)) {
    Node* n = v->def();
    if (n == nullptr || n->graph() != &g || !v->has_one_use() || n->unchecked()) return std::nullopt;
    if (const auto perm = permutation_of(n)) {
      e.transpose = n;
      e.perm = *perm;
      return e;
    }
    if (!n->has(Trait::kUnary)) return std::nullopt;
    e.after.push_back(n);
  }
  return std::nullopt;
}

void retype(Value& v, const Layout& l) { v.set_type(layout::stored_type(v.graph()->model().types(), v.type(), l)); }

void redeclare(Graph& g, const Value& v, const Layout& l) {
  const auto info = g.value_info.find(&v);
  if (info == g.value_info.end()) return;
  const Type* now = layout::stored_type(g.model().types(), info->second.declared, l);
  g.edit_value_info(v).declared = now;
}

// The graph returns what its last transpose turns.
void drop_end(Graph& g, size_t output, const End& e) {
  const Layout back = inverse(e.perm);
  Value* from = e.transpose->input(0);
  for (Node* n : e.after) {
    retype(*n->result(), back);
    redeclare(g, *n->result(), back);
  }
  if (e.after.empty()) {
    g.set_output(output, *from);
  } else {
    e.after.back()->set_input(0, from);
  }
  g.erase(*e.transpose);
}

void redeclare_output(Graph& g, size_t output, const Layout& l) {
  const Type* now = layout::stored_type(g.model().types(), g.outputs()[output].declared, l);
  g.output_port(output).declared = now;
}

// Everyone who reads v transposes it by `perm`.
bool all_read_turned(const Value& v, const Layout& perm) {
  return v.has_uses() &&
         std::all_of(v.uses().begin(), v.uses().end(), [&](const Use& u) { return permutation_of(u.owner) == perm; });
}

// What transposed v is v now.
void drop_readers(Value& v) {
  std::vector<Node*> turning;
  for (const Use& u : v.uses()) turning.push_back(u.owner);
  for (Node* n : turning) {
    n->graph()->replace_uses(*n->result(), v);
    n->graph()->erase(*n);
  }
}

// v is stored otherwise now: who reads it reads it transposed by `perm`, or no longer transposes it back.
void turn_readers(Value& v, const Layout& perm, PassContext& context) {
  Graph& g = *v.graph();
  const bool back = all_read_turned(v, inverse(perm));
  retype(v, inverse(perm));
  redeclare(g, v, inverse(perm));
  if (back) return drop_readers(v);
  if (!v.has_uses()) return;
  Rewriter b(g, context);
  b.set_insertion_point(v.def()->next());
  b.set_provenance(v.def()->provenance());
  Value* turned = b.Transpose(&v, {.perm = perm.perm()});
  g.replace_uses(v, *turned);
  turned->def()->set_input(0, &v);
}

// --- If

bool has_rank(const Value& v, const Layout& l) { return v.ranked() && v.type()->rank() == l.rank; }

// A constant that can be transposed now.
bool is_free(const Value& v) { return v.is_constant() && v.has_one_use() && can_transpose(*v.constant()); }

size_t hoist_from_branches(Node& n, PassContext& context) {
  size_t moved = 0;
  Graph* branches[] = {n.body("then_branch"), n.body("else_branch")};
  for (size_t i = 0; i < n.num_results(); ++i) {
    Value& result = *n.result(i);
    std::optional<End> ends[] = {end_of(*branches[0], i), end_of(*branches[1], i)};
    if (!ends[0] && !ends[1]) continue;
    const Layout perm = (ends[0] ? ends[0] : ends[1])->perm, back = inverse(perm);
    if (perm.is_identity()) continue;
    bool fit = true, all = true;
    for (size_t k : {0, 1}) {
      if (ends[k] && !(ends[k]->perm == perm)) ends[k].reset();
      const Value& v = *branches[k]->output(i);
      fit &= has_rank(v, perm);
      all &= ends[k] || is_free(v);
    }
    if (!fit || !(all || all_read_turned(result, back))) continue;
    for (size_t k : {0, 1}) {
      Graph& g = *branches[k];
      if (ends[k]) {
        drop_end(g, i, *ends[k]);
      } else {
        Rewriter b(g, context);
        b.set_insertion_point(nullptr);
        Value& v = *g.output(i);
        g.set_output(i,
                     is_free(v) ? *b.constant(transposed(v.constant(), back.perm())) : *b.Transpose(&v, {.perm = back.perm()}));
      }
      redeclare_output(g, i, back);
    }
    turn_readers(result, perm, context);
    ++moved;
  }
  return moved;
}

// --- Loop and Scan

// Where a carried value stands: operand, input and result of the body, result of the node.
struct Carried {
  size_t operand, input, output, result;
};

std::vector<Carried> carried(const Node& n) {
  std::vector<Carried> all;
  if (n.is("Loop")) {
    for (size_t i = 2; i < n.num_inputs(); ++i) all.push_back({i, i, i - 1, i - 2});
  } else if (n.op().since_version >= 9) {  // before, a Scan has batches
    const auto scanned = int_attr(n, "num_scan_inputs");
    for (size_t i = 0; scanned && static_cast<int64_t>(i) + *scanned < static_cast<int64_t>(n.num_inputs()); ++i)
      all.push_back({i, i, i, i});
  }
  return all;
}

size_t hoist_from_states(Node& n, PassContext& context) {
  Graph* body = n.body("body");
  size_t moved = 0;
  for (const Carried& c : carried(n)) {
    Value *start = n.input(c.operand), &state = *body->input(c.input), &result = *n.result(c.result);
    const auto end = end_of(*body, c.output);
    if (!end || end->perm.is_identity()) continue;
    const Layout perm = inverse(end->perm);  // in which the iteration reads the state
    if (start == nullptr || !has_rank(*start, perm)) continue;
    if (!all_read_turned(state, perm) || end->transpose->input(0) == &state) continue;  // the latter is turned over every time
    drop_end(*body, c.output, *end);
    redeclare_output(*body, c.output, perm);
    retype(state, perm);
    body->input_port(c.input).declared = layout::stored_type(context.model.types(), body->inputs()[c.input].declared, perm);
    drop_readers(state);
    Rewriter b(*n.graph(), context);
    b.set_insertion_point(&n);
    n.set_input(c.operand, b.Transpose(start, {.perm = perm.perm()}));
    turn_readers(result, end->perm, context);
    ++moved;
  }
  return moved;
}

}  // namespace

Pass move_transposes_across_bodies() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    if (!may_have_onnx_op(context.model, {"Transpose"}) || !may_have_onnx_op(context.model, {"If", "Loop", "Scan"}))
      return false;
    std::vector<Graph*> graphs = graphs_in(top);
    std::reverse(graphs.begin(), graphs.end());  // what leaves an inner body may leave the outer one
    size_t moved = 0;
    for (Graph* g : graphs) {
      for (Node& n : g->nodes()) {
        if (n.unchecked()) continue;
        // Behind what moved may stand another; each round takes one away from a body or from those who read it.
        const auto hoist = n.is("If") ? hoist_from_branches : n.is("Loop") || n.is("Scan") ? hoist_from_states : nullptr;
        while (hoist != nullptr) {
          const size_t now = hoist(n, context);
          if (now == 0) break;
          moved += now;
        }
      }
    }
    context.count("transposes", moved);
    return moved > 0;
  });
}

}  // namespace sardonyx::onnx
