// Renames ops and variables whose name occurs earlier in the function, in any of its blocks: name_1, name_2,
// ...
//
// Names of ops and of variables are counted separately. Inputs and results of the function keep their names;
// a name shared by two of them is an error, since neither may change. After coremltools' pass of this name.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "dialects/mil/unique_names.h"
#include "rewrite/pass.h"

namespace sardonyx::mil {
namespace {

class Renamer {
 public:
  explicit Renamer(Graph& top) : top_(top) {}

  size_t run() {
    std::unordered_map<std::string, const Value*> interface;
    for (const Port& p : top_.inputs()) {
      interface.emplace(p.name.view(), p.value);
      vars_.keep(p.name.view());
    }
    for (const Port& p : top_.outputs()) {
      const auto other = interface.emplace(p.name.view(), p.use->value).first;
      if (other->second != p.use->value)
        throw Error(ErrorCode::kInvalidModel,
                    fmt::format("'{}' is the name of {} of the function", p.name.view(),
                                other->second->kind() == ValueKind::kInput ? "an input and of a result" : "two results"),
                    {"help: neither may change; rename one in the program that made this"});
      vars_.keep(p.name.view());
      results_.insert(p.use->value);
    }
    block(top_);
    return renamed_;
  }

 private:
  void rename(Value& v) {
    if (v.name().empty() || results_.contains(&v)) return;
    const std::string name = vars_.unique(v.name().view());
    if (name == v.name().view()) return;
    v.set_name(top_.model().name(name));
    ++renamed_;
  }

  void block(Graph& g) {
    if (&g != &top_) {
      for (const Port& p : g.inputs()) rename(*p.value);
    }
    for (Value* v : g.constants()) rename(*v);
    for (Node& n : g.nodes()) {
      for (const Body& b : n.bodies()) block(*b.graph);  // recursion over nesting only
      if (!n.name().empty()) {
        const std::string name = ops_.unique(n.name().view());
        if (name != n.name().view()) {
          n.set_name(top_.model().name(name));
          ++renamed_;
        }
      }
      for (Value& v : n.results()) rename(v);
    }
  }

  Graph& top_;
  UniqueNames vars_, ops_;
  std::unordered_set<const Value*> results_;
  size_t renamed_ = 0;
};

}  // namespace

Pass dedup_op_and_var_names() {
  return Pass::on_graph(Numerics::kExact, [](Graph& top, PassContext& context) {
    const size_t renamed = Renamer(top).run();
    context.log.count("renamed", renamed);
    return renamed > 0;
  });
}

}  // namespace sardonyx::mil
