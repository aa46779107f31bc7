// A coremltools program in native form: a model, and the coremltools ops and variables its nodes and values
// were read from.
//
// Python refers to ops and values by numbers, given in the order in which they are read. Values that passes
// make get the next numbers.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "native/coreml/payloads.h"
#include "sardonyx/infer.h"

namespace sardonyx::python {

// An op as it was read.
struct ImportedOp {
  Node* node = nullptr;
  const Graph* graph = nullptr;
  nb::object object;
  const Op* op = nullptr;
  Name name;
  const Tensor* payload = nullptr;
  size_t first_operand = 0;  // in ImportedProgram::operands
  size_t first_result = 0;   // in ImportedProgram::values
  bool rebuilt = false;      // another node holds its blocks now
};

// A block as it was read.
struct ImportedBlock {
  size_t first = 0, last = 0;  // numbers of its ops, including those of nested blocks
  uint32_t owner = 0;          // the op that holds it
  std::vector<std::pair<Name, Value*>> outputs;
  std::vector<std::pair<Name, const Type*>> inputs;
};

struct ImportedProgram {
  std::unique_ptr<Model> model;
  ValueFacts facts;                       // small integer values that coremltools knows
  bool has_constexpr = false;             // whether some op decompresses a weight
  std::vector<ImportedOp> ops;            // by number
  std::vector<Value*> operands;           // of the ops
  std::vector<Value*> values;             // by number
  std::vector<nb::object> variables;      // likewise
  std::vector<Name> value_names;          // likewise; names as read
  std::vector<const Type*> types_before;  // likewise; types before the passes ran
  std::unordered_map<const Graph*, ImportedBlock> blocks;
  std::unordered_map<const Value*, const Type*> input_types;  // of block inputs, as read
  // The variable that has this payload: that of a const, or of an op whose value coremltools has computed.
  std::unordered_map<const Tensor*, uint32_t> variable_of;
  std::vector<TensorPtr> kept_payloads;                        // keep the keys of variable_of alive
  std::unordered_map<const std::byte*, BorrowedArray> arrays;  // large arrays that tensors borrow, by their first element
};

// Python functions that return the text of a type, the version of an op, the payload of a variable and the
// opset of a function.
struct ImportHelpers {
  nb::object type_text, version, payload, opset;
};

// Reads the functions of a program into a model, op by op.
ImportedProgram import_program(const nb::dict& functions, int64_t specification_version, const ImportHelpers& helpers);

}  // namespace sardonyx::python
