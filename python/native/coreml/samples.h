// Samples of a coremltools program: which kinds of ops use which, found without reading the program.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// A graph with one node for each distinct combination of an op and the ops that make its operands, however
// large the program. Producers are distinguished by their op alone. A pattern that matches nowhere here
// matches nowhere in the program; a match here proves nothing.
class Samples {
 public:
  // {name: coremltools' Function}
  explicit Samples(const nanobind::dict& functions);

  // Null if the program has ops or operands that no table knows.
  const Graph* graph() const { return known_ ? &model_.main().graph() : nullptr; }

 private:
  struct Kind {
    const Op* op = nullptr;  // the newest version; null if no table knows the name
    Value* result = nullptr;
    bool is_const = false, has_blocks = false, is_sampled = false;
  };
  // One combination: the op's type, and each operand's slot name and producer.
  using Meeting = std::vector<const void*>;
  struct HashOf {
    size_t operator()(const Meeting& m) const;
  };

  void block(nanobind::handle block);
  void op(nanobind::handle op);
  Kind& kind(PyTypeObject* type);
  Value* made_by(PyTypeObject* type);

  Model model_{DialectId::kMil};
  bool known_ = true;
  Value* other_ = nullptr;  // stands for values that no op of the block makes
  std::unordered_map<PyTypeObject*, Kind> kinds_;
  std::unordered_map<Meeting, bool, HashOf> seen_;
  Meeting meeting_;
};

}  // namespace sardonyx::python
