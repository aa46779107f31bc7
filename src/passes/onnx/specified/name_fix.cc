// Every node and value gets a name, and no two of a graph and what is nested in it have the same. Names of inputs and results stay as
// they are, bodies' too: what stands in their way is renamed. Of the others the first in order keeps its name; the next is called
// name_0, name_1, ..., and what has none after its operator.
// After jax2onnx's pass of this name (onnx_ir).
#include <charconv>
#include <unordered_map>

#include "rewrite/pass.h"
#include "support/name_table.h"

namespace sardonyx::onnx {
namespace {

// Names of values, or of nodes. All that exist are taken before any is invented.
class Names {
 public:
  Names(Model& m, size_t expected) : model_(m), table_(expected) {}

  // Whether the owner may be called that: nothing else is.
  bool take(Name name, const void* owner) {
    const void* other = table_.insert(name, owner);
    return other == nullptr || other == owner;
  }
  // Two stems never give one name: what stands before the last underscore is the stem.
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
  const char* last_stem_ = nullptr;  // names are kept once, so that their places tell them apart
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
        // A result without a name of its own has its port's.
        Value& v = *p.use->value;
        if (!v.name().empty() || v.graph() != g || p.name.empty() || !values_.take(p.name, &v)) continue;
        v.set_name(p.name);
        ++named_;
      }
    }
    // Those with names first; then those without, and those whose name was taken.
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

  // Constants and results of nodes, in order, with what one without a name is called after.
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
