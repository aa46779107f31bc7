// Samples of a coremltools program: which ops read which, found out without reading the program.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::python {

// A graph with one node for each way in which an op and the ops that it reads meet in a program, however large that is. Producers are told
// apart by their op alone, so what matches nowhere here matches nowhere there; that something does match here says nothing.
class Samples {
 public:
  // {name: coremltools' Function}
  explicit Samples(const nanobind::dict& functions);

  // Null if the program has ops, or operands, that no table knows.
  const Graph* graph() const { return known_ ? &model_.main().graph() : nullptr; }

 private:
  struct Kind {
    const Op* op = nullptr;  // the newest of that name; null if no table knows it
    Value* result = nullptr;
    bool is_const = false, has_blocks = false, is_sampled = false;
  };
  // One meeting: the op's type, and for each operand the slot's name and what makes it.
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
  Value* other_ = nullptr;  // what no op of the block makes
  std::unordered_map<PyTypeObject*, Kind> kinds_;
  std::unordered_map<Meeting, bool, HashOf> seen_;
  Meeting meeting_;
};

}  // namespace sardonyx::python
