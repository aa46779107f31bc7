// If (constant) { a } { b }                      =>   a's nodes, or b's
// Loop (0 times), Loop (once) { a }              =>   the initial values, or a's nodes
// If / Loop / Scan with unused results           =>   without them, in the bodies too
// Loop with a carried value that never changes   =>   the body uses the value from outside
// Loop / Scan { f(values from outside) }         =>   f before the loop
//
// Hoists only nodes that cannot fail (Trait::kCannotFail), because the loop might run zero times. Nodes leave
// an If only when it is inlined, because its branches are lazy. A Loop that runs zero times stays if its
// stacked results are used: their shape is not known.
// What stops it: a condition or trip count known only at run time; more than one iteration; random nodes,
// which draw anew each time.
#include <algorithm>

#include "passes/onnx/control_flow/control_flow.h"
#include "passes/onnx/shapes/retype.h"

namespace sardonyx::onnx {
namespace {

class ControlFlow {
 public:
  ControlFlow(Graph& top, PassContext& context) : top_(top), context_(context) {}

  // A change may leave other values dead, which enables further changes.
  bool run() {
    bool changed = false;
    for (int round = 0; round < kMostRounds; ++round) {
      changes_ = 0;
      walk();
      if (changes_ == 0) break;
      changed = true;
      erase_dead_nodes(top_);
      retyper_.run(top_);
    }
    return changed;
  }

 private:
  static constexpr int kMostRounds = 10;

  void walk() {
    const auto graphs = graphs_in(top_);
    for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) {  // inner graphs first: hoisted nodes may leave the outer loop too
      for (Node& n : (*g)->nodes()) {
        if (n.unchecked()) continue;
        if (n.is("If")) visit_if(n);
        if (n.is("Loop")) visit_loop(n);
        if (n.is("Scan") && n.op().since_version >= 9) visit_scan(n);
      }
    }
  }

  void done(std::string_view what) {
    ++changes_;
    context_.log.count(what);
  }

  // The replacement may have a more precise type than the result: branches and iterations need not agree on a
  // shape.
  void put(Value& result, Value& instead) {
    const bool news = result.type() != instead.type();
    result.def()->graph()->replace_uses(result, instead);
    if (news) retyper_.note_readers(instead);
  }

  // --- If

  void visit_if(Node& n) {
    if (!n.any_result_used()) return;  // dead
    const auto truth = context_.splat(n.input(0));
    Graph *then_branch = n.body("then_branch"), *else_branch = n.body("else_branch");
    if (then_branch == nullptr || else_branch == nullptr) return;
    if (truth) {
      Graph& taken = *truth != 0 ? *then_branch : *else_branch;
      Rewriter b(*n.graph(), context_);
      b.set_provenance(n.provenance());
      splice(taken, n, b);
      for (size_t i = 0; i < n.num_results(); ++i) put(*n.result(i), *taken.output(i));
      n.graph()->erase(n);
      return done("If inlined");
    }
    std::vector<size_t> kept;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (n.result(i)->has_uses()) kept.push_back(i);
    }
    if (kept.size() == n.num_results()) return;
    for (Graph* branch : {then_branch, else_branch}) {
      for (size_t i = n.num_results(); i-- > 0;) {
        if (!n.result(i)->has_uses()) branch->remove_output(i);
      }
    }
    Value* operands[] = {n.input(0)};
    with_slots(n, operands, kept, &n.attrs());
    done("unread results of If");
  }

  // --- Loop
  // Operands: count, condition, initial...
  // Body: (index, condition, carried...) -> condition, carried..., stacked...

  void visit_loop(Node& n) {
    Graph* body = n.body("body");
    if (body == nullptr || !n.any_result_used()) return;
    const size_t carried = n.num_inputs() - 2;
    const auto count = context_.ints(n.input(0));
    const auto go_on = context_.splat(n.input(1));
    const bool never = (count && count->size() == 1 && (*count)[0] <= 0) || go_on == 0.0;
    if (never && skip(n, carried)) return;
    const bool always = n.input(1) == nullptr || go_on == 1.0;
    if (count && count->size() == 1 && (*count)[0] == 1 && always) return run_once(n, *body, carried);
    hoist(n, *body);
    drop_slots(n, *body, carried);
  }

  bool skip(Node& n, size_t carried) {
    for (size_t i = carried; i < n.num_results(); ++i) {
      if (n.result(i)->has_uses()) return false;
    }
    for (size_t i = 0; i < carried; ++i) {
      if (n.input(i + 2) == nullptr) return false;
    }
    for (size_t i = 0; i < carried; ++i) put(*n.result(i), *n.input(i + 2));
    n.graph()->erase(n);
    done("Loop that runs never");
    return true;
  }

  void run_once(Node& n, Graph& body, size_t carried) {
    for (size_t i = 0; i < carried; ++i) {
      if (n.input(i + 2) == nullptr) return;
    }
    Rewriter b(*n.graph(), context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    // The values of the first iteration: iteration number 0 and a true condition. Some models declare them as
    // lists of one.
    const auto first = [&](const Value& v, bool holds) {
      const std::vector<int64_t> shape(v.ranked() ? v.type()->rank() : 0, 1);
      return b.constant(Tensor::full(holds ? DType::kBool : DType::kI64, shape, holds));
    };
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      Value& in = *body.input(i);
      if (!in.has_uses()) continue;
      body.replace_uses(in, i < 2 ? *first(in, i == 1) : *n.input(i));
    }
    splice(body, n, b);
    b.set_insertion_point(&n);
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (!n.result(i)->has_uses()) continue;
      Value* out = body.output(i + 1);
      if (i >= carried) out = b.unsqueeze(out, std::vector<int64_t>{0});
      put(*n.result(i), *out);
    }
    n.graph()->erase(n);
    done("Loop that runs once");
  }

  void drop_slots(Node& n, Graph& body, size_t carried) {
    // A carried value that never changes is the initial value.
    std::vector<bool> drop(n.num_results(), false);
    size_t left = carried;
    for (size_t i = carried; i-- > 0;) {
      Value& in = *body.input(i + 2);
      if (n.input(i + 2) == nullptr) continue;
      if (left == 1 && n.op().since_version < 11) continue;  // before opset 11 a Loop had to carry something
      if (body.output(i + 1) == &in) {
        put(*n.result(i), *n.input(i + 2));
        body.set_output(i + 1, *n.input(i + 2));
        body.replace_uses(in, *n.input(i + 2));
        drop[i] = true;
      } else {
        drop[i] = !n.result(i)->has_uses() && !in.has_uses();
      }
      left -= drop[i] ? 1 : 0;
    }
    for (size_t i = carried; i < n.num_results(); ++i) drop[i] = !n.result(i)->has_uses();
    if (std::none_of(drop.begin(), drop.end(), [](bool d) { return d; })) return;
    done("slots of Loop");
    std::vector<Value*> operands{n.input(0), n.input(1)};
    std::vector<size_t> kept;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (drop[i]) continue;
      kept.push_back(i);
      if (i < carried) operands.push_back(n.input(i + 2));
    }
    for (size_t i = n.num_results(); i-- > 0;) {
      if (!drop[i]) continue;
      body.remove_output(i + 1);
      if (i < carried) body.remove_input(i + 2);
    }
    with_slots(n, operands, kept, &n.attrs());
  }

  // --- Scan: operands initial states..., scanned...; body(states..., elements...) -> states..., stacked...

  void visit_scan(Node& n) {
    Graph* body = n.body("body");
    const auto scanned = int_attr(n, "num_scan_inputs");
    if (body == nullptr || !scanned || !n.any_result_used()) return;
    const size_t states = n.num_inputs() - static_cast<size_t>(*scanned);
    hoist(n, *body);
    std::vector<size_t> kept;
    for (size_t i = 0; i < n.num_results(); ++i) {
      if (i < states || n.result(i)->has_uses()) kept.push_back(i);
    }
    if (kept.size() == n.num_results()) return;
    const Attrs* attrs = &n.attrs();
    for (std::string_view list : {"scan_output_axes", "scan_output_directions"}) {
      const auto values = ints_attr(n, list);
      if (!values) {
        if (n.attr(list) != nullptr) return;
        continue;
      }
      if (values->size() != n.num_results() - states) continue;
      std::vector<int64_t> rest;
      for (size_t i : kept) {
        if (i >= states) rest.push_back((*values)[i - states]);
      }
      attrs = rest.empty() ? context_.model.without_attr(*attrs, list) : context_.model.with_attr(*attrs, list, rest);
    }
    for (size_t i = n.num_results(); i-- > states;) {
      if (!n.result(i)->has_uses()) body->remove_output(i);
    }
    with_slots(n, operands_of(n), kept, attrs);
    done("unread results of Scan");
  }

  // --- loop invariants

  void hoist(Node& loop, Graph& body) {
    Rewriter b(*loop.graph(), context_);
    b.set_insertion_point(&loop);
    for (Node* n = body.first(); n != nullptr;) {
      Node* next = n->next();
      if (is_invariant(*n, body)) {
        for (size_t i = 0; i < n->num_inputs(); ++i) {
          Value* v = n->input(i);
          if (v != nullptr && v->graph() == &body) n->set_input(i, b.constant(v->constant()));
        }
        // If the body returns the hoisted value, the value needs a new name: in a file, only a node of the
        // body can return it.
        for (Value& v : n->results()) {
          for (const Use& u : v.uses()) {
            if (u.owner->is_boundary()) v.set_name(Name());
          }
        }
        move_before(loop, *n);
        done("hoisted");
      }
      n = next;
    }
  }

  static bool is_invariant(const Node& n, const Graph& body) {
    if (n.unchecked() || !n.has(Trait::kCannotFail)) return false;
    bool any = false;
    for (const Use& u : n.operands()) {
      if (u.value == nullptr) continue;
      if (u.value->graph() != &body) {
        any = true;
        continue;
      }
      if (!u.value->is_constant() || u.value->constant()->byte_size() > 1024) return false;
    }
    // Incompatible shapes would fail, and some shapes are only known at run time.
    const Value& y = *n.result();
    for (const Use& u : n.operands()) {
      if (!n.has(Trait::kBroadcasts) || u.value == nullptr) continue;
      if (!u.value->ranked() || !y.ranked()) return false;
      const size_t added = y.type()->rank() - u.value->type()->rank();
      for (size_t i = 0; i < u.value->type()->rank(); ++i) {
        const Dim d = u.value->type()->dim(i);
        if (!d.is(1) && !(d == y.type()->dim(i + added))) return false;
      }
    }
    return any;
  }

  Graph& top_;
  PassContext& context_;
  Retyper retyper_{context_};
  size_t changes_ = 0;
};

}  // namespace

Pass simplify_control_flow() {
  return Pass::on_graph(Numerics::kExact, needs({"If", "Loop", "Scan"}),
                        [](Graph& top, PassContext& context) { return ControlFlow(top, context).run(); });
}

}  // namespace sardonyx::onnx
