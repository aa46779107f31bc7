// The names that values have in a file.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"
#include "support/name_table.h"

namespace sardonyx::onnx_file {

// Settled for a whole model before anything is written: signatures keep their names, a returned value takes its port's name, other
// values keep their own where it is free, and those without get one where a reader needs it. Names are unique in a graph, and no
// inner name is that of an outer value that is read from inside, or is there before the body runs.
class WriteNames {
 public:
  explicit WriteNames(const Model& model);

  Name of(const Value& v) const { return v.id() < names_.size() ? names_[v.id()] : Name(); }
  // The name of result port i of g; and whether an Identity node must make it from the value's own name.
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
  bool is_free(const Scope& s, std::string_view name);
  bool take(Scope& s, Name name, const Value& v);
  bool reserve(Scope& s, Name name);
  void name_outputs(Scope& s, bool fixed);
  Name invent(Scope& s, std::string_view base);

  const Model& model_;
  std::deque<std::string> invented_;  // length and text, as a Name has them
  std::vector<Name> names_;
  std::unordered_map<const Graph*, std::vector<Output>> outputs_;
  std::unordered_map<const Value*, bool> captured_;
  std::unordered_map<const Graph*, std::unordered_map<const Node*, size_t>> places_;  // of graphs in which somebody asked
  std::unordered_map<std::string_view, uint64_t> counters_;
};

}  // namespace sardonyx::onnx_file
