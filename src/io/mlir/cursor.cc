#include "io/mlir/cursor.h"

#include <fmt/format.h>

#include <charconv>

#include "support/text_error.h"

namespace sardonyx::mlir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

void Cursor::skip_blanks() {
  for (;;) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
    if (text_.substr(at_, 2) != "//") return;
    at_ = std::min(text_.find('\n', at_), text_.size());
  }
}

bool Cursor::take(std::string_view punctuation) {
  if (!is(punctuation)) return false;
  at_ += punctuation.size();
  return true;
}

void Cursor::expect(std::string_view punctuation) {
  if (!take(punctuation)) expected(fmt::format("'{}'", punctuation));
}

std::string_view Cursor::peek_word() {
  const size_t from = at();
  if (from == text_.size() || !is_letter(text_[from])) return {};
  size_t end = from + 1;
  while (end < text_.size() && is_word_char(text_[end])) ++end;
  return text_.substr(from, end - from);
}

bool Cursor::take_word(std::string_view word) {
  if (peek_word() != word) return false;
  at_ += word.size();
  return true;
}

void Cursor::expect_word(std::string_view word) {
  if (!take_word(word)) expected(fmt::format("'{}'", word));
}

std::string_view Cursor::word(std::string_view what) {
  const std::string_view w = peek_word();
  if (w.empty()) expected(what);
  at_ += w.size();
  return w;
}

std::string Cursor::name(std::string_view what) { return peek() == '"' ? string(what) : std::string(word(what)); }

std::string_view Cursor::sigil_name(char sigil, std::string_view what) {
  if (peek() != sigil) expected(what);
  size_t end = at_ + 1;
  while (end < text_.size() && (is_word_char(text_[end]) || text_[end] == '-')) {
    if (text_.substr(end, 2) == "->") break;
    ++end;
  }
  if (end == at_ + 1) expected(what);
  const std::string_view name = text_.substr(at_, end - at_);
  at_ = end;
  return name;
}

std::string Cursor::symbol() {
  expect("@");
  return name("a symbol's name");
}

std::string Cursor::string(std::string_view what) {
  if (peek() != '"') expected(what);
  const size_t from = at_;
  std::string out;
  for (size_t i = from + 1; i < text_.size() && text_[i] != '\n'; ++i) {
    const char c = text_[i];
    if (c == '"') {
      at_ = i + 1;
      return out;
    }
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escaped = ++i < text_.size() ? text_[i] : '\0';
    if (escaped == 'n') {
      out += '\n';
    } else if (escaped == 't') {
      out += '\t';
    } else if (escaped == '"' || escaped == '\\') {
      out += escaped;
    } else {
      const int high = hex_digit(escaped), low = i + 1 < text_.size() ? hex_digit(text_[i + 1]) : -1;
      if (high < 0 || low < 0) fail_at(i - 1, "a backslash is followed by n, t, \\, \" or two hexadecimal digits");
      out += static_cast<char>(high * 16 + low);
      ++i;
    }
  }
  fail_at(from, "this string has no end on its line");
}

std::string_view Cursor::number(std::string_view what) {
  const size_t from = at();
  size_t end = from;
  const auto is_at = [&](size_t i, auto&& kind) { return i < text_.size() && kind(text_[i]); };
  const auto hex = [](char c) { return hex_digit(c) >= 0; };
  if (text_.substr(end, 1) == "-") ++end;
  if (!is_at(end, is_digit)) expected(what);
  if (text_.substr(end, 2) == "0x" && is_at(end + 2, hex)) {
    for (end += 2; is_at(end, hex);) ++end;
  } else {
    while (is_at(end, is_digit)) ++end;
    if (text_.substr(end, 1) == ".") {
      for (++end; is_at(end, is_digit);) ++end;
    }
    if (is_at(end, [](char c) { return c == 'e' || c == 'E'; })) {
      const size_t sign = is_at(end + 1, [](char c) { return c == '+' || c == '-'; }) ? 1 : 0;
      if (is_at(end + 1 + sign, is_digit)) {
        for (end += 1 + sign; is_at(end, is_digit);) ++end;
      }
    }
  }
  at_ = end;
  return text_.substr(from, end - from);
}

int64_t Cursor::integer(std::string_view what) {
  const size_t from = at();
  const std::string_view digits = number(what);
  int64_t value = 0;
  if (!parse_integer(digits, value)) fail_at(from, fmt::format("expected {}, found '{}'", what, digits));
  return value;
}

std::string_view Cursor::skip_balanced(char open, char close) {
  const size_t from = at_;
  int depth = 1;
  for (size_t i = from; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '"') {
      for (++i; i < text_.size() && text_[i] != '"'; ++i) {
        if (text_[i] == '\\') ++i;
      }
    } else if (c == '-' && text_.substr(i, 2) == "->") {
      ++i;
    } else if (c == open) {
      ++depth;
    } else if (c == close && --depth == 0) {
      at_ = i + 1;
      return text_.substr(from, i - from);
    }
  }
  fail_at(from, fmt::format("no '{}' closes this", close));
}

void Cursor::expected(std::string_view what) {
  const std::string_view rest = text_.substr(at());
  std::string_view found = peek_word();
  if (found.empty()) found = rest.substr(0, std::min<size_t>(rest.find_first_of(" \n\t,()", 1), 40));
  fail(fmt::format("expected {}, found {}", what, rest.empty() ? "the end of the text" : fmt::format("'{}'", found)));
}

void Cursor::fail_at(size_t offset, std::string_view message, ErrorCode code) const {
  throw text_error(text_, file_, offset, message, code);
}

bool parse_integer(std::string_view digits, int64_t& value) {
  const bool negative = digits.starts_with('-');
  std::string_view rest = digits.substr(negative ? 1 : 0);
  const int base = rest.starts_with("0x") ? 16 : 10;
  if (base == 16) rest.remove_prefix(2);
  uint64_t magnitude = 0;
  const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), magnitude, base);
  if (code != std::errc() || end != rest.data() + rest.size()) return false;
  if (negative && magnitude > (uint64_t{1} << 63)) return false;
  value = static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  return true;
}

}  // namespace sardonyx::mlir
