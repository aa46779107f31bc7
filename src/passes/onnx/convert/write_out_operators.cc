//   x ── LayerNormalization(s) ── y     =>   x ──┬── ReduceMean ──┐
//                                               └────────────── Sub ── ... ── Mul(s) ── y        for opset 16
//
// Writes out operators that the target opset lacks in older operators: activations, normalizations,
// Attention, RotaryEmbedding and others for which the standard gives a body (standard_bodies.cc).
// convert_opset then lowers the result. The two passes are separate because convert_opset keeps every bit and
// this pass rounds.
// What stops it: operators that the opset has; unknown sizes or ranks that a body needs.
#include <fmt/format.h>

#include "passes/onnx/convert/standard_bodies.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

bool write_out(PassContext& context, int64_t opset) {
  bool changed = false;
  for (const auto& f : context.model.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& n : g->nodes()) {
        if (n.unchecked() || version_with_body(n) <= opset) continue;
        Rewriter b(*g, context);
        b.set_insertion_point(&n);
        b.set_provenance(n.provenance());
        const std::vector<Value*> results = write_body(b, n);
        if (results.empty()) continue;
        for (size_t i = 0; i < results.size(); ++i) {
          if (results[i] == nullptr || !n.result(i)->has_uses()) continue;
          results[i]->set_type(n.result(i)->type());
          results[i]->set_name(n.result(i)->name());
          g->replace_uses(*n.result(i), *results[i]);
        }
        context.log.count(n.op().name);
        g->erase(n);
        changed = true;
      }
    }
  }
  return changed;
}

}  // namespace

Pass write_out_operators() {
  return Pass::on_model(Numerics::kRounds,
                        [](PassContext& context) {
                          const int64_t opset = context.options().number("opset", 0);
                          if (opset == 0)
                            throw Error(ErrorCode::kInvalidArgument, "write_out_operators needs an opset",
                                        {"help: write_out_operators.opset=17"});
                          return write_out(context, opset);
                        })
      .option("opset", "the opset version whose operators may stay");
}

}  // namespace sardonyx::onnx
