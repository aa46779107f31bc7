// Every node and value gets a name, and no two of a graph and what is nested in it have the same. Names of inputs and results stay as
// they are, bodies' too: what stands in their way is renamed. Of the others the first in order keeps its name; the next is called
// name_0, name_1, ..., and what has none after its operator.
// After jax2onnx's pass of this name (onnx_ir).
#include <fmt/format.h>

#include <unordered_map>

#include "rewrite/pass.h"
#include "support/name_table.h"

namespace sardonyx::onnx {
namespace {

class Names {
 public:
  Names(Model& m, size_t expected) : model_(m), table_(expected) {}

  // Whether v may be called that: nothing else is.
  bool take(Name name, const void* owner) {
    const void* other = table_.insert(name, owner);
    return other == nullptr || other == owner;
  }
  Name invent(std::string_view base, const void* owner) {
    const std::string stem = base.empty() ? "value" : std::string(base);
    for (size_t& counter = counters_[stem];;) {
      const std::string text = fmt::format("{}_{}", stem, counter++);
      if (table_.find(text) != nullptr) continue;
      const Name name = model_.name(text);
      table_.insert(name, owner);
      return name;
    }
  }

 private:
  Model& model_;
  NameTable<const void> table_;
  std::unordered_map<std::string, size_t> counters_;
};

}  // namespace

Pass name_fix() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    const auto graphs = graphs_in(top);
    size_t count = 0;
    for (const Graph* g : graphs) count += g->num_nodes() + g->constants().size() + g->inputs().size();
    Names values(context.model, count), nodes(context.model, count);
    size_t named = 0;
    for (const Graph* g : graphs) {
      for (const Port& p : g->inputs()) values.take(p.name, p.value);
      for (const Port& p : g->outputs()) {
        if (!p.name.empty()) values.take(p.name, p.use->value);
      }
    }
    const auto settle = [&](Value& v, std::string_view base) {
      if (!v.name().empty() && values.take(v.name(), &v)) return;
      v.set_name(values.invent(v.name().empty() ? base : v.name().view(), &v));
      ++named;
    };
    for (Graph* g : graphs) {
      for (const Port& p : g->outputs()) {
        Value& v = *p.use->value;
        // A result without a name of its own has its port's.
        if (v.name().empty() && v.graph() == g && !p.name.empty() && values.take(p.name, &v)) {
          v.set_name(p.name);
          ++named;
        }
      }
      for (Value* v : g->constants()) settle(*v, "constant");
      for (Node& n : g->nodes()) {
        for (Value& v : n.results()) settle(v, n.op().name);
        if (n.name().empty() || !nodes.take(n.name(), &n)) {
          n.set_name(nodes.invent(n.name().empty() ? n.op().name : n.name().view(), &n));
          ++named;
        }
      }
    }
    if (named > 0) context.count("names", named);
    return named > 0;
  });
}

}  // namespace sardonyx::onnx
