// Names that keep their meaning (OptimizeOptions::keep_names).
#pragma once

#include <string>
#include <unordered_map>

#include "sardonyx/ir.h"

namespace sardonyx {

// What the names of a model stand for, before passes change it.
class KeptNames {
 public:
  explicit KeptNames(Model& m);

  // Takes away the names of values that are no longer what had the name.
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
