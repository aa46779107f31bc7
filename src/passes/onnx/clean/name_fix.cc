// Gives every node and value a name that is unique within a graph and everything nested in it. Names of
// inputs and results stay, also those of bodies; other values make way for them. Among the others, the first
// in graph order keeps its name, and later ones become name_0, name_1, ... Unnamed ones are named after their
// operator.
// After jax2onnx's pass of this name (onnx_ir).
#include <charconv>
#include <unordered_map>

#include "rewrite/pass.h"
#include "support/name_table.h"

namespace sardonyx::onnx {
namespace {

// The names of values, or of nodes. Registers all existing names before it invents new ones.
class Names {
 public:
  Names(Model& m, size_t expected) : model_(m), table_(expected) {}

  // Claims the name for its owner. False if something else has it.
  bool take(Name name, const void* owner) {
    const void* other = table_.insert(name, owner);
    return other == nullptr || other == owner;
  }
  // Different stems never give the same name: the stem is the part before the last underscore.
  Name invent(std::string_view stem) {
    if (stem.data() != last_stem_) {
      last_stem_ = stem.data();
      counter_ = &counters_[std::string(stem)];
    }
    text_.assign(stem).push_back('_');
    const size_t end = text_.size();
    for (;;) {
      char digits[20];
      const auto [last, ok] = std::to_chars(digits, digits + sizeof(digits), (*counter_)++);
      text_.resize(end);
      text_.append(digits, last);
      if (table_.size() == 0 || table_.find(text_) == nullptr) return model_.name(text_);
    }
  }

 private:
  Model& model_;
  NameTable<const void> table_;
  std::unordered_map<std::string, uint64_t> counters_;
  const char* last_stem_ = nullptr;  // names are interned, so pointers identify them
  uint64_t* counter_ = nullptr;
  std::string text_;
};

class Fix {
 public:
  Fix(Graph& top, PassContext& context)
      : graphs_(graphs_in(top)),
        context_(context),
        values_(context.model, count_named(graphs_, true)),
        nodes_(context.model, count_named(graphs_, false)) {}

  bool run() {
    for (const Graph* g : graphs_) {
      for (const Port& p : g->inputs()) values_.take(p.name, p.value);
      for (const Port& p : g->outputs()) values_.take(p.name, p.use->value);
    }
    for (Graph* g : graphs_) {
      for (const Port& p : g->outputs()) {
        // A result without a name takes that of its port.
        Value& v = *p.use->value;
        if (!v.name().empty() || v.graph() != g || p.name.empty() || !values_.take(p.name, &v)) continue;
        v.set_name(p.name);
        ++named_;
      }
    }
    // Claims existing names first; then names values without one and values whose name was taken.
    each([&](Value& v, std::string_view) {
      if (!v.name().empty() && !values_.take(v.name(), &v)) clashing_values_.push_back(&v);
    });
    each_node([&](Node& n) {
      if (!n.name().empty() && !nodes_.take(n.name(), &n)) clashing_nodes_.push_back(&n);
    });
    size_t clash = 0;
    each([&](Value& v, std::string_view stem) {
      const bool clashes = clash < clashing_values_.size() && clashing_values_[clash] == &v;
      if (clashes) ++clash;
      if (!clashes && !v.name().empty()) return;
      v.set_name(values_.invent(clashes ? v.name().view() : stem));
      ++named_;
    });
    clash = 0;
    each_node([&](Node& n) {
      const bool clashes = clash < clashing_nodes_.size() && clashing_nodes_[clash] == &n;
      if (clashes) ++clash;
      if (!clashes && !n.name().empty()) return;
      n.set_name(nodes_.invent(clashes ? n.name().view() : n.op().name));
      ++named_;
    });
    context_.log.count("names", named_);
    return named_ > 0;
  }

 private:
  static size_t count_named(const std::vector<Graph*>& graphs, bool values) {
    size_t count = 0;
    for (const Graph* g : graphs) {
      if (values) count += g->constants().size() + g->inputs().size() + g->outputs().size();
      for (const Node& n : g->nodes()) {
        if (!values) {
          count += n.name().empty() ? 0 : 1;
          continue;
        }
        for (const Value& v : n.results()) count += v.name().empty() ? 0 : 1;
      }
    }
    return count;
  }

  // Visits constants and results of nodes in order, each with the stem for an unnamed one.
  template <class Do>
  void each(Do&& act) {
    for (Graph* g : graphs_) {
      for (Value* v : g->constants()) act(*v, "constant");
      for (Node& n : g->nodes()) {
        for (Value& v : n.results()) act(v, n.op().name);
      }
    }
  }
  template <class Do>
  void each_node(Do&& act) {
    for (Graph* g : graphs_) {
      for (Node& n : g->nodes()) act(n);
    }
  }

  const std::vector<Graph*> graphs_;
  PassContext& context_;
  Names values_, nodes_;
  std::vector<const Value*> clashing_values_;
  std::vector<const Node*> clashing_nodes_;
  size_t named_ = 0;
};

}  // namespace

Pass name_fix() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) { return Fix(top, context).run(); });
}

}  // namespace sardonyx::onnx
