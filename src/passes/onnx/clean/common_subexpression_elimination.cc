//   x ── Exp ── a          x ── Exp ─┬─ a
//   x ── Exp ── b     =>             └─ b
//
// Merges nodes with the same operator, attributes, operands (in either order if the operator commutes) and
// bodies. Also merges constants with the same contents, however large; it compares bytes only if type, shape
// and samples agree. A node in a body may merge with one of an enclosing graph. Random nodes never merge, nor
// do nodes with random nodes in their bodies, nor calls of functions that are not defined in the model. The
// first node stays and takes over the users of the others, including results of the graph. One walk, which
// hashes each node once.
// After jax2onnx's pass of this name (onnx_ir), which skips constants above ten elements and nodes with
// bodies.
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/call.h"
#include "passes/onnx/control_flow/same_bodies.h"
#include "rewrite/pass.h"
#include "support/files/copy_range.h"

namespace sardonyx::onnx {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}
uint64_t mix(uint64_t h, const void* p) { return mix(h, static_cast<uint64_t>(reinterpret_cast<uintptr_t>(p))); }

// Tells whether a node gives the same results when it runs again.
class Purity {
 public:
  // Ignores bodies.
  bool is_pure(const Node& n) {
    if (n.op().known) return n.has(Trait::kPure);  // random operators are not
    const Function* f = called_function(n);
    if (f == nullptr) return false;
    const auto [at, is_new] = functions_.try_emplace(f, false);  // assume impure meanwhile, in case the function calls itself
    if (is_new) {
      bool pure = true;
      for (Graph* g : graphs_in(f->graph())) {
        for (const Node& inner : g->nodes()) pure = pure && is_pure(inner);
      }
      functions_[f] = pure;
    }
    return functions_[f];
  }

 private:
  std::unordered_map<const Function*, bool> functions_;
};

// A hash of a few samples, which tells most constants apart. Equal for a splat and its dense form.
uint64_t sample_of(const Tensor& t) {
  uint64_t h = XXH3_64bits_withSeed(t.shape().data(), t.shape().size_bytes(), static_cast<uint64_t>(t.dtype()));
  if (t.is_promise()) return t.hash();
  if (t.is_deferred()) return mix(h, &t);  // equals only itself: comparing would compute it
  const int width = bit_width(t.dtype());
  if (width < 8) return h;
  const auto element = static_cast<size_t>(width) / 8;
  // Samples three runs. Touching a page of a mapped file maps its surroundings too, up to megabytes, so large
  // tensors use file reads instead.
  constexpr size_t kReadBytes = 1 << 16;
  constexpr int64_t kRun = 21;
  const bool all = t.size() <= 3 * kRun;
  std::array<std::byte, 3 * kRun * 16> runs;
  const std::byte* first = t.stored_bytes().data();
  const bool from_file = t.byte_size() >= kReadBytes && t.file() && !t.is_splat() && element <= 16;
  if (from_file) {
    for (int64_t run = 0; run < 3; ++run) {
      const auto skipped = static_cast<uint64_t>(run * ((t.size() - kRun) / 2)) * element;
      const std::span<std::byte> part(runs.data() + static_cast<size_t>(run * kRun) * element,
                                      static_cast<size_t>(kRun) * element);
      read_range({.fd = t.file()->fd, .offset = t.file()->offset + skipped}, part);
    }
    first = runs.data();
  }
  for (int64_t k = 0; k < std::min(3 * kRun, t.size()); ++k) {
    const int64_t run = k / kRun, at = all || from_file ? k : run * ((t.size() - kRun) / 2) + k % kRun;
    const std::byte* p = first + (t.is_splat() ? 0 : static_cast<size_t>(at) * element);
    h = XXH3_64bits_withSeed(p, element, h);
  }
  return h;
}

class Elimination {
 public:
  Elimination(Graph& top, PassContext& context)
      : context_(context), model_(context.model), body_hash_(model_, 0), value_hash_(model_, 0) {
    size_t nodes = 0;
    for (Graph* g : graphs_in(top)) nodes += g->num_nodes();
    size_t n = 16;
    while (n < 2 * nodes) n *= 2;
    slots_.resize(n);
  }

  bool run(Graph& top) {
    enter(top);
    while (!stack_.empty()) {
      Frame& frame = stack_.back();
      if (frame.at == nullptr) {
        leave();
        continue;
      }
      Node& n = *frame.at;
      if (frame.body < n.bodies().size()) {
        enter(*n.bodies()[frame.body++].graph);
        continue;
      }
      frame.body = 0;
      frame.at = n.next();
      visit(n);
    }
    context_.log.count("nodes", nodes_);
    context_.log.count("constants", constants_);
    return nodes_ + constants_ > 0;
  }

 private:
  struct Frame {
    Graph* graph;
    Node* at;
    size_t body = 0;  // index of the next body of `at` to enter
  };
  struct Slot {
    uint64_t hash = 0;
    Node* node = nullptr;
  };
  struct Waiting {
    Node* node;
    uint64_t hash;
  };
  struct Constant {
    Value* value;
    std::optional<uint64_t> hash;  // of all bytes; computed on demand
  };

  void enter(Graph& g) {
    open_.insert(&g);
    stack_.push_back({.graph = &g, .at = g.first()});
    uint64_t index = 0;
    for (const Port& p : g.inputs()) value_hash_[*p.value] = g.parent() == nullptr ? mix(1, p.value) : mix(2, index++);
    for (Value* v : g.constants()) merge_constant(*v);
  }

  void leave() {
    while (looked_up_ < hashed_) look_up();
    Graph& g = *stack_.back().graph;
    if (Node* parent = g.parent()) {
      uint64_t h = mix(body_hash_[*parent], g.num_nodes());
      for (const Port& p : g.outputs()) h = mix(h, hash_of(*p.use->value));
      body_hash_[*parent] = h;
    }
    open_.erase(&g);
    stack_.pop_back();
  }

  uint64_t hash_of(const Value& v) {
    uint64_t& h = value_hash_[v];
    return h != 0 ? h : h = mix(3, &v);
  }

  void visit(Node& n) {
    if (n.num_results() == 0) return;
    if (n.result()->is_constant()) {
      merge_constant(*n.result());
      return;
    }
    // Results of impure nodes keep unique hashes, and so do values computed from them and bodies that return
    // them.
    if (n.unchecked() || !purity_.is_pure(n)) return;
    uint64_t h = mix(mix(mix(4, &n.op()), n.attrs().canonical()), n.num_results());
    const bool commutes = is_commutative(n);
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const uint64_t operand = n.input(i) == nullptr ? 5 : hash_of(*n.input(i));
      if (i == 0 && commutes) {
        h = mix(h, operand + hash_of(*n.input(1)));
      } else if (i != 1 || !commutes) {
        h = mix(h, operand);
      }
    }
    h = mix(h, body_hash_[n]);
    for (Value& v : n.results()) value_hash_[v] = mix(h, v.index() + 6);
    if (!worth(n)) return;
    __builtin_prefetch(&slots_[slot_of(h)]);
    if (hashed_ - looked_up_ == kAhead) look_up();
    waiting_[hashed_++ % kAhead] = {&n, h};
  }

  static bool is_commutative(const Node& n) { return n.has(Trait::kCommutative) && n.input(1) != nullptr; }

  size_t slot_of(uint64_t hash) const { return (hash ^ (hash >> 32)) & (slots_.size() - 1); }

  // Looks up the oldest waiting node: merges it with an equal one, or adds it to the table.
  void look_up() {
    const auto [node, h] = waiting_[looked_up_++ % kAhead];
    Node& n = *node;
    for (size_t i = slot_of(h);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& s = slots_[i];
      if (s.node == nullptr) {
        s = {h, &n};
        return;
      }
      if (s.hash != h || !same(*s.node, n, is_commutative(n))) continue;
      // Values of a graph that the walk has left cannot be used here.
      if (!open_.contains(s.node->graph())) {
        s.node = &n;
        return;
      }
      merge(*s.node, n);
      return;
    }
  }

  // False for an Identity that only names a result of the graph: the writer would add it again.
  static bool worth(const Node& n) {
    if (!n.is("Identity")) return true;
    const auto uses = n.result()->uses();
    return !std::all_of(uses.begin(), uses.end(), [](const Use& u) { return u.owner->is_boundary(); });
  }

  static bool same(const Node& a, const Node& b, bool commutes) {
    if (&a.op() != &b.op() || a.attrs().canonical() != b.attrs().canonical() || a.num_inputs() != b.num_inputs() ||
        a.num_results() != b.num_results())
      return false;
    if (overload_of(a) != overload_of(b)) return false;
    size_t first = 0;
    if (commutes && a.input(0) == b.input(1) && a.input(1) == b.input(0)) first = 2;
    for (size_t i = first; i < a.num_inputs(); ++i) {
      if (a.input(i) != b.input(i)) return false;
    }
    return a.bodies().empty() ? b.bodies().empty() : same_bodies(a, b);
  }

  void replace(Value& old, Value& by) {
    if (const Type* both = model_.types().meet(by.type(), old.type())) by.set_type(both);
    if (const SymbolicValue* known = context_.facts.find(old)) context_.facts.set(by, *known);
    old.graph()->replace_uses(old, by);
  }

  void merge(Node& stays, Node& goes) {
    for (size_t i = 0; i < goes.num_results(); ++i) replace(*goes.result(i), *stays.result(i));
    stays.set_provenance(model_.merge_provenance(stays.provenance(), goes.provenance()));
    goes.graph()->erase(goes);
    ++nodes_;
  }

  // Only for the main graph: bodies return constants through an Identity in any case.
  static bool would_need_identity(const Value& v) {
    return std::ranges::any_of(v.uses(),
                               [](const Use& u) { return u.owner->is_boundary() && u.owner->graph()->parent() == nullptr; });
  }

  void merge_constant(Value& v) {
    value_hash_[v] = mix(7, &v);
    const Tensor& t = *v.constant();
    std::vector<Constant>& alike = constants_by_sample_[sample_of(t)];
    std::optional<uint64_t> hash;
    for (Constant& c : alike) {
      if (!open_.contains(c.value->graph())) continue;
      const Tensor& other = *c.value->constant();
      if (&other != &t) {
        if (!hash) hash = t.hash();
        if (!c.hash) c.hash = other.hash();
        if (*hash != *c.hash || !t.equals(other)) continue;
      }
      value_hash_[v] = hash_of(*c.value);
      if (!v.has_uses() || would_need_identity(v)) return;
      replace(v, *c.value);
      if (v.def() != nullptr) v.graph()->erase(*v.def());
      ++constants_;
      return;
    }
    std::erase_if(alike, [&](const Constant& c) { return !open_.contains(c.value->graph()); });
    alike.push_back({&v, hash});
  }

  PassContext& context_;
  Model& model_;
  Purity purity_;
  NodeMap<uint64_t> body_hash_;
  ValueMap<uint64_t> value_hash_;  // depends only on how a value is computed; 0: not computed yet
  std::vector<Slot> slots_;        // open addressing
  // Nodes wait a few steps between hashing and lookup, so that the prefetch of their slot completes. Hashes
  // do not depend on merges.
  static constexpr size_t kAhead = 8;
  std::array<Waiting, kAhead> waiting_;
  size_t hashed_ = 0, looked_up_ = 0;
  std::unordered_map<uint64_t, std::vector<Constant>> constants_by_sample_;
  std::unordered_set<const Graph*> open_;  // the current graph and its enclosing ones
  std::vector<Frame> stack_;
  size_t nodes_ = 0, constants_ = 0;
};

}  // namespace

Pass common_subexpression_elimination() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) { return Elimination(top, context).run(top); });
}

}  // namespace sardonyx::onnx
