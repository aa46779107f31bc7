// The words in which the analysis of precision speaks of ops: those of MIL. ONNX's operators are translated.
//
// An ONNX operator that means what an op of MIL means has its name, and the slots have its names, whether
// they are operands or attributes of numbers.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::precision {

// "real_div" for Div; empty for ops that the analysis does not know.
std::string_view word_of(const Op& op);
inline bool is(const Node& n, std::string_view word) { return word_of(n.op()) == word; }
template <class Words>
bool is_in(const Words& words, const Node& n) {
  const std::string_view own = word_of(n.op());
  return !own.empty() && std::ranges::find(words, own) != std::end(words);
}

// The name of the slot of operand i; empty if it has none here.
std::string_view slot_word(const Node& n, size_t i);
// The operand in that slot, null if it is absent. Not for lists.
Value* operand(Node& n, KnownValues& known, std::string_view slot);
// The number in that slot, if it is known.
std::optional<double> number(Node& n, KnownValues& known, std::string_view slot);

// The axes that a layer normalization normalizes; nullopt if they are not known.
std::optional<std::vector<int64_t>> normalized_axes(Node& n, KnownValues& known);
// Whether the last two axes of operand x (0) or y (1) of a matrix product are swapped.
bool is_transposed(Node& n, KnownValues& known, size_t operand);

// The values from outside or from the end of a body that `v` takes: of an input of a body, and of a result of
// an op with bodies.
std::vector<const Value*> taken_by(const Value& v);

}  // namespace sardonyx::precision
