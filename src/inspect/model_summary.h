// What a person wants to know about a model: sizes, arithmetic, memory, and where it runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/costs.h"
#include "inspect/model_counts.h"

namespace sardonyx {

struct SummaryOptions {
  size_t most_listed = 5;  // of nodes and tensors
};

struct ModelSummary {
  ModelCounts counts;

  struct Size {
    std::string name;
    DimRange range;
  };
  std::vector<Size> sizes;                    // the named sizes of the inputs, by name
  std::map<std::string, std::string> images;  // Core ML: inputs that take images, and which

  struct Work {
    std::string flops, bytes;                  // expressions in the named sizes
    std::optional<double> at_flops, at_bytes;  // numbers with every named size at its minimum
  };
  Work all;
  size_t unknown = 0;     // nodes that are left out: sizes are unknown, or another domain's operator
  size_t open_loops = 0;  // run an unknown number of times, counted once
  struct CostlyNode : Work {
    std::string name, op;
  };
  std::vector<CostlyNode> costly;  // the most arithmetic first
  std::string at;                  // "B=1, T=1"; empty if there are no named sizes

  uint64_t peak_bytes = 0;  // of activations, at `at`
  std::string peak_node;    // where it is reached; empty: at the start
  size_t unsized = 0;       // values left out of the peak

  struct NamedTensor {
    std::string name, type;
    uint64_t bytes = 0;
  };
  std::vector<NamedTensor> largest;  // constants

  struct Module {
    std::string path;
    size_t nodes = 0;
    uint64_t parameters = 0, bytes = 0;
  };
  std::vector<Module> modules;  // by first node; a constant belongs to the module of its first user

  // ONNX: the releases of onnxruntime's CPU provider that load it, and the pages of other providers.
  struct Place {
    std::string name, source;
    size_t refused = 0;                // nodes
    std::vector<std::string> reasons;  // the first few
  };
  std::string oldest_runtime, newest_runtime;  // "ort-1.17"; empty if none loads it
  std::vector<Place> places;                   // the runtime before the oldest that loads it; then the providers
};

// Infers types, so the model changes where it lacks them.
ModelSummary summarize(Model& m, const SummaryOptions& options = {});

// "4.1 GFLOP", "12 FLOP"
std::string human_count(double n, std::string_view unit);

// The modules added up such that at most `most` are left: paths are cut at the deepest level that allows it.
std::vector<ModelSummary::Module> folded(const std::vector<ModelSummary::Module>& modules, size_t most);

}  // namespace sardonyx
