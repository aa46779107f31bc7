#include "passes/onnx/control_flow/same_bodies.h"
#include "ir/graph/call.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace sardonyx::onnx {

bool same_bodies(const Node& a, const Node& b, const std::function<bool(const Value*, const Value*)>& same_outside) {
  std::unordered_map<const Value*, const Value*> twin;
  std::vector<std::pair<const Graph*, const Graph*>> todo;
  const auto bodies = [&](const Node& x, const Node& y) {
    if (x.bodies().size() != y.bodies().size()) return false;
    for (size_t i = 0; i < x.bodies().size(); ++i) {
      if (x.bodies()[i].name != y.bodies()[i].name) return false;
      todo.emplace_back(x.bodies()[i].graph, y.bodies()[i].graph);
    }
    return true;
  };
  const auto same = [&](const Value* x, const Value* y) {
    if (x == nullptr || y == nullptr) return x == y;
    const auto at = twin.find(x);
    if (at != twin.end()) return at->second == y;
    return same_outside ? same_outside(x, y) : x == y;
  };
  const auto same_payload = [](const TensorPtr& p, const TensorPtr& q) {
    return p == q || (p != nullptr && q != nullptr && p->equals(*q));
  };
  if (!bodies(a, b)) return false;
  while (!todo.empty()) {
    const auto [g, h] = todo.back();
    todo.pop_back();
    if (g->num_nodes() != h->num_nodes() || g->inputs().size() != h->inputs().size() ||
        g->outputs().size() != h->outputs().size() || g->constants().size() != h->constants().size())
      return false;
    for (size_t i = 0; i < g->inputs().size(); ++i) {
      const Port &p = g->inputs()[i], &q = h->inputs()[i];
      if (p.declared != q.declared || !same_payload(p.default_value, q.default_value)) return false;
      twin.emplace(g->input(i), h->input(i));
    }
    for (size_t i = 0; i < g->constants().size(); ++i) {
      if (!same_payload(g->constants()[i]->constant(), h->constants()[i]->constant())) return false;
      twin.emplace(g->constants()[i], h->constants()[i]);
    }
    auto y = h->nodes().begin();
    for (const Node& x : g->nodes()) {
      if (&x.op() != &y->op() || x.num_inputs() != y->num_inputs() || x.num_results() != y->num_results() ||
          x.attrs().canonical() != y->attrs().canonical() || overload_of(x) != overload_of(*y) || !bodies(x, *y))
        return false;
      const TensorPtr &p = x.num_results() > 0 ? x.result()->constant() : nullptr,
                      &q = y->num_results() > 0 ? y->result()->constant() : nullptr;
      if (!same_payload(p, q)) return false;
      for (size_t i = 0; i < x.num_inputs(); ++i) {
        if (!same(x.input(i), y->input(i))) return false;
      }
      for (size_t i = 0; i < x.num_results(); ++i) twin.emplace(x.result(i), y->result(i));
      ++y;
    }
    for (size_t i = 0; i < g->outputs().size(); ++i) {
      if (!same(g->output(i), h->output(i))) return false;
    }
  }
  return true;
}

}  // namespace sardonyx::onnx
