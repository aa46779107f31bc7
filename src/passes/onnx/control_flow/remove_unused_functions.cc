// Removes model-local functions that no node calls, directly or through other functions, and imports of
// domains that no node needs. The default domain stays imported. Calls in any body count. Exact: no node
// changes.
#include <algorithm>
#include <set>

#include "ir/graph/call.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {
namespace {

// Collects the functions called in `g` and the domains of its nodes.
void collect(Graph& g, std::vector<Function*>& called, std::set<std::string, std::less<>>& domains) {
  for (Graph* inner : graphs_in(g)) {
    for (const Node& n : inner->nodes()) {
      if (!n.op().domain.empty()) domains.insert(std::string(n.op().domain));
      if (Function* f = called_function(n)) called.push_back(f);
    }
  }
}

bool is_default(const OpsetImport& i) { return i.domain.empty() || i.domain == "ai.onnx"; }

size_t prune_imports(std::vector<OpsetImport>& imports, const std::set<std::string, std::less<>>& domains) {
  return std::erase_if(imports, [&](const OpsetImport& i) { return !is_default(i) && !domains.contains(i.domain); });
}

}  // namespace

Pass remove_unused_functions() {
  return Pass::on_model(Numerics::kExact, [](PassContext& context) {
    Model& m = context.model;
    if (m.functions().size() == 1 && std::ranges::all_of(m.opset_imports, is_default)) return false;  // spares the walk
    std::set<std::string, std::less<>> domains;
    std::vector<Function*> called{&m.main()};
    std::set<const Function*> seen;
    size_t imports = 0, functions = 0;
    for (size_t i = 0; i < called.size(); ++i) {
      Function& f = *called[i];
      if (!seen.insert(&f).second) continue;
      std::set<std::string, std::less<>> own;
      collect(f.graph(), called, own);
      domains.insert(own.begin(), own.end());
      if (&f != &m.main()) {
        domains.insert(f.domain);
        imports += prune_imports(f.opset_imports, own);
      }
    }
    std::vector<Function*> unused;
    for (const auto& f : m.functions()) {
      if (!seen.contains(f.get())) unused.push_back(f.get());
    }
    for (Function* f : unused) {
      m.erase_function(*f);
      ++functions;
    }
    imports += prune_imports(m.opset_imports, domains);
    context.log.count("functions", functions);
    context.log.count("imports", imports);
    return functions + imports > 0;
  });
}

}  // namespace sardonyx::onnx
