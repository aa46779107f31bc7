#include "driver/convert.h"

#include <iterator>
#include <string_view>

#include "support/stopwatch.h"

namespace sardonyx {
namespace {

// The passes that make one operator of a normalization's arithmetic.
constexpr std::string_view kNormalizationPasses[] = {"fuse_layer_normalization", "fuse_rms_normalization"};

void choose_normalization(PassRequest& request, Normalization mode) {
  if (mode == Normalization::kForceDecomposed) {
    request.skip.insert(request.skip.end(), std::begin(kNormalizationPasses), std::end(kNormalizationPasses));
  } else if (mode == Normalization::kPreferNative) {
    // They want one x - mean where the program spells two. Where the pipeline had them already, they find nothing left to do.
    request.passes.emplace_back("common_subexpression_elimination");
    request.passes.insert(request.passes.end(), std::begin(kNormalizationPasses), std::end(kNormalizationPasses));
  }
}

}  // namespace

void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report) {
  check_request(options.passes, onnx.dialect());  // before the work, not after it
  Stopwatch watch;
  lower_to_onnx(jax, onnx, options.lower, registry);
  verify(onnx, {.allow_unchecked = false});  // a lowering at fault is named here, and not by whoever loads the file
  const double lower_seconds = watch.lap();
  PassRequest request = options.passes;
  request.skip.push_back("prune_unused_graph_inputs");  // the arguments of the user's function are its signature
  choose_normalization(request, options.normalization);
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
