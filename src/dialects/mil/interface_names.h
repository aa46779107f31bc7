// Names that are legal for inputs and results of a Core ML program everywhere.
#pragma once

#include <algorithm>
#include <string_view>

namespace sardonyx::mil {

// Reserved words of MIL's text form.
inline constexpr std::string_view kWordsOfMil[] = {"any",   "bool",  "program", "func",  "tensor", "list",   "dict",   "tuple",
                                                   "true",  "false", "string",  "bf16",  "fp16",   "fp32",   "fp64",   "int8",
                                                   "int16", "int32", "int64",   "uint8", "uint16", "uint32", "uint64", "state"};

// [a-zA-Z_][a-zA-Z0-9_]* and not a reserved word.
inline bool is_interface_name(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && !is_digit(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); }) &&
         std::ranges::find(kWordsOfMil, name) == std::end(kWordsOfMil);
}

}  // namespace sardonyx::mil
