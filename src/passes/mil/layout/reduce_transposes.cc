//   x ── transpose<p> ── relu, add, concat<axis>, ... ── transpose<inverse of p> ── y    =>    x ── relu, add, concat<p[axis]>, ... ── y
//
// A transpose is pushed down: through elementwise ops, and through ops whose axes or constants can change
// instead (concat, split, pad, reductions that keep their axes, sums and products with a value that has the
// same transpose, with a constant, or with a value that a reshape can transpose). It ends at a transpose that
// cancels it, or at any other op or result of the block, before which it would have to be materialized.
// Transposes that end at the same ops form a set. A set is removed, with the transposes that cancel it, if
// fewer transposes have to be materialized than are removed. One is materialized per op and value, right
// before the op. Functions with nested blocks stay as they are, and so do the blocks, as in coremltools' pass
// of this name, whose cost model this is: a minimum cut (passes/mincut) would move fewer elements, but leave
// other ops in another order. We are stricter: the exponent of pow is a number, slopes per channel of
// softplus_parametric need the channels in place, and an op may use a value with and without the transpose.
// debug: a folder, in which the function is drawn before and after, for Graphviz: NAME_before.dot and
// NAME_after.dot.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "ir/tensor/tensor_transform.h"
#include "passes/mil/params.h"
#include "support/files/atomic_file.h"

namespace sardonyx::mil {
namespace {

using Perm = std::vector<int64_t>;
constexpr uint32_t kPlain = 0;

bool is_unary(const Node& n) {
  static const std::set<std::string_view> kOps = {"relu",
                                                  "log",
                                                  "relu6",
                                                  "abs",
                                                  "acos",
                                                  "asin",
                                                  "atan",
                                                  "atanh",
                                                  "ceil",
                                                  "clip",
                                                  "cos",
                                                  "cosh",
                                                  "erf",
                                                  "exp",
                                                  "exp2",
                                                  "floor",
                                                  "identity",
                                                  "logical_not",
                                                  "round",
                                                  "rsqrt",
                                                  "sign",
                                                  "sin",
                                                  "sinh",
                                                  "sqrt",
                                                  "square",
                                                  "pow",
                                                  "tan",
                                                  "tanh",
                                                  "threshold",
                                                  "clamped_relu",
                                                  "elu",
                                                  "gelu",
                                                  "leaky_relu",
                                                  "linear_activation",
                                                  "scaled_tanh",
                                                  "sigmoid",
                                                  "sigmoid_hard",
                                                  "softplus",
                                                  "softplus_parametric",
                                                  "softsign",
                                                  "thresholded_relu"};
  return kOps.contains(n.op().name);
}
bool is_reduction(const Node& n) {
  static const std::set<std::string_view> kOps = {"reduce_l1_norm",     "reduce_l2_norm",   "reduce_max", "reduce_log_sum",
                                                  "reduce_log_sum_exp", "reduce_mean",      "reduce_min", "reduce_prod",
                                                  "reduce_sum",         "reduce_sum_square"};
  return kOps.contains(n.op().name);
}
bool is_binary(const Node& n) {
  static const std::set<std::string_view> kOps = {"add", "mul", "sub", "real_div", "maximum", "minimum"};
  return kOps.contains(n.op().name);
}

Perm inverse(const Perm& p) {
  Perm out(p.size());
  for (size_t i = 0; i < p.size(); ++i) out[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
  return out;
}

// A constant or a const op, whether its value is known or not.
bool is_const(const Value& v) {
  return v.kind() == ValueKind::kConstant || (v.def() != nullptr && v.def()->has(Trait::kConstant));
}
bool is_transposable(const Value& v) { return v.is_constant() && !v.constant()->is_promise(); }

class Transposes {
 public:
  Transposes(Graph& g, PassContext& context) : g_(g), context_(context), carried_(context.model, kPlain) {}

  bool run() {
    for (const Node& n : g_.nodes()) {
      if (!n.bodies().empty()) return false;
    }
    for (Node& n : g_.nodes()) visit(n);
    visit_results();
    decide();
    if (std::none_of(removed_.begin(), removed_.end(), [](bool b) { return b; })) return false;
    apply();
    return true;
  }

 private:
  // The pending transposes of a value: those of one set, all by the same permutation.
  struct Lazy {
    uint32_t set = 0;
    std::shared_ptr<const Perm> perm;
  };
  // An operand for which a transpose would be made. op is null for results of the block.
  struct Edge {
    Node* op = nullptr;
    size_t slot = 0;
    Value* value = nullptr;
    uint32_t lazy = 0;
  };
  struct Moved {
    Node* node = nullptr;
    uint32_t lazy = 0;
    bool has_axes = false;
  };
  struct Set {
    size_t starts = 0, cancels = 0, ends = 0;
    bool in_place = true;  // every transpose is right before the only op that needs it
  };

  // --- sets of transposes

  uint32_t root(uint32_t s) {
    while (parent_[s] != s) s = parent_[s] = parent_[parent_[s]];
    return s;
  }
  void join(uint32_t a, uint32_t b) {
    a = root(a), b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  bool is_removed(uint32_t lazy) { return removed_[root(lazies_[lazy].set)]; }
  const Perm& perm(uint32_t lazy) const { return *lazies_[lazy].perm; }

  // --- how each op passes on the transposes of its operands

  void visit(Node& n) {
    if (n.unchecked() || !n.op().known) return end(n);
    if (n.is("transpose")) return visit_transpose(n);
    if (is_unary(n)) {
      Value* x = operand(n, context_, "x");
      const uint32_t lazy = x != nullptr ? carried_[*x] : kPlain;
      if (lazy == kPlain || !is_elementwise(n, lazy)) return end(n);
      carried_[*n.result()] = lazy;
      moved_.push_back({&n, lazy});
      return;
    }
    const uint32_t lazy = common(n);
    if (lazy == kPlain || !can_pass(n, lazy)) return end(n);
    for (const Use& u : n.operands()) {
      if (u.value != nullptr && carried_[*u.value] != kPlain) join(lazies_[carried_[*u.value]].set, lazies_[lazy].set);
    }
    for (Value& v : n.results()) carried_[v] = lazy;
    moved_.push_back({&n, lazy, true});
  }

  // Whether no operand but x has axes.
  bool is_elementwise(Node& n, uint32_t lazy) {
    if (n.is("pow")) {
      const Value* y = operand(n, context_, "y");
      return y != nullptr && y->ranked() && y->type()->rank() == 0;
    }
    if (n.is("softplus_parametric")) return perm(lazy).size() > 1 && perm(lazy)[1] == 1;
    return true;
  }

  // The set of transposes that the operands carry, if all are by the same permutation.
  uint32_t common(Node& n) {
    uint32_t found = kPlain;
    for (const Use& u : n.operands()) {
      const uint32_t lazy = u.value != nullptr ? carried_[*u.value] : kPlain;
      if (lazy == kPlain) continue;
      if (found != kPlain && perm(found) != perm(lazy)) return kPlain;
      found = lazy;
    }
    return found;
  }

  void visit_transpose(Node& n) {
    const Transpose transpose(n, context_.facts);
    Value* x = transpose.x();
    const auto p = transpose.perm();
    if (x == nullptr || !p) return end(n);
    const uint32_t lazy = carried_[*x];
    if (lazy == kPlain) {
      if (is_graph_result(*n.result())) return;
      const auto set = static_cast<uint32_t>(parent_.size());
      parent_.push_back(set);
      starts_.push_back(&n);
      lazies_.push_back({set, std::make_shared<const Perm>(*p)});
      carried_[*n.result()] = static_cast<uint32_t>(lazies_.size() - 1);
    } else if (*p == inverse(perm(lazy))) {
      cancels_.push_back({&n, lazy});
    } else {
      end(n);
    }
  }

  void end(Node& n) {
    uint32_t first = kPlain;
    for (Use& u : n.operands()) {
      const uint32_t lazy = u.value != nullptr ? carried_[*u.value] : kPlain;
      if (lazy == kPlain) continue;
      if (first == kPlain) {
        first = lazy;
        ends_.push_back(lazy);
      }
      join(lazies_[lazy].set, lazies_[first].set);
      edges_.push_back({&n, n.operand_index(u), u.value, lazy});
    }
  }

  void visit_results() {
    std::unordered_set<const Value*> seen;
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      Value* v = g_.output(i);
      const uint32_t lazy = carried_[*v];
      if (lazy == kPlain) continue;
      if (seen.insert(v).second) ends_.push_back(lazy);
      edges_.push_back({nullptr, i, v, lazy});
    }
  }

  // --- ops with axes

  bool can_pass(Node& n, uint32_t lazy) {
    const OpReader read(n, context_.facts);
    if (n.is("concat")) {
      for (const Value* v : read.list_in("values")) {
        if (is_const(*v) ? !is_transposable(*v) || v->constant()->rank() != perm(lazy).size() : carried_[*v] == kPlain)
          return false;
      }
      return axis_of(n).has_value();
    }
    if (n.is("split")) return carried_[*n.input(0)] != kPlain && axis_of(n).has_value();
    if (n.is("pad")) return new_pad(n, perm(lazy)).has_value();
    if (is_reduction(n))
      return is_constant(read, "axes") && read.flag_in("keep_dims") && read.axes_in("axes", perm(lazy).size());
    return is_binary(n) && can_pass_binary(n, lazy);
  }

  // A parameter that is known but computed stays.
  static bool is_constant(const OpReader& read, std::string_view slot) {
    const Value* given = read.value_in(slot);
    return given != nullptr && given->is_constant();
  }

  std::optional<size_t> axis_of(Node& n) {
    if (!is_constant(OpReader(n, context_.facts), "axis")) return std::nullopt;
    return n.is("concat") ? Concat(n, context_.facts).axis() : Split(n, context_.facts).axis();
  }

  // Pairs belong to the last axes. Modes other than constant pad only the last two.
  std::optional<std::vector<int64_t>> new_pad(Node& n, const Perm& p) {
    const Pad read(n, context_.facts);
    auto pad = read.pad();
    if (!pad || !is_constant(read, "pad") || pad->size() > 2 * p.size()) return std::nullopt;
    const size_t missing = 2 * p.size() - pad->size();
    pad->insert(pad->begin(), missing, 0);
    std::vector<int64_t> permuted(pad->size(), 0);
    for (size_t i = 0; i < p.size(); ++i) {
      const auto to = static_cast<size_t>(p[i]);
      permuted[2 * to] = (*pad)[2 * i];
      permuted[2 * to + 1] = (*pad)[2 * i + 1];
    }
    const auto zero_before = [&](size_t end) {
      return std::all_of(permuted.begin(), permuted.begin() + static_cast<std::ptrdiff_t>(end),
                         [](int64_t v) { return v == 0; });
    };
    if (!zero_before(missing)) return std::nullopt;
    permuted.erase(permuted.begin(), permuted.begin() + static_cast<std::ptrdiff_t>(missing));
    if (read.mode() != "constant" && !zero_before(std::max<size_t>(permuted.size(), 4) - 4)) return std::nullopt;
    return permuted;
  }

  // One of x and y carries a transpose. The other carries the same, is a constant, or has few enough axes
  // longer than one.
  bool can_pass_binary(Node& n, uint32_t lazy) {
    const Value *x = n.input(0), *y = n.input(1);
    if (carried_[*x] != kPlain && carried_[*y] != kPlain) return true;
    const Value& other = carried_[*x] != kPlain ? *y : *x;
    const Perm& p = perm(lazy);
    if (!other.ranked() || !other.type()->is_static() || other.type()->rank() > p.size()) return false;
    if (other.type()->rank() == 0) return true;
    if (is_const(other)) return is_transposable(other);
    const std::vector<int64_t> shape = full_shape(other, p.size());
    if (std::ranges::count(shape, 1) + 1 >= static_cast<int64_t>(shape.size())) return true;
    const Perm back = inverse(p);
    for (size_t i = 0; i < back.size(); ++i) {
      if (back[i] != static_cast<int64_t>(i) && shape[static_cast<size_t>(back[i])] != 1) return false;
    }
    return true;
  }

  static std::vector<int64_t> full_shape(const Value& v, size_t rank) {
    std::vector<int64_t> shape(rank - v.type()->rank(), 1);
    for (Dim d : v.type()->dims()) shape.push_back(d.value());
    return shape;
  }

  // --- which sets are removed

  void decide() {
    std::vector<Set> sets(parent_.size());
    for (size_t i = 0; i < starts_.size(); ++i) ++sets[root(static_cast<uint32_t>(i))].starts;
    for (const Moved& c : cancels_) ++sets[root(lazies_[c.lazy].set)].cancels;
    for (uint32_t lazy : ends_) ++sets[root(lazies_[lazy].set)].ends;
    // Materializing a transpose where it already is would change nothing.
    std::unordered_map<const Node*, const Node*> before;  // the op before each op, skipping its own transposes
    for (auto e = edges_.rbegin(); e != edges_.rend(); ++e) {
      const Node* start = e->value->def();
      bool there = e->op != nullptr && start != nullptr && start->is("transpose") && users_in_edges(*e);
      if (there) {
        auto [at, first] = before.try_emplace(e->op, e->op->prev());
        while (at->second != nullptr && at->second->has(Trait::kConstant)) at->second = at->second->prev();
        there = at->second == start;
        if (there) at->second = start->prev();
      }
      if (!there) sets[root(lazies_[e->lazy].set)].in_place = false;
    }
    removed_.assign(parent_.size(), false);
    for (size_t i = 0; i < sets.size(); ++i) {
      const Set& s = sets[i];
      if (s.ends >= s.starts + s.cancels) continue;
      removed_[i] = s.cancels > 0 || !s.in_place;
    }
  }

  // Whether this op is the transpose's only user, with one use.
  static bool users_in_edges(const Edge& e) { return e.value->has_one_use(); }

  // --- changing the graph

  void apply() {
    for (const Moved& m : moved_) {
      if (!is_removed(m.lazy)) continue;
      for (Value& v : m.node->results()) v.set_type(untransposed(v.type(), perm(m.lazy)));
    }
    for (const Moved& m : moved_) {
      if (m.has_axes && is_removed(m.lazy)) change_axes(*m.node, perm(m.lazy));
    }
    for (size_t i = 0; i < edges_.size(); ++i) {
      if (is_removed(edges_[i].lazy)) make(edges_[i]);
    }
    for (size_t i = 0; i < starts_.size(); ++i) {
      if (removed_[root(static_cast<uint32_t>(i))]) remove(*starts_[i]);
    }
    for (const Moved& c : cancels_) {
      if (!is_removed(c.lazy)) continue;
      Value& v = *c.node->input(0);
      // A result keeps its name, and the op that computes it keeps the op's name.
      if (is_graph_result(*c.node->result()) && v.def() != nullptr && !is_graph_result(v)) {
        v.set_name(c.node->result()->name());
        v.def()->set_name(c.node->name());
      }
      remove(*c.node);
    }
  }

  const Type* untransposed(const Type* t, const Perm& p) const {
    if (t == nullptr || !t->ranked()) return t;
    std::vector<Dim> dims(p.size());
    for (size_t i = 0; i < p.size(); ++i) dims[static_cast<size_t>(p[i])] = t->dim(i);
    return g_.model().types().with_dims(t, dims);
  }

  void remove(Node& transpose) {
    g_.replace_uses(*transpose.result(), *transpose.input(0));
    g_.erase(transpose);
    context_.log.count("transposes removed");
  }

  Rewriter before(Node& n) {
    Rewriter b(g_, context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    return b;
  }

  static void set_param(Node& n, std::string_view slot, Value* v) {
    const auto slots = n.op().inputs;
    n.set_input(static_cast<size_t>(std::ranges::find(slots, slot, &Slot::name) - slots.begin()), v);
  }

  Value* untransposed_constant(Rewriter& b, const Value& v, const Perm& p) const {
    return b.constant(transposed(v.constant()->reshaped(full_shape(v, p.size())), inverse(p)));
  }

  void change_axes(Node& n, const Perm& p) {
    Rewriter b = before(n);
    if (n.is("concat") || n.is("split")) {
      const int64_t axis = p[*axis_of(n)];
      if (n.is("concat")) {
        for (size_t i = 0; i < n.num_inputs(); ++i) {
          const bool is_element = slot_of(n.op(), i, n.num_inputs())->name == "values";
          if (is_element && is_const(*n.input(i))) n.set_input(i, untransposed_constant(b, *n.input(i), p));
        }
      }
      set_param(n, "axis", b.i32(static_cast<int32_t>(axis)));
    } else if (n.is("pad")) {
      set_param(n, "pad", b.i32s(*new_pad(n, p)));
    } else if (is_reduction(n)) {
      auto axes = OpReader(n, context_.facts).axes_in("axes", p.size());
      for (int64_t& a : *axes) a = p[static_cast<size_t>(a)];
      set_param(n, "axes", b.i32s(*axes));
    } else {
      change_operand(n, p, b);
    }
  }

  void change_operand(Node& n, const Perm& p, Rewriter& b) {
    const bool x_carries = carried_[*n.input(0)] != kPlain;
    if (x_carries && carried_[*n.input(1)] != kPlain) return;
    const size_t slot = x_carries ? 1 : 0;
    Value& other = *n.input(slot);
    if (other.type()->rank() == 0) return;
    if (is_const(other)) {
      n.set_input(slot, untransposed_constant(b, other, p));
      return;
    }
    const std::vector<int64_t> shape = full_shape(other, p.size());
    std::vector<int64_t> permuted;
    for (int64_t a : inverse(p)) permuted.push_back(shape[static_cast<size_t>(a)]);
    n.set_input(slot, b.reshape(&other, permuted));
  }

  // Materializes the transpose that an op or a result of the block needs.
  void make(const Edge& e) {
    Value*& made = made_[{e.op, e.value}];
    Node* def = e.value->def();
    if (made == nullptr) {
      Rewriter b(g_, context_);
      b.set_insertion_point(e.op);
      b.set_provenance(e.op != nullptr ? e.op->provenance() : def->provenance());
      // A transpose that starts here: take its operand.
      Value* x = def->is("transpose") ? def->input(0) : e.value;
      made = b.transpose(x, {.perm = perm(e.lazy)});
      context_.log.count("transposes made");
      if (e.op == nullptr) {
        made->set_name(g_.outputs()[e.slot].name);
        made->def()->set_name(made->name());
        const Name inner = g_.model().name(fmt::format("_before_transpose_op_{}", made->name().view()));
        x->set_name(inner);
        def->set_name(inner);
      }
    }
    if (e.op == nullptr) {
      g_.set_output(e.slot, *made);
    } else {
      e.op->set_input(e.slot, made);
    }
  }

  struct PairHash {
    size_t operator()(const std::pair<const Node*, const Value*>& p) const {
      return std::hash<const void*>()(p.first) * 0x9E3779B97F4A7C15u + std::hash<const void*>()(p.second);
    }
  };

  Graph& g_;
  PassContext& context_;
  ValueMap<uint32_t> carried_;  // an index of lazies_; kPlain: nothing
  std::vector<Lazy> lazies_{Lazy{}};
  std::vector<Node*> starts_;     // of each set
  std::vector<uint32_t> parent_;  // of each set, the one that it was merged into
  std::vector<Moved> moved_, cancels_;
  std::vector<Edge> edges_;
  std::vector<uint32_t> ends_;  // for each op at which a transpose ends, what it carries
  std::vector<bool> removed_;
  std::unordered_map<std::pair<const Node*, const Value*>, Value*, PairHash> made_;
};

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

// The ops of a graph and their operands; transposes are highlighted.
std::string drawing(const Graph& g) {
  std::string out = "digraph {\n  node [shape=box]\n";
  std::unordered_map<const Value*, std::string> makers;
  for (const Port& p : g.inputs()) {
    const std::string id = fmt::format("i{}", makers.size());
    makers.emplace(p.value, id);
    out += fmt::format("  {} [shape=oval, label={}]\n", id, in_quotes(p.name.view()));
  }
  const auto edge = [&](const Value* v, std::string_view to) {
    if (const auto from = makers.find(v); from != makers.end()) out += fmt::format("  {} -> {}\n", from->second, to);
  };
  size_t count = 0;
  for (const Node& n : g.nodes()) {
    if (n.has(Trait::kConstant)) continue;
    const std::string id = fmt::format("n{}", count++);
    out += fmt::format("  {} [label={}{}]\n", id, in_quotes(fmt::format("{}\n{}", n.op().name, n.result()->name().view())),
                       n.is("transpose") ? ", style=filled, fillcolor=gold" : "");
    for (const Use& u : n.operands()) edge(u.value, id);
    for (const Value& v : n.results()) makers.emplace(&v, id);
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    out += fmt::format("  o{} [shape=oval, label={}]\n", i, in_quotes(g.outputs()[i].name.view()));
    edge(g.output(i), fmt::format("o{}", i));
  }
  return out + "}\n";
}

void draw(const Graph& g, const std::string& folder, std::string_view when) {
  const std::string name = g.function() != nullptr ? g.function()->name : "block";
  const std::filesystem::path path = std::filesystem::path(folder) / fmt::format("{}_{}.dot", name, when);
  try {
    AtomicFile file(path);
    file.append(drawing(g));
    file.commit();
  } catch (const Error& e) {
    throw e.with_note("help: debug must be an existing folder");
  }
}

}  // namespace

Pass reduce_transposes() {
  return Pass::on_graph(Numerics::kRounds, needs({"transpose"}),
                        [](Graph& top, PassContext& context) {
                          const std::string folder = context.options().text("debug", {});
                          if (!folder.empty()) draw(top, folder, "before");
                          const bool changed = Transposes(top, context).run();
                          if (!folder.empty()) draw(top, folder, "after");
                          return changed;
                        })
      .option("debug", "a folder for drawings of each function before and after");
}

}  // namespace sardonyx::mil
