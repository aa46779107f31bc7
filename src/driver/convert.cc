#include "driver/convert.h"

#include "support/stopwatch.h"

namespace sardonyx {
void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report) {
  check_request(options.passes, onnx.dialect());  // before the work, not after it
  Stopwatch watch;
  lower_to_onnx(jax, onnx, options.lower, registry);
  verify(onnx, {.allow_unchecked = false});  // a lowering at fault is named here, and not by whoever loads the file
  const double lower_seconds = watch.lap();
  PassRequest request = options.passes;
  request.skip.push_back("prune_unused_graph_inputs");  // the arguments of the user's function are its signature
  PipelineReport passes = run_passes(onnx, request);
  if (report != nullptr) {
    report->lower_seconds = lower_seconds;
    report->optimize_seconds = watch.lap();
    report->passes = std::move(passes);
  }
}

std::unique_ptr<Model> convert(const Model& jax, const ConvertOptions& options, const LoweringRegistry& registry,
                               ConvertReport* report) {
  auto onnx = std::make_unique<Model>(DialectId::kOnnx);
  convert(jax, *onnx, options, registry, report);
  return onnx;
}

}  // namespace sardonyx
