// Checks that hold for any model: passes preserve its values, files and text preserve the model. Also shrinks
// failures.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/eval.h"
#include "sardonyx/ir.h"

namespace sardonyx::fuzz {

// A model and values for its inputs, by name, at two sizes.
struct Subject {
  std::unique_ptr<Model> model;
  std::unordered_map<std::string, std::array<EvalValue, 2>> inputs;
  uint64_t order = 0;  // rules fire in an order drawn from this, unless 0
};
Subject copy(const Subject& s);
// Its results for the inputs of one size, 0 or 1, within limits on memory and steps.
std::vector<EvalValue> evaluate_subject(const Subject& s, size_t which);

struct Failure {
  std::string kind;    // shrinking keeps this unchanged
  std::string detail;  // for people
};

struct Statistics {
  size_t graphs = 0, nodes = 0, not_drawn = 0;
  std::map<std::string, size_t> ops;             // nodes by operator
  std::map<std::string, size_t> tried, changed;  // graphs by pass
  std::map<std::string, size_t> fired;           // "pass/rule"
  size_t pipelines = 0, compared = 0, compared_loosely = 0;
};

// Runs the passes, in order, on a copy. They must not throw, must keep the graph valid and preserve values,
// and must report correctly whether they changed anything. A single pass must be a no-op afterwards.
std::optional<Failure> check_passes(const Subject& s, const std::vector<std::string>& passes, Statistics* statistics = nullptr);
// Checks the Core ML passes that are no-ops without options: an input as an image with channels last, and all
// symbolic sizes fixed.
std::optional<Failure> check_told_passes(const Subject& s);
// Writes and reads the model in text form and as an ONNX file or a Core ML package.
std::optional<Failure> check_round_trips(const Subject& s);

// Returns a smaller subject that fails in the same way.
Subject shrink(const Subject& s, const std::function<std::optional<Failure>(const Subject&)>& check, const Failure& failure);
// Returns fewer passes that fail in the same way.
std::vector<std::string> shrink_passes(const Subject& s, std::vector<std::string> passes, const Failure& failure);

}  // namespace sardonyx::fuzz
