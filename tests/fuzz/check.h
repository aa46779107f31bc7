// Checks for any model: passes keep what it computes, files and text keep the model. Also shrinks failures.
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
// Its results for the inputs of one size, 0 or 1, within bounds of memory and steps.
std::vector<EvalValue> evaluate_subject(const Subject& s, size_t which);

struct Failure {
  std::string kind;    // a failure is made smaller as long as this stays
  std::string detail;  // for people
};

struct Statistics {
  size_t graphs = 0, nodes = 0, not_drawn = 0;
  std::map<std::string, size_t> ops;             // nodes by operator
  std::map<std::string, size_t> tried, changed;  // graphs by pass
  std::map<std::string, size_t> fired;           // "pass/rule"
  size_t pipelines = 0, compared = 0, compared_loosely = 0;
};

// Runs the passes, in order, on a copy. They must not throw, keep a valid graph and the values, report truly
// whether they changed anything and, if it is only one, be a no-op afterwards.
std::optional<Failure> check_passes(const Subject& s, const std::vector<std::string>& passes, Statistics* statistics = nullptr);
// The Core ML passes that do nothing without options: an input as an image with channels last, and all
// symbolic sizes fixed.
std::optional<Failure> check_told_passes(const Subject& s);
// Through the text form and through an ONNX file or a Core ML package, and back.
std::optional<Failure> check_round_trips(const Subject& s);

// A smaller subject that fails in the same way.
Subject shrink(const Subject& s, const std::function<std::optional<Failure>(const Subject&)>& check, const Failure& failure);
// Fewer passes that fail in the same way.
std::vector<std::string> shrink_passes(const Subject& s, std::vector<std::string> passes, const Failure& failure);

}  // namespace sardonyx::fuzz
