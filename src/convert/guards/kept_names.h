// Names that keep their meaning (OptimizeOptions::keep_names).
#pragma once

#include <string>
#include <unordered_map>

#include "sardonyx/ir.h"

namespace sardonyx {

// Records the meaning of the names of a model before passes change it.
class KeptNames {
 public:
  explicit KeptNames(Model& m);

  // Removes the names of values whose meaning has changed.
  void drop_changed(Model& m) const;

 private:
  struct Meaning {
    TensorPtr payload;           // of a constant
    const Type* type = nullptr;  // of other values
    bool holds_for(const Value& v) const;
  };
  std::unordered_multimap<std::string, Meaning> names_;
};

}  // namespace sardonyx
