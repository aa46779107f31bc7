// Cursor: reads the text of an MLIR module, one piece of syntax at a time.
// Source: https://mlir.llvm.org/docs/LangRef.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx::mlir {

// A place in a text that must outlive it. Each function first skips blanks and comments. `take` and its like
// return false and stay where they are when the text has something else; `expect` and the readers throw
// kParse.
class Cursor {
 public:
  Cursor(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  size_t at() {
    skip_blanks();
    return at_;
  }
  void seek(size_t offset) { at_ = offset; }
  bool at_end() { return at() == text_.size(); }
  // The next character; 0 at the end.
  char peek() { return at_end() ? '\0' : text_[at_]; }
  std::string_view text() const { return text_; }

  bool is(std::string_view punctuation) { return text_.substr(at()).starts_with(punctuation); }
  bool take(std::string_view punctuation);
  void expect(std::string_view punctuation);

  // Words: letters, digits, '_', '$' and '.', not beginning with a digit. Empty if there is none.
  std::string_view peek_word();
  bool is_word(std::string_view word) { return peek_word() == word; }
  bool take_word(std::string_view word);
  void expect_word(std::string_view word);
  std::string_view word(std::string_view what);
  // A word or a quoted string.
  std::string name(std::string_view what);
  // "%arg0", "%0", "^bb0", "#loc3": the sigil and what follows. Throws unless the text has the sigil here.
  std::string_view sigil_name(char sigil, std::string_view what);
  // The name behind '@'.
  std::string symbol();

  std::string string(std::string_view what);
  // The characters of a number, sign and exponent included.
  std::string_view number(std::string_view what);
  int64_t integer(std::string_view what);

  // Skips to behind the bracket that closes the one before the cursor; strings in between count as one piece.
  // Returns what lies in between.
  std::string_view skip_balanced(char open, char close);

  [[noreturn]] void expected(std::string_view what);
  [[noreturn]] void fail(std::string_view message, ErrorCode code = ErrorCode::kParse) { fail_at(at(), message, code); }
  [[noreturn]] void fail_at(size_t offset, std::string_view message, ErrorCode code = ErrorCode::kParse) const;

 private:
  void skip_blanks();

  std::string_view text_, file_;
  size_t at_ = 0;
};

// The integer that `digits` spell in decimal or, after 0x, in hexadecimal; nullopt unless it fits 64 bits,
// signed or unsigned.
bool parse_integer(std::string_view digits, int64_t& value);

}  // namespace sardonyx::mlir
