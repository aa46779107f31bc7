// WriteNames: chooses the names of values in a file.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"
#include "support/name_table.h"

namespace sardonyx::onnx_file {

// Chosen for a whole model before anything is written. Signatures keep their names, and a returned value
// takes its port's name. Other values keep their name if it is free, and unnamed ones get one if a user needs
// it. Names are unique in a graph, and no inner name equals that of an outer value that is used inside or
// computed before the body runs. An operator outside of the standard's tables may look for its bodies' inputs
// and results by name, so these keep theirs unless that hides a value used inside.
class WriteNames {
 public:
  explicit WriteNames(const Model& model);

  Name of(const Value& v) const { return v.id() < names_.size() ? names_[v.id()] : Name(); }
  // The name of result port i of g, and whether an Identity node must produce it because the value has
  // another name.
  Name output(const Graph& g, size_t i) const { return outputs_.at(&g)[i].name; }
  bool needs_identity(const Graph& g, size_t i) const { return outputs_.at(&g)[i].identity; }
  Name input(const Graph& g, size_t i) const { return of(*g.input(i)); }

 private:
  struct Scope {
    const Graph* graph;
    const Scope* outer;
    NameTable<const Value> table;
  };
  struct Output {
    Name name;
    bool identity = false;
  };

  void name_graph(const Graph& g, const Scope* outer);
  bool is_made_before(const Value& v, const Graph& inner);
  bool is_free(const Scope& s, std::string_view name, bool in_signature = false);
  bool take(Scope& s, Name name, const Value& v, bool in_signature = false);
  bool reserve(Scope& s, Name name);
  bool is_named_outside(const Value& v) const;
  void name_outputs(Scope& s, bool fixed);
  Name invent(Scope& s, std::string_view base);

  const Model& model_;
  std::deque<std::string> invented_;  // length and text, the layout of a Name
  std::vector<Name> names_;
  std::unordered_map<const Graph*, std::vector<Output>> outputs_;
  std::unordered_map<const Value*, bool> captured_;
  std::unordered_map<const Graph*, std::unordered_map<const Node*, size_t>>
      places_;  // node positions, for graphs that were queried
  std::unordered_map<std::string_view, uint64_t> counters_;
};

}  // namespace sardonyx::onnx_file
