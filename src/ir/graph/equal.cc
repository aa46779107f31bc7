// Structural equality of graphs and models, up to names and up to the order of nodes that do not depend on
// each other.
//
// Values are paired from the results upwards: results pair, then the nodes that make them, then their
// operands. Nodes that no result depends on pair from last to first. Work waits in lists; nothing recurses.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "ir/graph/call.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

class Comparison {
 public:
  Comparison(const Model& a, const Model& b)
      : a_(a),
        b_(b),
        same_model_(&a == &b),
        value_of_(a.value_id_limit()),
        value_back_(b.value_id_limit()),
        node_of_(a.node_id_limit()),
        node_back_(b.node_id_limit()) {}

  bool graphs(const Graph& a, const Graph& b) {
    graph_of_[&a] = &b;
    graph_back_[&b] = &a;
    interface_ = true;
    std::vector<std::pair<const Graph*, const Graph*>> todo{{&a, &b}};
    graphs_ = &todo;
    while (!todo.empty()) {
      auto [x, y] = todo.back();
      todo.pop_back();
      if (!graph(*x, *y)) return false;
      interface_ = false;
    }
    return true;
  }

  bool types(const Type* x, const Type* y) {
    if (x == y) return true;
    if (x == nullptr || y == nullptr || x->kind() != y->kind() || x->dtype() != y->dtype() || x->ranked() != y->ranked() ||
        x->label() != y->label() || x->dims().size() != y->dims().size() || x->elements().size() != y->elements().size())
      return false;
    for (size_t i = 0; i < x->dims().size(); ++i)
      if (!dims(x->dims()[i], y->dims()[i])) return false;
    for (size_t i = 0; i < x->elements().size(); ++i)
      if (!types(x->elements()[i], y->elements()[i])) return false;
    return true;
  }

  bool attributes(const Attr& x, const Attr& y) {
    if (x.value().index() != y.value().index()) return false;
    return std::visit(
        [&](const auto& v) -> bool {
          using T = std::remove_cvref_t<decltype(v)>;
          const T& w = std::get<T>(y.value());
          auto all = [](const auto& p, const auto& q, auto&& same) {
            return std::equal(p.begin(), p.end(), q.begin(), q.end(), same);
          };
          if constexpr (std::same_as<T, Dim>) {
            return dims(v, w);
          } else if constexpr (std::same_as<T, Attr::DimList>) {
            return all(v, w, [&](Dim d, Dim e) { return dims(d, e); });
          } else if constexpr (std::same_as<T, const Type*>) {
            return types(v, w);
          } else if constexpr (std::same_as<T, Attr::TypeList>) {
            return all(v, w, [&](const Type* t, const Type* u) { return types(t, u); });
          } else if constexpr (std::same_as<T, TensorPtr>) {
            return tensors(v, w);
          } else if constexpr (std::same_as<T, Attr::Tensors>) {
            return all(v, w, tensors);
          } else if constexpr (std::same_as<T, AttrList>) {
            return all(v, w, [&](const Attr& p, const Attr& q) { return attributes(p, q); });
          } else if constexpr (std::same_as<T, AttrDict>) {
            return all(v, w,
                       [&](const auto& p, const auto& q) { return p.first == q.first && attributes(p.second, q.second); });
          } else {
            return x == y;
          }
        },
        x.value());
  }

  bool attribute_sets(const Attrs& x, const Attrs& y) {
    if (same_model_ && x.canonical() == y.canonical()) return true;
    return std::equal(x.items().begin(), x.items().end(), y.items().begin(), y.items().end(),
                      [&](const NamedAttr& p, const NamedAttr& q) { return p.name == q.name && attributes(p.value, q.value); });
  }

  bool differ(std::string what) {
    if (why_.empty()) why_ = std::move(what);
    return false;
  }
  const std::string& why() const { return why_; }

 private:
  static bool tensors(const TensorPtr& x, const TensorPtr& y) {
    return x == y || (x != nullptr && y != nullptr && x->equals(*y));
  }

  // An unknown dim means "some number" on either side.
  bool dims(Dim x, Dim y) const {
    if (x.is_unknown() || y.is_unknown()) return x.is_unknown() && y.is_unknown();
    if (x.is_int() || y.is_int() || same_model_) return x == y;
    return a_.dims().to_string(x) == b_.dims().to_string(y);
  }

  static std::string show(const Value& v) {
    if (!v.name().empty()) return fmt::format("'{}'", v.name().view());
    if (v.def() != nullptr) return fmt::format("result {} of {}", v.index(), v.def()->op().name);
    return v.kind() == ValueKind::kInput ? fmt::format("input {}", v.index()) : "a constant";
  }
  static std::string show(const Node& n) {
    if (n.name().empty())
      return n.num_results() > 0 ? fmt::format("{} ({})", n.op().name, show(*n.result(0))) : std::string(n.op().name);
    return fmt::format("{} '{}'", n.op().name, n.name().view());
  }

  bool pair_values(const Value* x, const Value* y) {
    if (x == nullptr || y == nullptr) return x == y || differ("one side has an operand where the other has none");
    if (const Value* known = value_of_[x->id()]; known != nullptr || value_back_[y->id()] != nullptr) {
      return (known == y && value_back_[y->id()] == x) ||
             differ(fmt::format("{} on one side is read where the other reads {}, which pairs with {}", show(*x), show(*y),
                                known ? show(*known) : "another value"));
    }
    if (x->kind() != y->kind()) return differ(fmt::format("{} and {} are not made the same way", show(*x), show(*y)));
    if (x->kind() == ValueKind::kConstant) {  // by content: the two sides may share constants differently
      return tensors(x->constant(), y->constant()) || differ(fmt::format("constants {} and {} differ", show(*x), show(*y)));
    }
    // A value of an enclosing graph pairs only with itself.
    const Graph *gx = x->graph(), *gy = y->graph();
    auto at = graph_of_.find(gx);
    bool outside = at == graph_of_.end() && !graph_back_.contains(gy);
    if (outside ? x != y : at == graph_of_.end() || at->second != gy)
      return differ(fmt::format("{} and {} are defined in different graphs", show(*x), show(*y)));
    if (!outside && x->index() != y->index())
      return differ(fmt::format("{} is read where the other side reads {}", show(*x), show(*y)));
    value_of_[x->id()] = y;
    value_back_[y->id()] = x;
    if (!outside && x->kind() == ValueKind::kResult) return pair_nodes(*x->def(), *y->def());
    return true;
  }

  bool pair_nodes(const Node& x, const Node& y) {
    const Node *known = node_of_[x.id()], *back = node_back_[y.id()];
    if (known != nullptr || back != nullptr) {
      return (known == &y && back == &x) || differ(fmt::format("{} and {} pair with other nodes", show(x), show(y)));
    }
    node_of_[x.id()] = &y;
    node_back_[y.id()] = &x;
    nodes_.emplace_back(&x, &y);
    return true;
  }

  bool node(const Node& x, const Node& y) {
    const Op &p = x.op(), &q = y.op();
    if (&p != &q && (p.domain != q.domain || p.name != q.name || p.since_version != q.since_version))
      return differ(fmt::format("{} (version {}) on one side, {} (version {}) on the other", show(x), p.since_version, show(y),
                                q.since_version));
    if (&p != &q && !std::equal(p.inputs.begin(), p.inputs.end(), q.inputs.begin(), q.inputs.end(),
                                [](const Slot& a, const Slot& b) { return a.name == b.name; }))
      return differ(fmt::format("{} and {} name their operands otherwise", show(x), show(y)));
    if (x.num_inputs() != y.num_inputs() || x.num_results() != y.num_results())
      return differ(fmt::format("{} has {} operands and {} results, {} has {} and {}", show(x), x.num_inputs(), x.num_results(),
                                show(y), y.num_inputs(), y.num_results()));
    std::string_view overload_x = overload_of(x);
    std::string_view overload_y = overload_of(y);
    if (overload_x != overload_y) return differ(fmt::format("{} and {} call different overloads", show(x), show(y)));
    const TensorPtr none;
    const TensorPtr& payload_x = x.extra() ? x.extra()->payload : none;
    const TensorPtr& payload_y = y.extra() ? y.extra()->payload : none;
    if (payload_x != nullptr || payload_y != nullptr) {
      if (!tensors(payload_x, payload_y)) return differ(fmt::format("constants {} and {} differ", show(x), show(y)));
    } else if (!attribute_sets(x.attrs(), y.attrs())) {
      return differ(fmt::format("the attributes of {} and {} differ: {} and {}", show(x), show(y), list(x, a_), list(y, b_)));
    }
    if (x.bodies().size() != y.bodies().size())
      return differ(
          fmt::format("{} and {} have {} and {} nested graphs", show(x), show(y), x.bodies().size(), y.bodies().size()));
    for (size_t i = 0; i < x.num_results(); ++i)
      if (!pair_values(x.result(i), y.result(i))) return false;
    for (size_t i = 0; i < x.num_inputs(); ++i)
      if (!pair_values(x.input(i), y.input(i))) return false;
    // Bodies with the same name are a list; bodies with different names are a set.
    std::vector<const Body*> order_x, order_y;
    for (const Body& body : x.bodies()) order_x.push_back(&body);
    for (const Body& body : y.bodies()) order_y.push_back(&body);
    auto by_name = [](const Body* l, const Body* r) { return l->name.view() < r->name.view(); };
    std::stable_sort(order_x.begin(), order_x.end(), by_name);
    std::stable_sort(order_y.begin(), order_y.end(), by_name);
    for (size_t i = 0; i < order_x.size(); ++i) {
      if (order_x[i]->name.view() != order_y[i]->name.view())
        return differ(fmt::format("{} and {} have different nested graphs: '{}' and '{}'", show(x), show(y),
                                  order_x[i]->name.view(), order_y[i]->name.view()));
      graph_of_[order_x[i]->graph] = order_y[i]->graph;
      graph_back_[order_y[i]->graph] = order_x[i]->graph;
      graphs_->emplace_back(order_x[i]->graph, order_y[i]->graph);
    }
    return true;
  }

  static std::string list(const Node& n, const Model& m) {
    std::string text = "<";
    for (const NamedAttr& a : n.attrs().items()) {
      if (text.size() > 1) text += ", ";
      text += a.name + "=" + to_string(a.value, m.types());
    }
    return text + ">";
  }

  bool drain() {
    while (!nodes_.empty()) {
      auto [x, y] = nodes_.back();
      nodes_.pop_back();
      if (!node(*x, *y)) return false;
    }
    return true;
  }

  bool graph(const Graph& a, const Graph& b) {
    if (a.inputs().size() != b.inputs().size() || a.outputs().size() != b.outputs().size())
      return differ(fmt::format("graph '{}' has {} inputs and {} results, '{}' has {} and {}", a.name().view(),
                                a.inputs().size(), a.outputs().size(), b.name().view(), b.inputs().size(), b.outputs().size()));
    auto ports = [&](const Port& p, const Port& q, std::string_view what) {
      if (interface_ && !(p.name == q.name))
        return differ(fmt::format("{} '{}' is called '{}' on the other side", what, p.name.view(), q.name.view()));
      bool same = p.declared == nullptr || q.declared == nullptr || types(p.declared, q.declared);
      return same || differ(fmt::format("{} '{}' is declared {}, and {} on the other side", what, p.name.view(),
                                        a_.types().to_string(p.declared), b_.types().to_string(q.declared)));
    };
    for (size_t i = 0; i < a.inputs().size(); ++i) {
      if (!ports(a.inputs()[i], b.inputs()[i], "input")) return false;
      if (!pair_values(a.input(i), b.input(i))) return false;
    }
    for (size_t i = 0; i < a.outputs().size(); ++i) {
      if (!ports(a.outputs()[i], b.outputs()[i], "result")) return false;
      if (!pair_values(a.output(i), b.output(i)) || !drain())
        return note(fmt::format("in what result '{}' is made of", a.outputs()[i].name.view()));
    }
    // Nodes that no result depends on: from the last backwards, so that users come before definitions.
    const Node *x = a.last(), *y = b.last();
    for (;;) {
      while (x != nullptr && node_of_[x->id()] != nullptr) x = x->prev();
      while (y != nullptr && node_back_[y->id()] != nullptr) y = y->prev();
      if (x == nullptr || y == nullptr) break;
      if (!pair_nodes(*x, *y) || !drain()) return false;
    }
    if (x != nullptr || y != nullptr)
      return differ(
          fmt::format("{} has no partner on the {} side", show(x != nullptr ? *x : *y), x != nullptr ? "second" : "first"));
    auto unread = [](const Graph& g) {
      std::vector<const Value*> found;
      for (const Value* c : g.constants())
        if (!c->has_uses()) found.push_back(c);
      return found;
    };
    auto unread_a = unread(a), unread_b = unread(b);
    if (!std::equal(unread_a.begin(), unread_a.end(), unread_b.begin(), unread_b.end(),
                    [](const Value* v, const Value* w) { return tensors(v->constant(), w->constant()); }))
      return differ("constants that nobody reads differ");
    return true;
  }

  bool note(std::string text) {
    why_ += "\n  " + text;
    return false;
  }

  const Model &a_, &b_;
  bool same_model_;
  bool interface_ = true;
  std::vector<const Value*> value_of_, value_back_;
  std::vector<const Node*> node_of_, node_back_;
  std::unordered_map<const Graph*, const Graph*> graph_of_, graph_back_;
  std::vector<std::pair<const Node*, const Node*>> nodes_;
  std::vector<std::pair<const Graph*, const Graph*>>* graphs_ = nullptr;
  std::string why_;
};

bool differ(Comparison& c, std::string what, std::string* why) {
  c.differ(std::move(what));
  if (why != nullptr) *why = c.why();
  return false;
}

}  // namespace

bool equal_graphs(const Graph& a, const Graph& b, std::string* why) {
  Comparison c(a.model(), b.model());
  if (c.graphs(a, b)) return true;
  if (why != nullptr) *why = c.why();
  return false;
}

bool equal_models(const Model& a, const Model& b, std::string* why) {
  Comparison header(a, b);  // the models' own fields; functions follow below
  auto field = [&](const auto& x, const auto& y, std::string_view what) {
    return x == y || differ(header, fmt::format("the models' {} differs", what), why);
  };
  auto imports = [](std::vector<OpsetImport> list) {
    std::vector<std::pair<std::string, int64_t>> sorted;
    for (OpsetImport& i : list) sorted.emplace_back(i.domain == "ai.onnx" ? "" : i.domain, i.version);
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  };
  if (!field(a.dialect(), b.dialect(), "dialect") || !field(a.ir_version, b.ir_version, "ir_version") ||
      !field(imports(a.opset_imports), imports(b.opset_imports), "opset imports") ||
      !field(a.producer_name, b.producer_name, "producer") ||
      !field(a.producer_version, b.producer_version, "producer version") || !field(a.domain, b.domain, "domain") ||
      !field(a.model_version, b.model_version, "version") || !field(a.doc, b.doc, "doc string") ||
      !field(a.metadata, b.metadata, "metadata") || !field(a.functions().size(), b.functions().size(), "number of functions"))
    return false;
  for (size_t i = 0; i < a.functions().size(); ++i) {
    const Function& f = *a.functions()[i];
    const Function* g = i == 0 ? b.functions()[0].get() : b.find_function(f.domain, f.name, f.overload);
    std::string label = f.domain.empty() ? f.name : f.domain + "::" + f.name;
    if (g == nullptr) return differ(header, fmt::format("function '{}' is missing on one side", label), why);
    auto sorted = [](std::vector<std::string> v) {
      std::sort(v.begin(), v.end());
      return v;
    };
    bool same = sorted(f.attributes) == sorted(g->attributes) && imports(f.opset_imports) == imports(g->opset_imports) &&
                f.mil_opset == g->mil_opset && f.default_attributes.size() == g->default_attributes.size();
    for (const NamedAttr& d : f.default_attributes) {
      auto it = std::find_if(g->default_attributes.begin(), g->default_attributes.end(),
                             [&](const NamedAttr& e) { return e.name == d.name; });
      same = same && it != g->default_attributes.end() && header.attributes(d.value, it->value);
    }
    if (!same) return differ(header, fmt::format("the attributes or imports of function '{}' differ", label), why);
    if (!header.graphs(f.graph(), g->graph())) {
      if (why != nullptr) *why = header.why() + (i > 0 ? fmt::format("\n  in function '{}'", label) : "");
      return false;
    }
  }
  return true;
}

}  // namespace sardonyx
