#include "ir/graph/arrange.h"

#include <algorithm>
#include <vector>

#include "ir/graph/graph_summary.h"
#include "ir/graph/journal.h"
#include "ir/graph/use_list.h"

namespace sardonyx {
namespace {

// Calls see(value) for each operand of n and of the nodes inside its bodies, including the bodies' results.
template <class See>
void for_each_read(const Node& n, See&& see) {
  for (const Use& u : n.operands()) {
    if (u.value != nullptr) see(*u.value);
  }
  if (n.bodies().empty()) return;
  std::vector<const Graph*> graphs;
  for (const Body& b : n.bodies()) graphs.push_back(b.graph);
  for (size_t i = 0; i < graphs.size(); ++i) {
    for (const Node& inner : graphs[i]->nodes()) {
      for (const Use& u : inner.operands()) {
        if (u.value != nullptr) see(*u.value);
      }
      for (const Body& b : inner.bodies()) graphs.push_back(b.graph);
    }
    for (const Port& port : graphs[i]->outputs()) {
      if (port.use->value != nullptr) see(*port.use->value);
    }
  }
}

// Walks from nodes over their operands, left to right. Only nodes with ids from `first` on take part.
class Walk {
 public:
  Walk(const Model& m, uint32_t first) : first_(first), waiting_(m.node_id_limit() - first, 0) {}

  // For tests: from now on operands are walked in shuffled order; null restores the normal order.
  void shuffle_by(ShuffledMaking* s) { shuffle_ = s; }

  void admit(const Node& n) { waiting_[n.id() - first_] = 1; }

  // Appends n to `out` after its operands' nodes, as far as these were admitted and are not in `out` yet.
  void from(Node& n, std::vector<Node*>& out) {
    if (!take(n)) return;
    open(n);
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.next == top.reads.size()) {
        out.push_back(top.node);
        stack_.pop_back();
        continue;
      }
      Node* def = top.reads[top.next++];
      if (take(*def)) open(*def);  // invalidates top
    }
  }

 private:
  struct Frame {
    Node* node;
    std::vector<Node*> reads;
    size_t next = 0;
  };

  bool is_waiting(const Node& n) const { return n.id() >= first_ && waiting_[n.id() - first_] != 0; }
  bool take(const Node& n) {
    if (!is_waiting(n)) return false;
    waiting_[n.id() - first_] = 0;
    return true;
  }
  void open(Node& n) {
    Frame frame{&n, {}, 0};
    for_each_read(n, [&](const Value& v) {
      if (v.def() != nullptr && is_waiting(*v.def())) frame.reads.push_back(v.def());
    });
    if (shuffle_ != nullptr) shuffle_->shuffle(std::span(frame.reads));
    stack_.push_back(std::move(frame));
  }

  uint32_t first_;
  std::vector<uint8_t> waiting_;
  std::vector<Frame> stack_;
  ShuffledMaking* shuffle_ = nullptr;
};

// Reorders nodes of g from `present` to `wanted`: a contiguous range, which ends before `behind`.
void reorder(Graph& g, std::span<Node* const> present, std::span<Node* const> wanted, Node* behind) {
  size_t same = 0;
  while (same < wanted.size() && wanted[same] == present[same]) ++same;
  for (size_t i = same; i < wanted.size(); ++i) {
    g.detach(*wanted[i]);
    if (behind != nullptr) {
      g.insert_before(*behind, *wanted[i]);
    } else {
      g.append(*wanted[i]);
    }
  }
}

void link_again(Node& n) {
  for (Use& u : n.operands()) {
    if (u.value == nullptr) continue;
    Value* v = u.value;
    UseList::unlink(u);
    UseList::link(u, v);
  }
}

class Arranger {
 public:
  Arranger(const Model& m, std::span<const uint32_t> starts)
      : starts_(starts), first_(starts.front()), walk_(m, first_), rank_(m.node_id_limit() - first_, 0) {}

  // Arranges `tops` and all nested graphs, inner ones first, because their order decides the order in which
  // they use outer values.
  void run(std::vector<Graph*> tops) {
    const std::vector<Graph*> graphs = with_nested_graphs(std::move(tops));
    if (auto* s = ShuffledMaking::innermost()) {
      walk_.shuffle_by(s);
      shuffle_ = s;
      for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) arrange(**g);
      walk_.shuffle_by(nullptr);
      shuffle_ = nullptr;
      std::fill(rank_.begin(), rank_.end(), 0);
    }
    for (auto g = graphs.rbegin(); g != graphs.rend(); ++g) arrange(**g);
    for (Graph* g : graphs) {
      for (Node& n : g->nodes()) {
        if (n.id() >= first_) link_again(n);
      }
      if (first_ == 0) link_again(g->boundary());
    }
  }

 private:
  // The batch of a node; 0 if it stays in place.
  size_t batch(const Node& n) {
    if (n.id() < first_) return 0;
    const auto holds = [&](size_t k) {
      return k > 0 && starts_[k - 1] <= n.id() && (k == starts_.size() || n.id() < starts_[k]);
    };
    if (holds(last_batch_)) return last_batch_;  // adjacent nodes are usually in one batch, or in the next
    if (last_batch_ < starts_.size() && holds(last_batch_ + 1)) return ++last_batch_;
    return last_batch_ = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), n.id()) - starts_.begin());
  }

  void arrange(Graph& g) {
    std::vector<Node*> nodes;
    nodes.reserve(g.num_nodes());
    std::vector<size_t> batches;
    bool any = false;
    for (Node& n : g.nodes()) {
      nodes.push_back(&n);
      batches.push_back(batch(n));
      any |= batches.back() != 0 && batches.size() > 1 && batches[batches.size() - 2] == batches.back();
    }
    if (!any) return;
    next_rank_ = UINT32_MAX;
    for (size_t i = g.outputs().size(); i-- > 0;) note_read(*g.output(i), g);
    Node* behind = nullptr;
    for (size_t end = nodes.size(); end > 0;) {
      size_t begin = end - 1;
      while (batches[begin] != 0 && begin > 0 && batches[begin - 1] == batches[begin]) --begin;
      const std::span<Node*> run(nodes.data() + begin, end - begin);
      if (run.size() > 1) arrange(g, run, behind);
      for (size_t i = run.size(); i-- > 0;) note_reads(*run[i]);
      behind = run.front();
      end = begin;
    }
  }

  // Arranges nodes of one batch. Those with users outside come in the order of their first users.
  void arrange(Graph& g, std::span<Node*> run, Node* behind) {
    roots_.clear();
    for (Node* n : run) {
      walk_.admit(*n);
      if (rank_[n->id() - first_] != 0) roots_.push_back(n);
    }
    std::sort(roots_.begin(), roots_.end(),
              [&](const Node* a, const Node* b) { return rank_[a->id() - first_] < rank_[b->id() - first_]; });
    if (shuffle_ != nullptr) shuffle_->shuffle(std::span(roots_));
    wanted_.clear();
    for (Node* n : roots_) walk_.from(*n, wanted_);
    for (Node* n : run) walk_.from(*n, wanted_);  // nodes without users
    reorder(g, run, wanted_, behind);
    std::copy(wanted_.begin(), wanted_.end(), run.begin());
  }

  // Runs from the end to the beginning, so the last note is the first user.
  void note_read(const Value& v, const Graph& g) {
    const Node* def = v.def();
    if (def != nullptr && def->id() >= first_ && def->graph() == &g) rank_[def->id() - first_] = --next_rank_;
  }
  void note_reads(const Node& n) {
    if (n.bodies().empty()) {
      for (size_t i = n.num_inputs(); i-- > 0;) {
        if (n.input(i) != nullptr) note_read(*n.input(i), *n.graph());
      }
      return;
    }
    std::vector<const Value*> reads;
    for_each_read(n, [&](const Value& v) { reads.push_back(&v); });
    for (size_t i = reads.size(); i-- > 0;) note_read(*reads[i], *n.graph());
  }

  std::span<const uint32_t> starts_;
  uint32_t first_;
  size_t last_batch_ = 0;
  Walk walk_;
  std::vector<uint32_t> rank_;  // of nodes, by their first user; 0: none yet
  uint32_t next_rank_ = 0;
  std::vector<Node*> roots_, wanted_;
  ShuffledMaking* shuffle_ = nullptr;
};

std::vector<Graph*> tops_of(const Model& m) {
  std::vector<Graph*> tops;
  for (const auto& f : m.functions()) tops.push_back(&f->graph());
  return tops;
}

}  // namespace

void arrange(Model& m, std::span<const uint32_t> starts) {
  if (starts.empty() || starts.front() >= m.node_id_limit()) return;
  Arranger(m, starts).run(tops_of(m));
}

void arrange_before(Node& root, std::span<Value* const> results, uint32_t first_new) {
  Graph& g = *root.graph();
  std::vector<Node*> present;
  for (Node* n = root.prev(); n != nullptr && n->id() >= first_new; n = n->prev()) present.push_back(n);
  std::reverse(present.begin(), present.end());
  std::vector<Graph*> inside;
  for (const Node* n : present) {
    for (const Body& b : n->bodies()) inside.push_back(b.graph);
  }
  if (!inside.empty()) Arranger(g.model(), {&first_new, 1}).run(inside);
  if (present.size() > 1) {
    Walk walk(g.model(), first_new);
    for (const Node* n : present) walk.admit(*n);
    std::vector<Node*> wanted;
    const auto from = [&](Node& n) { walk.from(n, wanted); };
    if (auto* s = ShuffledMaking::innermost()) {
      walk.shuffle_by(s);
      std::vector<Node*> shuffled = present;
      s->shuffle(std::span(shuffled));
      for (Node* n : shuffled) from(*n);
      reorder(g, present, wanted, &root);
      present = wanted;
      wanted.clear();
      walk.shuffle_by(nullptr);
      for (const Node* n : present) walk.admit(*n);
    }
    for (Value* v : results) {
      if (v != nullptr && v->def() != nullptr) from(*v->def());
    }
    for (Node* n : present) from(*n);
    reorder(g, present, wanted, &root);
    present = std::move(wanted);
  }
  for (Node* n : present) link_again(*n);
}

void arrange_constants(Model& m, uint32_t first_new) {
  if (first_new >= m.value_id_limit()) return;
  const auto first_of = [&](const Graph& g) {
    const auto all = g.constants();
    return static_cast<size_t>(std::find_if(all.begin(), all.end(), [&](const Value* v) { return v->id() >= first_new; }) -
                               all.begin());
  };
  const std::vector<Graph*> graphs = with_nested_graphs(tops_of(m));
  if (std::none_of(graphs.begin(), graphs.end(), [&](Graph* g) { return first_of(*g) + 1 < g->constants().size(); })) return;

  std::vector<uint32_t> rank(m.value_id_limit() - first_new, UINT32_MAX);
  uint32_t next = 0;
  const auto note = [&](const Use& u) {
    if (u.value == nullptr || u.value->kind() != ValueKind::kConstant || u.value->id() < first_new) return;
    uint32_t& r = rank[u.value->id() - first_new];
    if (r == UINT32_MAX) r = next++;
  };
  for (Graph* g : graphs) {
    for (const Node& n : g->nodes()) {
      for (const Use& u : n.operands()) note(u);
    }
    for (const Port& port : g->outputs()) note(*port.use);
  }
  for (Graph* g : graphs) {
    const size_t first = first_of(*g);
    std::vector<Value*> order(g->constants().begin() + static_cast<std::ptrdiff_t>(first), g->constants().end());
    if (order.size() < 2) continue;
    if (auto* s = ShuffledMaking::innermost()) s->shuffle(std::span(order));
    const auto rank_of = [&](const Value* v) { return v->id() < first_new ? 0 : rank[v->id() - first_new]; };
    std::stable_sort(order.begin(), order.end(), [&](const Value* a, const Value* b) { return rank_of(a) < rank_of(b); });
    Journal::reorder_constants(*g, first, order);
  }
}

}  // namespace sardonyx
