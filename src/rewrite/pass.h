// Passes: rules and walks with a name, and what they see while they run. docs/passes.md shows how to write one.
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

#include "rewrite/pattern.h"
#include "sardonyx/infer.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// A rule of either dialect makes nodes with its own (rewrite/onnx_rewriter.h, rewrite/mil_rewriter.h).
namespace onnx {
class Rewriter;
}
namespace mil {
class Rewriter;
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading nodes

// The node's attribute, else the operator's default; nullopt when there is neither, or the attribute is of another kind (a reference
// to an attribute of the function included).
std::optional<int64_t> int_attr(const Node& n, std::string_view name);
std::optional<double> float_attr(const Node& n, std::string_view name);
std::optional<std::string> string_attr(const Node& n, std::string_view name);
std::optional<std::vector<int64_t>> ints_attr(const Node& n, std::string_view name);

// What a node of the same kind is made from. Operands that are not given are null.
std::vector<Value*> operands_of(const Node& n);
std::vector<Value*> results_of(const Node& n);
AttrInit attrs_of(const Node& n, std::initializer_list<std::string_view> except = {});
// With some of them changed or added.
AttrInit attrs_with(const Node& n, const AttrInit& changes);

// Whether a node may go when nobody reads its results.
bool is_removable(const Node& n);
// Whether the value leaves a graph as one of its results.
bool is_graph_result(const Value& v);
// g and all graphs nested in it, outer ones first.
std::vector<Graph*> graphs_in(Graph& g);
// Erases nodes that nobody reads, in g and what is nested in it, chains of any length in one walk; returns how many.
size_t erase_dead_nodes(Graph& g);

// ---------------------------------------------------------------------------------------------------------------------
// What a pass sees

// What is known of the elements of values.
class KnownValues {
 public:
  KnownValues(Model& m, ValueFacts& f) : model(m), facts(f) {}

  Model& model;
  ValueFacts& facts;  // elements of small integer tensors, symbolic ones included

  // The value of a constant whose elements are all the same, as a double; nullopt for others. Remembers large constants.
  std::optional<double> splat(const Value* v);
  // The elements of an integer value, when all are known: from its payload, or from what inference found.
  std::optional<std::vector<int64_t>> ints(const Value* v);
  // The same with symbolic elements.
  std::optional<SymbolicValue> symbolic(const Value* v);

 private:
  std::unordered_map<const Tensor*, std::optional<double>> splats_;
};

// The options that a pass was given. Those that it does not declare were refused before it runs.
class PassOptions {
 public:
  void set(std::string_view name, std::string_view value) { values_.insert_or_assign(std::string(name), std::string(value)); }
  bool empty() const { return values_.empty(); }

  // The option as text, as a whole number or as true or false; `otherwise` where it was not given.
  std::string text(std::string_view name, std::string_view otherwise) const;
  int64_t number(std::string_view name, int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// What passes report: what they did, and what they left alone.
class PassLog {
 public:
  using NearMiss = std::function<void(std::string_view pass, const Node&, std::string_view why)>;

  // Walks call it with what they did.
  void count(std::string_view what, size_t times = 1) { counts_[std::string(what)] += times; }
  // Why a node that nearly matched was left alone, for --explain. explains(): whether anybody listens, where the text takes time to make.
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

  const int64_t fold_budget;  // bytes that folding may add to the file
  PassLog log;
  const PassOptions& options() const { return *options_; }  // of the running pass

  // For the driver: `pass` runs from here on, with these options, which must live as long as it runs.
  void begin(std::string_view pass, const PassOptions& options);

 private:
  const PassOptions* options_;
};

// ---------------------------------------------------------------------------------------------------------------------
// Rules

// What was found: the values behind the variables of the pattern.
class Match {
 public:
  static constexpr size_t kMaxVars = 24, kMaxNodes = 40;

  Value* operator[](Var v) const;  // null if v stands on another alternative than the one that matched
  Value* operator[](std::string_view name) const;
  Node& root() const { return *nodes_[0]; }
  // The node that defines the variable's value; it must be one.
  Node& node(Var v) const;
  // All nodes that the pattern went through, the root first.
  std::span<Node* const> nodes() const { return {nodes_.data(), node_count_}; }

  PassContext& context() const { return *context_; }
  Model& model() const { return context_->model; }
  Dims& dims() const { return model().dims(); }
  const Type* type(Var v) const;
  // As PassContext's, for a variable.
  std::optional<double> splat(Var v) const { return context_->splat((*this)[v]); }
  std::optional<std::vector<int64_t>> ints(Var v) const { return context_->ints((*this)[v]); }
  // For use in conditions: says why a near miss was left alone, and returns false.
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

// A function of (onnx::Rewriter&, const Match&) or of (mil::Rewriter&, const Match&), which says what dialect the rule is for.
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
// What takes the place of the root's results. A null value declines.
using Build = BuildOf<Value*>;
using BuildAll = BuildOf<std::vector<Value*>>;

// One local rewrite. Exactly one of replace, build and build_all is given.
//  - `when` only looks; `build` only builds, at once before the root, and may decline by returning null: what it made goes again.
//  - The replacement must have the root's type, provably; else the rule is not applied. `same_type` says that the rule itself proves
//    it, where inference cannot.
struct Rule {
  std::string_view name = {};  // for the report, when a pass has several
  Numerics numerics = Numerics::kExact;
  Pattern match;
  Condition when = {};
  std::optional<Pattern> replace = {};
  Build build = {};
  BuildAll build_all = {};  // one value per result of the root; null for results that nobody reads
  int opset = 0;            // ONNX: the least version of the default domain that the right side needs
  bool same_type = false;
};

// ---------------------------------------------------------------------------------------------------------------------
// Passes

// A pass that looks at more than a neighbourhood. Each function returns whether it changed anything.
using GraphWalk =
    std::function<bool(Graph&, PassContext&)>;  // called for a function's graph; nested graphs are the walk's business
using ModelWalk = std::function<bool(PassContext&)>;

// Operators without which a walk has nothing to do: it is left out in models that do not have one of each list, in whatever version. What a
// rule needs follows from its pattern.
//   Pass::on_graph(Numerics::kExact, needs({"MatMul", "Gemm"}).and_one_of({"Mul", "Div"}), [](Graph& g, PassContext& context) { ... })
struct NeededOps {
  NeededOps and_one_of(std::initializer_list<std::string_view> ops) const;

  std::vector<std::vector<std::string_view>> lists;
};
// A name that ends in '*' stands for all operators whose names begin so.
NeededOps needs(std::initializer_list<std::string_view> one_of);

class Pass {
 public:
  Pass(Rule r) { rules.push_back(std::move(r)); }
  Pass(std::vector<Rule> r) : rules(std::move(r)) {}
  static Pass on_graph(Numerics numerics, GraphWalk walk);
  static Pass on_graph(Numerics numerics, NeededOps needed, GraphWalk walk);
  static Pass on_model(Numerics numerics, ModelWalk walk);

  // Declares an option, for help and for refusing others: name and what it means.
  Pass option(std::string_view name, std::string_view meaning) const;
  // Its result is not a fixed point, for this reason.
  Pass not_idempotent(std::string_view why) const;

  std::vector<Rule> rules;
  GraphWalk graph_walk;
  ModelWalk model_walk;
  Numerics walk_numerics = Numerics::kExact;
  std::vector<std::pair<std::string_view, std::string_view>> options;
  NeededOps needed_ops;
  std::string_view no_fixed_point;

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
