#include "driver/convert.h"

#include <fmt/format.h>

#include <chrono>

namespace sardonyx {
namespace {

class Stopwatch {
 public:
  // Seconds since the last call, or since it was made.
  double lap() {
    auto now = std::chrono::steady_clock::now();
    std::chrono::duration<double> passed = now - last_;
    last_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

void convert(const Model& jax, Model& onnx, const ConvertOptions& options, const LoweringRegistry& registry,
             ConvertReport* report) {
  check_request(options.passes, onnx.dialect());  // before the work, not after it
  Stopwatch watch;
  lower_to_onnx(jax, onnx, options.lower, registry);
  verify(onnx, {.allow_unchecked = false});  // a lowering at fault is named here, and not by whoever loads the file
  const double lower_seconds = watch.lap();
  PipelineReport passes = run_passes(onnx, options.passes);
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
