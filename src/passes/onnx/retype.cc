#include "passes/onnx/retype.h"

#include <algorithm>
#include <vector>

#include "sardonyx/error.h"

namespace sardonyx::onnx {
namespace {

constexpr int kMostWalks = 3;

bool is_known(const Node& n) {
  return std::all_of(n.results().begin(), n.results().end(),
                     [](const Value& v) { return v.type() != nullptr && v.type()->is_tensor() && v.type()->is_static(); });
}

}  // namespace

void Retyper::note_readers(const Value& v) {
  for (const Use& u : v.uses()) {
    const Node* n = u.owner->is_boundary() ? u.owner->graph()->parent() : u.owner;
    if (n != nullptr && !n->unchecked() && !is_known(*n)) stale_.insert(n);
  }
}

void Retyper::run(Graph& top) {
  for (int walk = 0; walk < kMostWalks && !stale_.empty(); ++walk) {
    for (Graph* g : graphs_in(top)) {
      for (Node& n : g->nodes()) {
        if (stale_.empty()) return;
        if (stale_.erase(&n) == 0) continue;
        std::vector<const Type*> before;
        for (const Value& v : n.results()) before.push_back(v.type());
        try {
          infer_node(n, context_.facts);
        } catch (const Error&) {  // it cannot run: that is for the one who runs it to hear
          for (size_t i = 0; i < before.size(); ++i) n.result(i)->set_type(before[i]);
        }
        for (size_t i = 0; i < before.size(); ++i) {
          if (n.result(i)->type() != before[i]) note_readers(*n.result(i));
        }
      }
    }
  }
}

}  // namespace sardonyx::onnx
