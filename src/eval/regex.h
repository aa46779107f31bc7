// Regular expressions in RE2's syntax, matched in time linear in the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::eval {

// A pattern, compiled. Throws Error (kInvalidModel) when it is no regular expression, kUnsupported for what RE2 has and this has not
// (Unicode classes by name, multi-line matching), kLimit when repetition makes it too large.
class Regex {
 public:
  explicit Regex(std::string_view pattern);
  bool matches_all(std::string_view text) const;  // of the whole text

 private:
  friend class RegexParser;
  struct Range {
    uint32_t low, high;
  };
  enum class Kind : uint8_t { kSet, kSplit, kJump, kStart, kEnd, kBoundary, kAccept };
  // kSet reads a character of sets_[set] and goes on at the next instruction; kSplit goes on at both; kStart and kEnd go on at the text's
  // ends, kBoundary where a word begins or ends (a == 1) or where none does.
  struct Instruction {
    Kind kind;
    uint32_t a = 0, b = 0;
  };
  struct Set {
    std::vector<Range> ranges;
    bool negated = false;
  };
  std::vector<Instruction> code_;
  std::vector<Set> sets_;
};

}  // namespace sardonyx::eval
