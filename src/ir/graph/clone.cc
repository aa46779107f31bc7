// Copies graphs and models. Graphs may nest arbitrarily deep, so nested ones wait in a list instead of
// recursing.
#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/file_record.h"
#include "ir/graph/model_impl.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

class Cloner {
 public:
  Cloner(const Model& from, Model& to, const std::unordered_map<const Value*, Value*>& outer)
      : from_(from), to_(to), record_(from.file_record()), outer_(outer), same_model_(&from == &to) {}

  void run(const Graph& from, Graph& to) {
    // A few values of a large model go into a hash table, a large share of them into a dense one.
    if (from.num_nodes() * 4 > from_.value_id_limit()) use_dense_table();
    todo_.push_back({&from, &to});
    top_ = &from;
    while (!todo_.empty()) {
      auto [source, target] = todo_.back();
      todo_.pop_back();
      graph(*source, *target);
    }
  }

  void use_dense_table() {
    if (dense_) return;
    dense_ = true;
    by_id_.resize(from_.value_id_limit(), nullptr);
    for (auto& [old, made] : by_value_) by_id_[old->id()] = made;
  }

  const Type* type(const Type* t) { return to_.types().import(t, from_.types()); }

  Attr attribute(const Attr& a) {
    return std::visit(
        [&](const auto& x) -> Attr {
          using T = std::remove_cvref_t<decltype(x)>;
          if constexpr (std::same_as<T, Dim>) {
            return to_.dims().import(x, from_.dims());
          } else if constexpr (std::same_as<T, Attr::DimList>) {
            T copy = x;
            for (Dim& d : copy) d = to_.dims().import(d, from_.dims());
            return copy;
          } else if constexpr (std::same_as<T, const Type*>) {
            return type(x);
          } else if constexpr (std::same_as<T, Attr::TypeList>) {
            T copy = x;
            for (const Type*& t : copy) t = type(t);
            return copy;
          } else if constexpr (std::same_as<T, AttrList>) {
            T copy;
            for (const Attr& e : x) copy.push_back(attribute(e));
            return copy;
          } else if constexpr (std::same_as<T, AttrDict>) {
            T copy;
            for (const auto& [key, e] : x) copy.emplace_back(key, attribute(e));
            return copy;
          } else if constexpr (std::same_as<T, std::monostate>) {
            return Attr();
          } else {
            return x;
          }
        },
        a.value());
  }

  const Attrs* attrs(const Attrs* a) {
    if (same_model_ || a == nullptr) return a;
    if (a->items().empty() && a->wire().empty()) return to_.empty_attrs();
    const Attrs*& made = attr_sets_[a];
    if (made != nullptr) return made;
    auto items = [&] {
      AttrInit copy(a->items().begin(), a->items().end());
      for (NamedAttr& item : copy) item.value = attribute(item.value);
      return copy;
    };
    return made = a->wire().empty() ? to_.attrs(items()) : to_.attrs_from_wire(a->wire(), items);
  }

 private:
  Value*& slot(const Value& v) { return dense_ ? by_id_[v.id()] : by_value_[&v]; }

  Name name(Name n) { return same_model_ ? n : to_.name(n.view()); }

  const Op& op(const Op& o) {
    if (same_model_ || o.known) return o;  // NOLINT(bugprone-return-const-ref-from-parameter): ops outlive models
    if (o.inputs.empty()) return to_.opaque_op(o.domain, o.name, o.since_version);
    std::vector<std::string_view> names;
    for (const Slot& s : o.inputs) names.push_back(s.name);
    return to_.opaque_op(o.name, o.since_version, names);
  }

  uint32_t provenance(uint32_t p) {
    if (same_model_ || p == 0) return p;
    auto [at, fresh] = provenance_.try_emplace(p, 0);
    if (fresh) at->second = to_.add_provenance(from_.provenance(p));
    return at->second;
  }

  // The copy of a value; null if it is unknown or copied later.
  Value* known(const Value& v) {
    if (dense_) return v.id() < by_id_.size() ? by_id_[v.id()] : nullptr;  // value_info may refer to an undone value
    auto it = by_value_.find(&v);
    return it == by_value_.end() ? nullptr : it->second;
  }

  Value& captured(const Value& v, const Graph& g) {
    if (Value* mapped = known(v)) return *mapped;
    if (auto it = outer_.find(&v); it != outer_.end()) return *it->second;
    if (same_model_) return const_cast<Value&>(v);
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot copy graph '{}' to another model: it reads '{}', which is defined outside of it",
                            g.name().view(), v.name().view()),
                {"help: map the value to one of the other model"});
  }

  void remember(const Value& old, Value& made) {
    slot(old) = &made;
    made.set_name(name(old.name()));
    made.set_type(type(old.type()));
  }

  void graph(const Graph& g, Graph& t) {
    t.doc = g.doc;
    t.metadata = g.metadata;
    auto fill_port = [&](const Port& from, Port& to) {
      to.doc = from.doc;
      to.metadata = from.metadata;
      to.entry = entry(from.entry);
      to.default_value = from.default_value;
    };
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Port& p = g.inputs()[i];
      remember(*p.value, *t.add_input(p.name, type(p.declared)));
      fill_port(p, t.input_port(i));
    }
    for (Value* c : g.constants()) remember(*c, *t.add_constant(c->constant()));

    std::vector<std::pair<Use*, const Value*>> later;  // operands defined after their user, or outside
    std::vector<Value*> inputs;
    for (const Node& n : g.nodes()) {
      inputs.clear();
      for (const Use& u : n.operands()) inputs.push_back(u.value ? known(*u.value) : nullptr);
      Node& made = to_.new_node(op(n.op()), inputs, n.num_results(), attrs(&n.attrs()));
      for (size_t i = 0; i < n.num_inputs(); ++i) {
        const Value* v = n.input(i);
        if (v != nullptr && inputs[i] == nullptr) later.emplace_back(&made.operands()[i], v);
      }
      made.set_name(name(n.name()));
      made.set_provenance(provenance(n.provenance()));
      made.set_unchecked(n.unchecked());
      for (size_t i = 0; i < n.num_results(); ++i) remember(*n.result(i), *made.result(i));
      if (const NodeExtra* extra = n.extra()) {
        NodeExtra& copy = to_.edit_extra(made);
        copy.doc = extra->doc;
        copy.overload = extra->overload;
        copy.metadata = extra->metadata;
        copy.payload = extra->payload;
        copy.payload_attrs = extra->payload_attrs == &n.attrs() ? &made.attrs() : attrs(extra->payload_attrs);
        for (const Body& body : extra->bodies) {
          Graph& inner = to_.new_graph(body.graph->name());
          made.add_body(body.name, inner);
          copy.bodies.back().in_list = body.in_list;
          todo_.push_back({body.graph, &inner});
        }
      }
      if (!record_.nodes.empty()) keep(record_.nodes, n, made);
      t.append(made);
    }
    for (auto& [use, v] : later) {
      Node& owner = *use->owner;
      owner.set_input(owner.operand_index(*use), &captured(*v, g));
    }
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      const Port& p = g.outputs()[i];
      SX_CHECK(p.use->value != nullptr, "a graph result uses no value");
      t.add_output(captured(*p.use->value, g), p.name, type(p.declared));
      fill_port(p, t.output_port(i));
    }
    for (const auto& [v, info] : g.value_info) {
      Value* mapped = known(*v);
      if (mapped == nullptr) continue;
      ValueInfo& copy = t.value_info[mapped];
      copy = {type(info.declared), info.notes, entry(info.entry)};
    }
    graph_record(g, t);
  }

  // --- file records (ir/graph/file_record.h)

  uint32_t entry(uint32_t number) {
    if (same_model_ || number == 0) return number;
    const FileRecord::Entry& e = record_.entry(number);
    return to_.edit_file_record().add_entry(e.wire, type(e.type));
  }

  void keep(const std::unordered_map<const Node*, std::string>& fields, const Node& n, const Node& made) {
    if (const auto at = fields.find(&n); at != fields.end()) to_.edit_file_record().nodes[&made] = at->second;
  }

  void graph_record(const Graph& g, const Graph& t) {
    if (const auto at = record_.graphs.find(&g); at != record_.graphs.end()) {
      FileRecord::OfGraph copy = at->second;
      if (&g == top_) copy.holder_fields.clear();  // describes the holder of this graph, which is not copied
      std::erase_if(copy.listed_inputs, [](const auto& l) { return !l.constant->is_constant(); });  // erased by now
      for (auto& l : copy.listed_inputs) l.constant = known(*l.constant);
      to_.edit_file_record().graphs[&t] = std::move(copy);
    }
    const auto constant = [&](const Value& v) {
      const Value& made = *known(v);
      if (const auto at = record_.tensors.find(&v); at != record_.tensors.end())
        to_.edit_file_record().tensors[&made] = at->second;
      if (record_.literals.contains(&v)) to_.edit_file_record().literals.insert(&made);
      if (const auto at = record_.sparse.find(v.constant().get()); at != record_.sparse.end())
        to_.edit_file_record().sparse.insert(*at);
    };
    if (record_.tensors.empty() && record_.literals.empty() && record_.sparse.empty()) return;
    for (const Port& p : g.inputs()) constant(*p.value);
    for (const Value* c : g.constants()) constant(*c);
  }

  const Model& from_;
  Model& to_;
  const FileRecord& record_;
  const std::unordered_map<const Value*, Value*>& outer_;
  bool same_model_;
  const Graph* top_ = nullptr;
  bool dense_ = false;
  std::vector<Value*> by_id_;
  std::unordered_map<const Value*, Value*> by_value_;
  std::unordered_map<const Attrs*, const Attrs*> attr_sets_;
  std::unordered_map<uint32_t, uint32_t> provenance_;
  std::vector<std::pair<const Graph*, Graph*>> todo_;
};

}  // namespace

void clone_graph(const Graph& from, Graph& to, const std::unordered_map<const Value*, Value*>& outer) {
  SX_CHECK(to.inputs().empty() && to.outputs().empty() && to.num_nodes() == 0 && to.constants().empty(),
           "a graph is copied into an empty one");
  to.model().keep_alive_like(from.model());
  Cloner(from.model(), to.model(), outer).run(from, to);
}

std::unique_ptr<Model> clone_model(const Model& from) {
  auto made = std::make_unique<Model>(from.dialect());
  Model& to = *made;
  to.keep_alive_like(from);
  to.ir_version = from.ir_version;
  to.producer_name = from.producer_name;
  to.producer_version = from.producer_version;
  to.domain = from.domain;
  to.doc = from.doc;
  to.model_version = from.model_version;
  to.metadata = from.metadata;
  to.opset_imports = from.opset_imports;
  to.specification_version = from.specification_version;
  to.edit_file_record().model = from.file_record().model;
  const std::unordered_map<const Value*, Value*> none;
  Cloner cloner(from, to, none);
  cloner.use_dense_table();
  for (const auto& f : from.functions()) {
    Function& copy = to.add_function(f->name, to.new_graph(f->graph().name()));
    copy.domain = f->domain;
    copy.overload = f->overload;
    copy.doc = f->doc;
    copy.metadata = f->metadata;
    copy.attributes = f->attributes;
    copy.default_attributes = f->default_attributes;
    for (NamedAttr& a : copy.default_attributes) a.value = cloner.attribute(a.value);
    copy.opset_imports = f->opset_imports;
    copy.mil_opset = f->mil_opset;
    cloner.run(f->graph(), copy.graph());
    const std::string& fields = from.file_record().of(f->graph()).holder_fields;
    if (!fields.empty()) to.edit_file_record().graphs[&copy.graph()].holder_fields = fields;
  }
  return made;
}

}  // namespace sardonyx
