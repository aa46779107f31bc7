#include "ir/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/text/text.h"
#include "support/text_error.h"

namespace sardonyx::text {

Lexer::Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { next(); }

void Lexer::seek(size_t offset) {
  end_ = offset;
  next();
}

void Lexer::next() {
  size_t at = end_;
  for (;;) {
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\n' || text_[at] == '\t' || text_[at] == '\r')) ++at;
    if (text_.substr(at, 2) != "//") break;
    while (at < text_.size() && text_[at] != '\n') ++at;
  }
  start_ = at;
  if (at >= text_.size()) {
    kind_ = Token::kEnd;
    end_ = at;
    return;
  }
  auto string_end = [&](size_t from) {
    for (size_t i = from + 1; i < text_.size(); ++i) {
      if (text_[i] == '\\') {
        ++i;
      } else if (text_[i] == '"') {
        return i + 1;
      } else if (text_[i] == '\n') {
        break;
      }
    }
    fail_at(from, "this string has no end on its line");
  };
  char c = text_[at];
  if (is_letter(c)) {
    kind_ = Token::kWord;
    while (at < text_.size() && is_word_char(text_[at])) ++at;
    while (text_[at - 1] == '.') --at;
    end_ = at;
  } else if (is_digit(c) ||
             (c == '-' && at + 1 < text_.size() &&
              (is_digit(text_[at + 1]) || text_.substr(at + 1, 3) == "inf" || text_.substr(at + 1, 3) == "nan"))) {
    kind_ = Token::kNumber;
    for (++at; at < text_.size(); ++at) {
      char d = text_[at];
      bool exponent_sign =
          (d == '+' || d == '-') && (text_[at - 1] == 'e' || text_[at - 1] == 'E') && text_.substr(start_, 2) != "0x";
      if (d == '.' && text_.substr(at, 2) == "..") break;
      if (!is_word_char(d) && !exponent_sign) break;
    }
    end_ = at;
  } else if (c == '"') {
    kind_ = Token::kString;
    end_ = string_end(at);
  } else if (c == '%') {
    kind_ = Token::kValue;
    if (at + 1 < text_.size() && text_[at + 1] == '"') {
      end_ = string_end(at + 1);
    } else {
      for (++at; at < text_.size() && is_digit(text_[at]);) ++at;
      end_ = at;
      if (end_ == start_ + 1) fail("'%' begins a name: %12 or %\"any text\"");
    }
  } else {
    kind_ = Token::kPunct;
    std::string_view rest = text_.substr(at);
    end_ = at + (rest.starts_with("...") ? 3 : rest.starts_with("::") ? 2 : 1);
  }
}

void Lexer::expect(std::string_view what, std::string_view why) {
  if (take(what)) return;
  expected(why.empty() ? fmt::format("'{}'", what) : fmt::format("'{}' {}", what, why));
}

std::string Lexer::unquoted() const {
  std::string_view s = raw();
  if (s.starts_with('%')) s.remove_prefix(1);
  std::string out;
  for (size_t i = 1; i + 1 < s.size(); ++i) {
    if (s[i] != '\\') {
      out += s[i];
      continue;
    }
    char c = s[++i];
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == 'x') {
      unsigned v = 0;
      auto [end, code] = std::from_chars(s.data() + i + 1, s.data() + std::min(i + 3, s.size() - 1), v, 16);
      if (code != std::errc() || end != s.data() + i + 3) fail("\\x takes two hexadecimal digits");
      out += static_cast<char>(v);
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

std::string Lexer::string(std::string_view what) {
  if (kind_ != Token::kString) expected(what);
  std::string s = unquoted();
  next();
  return s;
}

int64_t Lexer::integer(std::string_view what) {
  std::string_view s = raw();
  int64_t v = 0;
  auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (kind_ != Token::kNumber || end != s.data() + s.size()) expected(what);
  if (code != std::errc()) fail(fmt::format("{} does not fit 64 bits", s));
  next();
  return v;
}

void Lexer::expected(std::string_view what) const {
  std::string found = kind_ == Token::kEnd ? "the end of the text" : fmt::format("'{}'", raw().substr(0, 40));
  fail(fmt::format("expected {}, found {}", what, found));
}

void Lexer::fail_at(size_t offset, std::string message, ErrorCode code) const {
  throw text_error(text_, file_, offset, message, code);
}

}  // namespace sardonyx::text
