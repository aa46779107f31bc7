// The changes that passes made to an imported program, as edits of coremltools' own objects.
//
// Edits refer to ops and values by their numbers in the ImportedProgram. Python applies them: apply_edits()
// in _coreml_program.py.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "native/coreml/imported_program.h"

namespace sardonyx::python {

// The elements of an imported array in another shape or order.
struct ArrayView {
  nb::object array;
  nb::tuple shape;
  nb::list strides;  // in elements
};

struct OperandEdit {
  std::string slot;
  bool is_list = false;
  nb::list values;
};

// An input of a function, or of a new block.
struct InputEdit {
  std::string name, type;  // type only for a new function
  uint32_t value = 0;
  bool has_new_type = false;
};

struct ResultEdit {
  std::string name;
  uint32_t value = 0;
};

// A changed or new op.
struct OpEdit {
  std::optional<uint32_t> op;  // none: a new op
  std::string type;            // "" for a new constant
  nb::object constant;         // of a new constant: the number of a variable with that value, an ArrayView or an ir.Tensor
  std::string name;
  std::vector<OperandEdit> operands;
  nb::list results, result_names;  // numbers, strings
  nb::list blocks;                 // BlockEdit, or None where nothing changed in the block
  nb::list sources;                // numbers of the ops that a new op replaces
  std::optional<uint32_t> before;  // a new op goes before this one; none: at the end
  bool has_new_types = false;      // results have other types than before
};

// A changed block, or a new one, whose ops are all new.
struct BlockEdit {
  std::vector<InputEdit> inputs;
  std::vector<OpEdit> ops;                         // in order
  nb::list removed;                                // numbers of ops
  std::optional<std::vector<ResultEdit>> results;  // none: as before
  std::optional<std::vector<int64_t>> order;       // numbers of all ops in order, -1 - i for ops[i]; none: no op moved
};

struct FunctionEdit {
  std::string opset;
  BlockEdit block;
};

class EditCollector {
 public:
  explicit EditCollector(ImportedProgram& program) : p_(program) {}

  // The edits of an imported function; none if nothing changed.
  std::optional<BlockEdit> function(const std::string& name);
  // Names of the functions that passes made.
  std::vector<std::string> new_functions() const;
  FunctionEdit new_function(const std::string& name);

 private:
  struct Edits {
    std::vector<OpEdit> ops;
    std::optional<uint32_t> before;
  };

  Graph& graph_of(const std::string& name);
  uint32_t number(Value* v);
  std::optional<uint32_t> imported(Node& n);
  bool is_unchanged(const ImportedOp& o) const;
  bool has_new_type(const Value& input) const;
  bool has_new_types(Node& n);
  bool has_same_results(const Graph& g, const ImportedBlock& block) const;
  bool has_same_inputs(const Graph& g, const ImportedBlock& block) const;
  std::optional<BlockEdit> edit_block(Graph& g);
  BlockEdit new_block(Graph& g);
  std::vector<ResultEdit> results_of(Graph& g, Edits& edits);
  nb::object constant_value(const TensorPtr& t) const;
  void add_constant(Value* v, const Node& user, const Slot* slot, Edits& edits);
  void add_op(Node& n, std::optional<uint32_t> known, nb::list blocks, Edits& edits);
  std::vector<OperandEdit> operands_of(Node& n, Edits& edits);
  nb::list sources(const Node& n) const;

  ImportedProgram& p_;
  std::unordered_map<const Value*, uint32_t> value_numbers_;  // filled on the first change
  std::unordered_map<const Node*, uint32_t> op_numbers_;      // likewise
};

}  // namespace sardonyx::python
