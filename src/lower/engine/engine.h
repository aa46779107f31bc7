// The engine of all lowerings: from the main function of a model of one dialect to a model of another. It
// walks over nodes, finds the lowering of each in a table, checks and binds the results, and collects
// refusals. It knows no operator; a pair of dialects derives its context from EngineOf and overrides what
// differs.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/builder.h"
#include "sardonyx/ir.h"
#include "sardonyx/lowering.h"

namespace sardonyx::lower {

// How a pair of dialects words its errors and treats types and provenance.
struct Pair {
  std::string node = "node";        // a node of the source: "equation"
  std::string task = "this model";  // "cannot convert 2 nodes of {task}"
  std::string no_lowering;          // the reason given for an operator that the table lacks
  std::string help;                 // the last note of the error if the table lacks an operator
  bool provenance = true;
  // Whether results get exactly the type that the source states. If not, they get the more precise of that
  // type and the inferred one.
  bool exact_types = false;
};

// A kind of node that was refused; one line of the error.
struct Refusal {
  std::string op;
  std::string types;   // "f32[B,3], i32[] -> f32[B,3]"
  std::string reason;  // empty: the table lacks the operator
  std::string source;  // "at model.py:41 (loss)", or "node 'name'"
  size_t count = 0;
};

// "Name", or "domain::Name" outside of the default domain: the key of a table.
std::string spelled(const Op& op);

// The value of all elements, if they are equal. Null for tensors of more than `most` elements that are not
// stored as a splat.
std::optional<double> splat_value(const TensorPtr& t, int64_t most);

class Engine {
 public:
  Engine(const Model& source, Model& target, Pair pair)
      : source_(source), target_(target), pair_(std::move(pair)), values_(source, nullptr) {}
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Lowers the main function: inputs, nodes, results. Throws one Error(kUnsupported) that lists all refusals.
  void run();

  const Model& source() const { return source_; }
  Model& model() const { return target_; }
  const Pair& pair() const { return pair_; }
  // Where the nodes made for each source node begin, as node ids of the target: see ir/graph/arrange.h.
  std::span<const uint32_t> batches() const { return batches_; }

  // Dims and types of the source, in the tables of the target. The type of null is null.
  Dim import(Dim d);
  const Type* import(const Type* t);
  // How the target holds a value of an imported type, for example complex numbers as pairs of floats. Null if
  // it cannot.
  virtual const Type* stored(const Type* t) { return t; }
  const Type* stored_type(const Type* source) { return stored(import(source)); }

  void bind(const Value& source, Value* target) { values_[source] = target; }
  // The lowered value of a source value; constants are added on first use.
  Value* value(const Value& source, Builder& b);

  // Lowers the nodes of `graph` in order with `b`. The inputs of `graph` must be bound.
  void lower_nodes(const Graph& graph, Builder& b);
  // The same for a body of `caller`: nodes without a source line of their own get the caller's.
  void lower_body(const Graph& graph, const Node& caller, Builder& b);
  // Attributes the nodes that `b` and the main builder write from now on to `n`.
  void mark(const Node& n, Builder& b);

 protected:
  virtual Builder& main() = 0;
  // Where the lowering of an operator comes from; nullopt if there is none.
  virtual std::optional<std::string_view> lowering_origin(const Op& op) = 0;
  // Runs the lowering of `n`, after mark().
  virtual std::vector<Value*> lower(const Node& n, Builder& b) = 0;

  // A new input of the main graph, bound to the input i of the source; a new result of the main graph.
  virtual void add_input(const Port& port, size_t i);
  virtual void add_output(const Port& port, Value& source, size_t i);
  virtual Value* add_constant(const Value& source, Builder& b);
  // Whether the users of `source` accept a type other than the expected one.
  virtual bool may_differ(const Value& /*source*/, const Type* /*found*/, const Type* /*expected*/) { return false; }
  // Called for each result of a node. `knows_more`: the source's type is more precise than the inferred one.
  virtual void on_result(const Value& /*source*/, Value& /*v*/, Builder& /*b*/, bool /*knows_more*/) {}
  // Completes the provenance of what replaces `n`.
  virtual void describe(const Node& /*n*/, Provenance& /*p*/) {}

  // Takes over the refusals and batches of another part of the same conversion.
  void take(const Engine& other);

  std::vector<const Node*> callers_;  // whose bodies are being lowered, outermost first

 private:
  void lower_node(const Node& n, Builder& b);
  void begin_batch();
  void bind_results(const Node& n, std::span<Value* const> results, Builder& b);
  bool settle_type(const Node& n, size_t i, Value& v);
  void refuse(const Node& n, std::string reason);
  void stand_in(const Node& n);
  void report_refusals() const;
  uint32_t source_of(const Node& n) const;  // a provenance index of the source model
  uint32_t import_provenance(const Node& n);
  std::string types_text(const Node& n) const;
  std::string source_text(const Node& n) const;

  const Model& source_;
  Model& target_;
  const Pair pair_;
  ValueMap<Value*> values_;
  std::unordered_map<uint64_t, Dim> dims_;
  std::unordered_map<const Type*, const Type*> types_;
  std::unordered_map<uint64_t, uint32_t> provenance_;
  std::map<std::string, Refusal> refused_;  // keyed by the text of all fields
  std::vector<uint32_t> batches_{0};
};

// The engine with the table and the builder of one pair of dialects. `Lowering` is, or derives from,
// LoweringOf; its context derives from EngineOf<Lowering>.
template <class Lowering>
class EngineOf : public Engine {
 public:
  using BuilderType = typename Lowering::BuilderType;

  // Writes into `graph` of the target. `table` must outlive the engine.
  EngineOf(const Model& source, Graph& graph, Pair pair, const Table<Lowering>& table)
      : Engine(source, graph.model(), std::move(pair)), table_(table), main_(graph, facts_) {}

 protected:
  Builder& main() override { return main_; }
  std::optional<std::string_view> lowering_origin(const Op& op) override {
    const Entry& e = entry(op);
    return e.fn == nullptr ? std::nullopt : std::optional(e.origin);
  }
  std::vector<Value*> lower(const Node& n, Builder& b) override {
    mark(n, b);
    Lowering ctx(static_cast<typename Lowering::ContextType&>(*this), n, static_cast<BuilderType&>(b));
    return lower_with(ctx);
  }
  std::vector<Value*> lower_with(Lowering& ctx) { return (*entry(ctx.node.op()).fn)(ctx); }

  const Table<Lowering>& table_;
  ValueFacts facts_;
  BuilderType main_;

 private:
  struct Entry {
    const typename Table<Lowering>::Fn* fn = nullptr;
    std::string_view origin;
  };
  const Entry& entry(const Op& op) {
    auto [at, fresh] = entries_.try_emplace(&op);
    if (fresh) {
      const std::string name = spelled(op);
      at->second = {table_.find(name), table_.origin(name)};
    }
    return at->second;
  }

  std::unordered_map<const Op*, Entry> entries_;
};

}  // namespace sardonyx::lower
