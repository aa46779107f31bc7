// What is in a model, and how two models differ: counts, summaries, nodes, and the values that they compute.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sardonyx/ir.h"
#include "sardonyx/passes.h"
#include "sardonyx/tolerance.h"

namespace sardonyx {

// The contents of a model, in numbers.
struct ModelCounts {
  // Nodes by operator ("domain.Name" outside of the default domain), with those of nested graphs and
  // functions.
  std::map<std::string, size_t> ops;
  std::map<DType, uint64_t> weight_bytes;
  size_t nodes = 0, nested = 0;  // `nested`: those in nested graphs
  size_t tensors = 0;            // constants
  uint64_t parameters = 0;       // elements of constants
  uint64_t bytes = 0;            // as stored: shared weights count once, a lazy splat counts as one element
  size_t values = 0, untyped = 0;
};

ModelCounts count_model(const Model& m);

// Positive where the model became smaller.
struct Saved {
  int64_t nodes = 0;
  int64_t bytes = 0;               // of constants, as ModelCounts::bytes
  std::string flops;               // an expression in the named sizes; empty: not known, or too large
  std::optional<double> at_flops;  // with every named size at its minimum
  // Nodes whose arithmetic is not known, so that the sum lacks it. A difference where this is not 0 has no
  // flops.
  int64_t unknown = 0;
  bool is_nothing() const { return nodes == 0 && bytes == 0 && flops == "0" && unknown == 0; }
};

// What each pass of an optimization saved. All rows together are the difference of the model before and
// after.
struct Savings {
  Saved before, after;                                // the whole model, unused nodes and bytes included
  std::vector<Saved> by_pass;                         // one for each entry of PipelineReport::passes
  std::vector<std::pair<std::string, Saved>> beside;  // what no pass did, without those that are nothing
  std::string at;                                     // "B=1, T=1": the sizes of at_flops; or empty
  // Whether `before` and `after` count the arithmetic of the same nodes.
  bool has_comparable_flops() const;
};

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

// The result of evaluating two models on seeded inputs.
struct ModelComparison {
  size_t runs = 0;                        // evaluations compared
  std::optional<std::string> difference;  // the first difference, and the inputs that show it
  std::string skipped;                    // why nothing was compared
  double largest_error = 0;               // |before - after| over all floats
  std::string largest_at;                 // where it is; empty if no float changed
  std::string judged;                     // "exact", "rounds", "relaxed", "half" (a fiftieth), or "" by `tolerance`
  // The runtime that loads the first model, according to its table of kernels, and why it does not load the
  // second one.
  std::string runtime;
  std::vector<std::string> load_problems;
};

// Without `numerics` and `tolerance`, ONNX models are compared up to rounding; programs of Core ML, and a
// program and a model, up to a thousandth of the largest element of each result; and up to a fiftieth where
// only one computes in half precision (or one of a program and a model).
//
// Pairs inputs by position; `after` may lack some of the inputs of `before`. Infers the types of both. Throws
// kInvalidArgument if the signatures do not match. `target` names the runtime that must load both; empty
// means the newest. `after` is not checked if that runtime is certain not to load `before`.
ModelComparison compare_models(Model& before, Model& after, std::optional<Numerics> numerics = std::nullopt,
                               std::string_view target = {}, const std::optional<Tolerance>& tolerance = std::nullopt);

struct NodeChange {
  const Node* before = nullptr;
  const Node* after = nullptr;
  // "axis: 1 -> 2", "constant w: 3 of 49 elements differ, by up to 0.5", "operand A: Relu_0 -> Neg_1"
  std::vector<std::string> what;
};

// Nodes that only hold a constant are no nodes here: their constants belong to the nodes that read them.
struct ModelMatch {
  std::unordered_map<const Node*, const Node*> before_of;  // by node of the second model
  size_t same = 0;                                         // equal, with equal operands
  std::vector<std::pair<const Node*, const Node*>> moved;  // equal, in another order than those around them
  std::vector<NodeChange> changed;
  std::vector<const Node*> removed, added;  // in their model's order
};

struct ModelDiff {
  struct Change {
    std::string what, before, after;  // empty: not there
  };
  bool same = false;
  ModelMatch nodes;
  std::vector<std::pair<std::string, std::string>> renamed;  // constants: the names before and after
  std::vector<Change> interface;                             // inputs, results, opsets
  std::vector<Change> ops;                                   // how many nodes of each operator
  uint64_t bytes_before = 0, bytes_after = 0;                // of tensors
  // Of both texts: ' ' in both, '-' only in the first, '+' only in the second.
  std::vector<std::pair<char, std::string>> lines;
  size_t differing = 0;  // lines that are not in both
};

// Infers types in both. Constants of the second model that are only renamed get the first model's names, in
// the model and in `lines`.
ModelDiff diff_models(Model& before, Model& after);

}  // namespace sardonyx
