// ModuleBuilder: makes the model of a StableHLO module from its operations. The text and the bytecode reader
// share it, so that one module gives one model (src/dialects/stablehlo/dialect.h says which).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::mlir {

// The parts of an MLIR location that a model keeps.
struct Location {
  std::string file;
  int line = 0;
  std::string function;
  std::string name;      // of the outermost named location: "jit(f)/layer/add"
  bool is_bare = false;  // a name and nothing else, as that of an argument
  friend bool operator==(const Location&, const Location&) = default;
};

// A line of a file; the location `name` around `inner`; `callee` called at `caller`; the first of `parts`
// that says something. Names are cut at 1 KiB, since each location has its own copy.
Location file_location(std::string file, uint64_t line);
Location named_location(std::string name, const Location& inner);
Location call_location(const Location& callee, const Location& caller);
Location fused_location(std::span<const Location> parts);

// An operation as it was read. Types have anonymous sizes for '?'.
struct Draft {
  std::string_view name;  // "stablehlo.add"
  std::vector<Value*> operands;
  std::vector<const Type*> results;
  AttrInit attributes;
  std::vector<Graph*> bodies;
  uint32_t location = 0;
};

// The results of an operation, which are adjacent.
struct Results {
  Value* first = nullptr;
  size_t count = 0;
};

// What a module says of an argument or a result of a function.
struct PortDraft {
  std::string name;  // empty: none
  AttrInit attributes;
};

// The ports that `arg_attrs` or `res_attrs` describes, a list of dictionaries.
std::vector<PortDraft> port_drafts(const Attr& list);

// Errors are kInvalidModel and kUnsupported, without a place: readers add it.
class ModuleBuilder {
 public:
  explicit ModuleBuilder(Model& model) : model_(model) { locations_.emplace_back(); }

  Model& model() const { return model_; }

  uint32_t add_location(Location location);
  const Location& location(uint32_t index) const { return locations_[index]; }

  // Adds an input; each '?' of the type becomes a size of its own.
  Value* add_input(Graph& graph, const Type* type);
  // Appends the node of an operation, or adds the constant.
  Results add(Graph& graph, Draft& draft);

  // Adds the function whose body is `graph`. Ports without a name are arg0, arg1 ... and result0 ...
  void add_function(std::string name, bool is_public, Graph& graph, std::span<const PortDraft> inputs,
                    std::span<const PortDraft> results);
  // Orders the functions, the entry first: "main", else the first public one, else the first. Checks calls.
  void finish();
  // The name of the module, which becomes the name of the entry's graph.
  void set_module_name(std::string name) { module_name_ = std::move(name); }

 private:
  struct FunctionDraft {
    std::string name;
    bool is_public;
    Graph* graph;
  };

  Results add_constant(Graph& graph, const Draft& draft);
  void check_call(const Node& call, const Graph& callee) const;
  void take_names(Graph& entry) const;
  const Type* with_sizes(const Type* type);
  uint32_t provenance(uint32_t location, const Op& op);

  Model& model_;
  std::string module_name_;
  std::vector<Location> locations_;
  std::unordered_map<uint64_t, uint32_t> provenances_;  // by location and op
  std::vector<FunctionDraft> functions_;
  std::vector<const Node*> calls_;
};

// Gives names to inputs of a function, no name twice.
class InputNames {
 public:
  explicit InputNames(Graph& graph);
  // Whether nothing has given the input a name: it is "arg0".
  bool is_default(size_t index) const;
  // Renames the input, unless another one has that name.
  void set(size_t index, std::string_view name);

 private:
  Graph& graph_;
  std::unordered_set<std::string> used_;
};

// Throws kLimit for ranks that no runtime has: each unknown size is an object.
void check_rank(size_t rank);

// The attributes of an operation in the kinds of the model, with defaults; see operations.h. Throws
// kInvalidModel for one that is missing or of another kind.
AttrInit model_attributes(std::string_view operation, AttrInit given, std::span<Value* const> operands);

// Whether a value of type `found` can be where a module says `declared`: unknown sizes fit every size.
bool fits(const Type* found, const Type* declared);

}  // namespace sardonyx::mlir
