#include "convert/program_passes.h"

#include "passes/catalog.h"

namespace sardonyx {

PipelineReport run_program_passes(Model& m, const PassRequest& request, ValueFacts& facts) {
  return run_typed_passes(m, request, facts);
}

std::optional<PipelineReport> idle_report(const PassRequest& request, const std::function<const Graph*()>& samples,
                                          const std::function<bool(std::string_view)>& is_idle) {
  return report_if_idle(request, samples, is_idle);
}

}  // namespace sardonyx
