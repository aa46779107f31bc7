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
// A constant up to this size may be stored once per layout: nobody minds the bytes.
constexpr size_t kSmallConstant = 4096;
// At how many elements a size without a number is taken: what is done must pay off at both.
constexpr int64_t kSmallSize = 3, kLargeSize = 509;
// How often the body of a Loop is taken to run when nothing says it.
constexpr double kLoopRuns = 16;
constexpr int kRounds = 16;
constexpr size_t kManyReaders = 32;
constexpr uint32_t kNone = UINT32_MAX;

struct Cost {
  double small = 0, large = 0;
  Cost operator+(const Cost& o) const { return {small + o.small, large + o.large}; }
  Cost operator*(double f) const { return {small * f, large * f}; }
  Cost operator*(const Cost& f) const { return {small * f.small, large * f.large}; }
  Cost& operator+=(const Cost& o) { return *this = *this + o; }
  bool is_zero() const { return small == 0 && large == 0; }
};

// A node, a constant or a border of bodies that may take part in the new layout.
struct Var {
  Node* node = nullptr;
  Value* constant = nullptr;
  const Border* border = nullptr;
  Move move;  // of a constant: results[0]; of a border: main, the layout of what is not stacked
  bool moved = false;
  uint32_t cut_node = 0;
};

// One operand slot that reads a root, directly or through a transpose.
struct Reader {
  Node* owner = nullptr;
  size_t slot = 0;
  Graph* graph = nullptr;  // where a transpose for it would stand
  uint32_t var = kNone;
  Layout now, moved;     // what it reads of the root now, and when its variable moves
  bool product = false;  // reads the last two axes either way
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
        border_of_(model_, kNone),
        done_(model_, 0) {}

  bool run() {
    bool changed = false;
    for (size_t gone = 1; gone > 0 && rounds();) {
      changed = true;
      gone = 0;
      for (Graph* top : graphs_) gone += erase_dead_nodes(*top);  // what read for nothing held others in place
    }
    return changed;
  }

 private:
  bool rounds() {
    bool changed = false;
    for (int round = 0; round < kRounds; ++round) {
      const bool merged = merge_transposes();
      done_ = NodeMap<uint8_t>(model_, 0);
      seen_.clear();
      find_borders();
      const bool moved = sweep();
      changed |= merged | moved;
      if (!moved) break;
    }
    return changed;
  }

  // --- transposes as views of roots

  bool is_view(const Node& n) const { return operators_.transposition(n).has_value(); }

  // Transposes of transposes become one; equal ones of a value become one; those that do nothing go. Each then reads a root.
  bool merge_transposes() {
    bool changed = false;
    std::unordered_map<uint64_t, std::vector<Node*>> of_root;
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          if (n.unchecked() || !is_view(n)) continue;
          if (!n.any_result_used()) {
            g->erase(n);
            changed = true;
            continue;
          }
          Layout l = *operators_.transposition(n);
          Value* root = n.input(0);
          Node* t = &n;
          if (Node* inner = root->def(); inner != nullptr && is_view(*inner)) {
            l = then(*operators_.transposition(*inner), l);
            root = inner->input(0);
            if (!l.is_identity()) {
              Value* made = operators_.store(*root, l, *g, &n);
              made->set_type(n.result()->type());
              made->set_name(n.result()->name());
              replace(n, *made);
              t = made->def();
            }
            if (!inner->any_result_used()) g->erase(*inner);
            changed = true;
          }
          if (l.is_identity()) {
            replace(*t, *root);
            changed = true;
            continue;
          }
          auto& same = of_root[root->id()];
          const auto twin = std::find_if(same.begin(), same.end(), [&](Node* o) {
            return o->alive() && o->graph() == g && *operators_.transposition(*o) == l;
          });
          if (twin != same.end()) {
            replace(*t, *(*twin)->result());
            changed = true;
          } else if (same.size() < 16) {
            same.push_back(t);
          }
        }
      }
    }
    return changed;
  }

  static void replace(Node& n, Value& by) {
    n.graph()->replace_uses(*n.result(), by);
    n.graph()->erase(n);
  }

  // --- regions

  bool sweep() {
    bool changed = false;
    std::vector<Node*> seeds;
    for (Graph* top : graphs_) {
      for (Graph* g : graphs_in(*top)) {
        for (Node& n : g->nodes()) {
          if (!n.unchecked() && is_view(n)) seeds.push_back(&n);
        }
      }
    }
    for (Node* t : seeds) {
      if (work_ > kWorkPerNode * (model_.num_nodes() + 1000)) break;
      if (!t->alive() || !t->any_result_used()) continue;
      const Layout l = *operators_.transposition(*t);
      changed |= try_region(*t->result(), inverse(l));
      if (t->alive() && t->any_result_used()) changed |= try_region(*t->input(0), l);
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
    for (size_t i = 0; i < (l.is_as_is() ? 0 : l.rank); ++i) h = (h ^ static_cast<uint8_t>(l.from[i])) * 0x100000001B3u;
    return h;
  }

  bool label(Region& r, Value& v, const Layout& l) {
    uint32_t& at = label_of_[v];
    if (at != kNone) return r.labels[at].second == l;
    at = static_cast<uint32_t>(r.labels.size());
    r.labels.emplace_back(&v, l);
    return true;
  }

  void explore(Region& r, Value& v, const Layout& l) {
    label(r, v, l);
    // v is the result of a transpose when the readers of a transpose are what may move.
    for (size_t i = 0; i < r.labels.size(); ++i) {
      Value& value = *r.labels[i].first;
      const Layout layout = r.labels[i].second;
      ++work_;
      if (value.is_constant()) {
        const Tensor& t = *value.constant();
        if (can_store(t) && !is_common(value) && (is_small(t) || layout.is_permutation()))
          r.vars.push_back({.constant = &value, .move = {.results = {layout}, .main = layout}});
      } else if (const uint32_t border = border_of_[value]; border != kNone) {
        add(r, border, layout, is_stacked(borders_[border], value));
      } else if (Node* def = value.def(); def != nullptr) {
        if (var_of_[*def] == kNone && may_move(*def)) {
          if (auto m = operators_.from_result(*def, value.index(), layout)) add(r, *def, std::move(*m));
        }
      }
      for (const Use& u : value.uses()) {
        ++work_;
        Node& reader = *u.owner;
        if (reads_border(reader)) {
          const size_t slot = slot_of(u);
          const uint32_t border = border_at(reader, slot);
          if (border != kNone) add(r, border, layout, is_stacked(borders_[border], reader, slot));
          continue;
        }
        if (var_of_[reader] != kNone || !may_move(reader)) continue;
        if (auto m = operators_.from_operand(reader, reader.operand_index(u), layout)) add(r, reader, std::move(*m));
      }
    }
  }

  bool may_move(const Node& n) { return !n.unchecked() && n.bodies().empty() && done_[n] == 0; }

  static bool is_small(const Tensor& t) { return t.byte_size() <= kSmallConstant; }
  // A small constant with many readers: each layout of it is a constant of its own, and its other readers do not matter.
  static bool is_common(const Value& v) {
    if (!v.is_constant() || !is_small(*v.constant()) || !can_store(*v.constant())) return false;
    size_t readers = 0;
    for (auto u = v.uses().begin(); u != v.uses().end() && readers <= kManyReaders; ++u) ++readers;
    return readers > kManyReaders;
  }
  static bool can_store(const Tensor& t) { return can_transpose(t) && !t.is_promise() && t.dtype() != DType::kString; }

  void add(Region& r, Node& n, Move m) {
    for (size_t i = 0; i < m.results.size(); ++i) {
      const Layout& l = m.results[i];
      const uint32_t at = label_of_[*n.result(i)];
      if (!l.is_as_is() && at != kNone && !(r.labels[at].second == l)) return;
    }
    for (size_t i = 0; i < m.results.size(); ++i) {
      if (!m.results[i].is_as_is()) label(r, *n.result(i), m.results[i]);
    }
    for (size_t i = 0; i < m.operands.size(); ++i) {
      const Layout& l = m.operands[i];
      Value* v = n.input(i);
      if (!l.is_as_is() && v != nullptr) label_operand(r, *v, l);
    }
    var_of_[n] = static_cast<uint32_t>(r.vars.size());
    r.vars.push_back({.node = &n, .move = std::move(m)});
  }

  void label_operand(Region& r, Value& v, const Layout& l) {
    const auto [root, seen_through] = look_through(v);
    if (root->is_constant()) {
      label(r, *root, then(seen_through, l));
    } else if (root == &v && l.is_permutation()) {
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
          if (n.unchecked() || n.bodies().empty()) continue;
          for (Border& b : operators_.borders(n)) borders_.push_back(std::move(b));
        }
      }
    }
    for (uint32_t i = 0; i < borders_.size(); ++i) {
      for (const Border::Read& read : borders_[i].reads) border_reads_[{read.owner, read.slot}] = i;
      for (const Border::Made& made : borders_[i].made) border_of_[*made.value] = i;
    }
    var_of_border_.assign(borders_.size(), kNone);
  }

  size_t border_index(const Border& b) const { return static_cast<size_t>(&b - borders_.data()); }
  static bool reads_border(const Node& n) { return n.is_boundary() || !n.bodies().empty(); }
  uint32_t border_at(Node& owner, size_t slot) const {
    const auto at = border_reads_.find({&owner, slot});
    return at != border_reads_.end() ? at->second : kNone;
  }
  static bool is_stacked(const Border& b, const Value& v) {
    return std::any_of(b.made.begin(), b.made.end(), [&](const Border::Made& m) { return m.value == &v && m.stacked; });
  }
  static bool is_stacked(const Border& b, const Node& owner, size_t slot) {
    return std::any_of(b.reads.begin(), b.reads.end(),
                       [&](const Border::Read& m) { return m.owner == &owner && m.slot == slot && m.stacked; });
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
    if (var_of_border_[index] != kNone || !l.is_permutation()) return;
    const size_t axis = static_cast<uint8_t>(b.axis);
    if (stacked && (axis >= l.rank || l.from[axis] != b.axis)) return;  // the slices would stand along another axis
    const int64_t along[] = {b.axis};
    const Layout slice = stacked ? without_axes(l, along) : l;
    if (slice.is_identity()) return;
    Var var{.border = &b, .move = {.main = slice}};
    for (const Border::Made& m : b.made) {
      const uint32_t at = label_of_[*m.value];
      if (at != kNone && !(r.labels[at].second == layout_of(var, m.stacked))) return;
    }
    for (const Border::Made& m : b.made) label(r, *m.value, layout_of(var, m.stacked));
    for (const Border::Read& m : b.reads) label_operand(r, *read_at(m), layout_of(var, m.stacked));
    var_of_border_[index] = static_cast<uint32_t>(r.vars.size());
    r.vars.push_back(std::move(var));
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
        for (const Border::Made& m : var.border->made) {
          Root& root = touch(*m.value);
          root.var = i;
          root.stored = layout_of(var, m.stacked);
        }
        for (const Border::Read& m : var.border->reads) {
          const auto [value, layout] = look_through(*read_at(m));
          Root& root = touch(*value);
          if (!is_common(*value)) continue;
          const Layout now = layout.is_as_is() ? Layout::identity(rank_of(*value)) : layout;
          Graph* g = m.owner->graph();
          root.readers.push_back({m.owner, m.slot, g, i, now, then(now, layout_of(var, m.stacked)), false});
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
        if (var.move.operands[k].is_as_is() || var.node->input(k) == nullptr) continue;
        const auto [value, layout] = look_through(*var.node->input(k));
        Root& root = touch(*value);
        if (!is_common(*value)) continue;
        const Layout now = layout.is_as_is() ? Layout::identity(rank_of(*value)) : layout;
        root.readers.push_back({var.node, k, var.node->graph(), i, now, then(now, var.move.operands[k]), false});
      }
    }
    for (Root& root : roots) {
      root_of_[*root.value] = kNone;
      if (is_common(*root.value)) continue;
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

  static size_t rank_of(const Value& v) { return v.ranked() ? v.type()->rank() : 0; }

  // The operand that a use is, or the result of its graph.
  static size_t slot_of(const Use& u) {
    if (!u.owner->is_boundary()) return u.owner->operand_index(u);
    const auto outputs = u.owner->graph()->outputs();
    return static_cast<size_t>(std::find_if(outputs.begin(), outputs.end(), [&](const Port& p) { return p.use == &u; }) -
                               outputs.begin());
  }

  void read(const Region& r, Root& root, Use& u, const Layout& now) {
    ++work_;
    Reader reader{.owner = u.owner, .slot = slot_of(u), .graph = u.owner->graph(), .now = now, .moved = now};
    reader.product = !u.owner->is_boundary() && operators_.reads_swapped(*u.owner, reader.slot);
    if (reads_border(*u.owner)) {
      const uint32_t border = border_at(*u.owner, reader.slot);
      if (border != kNone && var_of_border_[border] != kNone) {
        reader.var = var_of_border_[border];
        reader.moved = then(now, layout_of(r.vars[reader.var], is_stacked(borders_[border], *u.owner, reader.slot)));
      }
    } else if (var_of_[*u.owner] != kNone) {
      reader.var = var_of_[*u.owner];
      const Move& m = r.vars[reader.var].move;
      if (reader.slot < m.operands.size()) reader.moved = then(now, m.operands[reader.slot]);
    }
    root.readers.push_back(reader);
  }

  Cost size_of(const Type* t) {
    if (t == nullptr || !t->is_tensor() || !t->ranked()) return {1, 1};
    if (auto known = sizes_.find(t); known != sizes_.end()) return known->second;
    Cost size{1, 1};
    for (Dim d : t->dims()) size = {size.small * size_at(d, kSmallSize), size.large * size_at(d, kLargeSize)};
    return sizes_[t] = size;
  }

  // What a size is when those without a number are taken at `value`.
  double size_at(Dim d, int64_t value) {
    if (d.is_int()) return static_cast<double>(std::max<int64_t>(d.value(), 1));
    const Dim known = d.is_expr() ? model_.dims().substitute(d, [&](std::string_view) { return Dim::of(value); }) : Dim();
    return static_cast<double>(known.is_int() ? std::max<int64_t>(known.value(), 1) : value);
  }

  // How often a body runs for each time that its function does, roughly.
  Cost times_run(const Graph& g) {
    const auto known = times_run_.find(&g);
    if (known != times_run_.end()) return known->second;
    Cost times{1, 1};
    for (const Graph* body = &g; body->parent() != nullptr && times.small < 1e6; body = body->enclosing()) {
      if (body->parent()->is("If")) continue;
      const Dim trips = operators_.trips(*body->parent());
      const double small = trips.is_unknown() ? kLoopRuns : size_at(trips, kSmallSize);
      const double large = trips.is_unknown() ? kLoopRuns : size_at(trips, kLargeSize);
      times = {times.small * small, times.large * large};
    }
    return times_run_[&g] = times;
  }

  // What it takes to have the root as `wanted` in graph g when it is stored as `stored`. `products`: all that read it so are products, which
  // read the last two axes either way.
  Cost cost(const Root& root, const Layout& stored, const Layout& wanted, const Graph& g, bool products) {
    return cost(root, stored, wanted, products) * times_run(g);
  }

  Cost cost(const Root& root, const Layout& stored, const Layout& wanted, bool products) {
    if (stored == wanted) return {};
    const Value& v = *root.value;
    if (v.is_constant() && is_small(*v.constant()) && can_store(*v.constant())) return {1, 1};
    const Type* t = v.type();
    const Layout l = relative(stored, wanted);
    if (moves_nothing(*stored_type(model_.types(), t, stored), l)) return {kNode, kNode};
    if (products && !v.is_constant() && swaps_last_two(l)) return {kNode, kNode};
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
        if (want == as) continue;
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
    const Value* first = v.node->input(0);
    const Cost price =
        size_of(first != nullptr ? first->type() : nullptr) * v.move.slower + Cost{kNode, kNode} * v.move.more_nodes;
    return price * times_run(*v.node->graph());
  }

  static bool cheaper(const Cost& a, const Cost& b) { return a.small < b.small - 0.5 && a.large < b.large - 0.5; }

  // Leaves the best choice in the variables; false when nothing is better than what is there.
  bool choose(Region& r, const std::vector<Root>& roots) {
    const Cost before = total(r, roots);
    if (before.is_zero()) return false;
    Cost best = before;
    std::vector<bool> choice;
    const auto consider = [&] {
      const Cost now = total(r, roots);
      if (!cheaper(now, best)) return;
      best = now;
      choice.clear();
      for (const Var& v : r.vars) choice.push_back(v.moved);
    };
    if (cut(r, roots)) consider();
    for (Var& v : r.vars) v.moved = true;
    consider();
    if (choice.empty()) return false;
    for (size_t i = 0; i < r.vars.size(); ++i) r.vars[i].moved = choice[i];
    return true;
  }

  // The minimum cut: the sink's side moves. Where both ends of an edge would have to move to pay, the price is charged to one of
  // them, which choose() sets right by looking at the true cost.
  bool cut(Region& r, const std::vector<Root>& roots) {
    MinCut g;
    for (Var& v : r.vars) {
      v.cut_node = g.add_node();
      if (v.node == nullptr) continue;
      const double price = price_of(v).small;
      if (price > 0) g.add_edge(MinCut::kSource, v.cut_node, price);
      if (price < 0) g.add_edge(v.cut_node, MinCut::kSink, -price);
    }
    const auto node_of = [&](uint32_t var) { return r.vars[var].cut_node; };
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
        staying.staying.push_back(node_of(reader.var));
        staying.products &= reader.product;
        Want& moving = want(reader.moved, reader.graph);
        moving.moving.push_back(node_of(reader.var));
        moving.products &= reader.product;
      }
      const Layout plain = Layout::identity(rank_of(*root.value));
      const auto pay = [&](const std::vector<uint32_t>& tails, const std::vector<uint32_t>& heads, double price) {
        // price if any tail stays (source's side) while any head moves
        if (tails.empty() || heads.empty()) return;
        uint32_t tail = tails[0], head = heads[0];
        if (tails.size() > 1) {
          tail = g.add_node();
          for (uint32_t t : tails) g.add_edge(t, tail, MinCut::kInfinite);
        }
        if (heads.size() > 1) {
          head = g.add_node();
          for (uint32_t h : heads) g.add_edge(head, h, MinCut::kInfinite);
        }
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
        const std::vector<uint32_t> maker{node_of(root.var)};
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
    const uint64_t allowed = 200 * (r.vars.size() + roots.size()) + 100000;
    if (!g.solve(allowed, &work_)) return false;
    for (Var& v : r.vars) v.moved = g.on_sink_side(v.cut_node);
    return true;
  }

  // --- doing it

  void apply(Region& r, std::vector<Root>& roots) {
    std::unordered_map<const Value*, Value*> made;  // old result -> what stands for it, stored in the new layout
    std::unordered_map<const Node*, Node*> fresh;
    std::unordered_map<const Value*, TensorPtr> payloads;  // of constants that moved, as they were
    std::vector<Layout> now_stored;
    for (const Root& root : roots) now_stored.push_back(stored(r, root));
    for (Var& v : r.vars) {
      if (!v.moved) continue;
      context_.count(v.node != nullptr ? "nodes moved" : v.border != nullptr ? "borders moved" : "constants moved");
      if (v.border != nullptr) continue;
      if (v.node == nullptr) {
        const TensorPtr was = v.constant->constant();
        payloads.emplace(v.constant, was);
        v.constant->graph()->set_constant(*v.constant, rearranged(was, v.move.results[0]));
        continue;
      }
      Node& old = *v.node;
      std::vector<Value*> results;
      Node& n = operators_.rebuild(old, v.move, &results);
      n.set_name(old.name());
      n.set_provenance(old.provenance());
      fresh[&old] = &n;
      for (size_t i = 0; i < results.size(); ++i) {
        Value& was = *old.result(i);
        const Layout& l = i < v.move.results.size() ? v.move.results[i] : Layout::as_is();
        results[i]->set_type(stored_type(model_.types(), was.type(), l));
        if (l.is_as_is()) {
          results[i]->set_name(was.name());
          if (const SymbolicValue* known = context_.facts.find(was)) context_.facts.set(*results[i], *known);
          old.graph()->replace_uses(was, *results[i]);
        } else {
          made[&was] = results[i];
        }
      }
    }
    for (const Var& v : r.vars) {
      if (v.moved && v.border != nullptr) restore(v);
    }
    std::vector<Node*> views;
    for (size_t i = 0; i < roots.size(); ++i) {
      Root& root = roots[i];
      const bool common = is_common(*root.value);
      for (auto u = root.value->uses().begin(); !common && u != root.value->uses().end(); ++u) {
        if (is_view(*u->owner)) views.push_back(u->owner);
      }
      const auto was = payloads.find(root.value);
      supply(r, root, now_stored[i], was != payloads.end() ? was->second : root.value->constant(), made, fresh);
    }
    for (const Var& v : r.vars) {
      for (size_t i = 0; v.moved && v.node != nullptr && i < v.node->num_inputs(); ++i) v.node->set_input(i, nullptr);
    }
    for (Node* view : views) {
      if (view->alive() && !view->any_result_used()) view->graph()->erase(*view);
    }
    for (const Var& v : r.vars) {
      if (v.moved && v.node != nullptr) v.node->graph()->erase(*v.node);
    }
    for (const Var& v : r.vars) {
      if (!v.moved || v.node == nullptr) continue;
      Node& n = *fresh[v.node];
      infer_node(n, context_.facts);
      done_[n] = 1;
    }
  }

  // The values at a border are stored otherwise from now on.
  void restore(const Var& v) {
    Types& types = model_.types();
    for (const Border::Made& m : v.border->made) {
      const Layout l = layout_of(v, m.stacked);
      Graph& g = *m.value->graph();
      m.value->set_type(stored_type(types, m.value->type(), l));
      if (m.value->kind() == ValueKind::kInput) {
        Port& port = g.input_port(m.value->index());
        port.declared = stored_type(types, port.declared, l);
      }
      const auto info = g.value_info.find(m.value);
      if (info == g.value_info.end() || info->second.declared == nullptr) continue;
      const Type* now = stored_type(types, info->second.declared, l);
      g.edit_value_info(*m.value).declared = now;
    }
    for (const Border::Read& m : v.border->reads) {
      if (!m.owner->is_boundary()) continue;
      Port& port = m.owner->graph()->output_port(m.slot);
      port.declared = stored_type(types, port.declared, layout_of(v, m.stacked));
    }
  }

  // Gives each reader of the root what it wants.
  void supply(const Region& r, const Root& root, const Layout& as, const TensorPtr& payload,
              const std::unordered_map<const Value*, Value*>& made, const std::unordered_map<const Node*, Node*>& fresh) {
    const auto moved = made.find(root.value);
    Value& source = moved != made.end() ? *moved->second : *root.value;
    const bool plain = moved == made.end() && as.is_identity();
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
        v = plain && !is_common(*root.value) ? existing(*root.value, want, g, before) : nullptr;
        if (v == nullptr) v = materialise(source, as, want, payload, g, before);
        at_hand.emplace_back(want, &g, v);
      }
      Node* owner = reader.owner;
      size_t slot = reader.slot;
      if (const auto f = fresh.find(owner); f != fresh.end()) {
        if (reader.var != kNone && slot < 2 && r.vars[reader.var].move.swaps_operands) slot = 1 - slot;
        const Value* has = f->second->input(slot);
        if (has != nullptr && has != owner->input(slot)) continue;  // a parameter that rebuild() has set
        owner = f->second;
      }
      if (owner->is_boundary()) {
        if (owner->graph()->output(slot) != v) owner->graph()->set_output(slot, *v);
      } else if (owner->input(slot) != v) {
        owner->set_input(slot, v);
      }
    }
  }

  // A transpose that is there already, put where every reader of the root can see it.
  Value* existing(Value& root, const Layout& want, Graph& g, Node* before) {
    for (const Use& u : root.uses()) {
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

  // `payload`: of a constant, as the program spells it.
  Value* materialise(Value& source, const Layout& as, const Layout& want, const TensorPtr& payload, Graph& g, Node* before) {
    if (payload != nullptr && is_small(*payload) && can_store(*payload))
      return operators_.constant(g, rearranged(payload, want), before);
    context_.count("transposes made");
    const Layout l = relative(as, want);
    Value* v = operators_.store(source, l, g, before);
    if (l.is_permutation()) v->set_type(stored_type(model_.types(), source.type(), l));
    if (v->def() != nullptr && source.def() != nullptr) v->def()->set_provenance(source.def()->provenance());
    return v;
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
  NodeMap<uint8_t> done_;  // rebuilt in this round: left alone until the next
  std::unordered_set<uint64_t> seen_;
  std::unordered_map<const Type*, Cost> sizes_;
  std::unordered_map<const Graph*, Cost> times_run_;
  uint64_t work_ = 0;
};

}  // namespace

bool minimize_transposes(std::span<Graph* const> graphs, PassContext& context, Operators& operators) {
  return Minimizer(graphs, context, operators).run();
}

}  // namespace sardonyx::layout
