#include "inspect/match_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

#include "inspect/node_origin.h"
#include "inspect/node_search.h"

namespace sardonyx {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return x ^ (x >> 33);
}

uint64_t hash_of_constant(const Value& v) {
  const Tensor& t = *v.constant();
  if (!t.is_deferred() || t.is_promise()) return mixed(11, t.hash());
  return mixed(13, std::hash<std::string_view>()(v.name().view()));  // computing it could take long
}

bool is_constant_node(const Node& n) { return n.has(Trait::kConstant) && n.num_results() == 1 && n.result()->is_constant(); }

// One model: what each value and node computes, as a hash.
class Side {
 public:
  explicit Side(const Model& m)
      : model(m), hashes_(m.value_id_limit(), 0), partner(m.node_id_limit(), nullptr), place(m.node_id_limit(), 0) {}

  const Model& model;

 private:
  std::vector<uint64_t> hashes_;

 public:
  std::vector<const Node*> partner;  // by Node::id
  std::vector<uint32_t> place;       // by Node::id, in `nodes`
  std::vector<const Node*> nodes;

  void read() {
    for (const auto& f : model.functions()) read(f->graph());
  }

  uint64_t hash(const Value& v) {
    uint64_t& known = hashes_[v.id()];
    if (known == 0 && v.is_constant()) known = hash_of_constant(v);
    return known;
  }

 private:
  // Returns the hash of the graph's results.
  uint64_t read(const Graph& g) {
    for (const Port& p : g.inputs()) hashes_[p.value->id()] = mixed(3, std::hash<std::string_view>()(p.name.view()));
    for (const Node& n : g.nodes()) {
      if (is_constant_node(n)) continue;
      place[n.id()] = static_cast<uint32_t>(nodes.size());
      nodes.push_back(&n);
      uint64_t h = mixed(std::hash<std::string_view>()(n.op().name), std::hash<std::string_view>()(n.op().domain));
      for (const NamedAttr& a : n.attrs().items()) h = mixed(mixed(h, std::hash<std::string_view>()(a.name)), a.value.hash());
      for (size_t i = 0; i < n.num_inputs(); ++i) h = mixed(h, n.input(i) == nullptr ? 17 : hash(*n.input(i)));
      for (const Body& b : n.bodies()) h = mixed(h, read(*b.graph));  // recursion over nesting only
      for (size_t i = 0; i < n.num_results(); ++i) hashes_[n.result(i)->id()] = mixed(h, i + 1);
    }
    uint64_t h = 5;
    for (const Port& p : g.outputs()) h = mixed(h, hash(*p.use->value));
    return h;
  }
};

class Matcher {
 public:
  Matcher(const Model& before, const Model& after) : a_(before), b_(after) {}

  ModelMatch match() {
    a_.read();
    b_.read();
    pair_by([&](Side& s, const Node& n) { return n.num_results() == 0 ? 0 : mixed(kind(n), s.hash(*n.result())); });
    spread();
    pair_by([](Side&, const Node& n) { return n.name().empty() ? 0 : mixed(kind(n), text(n.name().view())); });
    spread();
    pair_by([](Side&, const Node& n) {
      return n.num_results() == 0 || n.result()->name().empty() ? 0 : mixed(kind(n), text(n.result()->name().view()));
    });
    spread();
    pair_by([](Side&, const Node& n) {
      const NodeOrigin origin = origin_of(n);
      if (origin.lines.empty()) return uint64_t{0};
      return mixed(mixed(kind(n), text(to_string(origin.lines.front()))), text(origin.scope));
    });
    spread();
    return result();
  }

 private:
  static uint64_t text(std::string_view s) { return std::hash<std::string_view>()(s); }
  static uint64_t kind(const Node& n) { return mixed(mixed(text(n.op().name), text(n.op().domain)), n.num_results()); }
  static bool same_kind(const Node& x, const Node& y) {
    return x.op().name == y.op().name && x.op().domain == y.op().domain && x.num_results() == y.num_results();
  }

  // Nodes of one function match nodes of the function with its name, those of a body nodes of the matching
  // body.
  bool same_place(const Node& x, const Node& y) const {
    const Graph &g = *x.graph(), &h = *y.graph();
    if ((g.parent() == nullptr) != (h.parent() == nullptr)) return false;
    if (g.parent() != nullptr) return a_.partner[g.parent()->id()] == h.parent() && index_of(g) == index_of(h);
    const Function &f = *g.function(), &k = *h.function();
    const bool are_main = &f == &a_.model.main() && &k == &b_.model.main();
    return are_main || (f.name == k.name && f.domain == k.domain && f.overload == k.overload);
  }
  static size_t index_of(const Graph& g) {
    const auto bodies = g.parent()->bodies();
    return static_cast<size_t>(std::ranges::find_if(bodies, [&](const Body& b) { return b.graph == &g; }) - bodies.begin());
  }

  bool pair(const Node& x, const Node& y) {
    if (a_.partner[x.id()] != nullptr || b_.partner[y.id()] != nullptr || !same_kind(x, y) || !same_place(x, y)) return false;
    a_.partner[x.id()] = &y;
    b_.partner[y.id()] = &x;
    fresh_.emplace_back(&x, &y);
    return true;
  }

  // Pairs nodes with the same key in their order; key 0 is none. Nodes come before those in their bodies.
  template <class Key>
  void pair_by(const Key& key) {
    std::unordered_map<uint64_t, std::deque<const Node*>> waiting;
    for (const Node* y : b_.nodes) {
      if (b_.partner[y->id()] != nullptr) continue;
      if (const uint64_t k = key(b_, *y); k != 0) waiting[k].push_back(y);
    }
    for (const Node* x : a_.nodes) {
      if (a_.partner[x->id()] != nullptr) continue;
      const uint64_t k = key(a_, *x);
      const auto at = k == 0 ? waiting.end() : waiting.find(k);
      if (at == waiting.end() || at->second.empty()) continue;
      if (pair(*x, *at->second.front())) at->second.pop_front();
    }
  }

  // From matched nodes to what they read and to who reads them.
  void spread() {
    for (const auto& f : a_.model.functions()) {
      const Function* other =
          &*f == &a_.model.main() ? &b_.model.main() : b_.model.find_function(f->domain, f->name, f->overload);
      if (other != nullptr) results(f->graph(), other->graph());
    }
    while (!fresh_.empty()) {
      const auto [x, y] = fresh_.back();
      fresh_.pop_back();
      const size_t operands = std::min(x->num_inputs(), y->num_inputs());
      for (size_t i = 0; i < operands; ++i) producers(x->input(i), y->input(i));
      for (size_t i = 0; i < x->num_results(); ++i) users(*x->result(i), *y->result(i));
      for (size_t i = 0; i < std::min(x->bodies().size(), y->bodies().size()); ++i)
        results(*x->bodies()[i].graph, *y->bodies()[i].graph);
    }
  }
  void results(const Graph& g, const Graph& h) {
    for (const Port& p : g.outputs()) {
      const auto same = std::ranges::find_if(h.outputs(), [&](const Port& q) { return q.name.view() == p.name.view(); });
      if (same != h.outputs().end()) producers(p.use->value, same->use->value);
    }
    for (size_t i = 0; i < std::min(g.outputs().size(), h.outputs().size()); ++i)
      producers(g.outputs()[i].use->value, h.outputs()[i].use->value);
  }
  void producers(const Value* v, const Value* w) {
    if (v == nullptr || w == nullptr || v->def() == nullptr || w->def() == nullptr || v->index() != w->index()) return;
    if (!is_constant_node(*v->def()) && !is_constant_node(*w->def())) pair(*v->def(), *w->def());
  }
  // Users of the same kind at the same slot match where each side has one.
  void users(const Value& v, const Value& w) {
    constexpr size_t kMost = 64;  // a value that everybody reads says little
    const auto open = [&](const Value& of, const Side& s) {
      std::vector<std::pair<const Node*, size_t>> all;
      for (const Use& u : of.uses()) {
        if (u.owner->is_boundary() || s.partner[u.owner->id()] != nullptr) continue;
        all.emplace_back(u.owner, u.owner->operand_index(u));
        if (all.size() > kMost) return decltype(all)();
      }
      return all;
    };
    const auto left = open(v, a_);
    if (left.empty()) return;
    const auto right = open(w, b_);
    const auto alone = [](const auto& list, const auto& item) {
      return std::ranges::count_if(
                 list, [&](const auto& o) { return o.second == item.second && same_kind(*o.first, *item.first); }) == 1;
    };
    for (const auto& x : left) {
      for (const auto& y : right) {
        if (x.second == y.second && same_kind(*x.first, *y.first) && alone(left, x) && alone(right, y))
          pair(*x.first, *y.first);
      }
    }
  }

  // --- what differs

  ModelMatch result() {
    ModelMatch found;
    std::vector<std::pair<const Node*, const Node*>> equal;
    for (const Node* x : a_.nodes) {
      const Node* y = a_.partner[x->id()];
      if (y == nullptr) {
        found.removed.push_back(x);
        continue;
      }
      found.before_of.emplace(y, x);
      NodeChange change{.before = x, .after = y};
      describe(change);
      if (change.what.empty()) {
        equal.emplace_back(x, y);
      } else {
        found.changed.push_back(std::move(change));
      }
    }
    for (const Node* y : b_.nodes) {
      if (b_.partner[y->id()] == nullptr) found.added.push_back(y);
    }
    split_moved(equal, found);
    return found;
  }

  // The nodes outside of a longest sequence that both models have in the same order were moved.
  void split_moved(const std::vector<std::pair<const Node*, const Node*>>& equal, ModelMatch& found) const {
    std::vector<size_t> tails, before(equal.size(), SIZE_MAX);  // of sequences by length: the pair at the end
    const auto place = [&](size_t i) { return b_.place[equal[i].second->id()]; };
    for (size_t i = 0; i < equal.size(); ++i) {
      const auto at = std::ranges::lower_bound(tails, place(i), {}, place);
      if (at != tails.begin()) before[i] = *std::prev(at);
      if (at == tails.end()) {
        tails.push_back(i);
      } else {
        *at = i;
      }
    }
    std::vector<char> in_order(equal.size(), 0);
    for (size_t i = tails.empty() ? SIZE_MAX : tails.back(); i != SIZE_MAX; i = before[i]) in_order[i] = 1;
    for (size_t i = 0; i < equal.size(); ++i) {
      if (in_order[i] != 0) {
        ++found.same;
      } else {
        found.moved.push_back(equal[i]);
      }
    }
  }

  void describe(NodeChange& c) {
    const Node &x = *c.before, &y = *c.after;
    const auto say = [&](std::string text) { c.what.push_back(std::move(text)); };
    if (x.op().since_version != y.op().since_version)
      say(fmt::format("version of {}: {} -> {}", x.op().name, x.op().since_version, y.op().since_version));
    std::map<std::string_view, std::pair<const Attr*, const Attr*>> attrs;
    for (const NamedAttr& a : x.attrs().items()) attrs[a.name].first = &a.value;
    for (const NamedAttr& a : y.attrs().items()) attrs[a.name].second = &a.value;
    for (const auto& [name, values] : attrs) {
      const auto& [p, q] = values;
      if (p != nullptr && q != nullptr && p->hash() == q->hash()) continue;
      say(fmt::format("{}: {} -> {}", name, p == nullptr ? "none" : shown(*p, a_), q == nullptr ? "none" : shown(*q, b_)));
    }
    for (size_t i = 0; i < std::max(x.num_inputs(), y.num_inputs()); ++i) operand(c, i);
    for (size_t i = 0; i < x.num_results(); ++i) {
      const std::string s = a_.model.types().to_string(x.result(i)->type()),
                        t = b_.model.types().to_string(y.result(i)->type());
      if (s != t) say(fmt::format("type of result {}: {} -> {}", i, s, t));
    }
    if (x.bodies().size() != y.bodies().size()) say(fmt::format("graphs: {} -> {}", x.bodies().size(), y.bodies().size()));
  }

  static std::string shown(const Attr& a, const Side& s) {
    constexpr size_t kMost = 80;
    std::string text = to_string(a, s.model.types());
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

  void operand(NodeChange& c, size_t i) {
    const Value *v = c.before->input(i), *w = c.after->input(i);
    if (v == nullptr && w == nullptr) return;
    const Node& n = i < c.before->num_inputs() ? *c.before : *c.after;
    const Slot* slot = slot_of(n.op(), i, n.num_inputs());
    const std::string name = slot != nullptr ? std::string(slot->name) : std::to_string(i);
    if (v != nullptr && w != nullptr) {
      if (v->is_constant() && w->is_constant()) {
        if (a_.hash(*v) != b_.hash(*w)) c.what.push_back(fmt::format("constant {}: {}", name, difference(*v, *w)));
        return;
      }
      if (is_same(*v, *w)) return;
    }
    c.what.push_back(fmt::format("operand {}: {} -> {}", name, producer(v), producer(w)));
  }

  bool is_same(const Value& v, const Value& w) const {
    if (v.is_constant() || w.is_constant()) return false;
    if (v.def() != nullptr && w.def() != nullptr) return v.index() == w.index() && a_.partner[v.def()->id()] == w.def();
    if (v.def() != nullptr || w.def() != nullptr) return false;
    if (v.kind() != ValueKind::kInput || w.kind() != ValueKind::kInput) return false;
    const Graph &g = *v.graph(), &h = *w.graph();
    return g.inputs()[v.index()].name.view() == h.inputs()[w.index()].name.view() ||
           (v.index() == w.index() && g.parent() != nullptr && h.parent() != nullptr);
  }

  static std::string producer(const Value* v) {
    if (v == nullptr) return "none";
    if (v->is_constant()) return "a constant";
    if (v->def() == nullptr) return fmt::format("input {}", v->name().view());
    return fmt::format("{} {}", v->def()->op().name, label_of(*v->def()));
  }

  std::string difference(const Value& v, const Value& w) const {
    constexpr int64_t kMost = int64_t{1} << 22;  // elements that are compared one by one
    const Tensor &s = *v.constant(), &t = *w.constant();
    const std::string types[] = {a_.model.types().to_string(v.type()), b_.model.types().to_string(w.type())};
    if (s.dtype() != t.dtype() || !std::ranges::equal(s.shape(), t.shape())) return fmt::format("{} -> {}", types[0], types[1]);
    const bool has_numbers = s.dtype() != DType::kString && !is_complex(s.dtype());
    if (!has_numbers || s.is_promise() || t.is_promise() || s.is_deferred() || t.is_deferred() || s.size() > kMost)
      return "other elements";
    int64_t count = 0;
    double most = 0;
    for (int64_t i = 0; i < s.size(); ++i) {
      const double p = s.as_double(i), q = t.as_double(i);
      if (p == q || (std::isnan(p) && std::isnan(q))) continue;
      ++count;
      most = std::isnan(p - q) ? std::numeric_limits<double>::quiet_NaN() : std::max(most, std::abs(p - q));
    }
    if (s.size() == 1) return fmt::format("{:.6g} -> {:.6g}", s.as_double(0), t.as_double(0));
    return fmt::format("{} of {} elements differ, by up to {:.3g}", count, s.size(), most);
  }

  Side a_, b_;
  std::vector<std::pair<const Node*, const Node*>> fresh_;
};

}  // namespace

bool is_same_constant(const Value& v, const Value& w) { return hash_of_constant(v) == hash_of_constant(w); }

ModelMatch match_models(const Model& before, const Model& after) { return Matcher(before, after).match(); }

}  // namespace sardonyx
