#include "passes/onnx/shapes/stored_folds.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "rewrite/pass.h"
#include "sardonyx/eval.h"
#include "support/min_cut.h"

namespace sardonyx::onnx {
namespace {

constexpr int64_t kWorthOfNode = 4096;  // bytes by which the file may grow per removed node
constexpr int64_t kShareOfFile = 100;   // the file grows by at most one part in this many
constexpr int64_t kTinyBytes = 64;      // shared constants up to this size count as free
constexpr int64_t kMostWorth = int64_t{1} << 40;
constexpr size_t kStepsPerNode = 4000, kMostSteps = 20'000'000;  // bounds for the minimum cut

// A connected set of nodes, with the cheapest values to store.
struct Cone {
  std::vector<Node*> nodes;
  std::vector<Value*> free, grown;  // values to store without growth; with growth
  int64_t growth = 0;               // bytes that `grown` adds
};

class Chooser {
 public:
  using Found = std::function<const Tensor*(const Value&)>;
  Chooser(std::span<Node* const> nodes, const Found& found, bool in_main)
      : nodes_(nodes), found_(found), constant_node_(in_main ? 0 : kNodeBytes) {
    for (size_t i = 0; i < nodes.size(); ++i) index_.emplace(nodes[i], i);
  }

  // `worth`: the value of removing a node, in addition to its bytes.
  std::vector<Cone> cones(int64_t worth, bool worth_of_copies) {
    if (!worth_of_copies) mark_copies();
    std::vector<Cone> cones = connected();
    for (Cone& c : cones) {
      c.free = c.grown = cheapest(c, /*worth=*/0);
      if (worth == 0) continue;
      c.grown = cheapest(c, worth);
      if (c.grown != c.free) c.growth = std::max<int64_t>(bytes_with(c, c.grown) - bytes_with(c, c.free), 0);
    }
    return cones;
  }

 private:
  bool is_inside(const Node& n) const { return index_.contains(&n); }
  Node* inside_def(const Use& u) const {
    Node* def = u.value != nullptr ? u.value->def() : nullptr;
    return def != nullptr && is_inside(*def) ? def : nullptr;
  }
  bool is_read_outside(const Value& v) const {
    for (const Use& u : v.uses()) {
      if (!is_inside(*u.owner)) return true;
    }
    return false;
  }
  bool is_tiny_and_shared(const Value& v) const { return !v.has_one_use() && wire_bytes(*v.constant()) <= kTinyBytes; }

  // Marks nodes behind a constant that stays. Storing their results would store the same elements twice.
  void mark_copies() {
    for (const Node* n : nodes_) {
      for (const Use& u : n->operands()) {
        if (u.value == nullptr) continue;
        const Node* def = inside_def(u);
        const bool copies = def != nullptr ? copies_.contains(def)
                                           : u.value->is_constant() && wire_bytes(*u.value->constant()) > kTinyBytes &&
                                                 is_read_outside(*u.value);
        if (copies) copies_.insert(n);
      }
    }
  }

  // Groups nodes that use each other's results or a common constant.
  std::vector<Cone> connected() {
    std::vector<size_t> parent(nodes_.size());
    std::iota(parent.begin(), parent.end(), size_t{0});
    const auto root = [&](size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    std::unordered_map<const Value*, size_t> reader;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (const Use& u : nodes_[i]->operands()) {
        if (const Node* def = inside_def(u)) {
          parent[root(i)] = root(index_.at(def));
        } else if (u.value != nullptr && !is_tiny_and_shared(*u.value) && !is_read_outside(*u.value)) {
          parent[root(i)] = root(reader.emplace(u.value, i).first->second);
        }
      }
    }
    std::vector<Cone> cones;
    std::unordered_map<size_t, size_t> cone_of;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto [at, is_new] = cone_of.emplace(root(i), cones.size());
      if (is_new) cones.emplace_back();
      cones[at->second].nodes.push_back(nodes_[i]);
    }
    return cones;
  }

  int64_t cost_of_node(const Node& n) const { return kNodeBytes + static_cast<int64_t>(n.name().view().size()); }

  int64_t cost_of_value(const Value& v) const {
    const Tensor* t = found_(v);
    if (t == nullptr) return MinCut::kUncuttable;
    const bool elements_only =
        t->is_splat() && std::ranges::all_of(v.uses(), [&](const Use& u) { return broadcasts_without(*u.owner, v); });
    return constant_node_ + (elements_only ? static_cast<int64_t>(element_bytes(v.dtype())) + kTensorBytes : wire_bytes(*t));
  }

  // The bytes of a constant that disappears with these nodes; 0 if it has other users.
  int64_t cost_of_constant(const Value& v) const {
    return is_tiny_and_shared(v) || is_read_outside(v) ? 0 : wire_bytes(*v.constant());
  }

  // The values to store if removing a node is worth this many bytes more than it occupies.
  std::vector<Value*> cheapest(const Cone& cone, int64_t worth) const {
    MinCut net;
    std::unordered_map<const Node*, uint32_t> vertex_of;
    std::unordered_map<const Value*, uint32_t> constants;
    for (const Node* n : cone.nodes) {
      const uint32_t v = net.add_vertex();
      vertex_of.emplace(n, v);
      net.add_edge(v, MinCut::kSink, cost_of_node(*n) + (copies_.contains(n) ? 0 : worth));
    }
    // Edges lead from users of a value to the value, and from there to its node.
    std::unordered_map<const Value*, uint32_t> values;
    const auto value = [&](const Value& v) {
      const auto [at, is_new] = values.emplace(&v, 0);
      if (is_new) {
        at->second = net.add_vertex();
        net.add_edge(at->second, vertex_of.at(v.def()), cost_of_value(v));
      }
      return at->second;
    };
    for (Node* n : cone.nodes) {
      const uint32_t to = vertex_of.at(n);
      for (const Value& v : n->results()) {
        if (is_read_outside(v)) net.add_edge(MinCut::kSource, value(v), MinCut::kUncuttable);
      }
      for (const Use& u : n->operands()) {
        if (u.value == nullptr) continue;
        if (inside_def(u) != nullptr) {
          net.add_edge(to, value(*u.value), MinCut::kUncuttable);
        } else if (const int64_t bytes = cost_of_constant(*u.value); bytes > 0) {
          const auto [at, is_new] = constants.emplace(u.value, 0);
          if (is_new) {
            at->second = net.add_vertex();
            net.add_edge(at->second, MinCut::kSink, bytes);
          }
          net.add_edge(to, at->second, MinCut::kUncuttable);
        }
      }
    }
    std::vector<Value*> stored;
    const bool solved = net.solve(std::min(kStepsPerNode * cone.nodes.size(), kMostSteps));
    for (auto n = cone.nodes.rbegin(); n != cone.nodes.rend(); ++n) {
      for (Value& v : (*n)->results()) {
        const auto at = values.find(&v);
        if (at == values.end()) continue;
        const bool store = solved ? net.with_source(at->second) && !net.with_source(vertex_of.at(*n)) : is_read_outside(v);
        if (store && found_(v) != nullptr) stored.push_back(&v);
      }
    }
    // If the cut was not solved, store all results of the cone, provided that this is no loss.
    if (!solved && bytes_with(cone, stored) > bytes_with(cone, {}) + worth * static_cast<int64_t>(cone.nodes.size()))
      stored.clear();
    return stored;
  }

  // The size of the cone in the file if these values are stored.
  int64_t bytes_with(const Cone& cone, const std::vector<Value*>& stored) const {
    const std::unordered_set<const Value*> is_stored(stored.begin(), stored.end());
    std::unordered_set<const Node*> runs;
    std::unordered_set<const Value*> kept;
    int64_t bytes = 0;
    for (const Value* v : stored) bytes += cost_of_value(*v);
    for (auto at = cone.nodes.rbegin(); at != cone.nodes.rend(); ++at) {
      const Node& n = **at;
      const bool needed = std::ranges::any_of(n.results(), [&](const Value& v) {
        if (is_stored.contains(&v)) return false;
        return std::ranges::any_of(v.uses(), [&](const Use& u) { return !is_inside(*u.owner) || runs.contains(u.owner); });
      });
      if (!needed) continue;
      runs.insert(&n);
      bytes += cost_of_node(n);
      for (const Use& u : n.operands()) {
        if (u.value != nullptr && inside_def(u) == nullptr && kept.insert(u.value).second) bytes += cost_of_constant(*u.value);
      }
    }
    return bytes;
  }

  std::span<Node* const> nodes_;
  const Found& found_;
  const int64_t constant_node_;  // bytes of a node that holds a constant
  std::unordered_map<const Node*, size_t> index_;
  std::unordered_set<const Node*> copies_;
};

}  // namespace

int64_t wire_bytes(const Tensor& t) {
  if (t.dtype() == DType::kString) {
    int64_t sum = kTensorBytes;
    for (const std::string& s : t.string_values()) sum += static_cast<int64_t>(s.size()) + 2;
    return sum;
  }
  return static_cast<int64_t>(t.byte_size()) + kTensorBytes;
}

int64_t constant_bytes(Model& m) {
  int64_t sum = 0;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (const Value* v : g->constants()) sum += wire_bytes(*v->constant());
    }
  }
  return sum;
}

bool broadcasts_without(const Node& n, const Value& v) {
  if (n.is_boundary() || !n.has(Trait::kBroadcasts) || n.is("PRelu") || !n.result()->ranked()) return false;
  const auto to = n.result()->type()->dims();
  bool deep = to.empty();
  for (size_t back = 1; back <= to.size(); ++back) {
    const Dim d = to[to.size() - back];
    bool covered = false;
    for (const Use& u : n.operands()) {
      if (u.value == nullptr || u.value == &v || !u.value->ranked() || u.value->type()->rank() < back) continue;
      covered |= u.value->type()->dim(u.value->type()->rank() - back) == d;
      deep |= u.value->type()->rank() == to.size();
    }
    if (!covered) return false;
  }
  return deep;
}

std::vector<Value*> values_to_store(std::span<Node* const> nodes, const std::function<const Tensor*(const Value&)>& found,
                                    bool in_main_function, int64_t* budget) {
  if (nodes.empty()) return {};
  const int64_t worth = budget == nullptr ? kWorthOfNode : std::clamp<int64_t>(*budget, 0, kMostWorth);
  std::vector<Cone> cones = Chooser(nodes, found, in_main_function).cones(worth, /*worth_of_copies=*/budget != nullptr);
  int64_t wanted = 0;
  for (const Cone& c : cones) wanted += c.growth;
  if (budget == nullptr) {
    const bool too_much = wanted > 0 && wanted > constant_bytes(nodes.front()->model()) / kShareOfFile;
    for (Cone& c : cones) {
      if (too_much && c.growth > 0) c.grown = std::move(c.free);
    }
  } else {  // the cheapest first
    std::vector<Cone*> by_growth;
    for (Cone& c : cones) by_growth.push_back(&c);
    std::ranges::stable_sort(by_growth, {}, &Cone::growth);
    for (Cone* c : by_growth) {
      if (c->growth > *budget) {
        c->grown = std::move(c->free);
      } else {
        *budget -= c->growth;
      }
    }
  }
  std::vector<Value*> stored;
  for (auto c = cones.rbegin(); c != cones.rend(); ++c) stored.insert(stored.end(), c->grown.begin(), c->grown.end());
  return stored;
}

}  // namespace sardonyx::onnx
