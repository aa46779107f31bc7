// Lexer: the tokens of the .sx text form, read one by one from a text that must outlive it.
#pragma once

#include <string>
#include <string_view>

#include "sardonyx/error.h"

namespace sardonyx::text {

enum class Token : unsigned char {
  kEnd,
  kWord,    // letters, digits, '_', '.'
  kNumber,  // digits first, or '-' and a digit, "-inf", "-nan"
  kString,  // "..."
  kValue,   // %12 or %"..."
  kPunct,   // one character, or "::" or "..."
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file);

  Token kind() const { return kind_; }
  std::string_view raw() const { return text_.substr(start_, end_ - start_); }
  bool is(std::string_view punct_or_word) const {
    return (kind_ == Token::kPunct || kind_ == Token::kWord) && raw() == punct_or_word;
  }
  size_t start() const { return start_; }
  size_t end() const { return end_; }
  std::string_view text() const { return text_; }

  void next();
  // Continues at `offset`.
  void seek(size_t offset);
  bool take(std::string_view punct_or_word) {
    if (!is(punct_or_word)) return false;
    next();
    return true;
  }
  void expect(std::string_view punct_or_word, std::string_view why = {});
  // The content of the current string or %"..." token, without advancing.
  std::string unquoted() const;
  // Returns the content of the current token, which must be a string, and advances.
  std::string string(std::string_view what);
  int64_t integer(std::string_view what);

  [[noreturn]] void fail(std::string message, ErrorCode code = ErrorCode::kParse) const {
    fail_at(start_, std::move(message), code);
  }
  [[noreturn]] void expected(std::string_view what) const;
  [[noreturn]] void fail_at(size_t offset, std::string message, ErrorCode code = ErrorCode::kParse) const;

 private:
  std::string_view text_, file_;
  size_t start_ = 0, end_ = 0;
  Token kind_ = Token::kEnd;
};

}  // namespace sardonyx::text
