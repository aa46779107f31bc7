// Lowers a model of the jax dialect to one of the onnx dialect.
#include "lower/jax_to_onnx/context.h"

#include <algorithm>

#include "ir/graph/arrange.h"
#include "sardonyx/version.h"

namespace sardonyx {
namespace {

// Plugins may write operators of other domains. Imports each domain in the newest version that they request.
void import_domain(Function& f, const Op& op) {
  const auto add = [&](std::vector<OpsetImport>& imports) {
    for (OpsetImport& i : imports) {
      if (i.domain != op.domain && !(op.domain == "ai.onnx" && i.domain.empty())) continue;
      if (!op.known) i.version = std::max<int64_t>(i.version, op.since_version);
      return;
    }
    imports.push_back({std::string(op.domain), std::max(op.since_version, 1)});
  };
  add(f.model().opset_imports);
  if (&f != &f.model().main()) add(f.opset_imports);
}

// Removes dead nodes and constants: unused parts of tuples, and unused sizes. Recursion is over nesting only.
void sweep(Function& f, Graph& g) {
  for (Node* n = g.last(); n != nullptr; n = n->prev()) {
    if (!n->any_result_used()) {
      g.erase(*n);
      continue;
    }
    if (!n->op().domain.empty()) import_domain(f, n->op());
    for (const Body& b : n->bodies()) sweep(f, *b.graph);
  }
  std::vector<Value*> dead;
  for (Value* c : g.constants()) {
    if (!c->has_uses()) dead.push_back(c);
  }
  for (size_t i = dead.size(); i-- > 0;) g.erase_constant(*dead[i]);
}

}  // namespace

std::unique_ptr<Model> lower_to_onnx(const Model& jax, const LowerOptions& options, const LoweringRegistry& registry) {
  auto onnx = std::make_unique<Model>(DialectId::kOnnx);
  lower_to_onnx(jax, *onnx, options, registry);
  return onnx;
}

void lower_to_onnx(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry) {
  onnx.producer_name = "sardonyx";
  onnx.producer_version = version();
  jax_to_onnx::Context context(jax, onnx, options, registry);
  context.run();
  for (const auto& f : onnx.functions()) sweep(*f, f->graph());
  arrange(onnx, context.batches());
  arrange_constants(onnx, 0);
  onnx.compact();
}

}  // namespace sardonyx
