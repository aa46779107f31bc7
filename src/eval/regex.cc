// A parser to instructions, and a simulation of all paths at once (Thompson 1968; Cox, "Regular Expression Matching Can Be
// Simple And Fast"): no backtracking, no recursion over the text.
#include "eval/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sardonyx/error.h"

namespace sardonyx::eval {
namespace {

constexpr uint32_t kLast = 0x10ffff;
constexpr size_t kMaxCode = 100'000;
constexpr int kMaxDepth = 500;

// The next character; a byte that is no UTF-8 stands for itself.
uint32_t next_char(std::string_view s, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(s[i]); };
  const uint8_t first = byte(at);
  const size_t more = first < 0x80 ? 0 : first >= 0xf0 && first < 0xf8 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  if (more == 0 || at + more >= s.size() || first >= 0xf8) return ++at, first;
  uint32_t c = first & (0x3fu >> more);
  for (size_t i = 1; i <= more; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return ++at, first;
    c = (c << 6) | (byte(at + i) & 0x3f);
  }
  at += more + 1;
  return c;
}

}  // namespace

class RegexParser {
 public:
  RegexParser(std::string_view text, Regex& out) : text_(text), out_(out) {}

  void run() {
    alternatives(0);
    if (at_ < text_.size()) fail("an unmatched )");
    emit({Regex::Kind::kAccept});
  }

 private:
  using Code = std::vector<Regex::Instruction>;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorCode::kInvalidModel, fmt::format("the pattern \"{}\" has {} at {}", text_, what, at_));
  }
  [[noreturn]] void unsupported(std::string_view what) const {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the pattern \"{}\" has {} at {}, which is not supported", text_, what, at_));
  }

  bool more() const { return at_ < text_.size(); }
  bool eat(char c) {
    if (!more() || text_[at_] != c) return false;
    return ++at_, true;
  }
  Code& code() { return out_.code_; }
  uint32_t here() { return static_cast<uint32_t>(code().size()); }
  void emit(Regex::Instruction i) {
    if (code().size() >= kMaxCode) throw Error(ErrorCode::kLimit, fmt::format("the pattern \"{}\" is too large", text_));
    code().push_back(i);
  }
  // A piece of code moved to another place: its targets move along.
  void append_moved(const Code& piece, uint32_t from) {
    const uint32_t to = here();
    for (Regex::Instruction i : piece) {
      if (i.kind == Regex::Kind::kSplit || i.kind == Regex::Kind::kJump) {
        i.a = i.a - from + to;
        i.b = i.b - from + to;
      }
      emit(i);
    }
  }

  void alternatives(int depth) {
    if (depth > kMaxDepth) throw Error(ErrorCode::kLimit, fmt::format("the pattern \"{}\" is nested too deeply", text_));
    const bool outer_case = ignore_case_, outer_dot = dot_newline_;
    std::vector<uint32_t> ends;
    while (true) {
      const uint32_t start = here();
      sequence(depth);
      if (!eat('|')) break;
      // Split before what was just read: insert, and move it along.
      Code piece(code().begin() + start, code().end());
      code().resize(start);
      emit({Regex::Kind::kSplit, start + 1, start + 2 + static_cast<uint32_t>(piece.size())});
      append_moved(piece, start);
      ends.push_back(here());
      emit({Regex::Kind::kJump});
    }
    for (uint32_t e : ends) code()[e].a = code()[e].b = here();
    ignore_case_ = outer_case;
    dot_newline_ = outer_dot;
  }

  void sequence(int depth) {
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      const uint32_t start = here();
      atom(depth);
      while (more() && repeat(start)) {}
    }
  }

  // What may follow an atom; false when nothing does.
  bool repeat(uint32_t start) {
    int low = 0, high = -1;
    const size_t back = at_;
    if (eat('*')) {
    } else if (eat('+')) {
      low = 1;
    } else if (eat('?')) {
      high = 1;
    } else if (eat('{')) {
      const auto number = [&]() -> std::optional<int> {
        const size_t first = at_;
        int n = 0;
        while (more() && text_[at_] >= '0' && text_[at_] <= '9' && n < 10000) n = n * 10 + (text_[at_++] - '0');
        return at_ == first ? std::nullopt : std::optional(n);
      };
      const auto n = number();
      std::optional<int> m = n;
      if (n && eat(',')) m = number().value_or(-1);
      if (!n || !eat('}')) {  // no repetition: a brace
        at_ = back;
        return false;
      }
      low = *n;
      high = *m;
      if (low > 1000 || high > 1000 || (high >= 0 && high < low)) fail("a bad repetition");
    } else {
      return false;
    }
    eat('?');  // lazy: the same texts match
    const Code piece(code().begin() + start, code().end());
    code().resize(start);
    for (int i = 0; i < low; ++i) append_moved(piece, start);
    if (high < 0) {
      const uint32_t split = here();
      emit({Regex::Kind::kSplit, split + 1, split + 2 + static_cast<uint32_t>(piece.size())});
      append_moved(piece, start);
      emit({Regex::Kind::kJump, split, split});
    } else {
      std::vector<uint32_t> splits;
      for (int i = low; i < high; ++i) {
        splits.push_back(here());
        emit({Regex::Kind::kSplit, here() + 1, 0});
        append_moved(piece, start);
      }
      for (uint32_t s : splits) code()[s].b = here();
    }
    return true;
  }

  void set(Regex::Set s) {
    if (ignore_case_) {
      std::vector<Regex::Range> both = s.ranges;
      for (const Regex::Range& r : s.ranges) {
        for (uint32_t c = std::max<uint32_t>(r.low, 'A'); c <= std::min<uint32_t>(r.high, 'Z'); ++c)
          both.push_back({c + 32, c + 32});
        for (uint32_t c = std::max<uint32_t>(r.low, 'a'); c <= std::min<uint32_t>(r.high, 'z'); ++c)
          both.push_back({c - 32, c - 32});
      }
      s.ranges = std::move(both);
    }
    emit({Regex::Kind::kSet, static_cast<uint32_t>(out_.sets_.size()), 0});
    out_.sets_.push_back(std::move(s));
  }

  void atom(int depth) {
    if (eat('(')) {
      const bool outer_case = ignore_case_, outer_dot = dot_newline_;
      if (eat('?')) {
        if (eat('P') || (more() && text_[at_] == '<')) {
          if (!eat('<')) fail("a group of an unknown kind");
          while (more() && text_[at_] != '>') ++at_;
          if (!eat('>')) fail("a name without end");
        } else if (flags()) {
          return;  // (?i): holds to the end of the group
        }
      }
      alternatives(depth + 1);
      if (!eat(')')) fail("an unmatched (");
      ignore_case_ = outer_case;
      dot_newline_ = outer_dot;
    } else if (eat('[')) {
      set(bracket());
    } else if (eat('.')) {
      set(dot_newline_ ? Regex::Set{{{0, kLast}}} : Regex::Set{{{'\n', '\n'}}, true});
    } else if (eat('^')) {
      emit({Regex::Kind::kStart});
    } else if (eat('$')) {
      emit({Regex::Kind::kEnd});
    } else if (eat('\\')) {
      escape();
    } else if (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?') {
      fail("nothing to repeat");
    } else {
      const uint32_t c = next_char(text_, at_);
      set({{{c, c}}});
    }
  }

  // After "(?": flags up to ':' or ')'. True when the group ends with them.
  bool flags() {
    bool on = true;
    while (more()) {
      const char c = text_[at_++];
      if (c == ':') return false;
      if (c == ')') return true;
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        ignore_case_ = on;
      } else if (c == 's') {
        dot_newline_ = on;
      } else if (c != 'U' && c != 'm') {
        break;
      } else if (c == 'm') {
        unsupported("the flag m");
      }
    }
    fail("flags that are not known");
  }

  static std::optional<std::vector<Regex::Range>> perl_class(char c) {
    switch (c) {
      case 'd': return {{{'0', '9'}}};
      case 's': return {{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}};
      case 'w': return {{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}};
      default: return std::nullopt;
    }
  }

  static std::vector<Regex::Range> complement(std::vector<Regex::Range> r) {
    std::ranges::sort(r, {}, &Regex::Range::low);
    std::vector<Regex::Range> out;
    uint32_t next = 0;
    for (const Regex::Range& x : r) {
      if (x.low > next) out.push_back({next, x.low - 1});
      next = std::max(next, x.high + 1);
    }
    if (next <= kLast) out.push_back({next, kLast});
    return out;
  }

  // After a backslash: one character.
  uint32_t escaped_char() {
    if (!more()) fail("a \\ at its end");
    const char c = text_[at_];
    switch (c) {
      case 'n': return ++at_, '\n';
      case 't': return ++at_, '\t';
      case 'r': return ++at_, '\r';
      case 'f': return ++at_, '\f';
      case 'v': return ++at_, '\v';
      case 'a': return ++at_, '\a';
      case 'x': {
        ++at_;
        const bool braces = eat('{');
        uint32_t v = 0;
        int digits = 0;
        while (more() && (braces || digits < 2)) {
          const char h = text_[at_];
          const int d = h >= '0' && h <= '9'   ? h - '0'
                        : h >= 'a' && h <= 'f' ? h - 'a' + 10
                        : h >= 'A' && h <= 'F' ? h - 'A' + 10
                                               : -1;
          if (d < 0 || digits > 6) break;
          v = v * 16 + static_cast<uint32_t>(d);
          ++digits;
          ++at_;
        }
        if (digits == 0 || (!braces && digits != 2) || (braces && !eat('}')) || v > kLast) fail("a bad \\x");
        return v;
      }
      default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) unsupported(fmt::format("\\{}", c));
    return next_char(text_, at_);
  }

  void escape() {
    if (!more()) fail("a \\ at its end");
    const char c = text_[at_];
    if (c == 'A' || c == 'z') {
      ++at_;
      return emit({c == 'A' ? Regex::Kind::kStart : Regex::Kind::kEnd});
    }
    if (c == 'b' || c == 'B') {
      ++at_;
      return emit({Regex::Kind::kBoundary, c == 'b' ? 1u : 0u});
    }
    if (c == 'Q') {
      ++at_;
      while (more() && text_.substr(at_, 2) != "\\E") {
        const uint32_t ch = next_char(text_, at_);
        set({{{ch, ch}}});
      }
      at_ = std::min(at_ + 2, text_.size());
      return;
    }
    if (auto ranges = perl_class(c)) return ++at_, set({*ranges});
    if (auto ranges = perl_class(static_cast<char>(c | 32)); ranges && c >= 'A' && c <= 'Z') return ++at_, set({*ranges, true});
    const uint32_t ch = escaped_char();
    set({{{ch, ch}}});
  }

  static std::optional<std::vector<Regex::Range>> named_class(std::string_view name) {
    using R = std::vector<Regex::Range>;
    if (name == "alnum") return R{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    if (name == "alpha") return R{{'A', 'Z'}, {'a', 'z'}};
    if (name == "ascii") return R{{0, 127}};
    if (name == "blank") return R{{'\t', '\t'}, {' ', ' '}};
    if (name == "cntrl") return R{{0, 31}, {127, 127}};
    if (name == "digit") return R{{'0', '9'}};
    if (name == "graph") return R{{'!', '~'}};
    if (name == "lower") return R{{'a', 'z'}};
    if (name == "print") return R{{' ', '~'}};
    if (name == "punct") return R{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
    if (name == "space") return R{{'\t', '\r'}, {' ', ' '}};
    if (name == "upper") return R{{'A', 'Z'}};
    if (name == "word") return R{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    if (name == "xdigit") return R{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    return std::nullopt;
  }

  // After "[".
  Regex::Set bracket() {
    Regex::Set s;
    s.negated = eat('^');
    bool first = true;
    while (true) {
      if (!more()) fail("an unmatched [");
      if (text_[at_] == ']' && !first) break;
      first = false;
      auto add = [&](const std::vector<Regex::Range>& r) { s.ranges.insert(s.ranges.end(), r.begin(), r.end()); };
      if (text_.substr(at_, 2) == "[:") {
        const size_t end = text_.find(":]", at_);
        if (end == std::string_view::npos) fail("a class without end");
        std::string_view name = text_.substr(at_ + 2, end - at_ - 2);
        const bool negated = name.starts_with('^');
        if (negated) name.remove_prefix(1);
        const auto ranges = named_class(name);
        if (!ranges) fail("a class that is not known");
        add(negated ? complement(*ranges) : *ranges);
        at_ = end + 2;
        continue;
      }
      uint32_t low = 0;
      if (eat('\\')) {
        if (!more()) fail("a \\ at its end");
        const char c = text_[at_];
        if (auto r = perl_class(c)) {
          ++at_;
          add(*r);
          continue;
        }
        if (auto r = perl_class(static_cast<char>(c | 32)); r && c >= 'A' && c <= 'Z') {
          ++at_;
          add(complement(*r));
          continue;
        }
        low = escaped_char();
      } else {
        low = next_char(text_, at_);
      }
      uint32_t high = low;
      if (more() && text_[at_] == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = eat('\\') ? escaped_char() : next_char(text_, at_);
        if (high < low) fail("a range from high to low");
      }
      s.ranges.push_back({low, high});
    }
    ++at_;
    return s;
  }

  std::string_view text_;
  Regex& out_;
  size_t at_ = 0;
  bool ignore_case_ = false, dot_newline_ = false;
};

Regex::Regex(std::string_view pattern) { RegexParser(pattern, *this).run(); }

namespace {
bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }
bool is_boundary(std::string_view text, size_t at) {
  const bool before = at > 0 && is_word(text[at - 1]), after = at < text.size() && is_word(text[at]);
  return before != after;
}
}  // namespace

bool Regex::matches_all(std::string_view text) const {
  std::vector<uint32_t> now, next, stack;
  std::vector<size_t> seen(code_.size(), SIZE_MAX);
  size_t position = 0;
  // Follows what reads nothing.
  auto add = [&](std::vector<uint32_t>& list, uint32_t from, size_t mark) {
    stack.push_back(from);
    while (!stack.empty()) {
      const uint32_t i = stack.back();
      stack.pop_back();
      if (seen[i] == mark) continue;
      seen[i] = mark;
      switch (code_[i].kind) {
        case Kind::kSplit:
          stack.push_back(code_[i].b);
          stack.push_back(code_[i].a);
          break;
        case Kind::kJump: stack.push_back(code_[i].a); break;
        case Kind::kStart:
          if (position == 0) stack.push_back(i + 1);
          break;
        case Kind::kEnd:
          if (position == text.size()) stack.push_back(i + 1);
          break;
        case Kind::kBoundary:
          if (is_boundary(text, position) == (code_[i].a == 1)) stack.push_back(i + 1);
          break;
        default: list.push_back(i);
      }
    }
  };
  add(now, 0, 0);
  while (position < text.size() && !now.empty()) {
    const uint32_t c = next_char(text, position);
    next.clear();
    for (uint32_t i : now) {
      if (code_[i].kind != Kind::kSet) continue;
      const Set& s = sets_[code_[i].a];
      const bool in = std::ranges::any_of(s.ranges, [c](const Range& r) { return c >= r.low && c <= r.high; });
      if (in != s.negated) add(next, i + 1, position);
    }
    now.swap(next);
  }
  if (position < text.size()) return false;
  return std::ranges::any_of(now, [&](uint32_t i) { return code_[i].kind == Kind::kAccept; });
}

}  // namespace sardonyx::eval
