// Names in Core ML programs: those that any name becomes, and those of inputs and results.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace sardonyx::mil {

// Reserved words of MIL's text form.
inline constexpr std::string_view kWordsOfMil[] = {"any",   "bool",  "program", "func",  "tensor", "list",   "dict",   "tuple",
                                                   "true",  "false", "string",  "bf16",  "fp16",   "fp32",   "fp64",   "int8",
                                                   "int16", "int32", "int64",   "uint8", "uint16", "uint32", "uint64", "state"};

// The name in letters, digits and "_": one "_" for each other character of UTF-8, and "var_" before a digit.
inline std::string plain_name(std::string_view name) {
  std::string text;
  for (char c : name) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool continues = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (!continues) text += fine ? c : '_';
  }
  return !text.empty() && text[0] >= '0' && text[0] <= '9' ? "var_" + text : text;
}

// [a-zA-Z_][a-zA-Z0-9_]* and not a reserved word.
inline bool is_interface_name(std::string_view name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && !is_digit(name[0]) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || is_digit(c); }) &&
         std::ranges::find(kWordsOfMil, name) == std::end(kWordsOfMil);
}

}  // namespace sardonyx::mil
