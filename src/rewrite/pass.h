// Passes: named rules and walks, and the context that they run in. docs/inside/passes.md shows how to write
// one.
#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/infer/known.h"
#include "rewrite/pattern.h"
#include "sardonyx/infer.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// Rules build nodes with the rewriter of their dialect (rewrite/onnx_rewriter.h, rewrite/mil_rewriter.h).
namespace onnx {
class Rewriter;
}
namespace mil {
class Rewriter;
}

// ---------------------------------------------------------------------------------------------------------------------
// Inspecting nodes; ir/infer/known.h reads attributes

// The parts of a node, for building one like it. Absent operands are null.
std::vector<Value*> operands_of(const Node& n);
std::vector<Value*> results_of(const Node& n);
AttrInit attrs_of(const Node& n, std::initializer_list<std::string_view> except = {});
// attrs_of(n) with some attributes changed or added.
AttrInit attrs_with(const Node& n, const AttrInit& changes);

// Whether the node can be erased once its results have no users.
bool is_removable(const Node& n);
// Whether the value is a result of its graph.
bool is_graph_result(const Value& v);
// g and all graphs nested in it, outer graphs first.
std::vector<Graph*> graphs_in(Graph& g);
// Erases unused nodes in g and its nested graphs, whole chains in one walk; returns how many.
size_t erase_dead_nodes(Graph& g);

// ---------------------------------------------------------------------------------------------------------------------
// The context of a pass

// What is known about the elements of values.
class KnownValues {
 public:
  KnownValues(Model& m, ValueFacts& f) : model(m), facts(f) {}

  Model& model;
  ValueFacts& facts;  // elements of small integer tensors, possibly symbolic

  // The value of a constant whose elements are all equal, as a double; else nullopt. Caches large constants.
  std::optional<double> splat(const Value* v);
  // The elements of an integer value if all are known, from its payload or from inference.
  std::optional<std::vector<int64_t>> ints(const Value* v);
  // The same, with symbolic elements.
  std::optional<SymbolicValue> symbolic(const Value* v);

 private:
  std::unordered_map<const Tensor*, std::optional<double>> splats_;
};

// The options given to a pass. The pipeline has already refused undeclared ones.
class PassOptions {
 public:
  void set(std::string_view name, std::string_view value) { values_.insert_or_assign(std::string(name), std::string(value)); }
  bool empty() const { return values_.empty(); }

  // The option as text, whole number or boolean; `otherwise` if it was not given.
  std::string text(std::string_view name, std::string_view otherwise) const;
  int64_t number(std::string_view name, int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// What passes report: actions taken and near misses.
class PassLog {
 public:
  using NearMiss = std::function<void(std::string_view pass, const Node&, std::string_view why)>;

  // For walks: adds to the count of an action.
  void count(std::string_view what, size_t times = 1) { counts_[std::string(what)] += times; }
  // Reports why a node that nearly matched was left alone, for --explain. explains(): whether anyone listens,
  // to avoid building expensive texts.
  void near_miss(const Node& n, std::string_view why);
  bool explains() const { return on_near_miss_ != nullptr; }

  // --- for the driver
  void explain_to(NearMiss listener) { on_near_miss_ = std::move(listener); }
  void begin(std::string_view pass) { pass_ = pass; }
  void clear_counts() { counts_.clear(); }
  const std::map<std::string, size_t>& counts() const { return counts_; }
  size_t near_misses() const { return near_misses_; }

 private:
  std::string_view pass_;
  std::map<std::string, size_t> counts_;
  NearMiss on_near_miss_;
  size_t near_misses_ = 0;
};

class PassContext : public KnownValues {
 public:
  PassContext(Model& m, ValueFacts& f, int64_t budget = 0);

  const int64_t fold_budget;  // bytes by which folding may grow the file
  PassLog log;
  const PassOptions& options() const { return *options_; }  // of the running pass

  Observer* observer() const { return observer_; }          // null: nobody watches
  const Calibration* calibration() const { return runs_; }  // null: there are no runs to learn from

  // For the driver: `pass` runs from here on. `options` must outlive that run.
  void begin(std::string_view pass, const PassOptions& options);
  void observe_with(Observer* observer) { observer_ = observer; }
  void calibrate_with(const Calibration* runs) { runs_ = runs; }

 private:
  const PassOptions* options_;
  Observer* observer_ = nullptr;
  const Calibration* runs_ = nullptr;
};

// ---------------------------------------------------------------------------------------------------------------------
// Rules

// The result of a match: the values bound to the pattern's variables.
class Match {
 public:
  static constexpr size_t kMaxVars = 24, kMaxNodes = 40;

  Value* operator[](Var v) const;  // null if v belongs to an alternative that did not match
  Value* operator[](std::string_view name) const;
  Node& root() const { return *nodes_[0]; }
  // The node that defines the variable's value; there must be one.
  Node& node(Var v) const;
  // All nodes that the pattern matched, the root first.
  std::span<Node* const> nodes() const { return {nodes_.data(), node_count_}; }

  PassContext& context() const { return *context_; }
  Model& model() const { return context_->model; }
  Dims& dims() const { return model().dims(); }
  const Type* type(Var v) const;
  // Like PassContext's, for a variable.
  std::optional<double> splat(Var v) const { return context_->splat((*this)[v]); }
  std::optional<std::vector<int64_t>> ints(Var v) const { return context_->ints((*this)[v]); }
  // For conditions: reports a near miss with its reason, and returns false.
  bool refuse(std::string_view why) const;

 private:
  friend class Matcher;
  PassContext* context_ = nullptr;
  const std::vector<std::string_view>* names_ = nullptr;
  std::array<Value*, kMaxVars> values_{};
  std::array<Node*, kMaxNodes> nodes_{};
  size_t node_count_ = 0;
};

using Condition = std::function<bool(const Match&)>;

// A function of (onnx::Rewriter&, const Match&) or (mil::Rewriter&, const Match&); its signature chooses the
// rule's dialect.
template <class Result>
class BuildOf {
 public:
  BuildOf() = default;
  template <std::invocable<onnx::Rewriter&, const Match&> F>
  BuildOf(F f) : onnx_(std::move(f)) {}
  template <std::invocable<mil::Rewriter&, const Match&> F>
  BuildOf(F f) : mil_(std::move(f)) {}

  explicit operator bool() const { return onnx_ || mil_; }
  Result operator()(onnx::Rewriter& b, const Match& m) const { return onnx_(b, m); }
  Result operator()(mil::Rewriter& b, const Match& m) const { return mil_(b, m); }

 private:
  std::function<Result(onnx::Rewriter&, const Match&)> onnx_;
  std::function<Result(mil::Rewriter&, const Match&)> mil_;
};
// Returns the replacement of the root's results. A null value declines.
using Build = BuildOf<Value*>;
using BuildAll = BuildOf<std::vector<Value*>>;

// One local rewrite. Exactly one of replace, build and build_all is given.
//  - `when` only inspects. `build` only builds, directly before the root. It may decline by returning null;
//    the nodes that it made are erased.
//  - The replacement must provably have the root's type, or the rule is not applied. `same_type` says that
//    the rule proves this itself where inference cannot.
struct Rule {
  std::string_view name = {};  // for reports, when a pass has several rules
  Numerics numerics = Numerics::kExact;
  Pattern match;
  Condition when = {};
  std::optional<Pattern> replace = {};
  Build build = {};
  BuildAll build_all = {};  // one value per result of the root; null for unused results
  int opset = 0;            // ONNX: the minimum version of the default domain that the right side needs
  bool same_type = false;
};

// ---------------------------------------------------------------------------------------------------------------------
// Passes

// A pass that looks beyond a neighborhood. Returns whether it changed anything.
using GraphWalk =
    std::function<bool(Graph&, PassContext&)>;  // called with a function's graph; the walk visits nested graphs itself
using ModelWalk = std::function<bool(PassContext&)>;

// The operators that a walk needs, in any version: it is skipped in models that lack all operators of one of
// the lists. Rules derive this from their patterns.
//   needs({"MatMul", "Gemm"}).and_one_of({"Mul", "Div"})
struct NeededOps {
  NeededOps and_one_of(std::initializer_list<std::string_view> ops) const;

  std::vector<std::vector<std::string_view>> lists;
};
// A name that ends in '*' matches every operator name with that prefix.
NeededOps needs(std::initializer_list<std::string_view> one_of);

class Pass {
 public:
  Pass(Rule r) { rules.push_back(std::move(r)); }
  Pass(std::vector<Rule> r) : rules(std::move(r)) {}
  static Pass on_graph(Numerics numerics, GraphWalk walk);
  static Pass on_graph(Numerics numerics, NeededOps needed, GraphWalk walk);
  static Pass on_model(Numerics numerics, ModelWalk walk);

  // Declares an option and its meaning, for --help and for refusing unknown options.
  Pass option(std::string_view name, std::string_view meaning) const;
  // Declares that it changes results by more than verification allows, as somebody asked for. At the end of a
  // request it runs when the rest is verified.
  Pass after_verification() const;

  std::vector<Rule> rules;
  GraphWalk graph_walk;
  ModelWalk model_walk;
  Numerics walk_numerics = Numerics::kExact;
  std::vector<std::pair<std::string_view, std::string_view>> options;
  NeededOps needed_ops;
  bool is_after_verification = false;

  Numerics numerics() const;  // the loosest of its parts

 private:
  Pass() = default;
};

// A row of a catalogue (passes/*/passes.def).
struct PassRow {
  std::string_view name;
  Pass (*make)();
  std::string_view about;
};

}  // namespace sardonyx
