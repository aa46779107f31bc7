// MilNames: chooses the names of ops and values in a program's file.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "io/coreml/mil_scope.h"
#include "sardonyx/ir.h"

namespace sardonyx::mil_file {

// Chosen for a whole program before anything is written. Inputs and results of functions keep their names. A
// returned value takes its port's name, through an identity op if it already has another (an input, a value
// returned twice). A later definition may reuse a name if the earlier value has no users after it; otherwise
// the later one is renamed.
class MilNames {
 public:
  explicit MilNames(const Model& model);

  std::string_view of(const Value& v) const;
  // The op's name; nullopt if it was read without one.
  std::optional<std::string_view> of(const Node& n) const;
  // The name of the const op for a constant of a graph.
  std::string_view const_op(const Value& v) const { return of(v); }
  // The name of result i of a function, and whether an identity op must make it.
  std::string_view output(const Graph& g, size_t i) const { return outputs_.at(&g)[i].name; }
  bool needs_identity(const Graph& g, size_t i) const { return outputs_.at(&g)[i].identity; }

  // Constants of g to write as const ops before node n, their first user there (null: before the end).
  const std::vector<const Value*>* before(const Graph& g, const Node* n) const {
    const auto at = consts_.find({&g, n});
    return at == consts_.end() ? nullptr : &at->second;
  }

 private:
  struct Output {
    std::string_view name;
    bool identity = false;
  };
  struct Place {
    const Graph* graph;
    const Node* node;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    size_t operator()(const Place& p) const {
      return std::hash<const void*>()(p.graph) * 31 + std::hash<const void*>()(p.node);
    }
  };

  void scan(const Graph& g);
  void use(const Value* v, const Graph& reader, const Node* n, size_t operand);
  void name_function(const Function& f);
  void name_graph(const Graph& g);
  void give(const Value& v, std::string_view wanted);
  void define(std::string_view name, const Value& v);
  std::string_view invent(std::string_view base);

  uint32_t clock_ = 0;
  ValueMap<uint32_t> made_, last_use_;
  ValueMap<std::string_view> names_;
  std::unordered_map<const Node*, std::string_view> op_names_;  // of ops without a name
  std::unordered_map<const Graph*, std::vector<Output>> outputs_;
  std::unordered_map<Place, std::vector<const Value*>, PlaceHash> consts_;
  std::unordered_map<const Value*, std::string> wanted_;  // for constants without a name
  std::unordered_set<std::string_view> taken_;            // in the current function
  LatestNames<const Value> latest_;
  std::unordered_map<std::string, uint32_t> counters_;
  std::deque<std::string> invented_;
};

// The ModelDescription, updated with the current names and element types of the functions' inputs and
// results.
std::string describe_interface(std::string_view description, const Model& m, const MilNames& names);

// Whether this operand's constant is written in place instead of as a const op.
bool is_literal(const Node& n, size_t operand);

}  // namespace sardonyx::mil_file
