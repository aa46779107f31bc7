// What a user says of the inputs of a model: their shapes, and the sizes that have names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sardonyx/dtype.h"

namespace sardonyx {

// One axis: a number, or a named size or an expression of such ("B", "T + 1"). Empty: the model's own size
// stays.
using AxisSize = std::variant<std::monostate, int64_t, std::string>;

struct InputShape {
  std::string input;
  std::vector<AxisSize> sizes;
  DType dtype = DType::kUndefined;  // compared with the model's, unless it is undefined
};

// What holds for a named size. The model's own bound stays where an end is not given.
struct SizeBounds {
  std::string name;
  std::optional<int64_t> min, max;
};

// The number that a named size is by default.
struct DefaultSize {
  std::string name;
  int64_t size = 0;
};

// An input that takes a few shapes and no others; the first is the default.
struct EnumeratedShapes {
  std::string input;
  std::vector<std::vector<int64_t>> shapes;
};

}  // namespace sardonyx
