// The text of an Einsum, taken apart (ONNX Einsum, attribute `equation`).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace sardonyx {

struct EinsumTerms {
  std::vector<std::string> operands;  // "b...c", one for each comma and one more
  std::optional<std::string>
      result;  // null without an arrow: the dots, then the letters that occur once, in alphabetical order
};

// "bij, bjk -> bik". Characters are not checked.
inline EinsumTerms split_einsum(std::string text) {
  std::erase(text, ' ');
  EinsumTerms e;
  if (const size_t arrow = text.find("->"); arrow != std::string::npos) {
    e.result = text.substr(arrow + 2);
    text.resize(arrow);
  }
  for (size_t comma; (comma = text.find(',')) != std::string::npos; text.erase(0, comma + 1))
    e.operands.push_back(text.substr(0, comma));
  e.operands.push_back(text);
  return e;
}

}  // namespace sardonyx
