// The choice of layouts: see minimize_transposes() in layout.h.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/tensor_transform.h"
#include "passes/layout/layout.h"
#include "passes/layout/min_cut.h"

namespace sardonyx::layout {
namespace {

// What one node costs beside the elements it moves: starting it takes a runtime about as long as copying so many elements.
constexpr double kNode = 256;
// A constant up to this size is stored once per layout: nobody minds the bytes.
constexpr size_t kSmallConstant = 4096;
// At how many elements a size without a number is taken: what is done must pay off at both.
constexpr int64_t kSmallSize = 3, kLargeSize = 509;
// How often the body of a Loop is taken to run when nothing says it.
constexpr double kLoopRuns = 16;
constexpr int kRounds = 16;
// How many steps a minimum cut may take, for each node, value and cut.
constexpr uint64_t kStepsPerPart = 200, kStepsPerCut = 100000;
// Costs of symbolic sizes are large numbers, of which only so much is known.
constexpr double kSurely = 1 - 1e-12;
constexpr uint32_t kNone = UINT32_MAX;

struct Cost {
  double small{}, large{};
  Cost operator+(const Cost& o) const { return {small + o.small, large + o.large}; }
  Cost operator*(double f) const { return {small * f, large * f}; }
  Cost operator*(const Cost& f) const { return {small * f.small, large * f.large}; }
  Cost& operator+=(const Cost& o) { return *this = *this + o; }
};

constexpr Cost kOnce{1, 1};

// A node, a large constant or a border of bodies that may take part in the new layout.
struct Var {
  Node* node = nullptr;
  Value* constant = nullptr;
  const Border* border = nullptr;
  Move move;  // of a constant: results[0]; of a border: main, the layout of what is not stacked
  bool moved = false;
};

// One operand slot that reads a root, directly or through a transpose.
struct Reader {
  Node* owner = nullptr;
  size_t slot;
  Graph* graph = nullptr;  // where a transpose for it would stand
  Layout now, moved;       // what it reads of the root now, and when its variable moves
  bool product;            // reads the last two axes either way
  uint32_t var = kNone;
};

struct Root {
  Value* value = nullptr;
  uint32_t var = kNone;  // the variable that makes it, if that may store it otherwise
  Layout stored;         // how it is stored when that variable moves
  std::vector<Reader> readers;
};

class Region {
 public:
  std::vector<Var> vars;
  std::vector<std::pair<Value*, Layout>> labels;  // what each value is stored as when its maker moves
};

class Minimizer {
 public:
  Minimizer(std::span<Graph* const> graphs, PassContext& context, Operators& operators)
      : graphs_(graphs),
        context_(context),
        model_(context.model),
        operators_(operators),
        var_of_(model_, kNone),
        label_of_(model_, kNone),
        root_of_(model_, kNone),
        border_of_(model_, kNone) {}

  bool run() {
    bool changed = false, moved = true;
    for (int round = 0; moved && round < kRounds; ++round) {
      const bool merged = merge_transposes();
      seen_.clear();
      find_borders();
      moved = sweep();
      if (!merged && !moved) continue;
      changed = true;
      // What reads for nothing holds others in place: they may move once it is gone.
      for (Graph* top : graphs_) moved |= erase_dead_nodes(*top) > 0;
    }
    return changed;
  }

 private:
  // --- transposes as views of roots

  bool is_view(const Node& n) const { return operators_.transposition(n).has_value(); }

  // Transposes of transposes become one; equal ones of a value become one; those that do nothing go. Each then reads a root.
  bool merge_transposes() {
    bool changed = false;
    std::map<std::tuple<Graph*, Value*, Layout>, Value*> known;
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          if (n.unchecked() || !is_view(n)) continue;
          Value& was = *n.result();
          const auto [root, inner] = look_through(*n.input(0));
          const Layout l = then(inner, *operators_.transposition(n));
          Value*& now = known[{g, root, l}];
          if (l.is_identity()) {
            now = root;
          } else if (now == nullptr && is_free(*root)) {
            now = spelled(*root, l, *g, &n);
          } else if (now == nullptr && inner.is_as_is()) {
            now = &was;
          } else if (now == nullptr) {
            now = operators_.store(*root, l, *g, &n);
            now->set_type(was.type());
            now->set_name(was.name());
          }
          if (now == &was) continue;
          g->replace_uses(was, *now);
          g->erase(n);
          changed = true;
        }
      }
    }
    return changed;
  }

  // --- regions

  bool sweep() {
    std::vector<Node*> seeds;
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          if (!n.unchecked() && is_view(n)) seeds.push_back(&n);
        }
      }
    }
    bool changed = false;
    const uint64_t enough = kWorkPerNode * (model_.num_nodes() + 1000);
    for (auto t = seeds.begin(); t != seeds.end() && work_ <= enough; ++t) {
      Node& view = **t;
      if (!view.any_result_used()) continue;
      const Layout l = *operators_.transposition(view);
      changed |= try_region(*view.result(), inverse(l));
      if (view.any_result_used()) changed |= try_region(*view.input(0), l);
    }
    return changed;
  }

  // The region in which the value would be stored as l, and what is best there.
  bool try_region(Value& v, const Layout& l) {
    if (!seen_.insert(key(v, l)).second) return false;
    Region region;
    explore(region, v, l);
    bool changed = false;
    if (!region.vars.empty()) {
      std::vector<Root> roots = roots_of(region);
      changed = choose(region, roots) && (apply(region, roots), true);
    }
    for (const auto& [value, label] : region.labels) {
      label_of_[*value] = kNone;
      seen_.insert(key(*value, label));
    }
    for (Var& var : region.vars) {
      if (var.node != nullptr) var_of_[*var.node] = kNone;
      if (var.border != nullptr) var_of_border_[border_index(*var.border)] = kNone;
    }
    return changed;
  }

  static uint64_t key(const Value& v, const Layout& l) {
    uint64_t h = v.id() * 0x9E3779B97F4A7C15u + l.rank;
    for (size_t i = 0; i < l.rank; ++i) h = (h ^ static_cast<uint8_t>(l.from[i])) * 0x100000001B3u;
    return h;
  }

  // The first label stays. Values of which others want them with more axes have none.
  void label(Region& r, Value& v, const Layout& l) {
    if (label_of_[v] != kNone || !l.is_permutation()) return;
    label_of_[v] = static_cast<uint32_t>(r.labels.size());
    r.labels.emplace_back(&v, l);
  }

  void explore(Region& r, Value& v, const Layout& l) {
    label(r, v, l);
    // v is the result of a transpose when the readers of a transpose are what may move.
    for (size_t i = 0; i < r.labels.size(); ++i) {
      Value& value = *r.labels[i].first;
      const Layout layout = r.labels[i].second;
      ++work_;
      if (value.is_constant()) {
        if (can_store(*value.constant())) r.vars.push_back({.constant = &value, .move = {.results = {layout}, .main = layout}});
      } else if (const uint32_t border = border_of_[value]; border != kNone) {
        add(r, border, layout, borders_[border].makes_stacks);
      } else if (Node* def = value.def(); def != nullptr) {
        if (var_of_[*def] == kNone && !def->unchecked()) {
          if (auto m = operators_.from_result(*def, value.index(), layout)) add(r, *def, std::move(*m));
        }
      }
      for (const Use& u : value.uses()) {
        ++work_;
        Node& reader = *u.owner;
        if (reads_border(reader)) {
          const uint32_t border = border_at(reader, slot_of(u));
          if (border != kNone) add(r, border, layout, borders_[border].reads_stacks);
          continue;
        }
        if (var_of_[reader] != kNone || reader.unchecked()) continue;
        if (auto m = operators_.from_operand(reader, reader.operand_index(u), layout)) add(r, reader, std::move(*m));
      }
    }
  }

  // Of a small constant each layout is a constant of its own: it costs nothing, and its other readers do not matter.
  static bool is_free(const Value& v) {
    return v.is_constant() && v.constant()->byte_size() <= kSmallConstant && can_store(*v.constant());
  }
  static bool can_store(const Tensor& t) { return can_transpose(t) && !t.is_promise(); }

  void add(Region& r, Node& n, Move m) {
    for (size_t i = 0; i < m.results.size(); ++i) {
      const Layout& l = m.results[i];
      const uint32_t at = label_of_[*n.result(i)];
      if (!l.is_as_is() && at != kNone && !(r.labels[at].second == l)) return;
    }
    for (size_t i = 0; i < m.results.size(); ++i) label(r, *n.result(i), m.results[i]);
    for (size_t i = 0; i < m.operands.size(); ++i) {
      if (n.input(i) != nullptr) label_operand(r, *n.input(i), m.operands[i]);
    }
    var_of_[n] = static_cast<uint32_t>(r.vars.size());
    r.vars.push_back({.node = &n, .move = std::move(m)});
  }

  void label_operand(Region& r, Value& v, const Layout& l) {
    const auto [root, seen_through] = look_through(v);
    if (is_free(*root)) return;
    if (root->is_constant()) {
      label(r, *root, then(seen_through, l));
    } else if (root == &v) {
      label(r, v, l);
    }
  }

  // --- borders of bodies

  void find_borders() {
    borders_.clear();
    border_reads_.clear();
    border_of_ = ValueMap<uint32_t>(model_, kNone);
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          for (Border& b : operators_.borders(n)) borders_.push_back(std::move(b));
        }
      }
    }
    for (uint32_t i = 0; i < borders_.size(); ++i) {
      for (const Border::Read& read : borders_[i].reads) border_reads_[{read.owner, read.slot}] = i;
      for (const Value* made : borders_[i].made) border_of_[*made] = i;
    }
    var_of_border_.assign(borders_.size(), kNone);
  }

  size_t border_index(const Border& b) const { return static_cast<size_t>(&b - borders_.data()); }
  static bool reads_border(const Node& n) { return n.is_boundary() || !n.bodies().empty(); }
  uint32_t border_at(Node& owner, size_t slot) const {
    const auto at = border_reads_.find({&owner, slot});
    return at != border_reads_.end() ? at->second : kNone;
  }
  static Value* read_at(const Border::Read& m) {
    return m.owner->is_boundary() ? m.owner->graph()->output(m.slot) : m.owner->input(m.slot);
  }
  static Layout layout_of(const Var& v, bool stacked) {
    return stacked ? with_axes(v.move.main, {v.border->axis}) : v.move.main;
  }

  // One of the border's values is stored as l.
  void add(Region& r, uint32_t index, const Layout& l, bool stacked) {
    const Border& b = borders_[index];
    if (var_of_border_[index] != kNone) return;
    const int64_t along[] = {b.axis};
    const Var var{.border = &b, .move = {.main = stacked ? without_axes(l, along) : l}};
    for (const Value* made : b.made) {
      const uint32_t at = label_of_[*made];
      if (at != kNone && !(r.labels[at].second == layout_of(var, b.makes_stacks))) return;
    }
    for (Value* made : b.made) label(r, *made, layout_of(var, b.makes_stacks));
    for (const Border::Read& m : b.reads) label_operand(r, *read_at(m), layout_of(var, b.reads_stacks));
    var_of_border_[index] = static_cast<uint32_t>(r.vars.size());
    r.vars.push_back(var);
  }

  std::pair<Value*, Layout> look_through(Value& v) const {
    if (Node* def = v.def(); def != nullptr && is_view(*def)) return {def->input(0), *operators_.transposition(*def)};
    return {&v, Layout::as_is()};
  }

  // --- what it costs

  std::vector<Root> roots_of(Region& r) {
    std::vector<Root> roots;
    const auto touch = [&](Value& v) -> Root& {
      uint32_t& at = root_of_[v];
      if (at == kNone) {
        at = static_cast<uint32_t>(roots.size());
        roots.push_back({.value = &v});
      }
      return roots[at];
    };
    for (uint32_t i = 0; i < r.vars.size(); ++i) {
      Var& var = r.vars[i];
      if (var.constant != nullptr) {
        Root& root = touch(*var.constant);
        root.var = i;
        root.stored = var.move.results[0];
        continue;
      }
      if (var.border != nullptr) {
        for (Value* made : var.border->made) {
          Root& root = touch(*made);
          root.var = i;
          root.stored = layout_of(var, var.border->makes_stacks);
        }
        for (const Border::Read& m : var.border->reads) {
          if (Value* root = look_through(*read_at(m)).first; !is_free(*root)) touch(*root);
        }
        continue;
      }
      for (size_t k = 0; k < var.move.results.size(); ++k) {
        if (var.move.results[k].is_as_is()) continue;
        Root& root = touch(*var.node->result(k));
        root.var = i;
        root.stored = var.move.results[k];
      }
      for (size_t k = 0; k < var.move.operands.size(); ++k) {
        if (var.move.operands[k].is_as_is()) continue;
        if (Value* root = look_through(*var.node->input(k)).first; !is_free(*root)) touch(*root);
      }
    }
    for (Root& root : roots) {
      root_of_[*root.value] = kNone;
      for (Use& u : root.value->uses()) {
        ++work_;
        if (is_view(*u.owner)) {
          const Layout l = *operators_.transposition(*u.owner);
          for (Use& through : u.owner->result()->uses()) read(r, root, through, l);
        } else {
          read(r, root, u, Layout::identity(rank_of(*root.value)));
        }
      }
    }
    return roots;
  }

  static size_t rank_of(const Value& v) { return v.type()->rank(); }

  // The operand that a use is, or the result of its graph.
  static size_t slot_of(const Use& u) {
    if (!u.owner->is_boundary()) return u.owner->operand_index(u);
    const auto outputs = u.owner->graph()->outputs();
    return static_cast<size_t>(std::find_if(outputs.begin(), outputs.end(), [&](const Port& p) { return p.use == &u; }) -
                               outputs.begin());
  }

  void read(const Region& r, Root& root, Use& u, const Layout& now) {
    ++work_;
    const size_t slot = slot_of(u);
    Reader reader{.owner = u.owner,
                  .slot = slot,
                  .graph = u.owner->graph(),
                  .now = now,
                  .moved = now,
                  .product = operators_.reads_swapped(*u.owner, slot)};
    if (reads_border(*u.owner)) {
      const uint32_t border = border_at(*u.owner, reader.slot);
      if (border != kNone && var_of_border_[border] != kNone) {
        reader.var = var_of_border_[border];
        reader.moved = then(now, layout_of(r.vars[reader.var], borders_[border].reads_stacks));
      }
    } else if (var_of_[*u.owner] != kNone) {
      reader.var = var_of_[*u.owner];
      const Move& m = r.vars[reader.var].move;
      if (reader.slot < m.operands.size()) reader.moved = then(now, m.operands[reader.slot]);
    }
    root.readers.push_back(reader);
  }

  Cost size_of(const Type* t) {
    const auto [size, is_new] = sizes_.try_emplace(t, kOnce);
    if (is_new) {
      for (Dim d : t->dims()) size->second = size->second * Cost{size_at(d, kSmallSize), size_at(d, kLargeSize)};
    }
    return size->second;
  }

  // What a size is when those without a number are taken at `value`.
  double size_at(Dim d, int64_t value) {
    const Dim known = d.is_expr() ? model_.dims().substitute(d, [&](std::string_view) { return Dim::of(value); }) : d;
    return static_cast<double>(std::max<int64_t>(known.is_int() ? known.value() : value, 1));
  }

  // How often a body runs for each time that its function does, roughly.
  Cost times_run(const Graph& g) {
    const auto [times, is_new] = times_run_.try_emplace(&g, kOnce);
    if (!is_new) return times->second;
    for (const Graph* body = &g; body->parent() != nullptr && times->second.small < 1e6; body = body->enclosing()) {
      if (body->parent()->is("If")) continue;
      const Dim trips = operators_.trips(*body->parent());
      const bool known = !trips.is_unknown();
      times->second =
          times->second * Cost{known ? size_at(trips, kSmallSize) : kLoopRuns, known ? size_at(trips, kLargeSize) : kLoopRuns};
    }
    return times->second;
  }

  // What it takes to have the root as `wanted` in graph g when it is stored as `stored`. `products`: all that read it so are products, which
  // read the last two axes either way.
  Cost cost(const Root& root, const Layout& stored, const Layout& wanted, const Graph& g, bool products) {
    return cost(root, stored, wanted, products) * times_run(g);
  }

  Cost cost(const Root& root, const Layout& stored, const Layout& wanted, bool products) {
    if (stored == wanted) return {};
    const Type* t = root.value->type();
    const Layout l = relative(stored, wanted);
    if (moves_nothing(*stored_type(model_.types(), t, stored), l)) return {kNode, kNode};
    if (products && swaps_last_two(l)) return {kNode, kNode};
    return size_of(t) + Cost{kNode, kNode};
  }

  // What to store the stored value as, so that it is as wanted.
  static Layout relative(const Layout& stored, const Layout& wanted) { return then(inverse_of_stored(stored), wanted); }
  static Layout inverse_of_stored(const Layout& l) {
    Layout out;
    out.rank = l.rank;
    for (size_t i = 0; i < l.rank; ++i) {
      if (l.from[i] != Layout::kNew) out.from[static_cast<uint8_t>(l.from[i])] = static_cast<int8_t>(i);
    }
    return out;
  }

  Layout stored(const Region& r, const Root& root) const {
    return root.var != kNone && r.vars[root.var].moved ? root.stored : Layout::identity(rank_of(*root.value));
  }
  static const Layout& wanted(const Region& r, const Reader& reader) {
    return reader.var != kNone && r.vars[reader.var].moved ? reader.moved : reader.now;
  }

  // What the region costs as its variables stand.
  Cost total(const Region& r, const std::vector<Root>& roots) {
    Cost sum;
    struct Made {
      Layout layout;
      Graph* graph;
      bool products;
    };
    std::vector<Made> made;
    for (const Root& root : roots) {
      made.clear();
      const Layout as = stored(r, root);
      for (const Reader& reader : root.readers) {
        const Layout& want = wanted(r, reader);
        auto at =
            std::find_if(made.begin(), made.end(), [&](const Made& m) { return m.layout == want && m.graph == reader.graph; });
        if (at == made.end()) at = made.insert(at, {want, reader.graph, true});
        at->products &= reader.product;
      }
      for (const Made& m : made) sum += cost(root, as, m.layout, *m.graph, m.products);
    }
    for (const Var& v : r.vars) {
      if (v.node == nullptr || !v.moved) continue;
      sum += price_of(v);
    }
    return sum;
  }

  Cost price_of(const Var& v) {
    const Cost price = size_of(v.node->input(0)->type()) * v.move.slower + Cost{kNode, kNode} * v.move.more_nodes;
    return price * times_run(*v.node->graph());
  }

  static bool cheaper(const Cost& a, const Cost& b) { return a.small < b.small * kSurely && a.large < b.large * kSurely; }

  // Leaves the best choice in the variables; false when nothing is better than what is there.
  bool choose(Region& r, const std::vector<Root>& roots) {
    Cost best = total(r, roots);
    std::vector<bool> choice;
    const auto consider = [&] {
      const Cost now = total(r, roots);
      if (!cheaper(now, best)) return;
      best = now;
      choice.clear();
      for (const Var& v : r.vars) choice.push_back(v.moved);
    };
    cut(r, roots);
    consider();
    for (Var& v : r.vars) v.moved = true;
    consider();
    if (choice.empty()) return false;
    for (size_t i = 0; i < r.vars.size(); ++i) r.vars[i].moved = choice[i];
    return true;
  }

  // The minimum cut: the sink's side moves. Where both ends of an edge would have to move to pay, the price is charged to one of
  // them, which choose() sets right by looking at the true cost.
  void cut(Region& r, const std::vector<Root>& roots) {
    MinCut g;
    std::vector<uint32_t> node_of;  // by variable
    for (const Var& v : r.vars) {
      const uint32_t node = node_of.emplace_back(g.add_node());
      if (v.node == nullptr) continue;
      const double price = price_of(v).small;
      const bool slower = price > 0;
      g.add_edge(slower ? MinCut::kSource : node, slower ? node : MinCut::kSink, std::abs(price));
    }
    for (const Root& root : roots) {
      struct Want {
        Layout layout;
        Graph* graph = nullptr;
        bool always = false, products = true;
        std::vector<uint32_t> staying, moving;  // cut nodes that want it while they stay, when they move
      };
      std::vector<Want> wants;
      const auto want = [&](const Layout& l, Graph* graph) -> Want& {
        for (Want& w : wants) {
          if (w.layout == l && w.graph == graph) return w;
        }
        return wants.emplace_back(Want{.layout = l, .graph = graph});
      };
      for (const Reader& reader : root.readers) {
        if (reader.now == reader.moved) {
          Want& w = want(reader.now, reader.graph);
          w.always = true;
          w.products &= reader.product;
          continue;
        }
        Want& staying = want(reader.now, reader.graph);
        staying.staying.push_back(node_of[reader.var]);
        staying.products &= reader.product;
        Want& moving = want(reader.moved, reader.graph);
        moving.moving.push_back(node_of[reader.var]);
        moving.products &= reader.product;
      }
      const Layout plain = Layout::identity(rank_of(*root.value));
      const auto pay = [&](const std::vector<uint32_t>& tails, const std::vector<uint32_t>& heads, double price) {
        // price if any tail stays (source's side) while any head moves
        const uint32_t tail = g.add_node(), head = g.add_node();
        for (uint32_t t : tails) g.add_edge(t, tail, MinCut::kInfinite);
        for (uint32_t h : heads) g.add_edge(head, h, MinCut::kInfinite);
        g.add_edge(tail, head, price);
      };
      const std::vector<uint32_t> source{MinCut::kSource}, sink{MinCut::kSink};
      for (const Want& w : wants) {
        const double from_plain = cost(root, plain, w.layout, *w.graph, w.products).small;
        if (root.var == kNone) {
          if (w.always) continue;
          pay(w.staying, sink, from_plain);
          pay(source, w.moving, from_plain);
          continue;
        }
        const std::vector<uint32_t> maker{node_of[root.var]};
        const double from_stored = cost(root, root.stored, w.layout, *w.graph, w.products).small;
        if (w.layout == plain) {
          pay(w.always || w.staying.empty() ? source : w.staying, maker, from_stored);
        } else if (w.layout == root.stored) {
          pay(maker, w.always || w.moving.empty() ? sink : w.moving, from_plain);
        } else if (!w.always) {
          pay(w.staying, sink, std::min(from_plain, from_stored));
          pay(source, w.moving, std::min(from_plain, from_stored));
        }
      }
    }
    if (!g.solve(kStepsPerPart * (r.vars.size() + roots.size()) + kStepsPerCut, &work_)) return;
    for (size_t i = 0; i < r.vars.size(); ++i) r.vars[i].moved = g.on_sink_side(node_of[i]);
  }

  // --- doing it

  void apply(Region& r, std::vector<Root>& roots) {
    std::unordered_map<const Value*, Value*> made;  // old result -> what stands for it
    std::unordered_map<const Node*, Node*> fresh;
    std::vector<Layout> now_stored;
    for (const Root& root : roots) now_stored.push_back(stored(r, root));
    for (Var& v : r.vars) {
      if (!v.moved) continue;
      context_.count(v.node != nullptr ? "nodes moved" : v.border != nullptr ? "borders moved" : "constants moved");
      if (v.border != nullptr) continue;
      if (v.node == nullptr) {
        v.constant->graph()->set_constant(*v.constant, rearranged(v.constant->constant(), v.move.results[0]));
        continue;
      }
      Node& old = *v.node;
      std::vector<Value*> results;
      Node& n = operators_.rebuild(old, v.move, &results);
      n.set_name(old.name());
      n.set_provenance(old.provenance());
      fresh[&old] = &n;
      for (size_t i = 0; i < v.move.operands.size(); ++i) {
        if (v.move.operands[i].is_as_is()) continue;
        const auto [root, seen_through] = look_through(*old.input(i));
        if (is_free(*root))
          n.set_input(slot_in(v, i), spelled(*root, then(seen_through, v.move.operands[i]), *old.graph(), &n));
      }
      for (size_t i = 0; i < results.size(); ++i) {
        Value& was = *old.result(i);
        const Layout& l = i < v.move.results.size() ? v.move.results[i] : Layout::as_is();
        results[i]->set_type(stored_type(model_.types(), was.type(), l));
        if (l.is_as_is()) {
          results[i]->set_name(was.name());
          if (const SymbolicValue* known = context_.facts.find(was)) context_.facts.set(*results[i], *known);
          old.graph()->replace_uses(was, *results[i]);
        }
        made[&was] = results[i];
      }
    }
    for (const Var& v : r.vars) {
      if (v.moved && v.border != nullptr) restore(v);
    }
    for (size_t i = 0; i < roots.size(); ++i) supply(r, roots[i], now_stored[i], made, fresh);
    for (const Var& v : r.vars) {
      for (size_t i = 0; v.moved && v.node != nullptr && i < v.node->num_inputs(); ++i) v.node->set_input(i, nullptr);
    }
    for (const Root& root : roots) erase_views(*root.value);
    for (const Var& v : r.vars) {
      if (v.moved && v.node != nullptr) v.node->graph()->erase(*v.node);
    }
    for (const Var& v : r.vars) {
      if (!v.moved || v.node == nullptr) continue;
      Node& n = *fresh[v.node];
      infer_node(n, context_.facts);
    }
  }

  // Takes away the transposes of v that nobody reads any more: where v is stored otherwise now, they are typed as they were.
  void erase_views(Value& v) const {
    for (auto u = v.uses().begin(); u != v.uses().end();) {
      Node& view = *(u++)->owner;
      if (is_view(view) && !view.any_result_used()) view.graph()->erase(view);
    }
  }

  // The values at a border are stored otherwise from now on.
  void restore(const Var& v) {
    Types& types = model_.types();
    for (Value* made : v.border->made) {
      const Layout l = layout_of(v, v.border->makes_stacks);
      Graph& g = *made->graph();
      made->set_type(stored_type(types, made->type(), l));
      if (made->kind() == ValueKind::kInput) {
        Port& port = g.input_port(made->index());
        port.declared = stored_type(types, port.declared, l);
      }
      const auto info = g.value_info.find(made);
      if (info == g.value_info.end()) continue;
      const Type* now = stored_type(types, info->second.declared, l);
      g.edit_value_info(*made).declared = now;
    }
    for (const Border::Read& m : v.border->reads) {
      const Layout l = layout_of(v, v.border->reads_stacks);
      if (m.owner->is_boundary()) {
        Port& port = m.owner->graph()->output_port(m.slot);
        port.declared = stored_type(types, port.declared, l);
      }
      const auto [root, seen_through] = look_through(*read_at(m));
      Node* before = m.owner->is_boundary() ? nullptr : m.owner;
      if (is_free(*root)) give(*m.owner, m.slot, *spelled(*root, then(seen_through, l), *m.owner->graph(), before));
    }
  }

  static void give(Node& owner, size_t slot, Value& v) {
    if (owner.is_boundary()) {
      owner.graph()->set_output(slot, v);
    } else {
      owner.set_input(slot, &v);
    }
  }

  // Where the new node has an operand of the old one.
  static size_t slot_in(const Var& v, size_t slot) { return v.move.swaps_operands ? 1 - slot : slot; }

  // Gives each reader of the root what it wants.
  void supply(const Region& r, const Root& root, const Layout& as, const std::unordered_map<const Value*, Value*>& made,
              const std::unordered_map<const Node*, Node*>& fresh) {
    const auto moved = made.find(root.value);
    Value& source = moved != made.end() ? *moved->second : *root.value;
    std::vector<std::tuple<Layout, Graph*, Value*>> at_hand;
    for (const Reader& reader : root.readers) {
      const Layout& want = wanted(r, reader);
      Value* v = want == as ? &source : nullptr;
      for (const auto& [layout, graph, value] : at_hand) {
        if (layout == want && graph == reader.graph) v = value;
      }
      if (v == nullptr) {
        Graph& g = *reader.graph;
        Node* before = &g == source.graph() && source.def() != nullptr ? source.def()->next() : g.first();
        v = as.is_identity() ? existing(source, want, g, before) : nullptr;
        if (v == nullptr) v = materialise(source, relative(as, want), g, before);
        at_hand.emplace_back(want, &g, v);
      }
      Node* owner = reader.owner;
      size_t slot = reader.slot;
      if (const auto f = fresh.find(owner); f != fresh.end()) {
        slot = slot_in(r.vars[reader.var], slot);
        const Value* has = f->second->input(slot);
        if (has != nullptr && has != owner->input(reader.slot)) continue;  // a parameter that rebuild() has set
        owner = f->second;
      }
      give(*owner, slot, *v);
    }
  }

  // A transpose that is there already, put where every reader of the root can see it.
  Value* existing(Value& source, const Layout& want, Graph& g, Node* before) {
    for (const Use& u : source.uses()) {
      Node& t = *u.owner;
      if (t.graph() != &g || !is_view(t) || !(*operators_.transposition(t) == want)) continue;
      if (before != &t) {
        g.detach(t);
        g.insert_before(*before, t);
      }
      return t.result();
    }
    return nullptr;
  }

  Value* materialise(Value& source, const Layout& l, Graph& g, Node* before) {
    context_.count("transposes made");
    Value* v = operators_.store(source, l, g, before);
    v->set_type(stored_type(model_.types(), source.type(), l));
    return v;
  }

  // A small constant in another layout, under its name, for what reads it.
  Value* spelled(const Value& constant, const Layout& l, Graph& g, Node* before) {
    return operators_.constant(g, rearranged(constant.constant(), l), constant.name().view(), before);
  }

  static TensorPtr rearranged(const TensorPtr& t, const Layout& l) {
    std::vector<int64_t> perm, shape;
    for (size_t i = 0; i < l.rank; ++i) {
      const int8_t from = l.from[i];
      if (from != Layout::kNew) perm.push_back(from);
      shape.push_back(from == Layout::kNew ? 1 : t->shape()[static_cast<size_t>(from)]);
    }
    TensorPtr out = std::is_sorted(perm.begin(), perm.end()) ? t : transposed(t, perm);
    return out->reshaped(std::move(shape));
  }

  static constexpr uint64_t kWorkPerNode = 60;

  std::span<Graph* const> graphs_;
  PassContext& context_;
  Model& model_;
  Operators& operators_;
  NodeMap<uint32_t> var_of_;
  ValueMap<uint32_t> label_of_, root_of_, border_of_;
  std::vector<Border> borders_;
  std::map<std::pair<Node*, size_t>, uint32_t> border_reads_;
  std::vector<uint32_t> var_of_border_;
  std::unordered_set<uint64_t> seen_;
  std::unordered_map<const Type*, Cost> sizes_;
  std::unordered_map<const Graph*, Cost> times_run_;
  uint64_t work_{};
};

}  // namespace

bool minimize_transposes(std::span<Graph* const> graphs, PassContext& context, Operators& operators) {
  return Minimizer(graphs, context, operators).run();
}

}  // namespace sardonyx::layout
