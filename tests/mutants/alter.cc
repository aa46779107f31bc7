#include "alter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <exception>
#include <functional>
#include <set>
#include <string_view>

namespace sx_mutant {
namespace {

constexpr std::array<std::string_view, 18> kDtypes{"f32", "f16", "f64", "bf16", "i64", "i32", "i8", "u8", "bool",
                                                   "i16", "u64", "u32", "u16",  "str", "c64", "i4", "u4", "f8e4m3fn"};
bool is_dtype(const std::string& s) { return std::find(kDtypes.begin(), kDtypes.end(), s) != kDtypes.end(); }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
const std::set<std::string, std::less<>> kWords{"graph", "function", "return", "jax",  "mil",  "true",
                                                "false", "inf",      "nan",    "none", "opset"};

}  // namespace

// --- text

Alterer::Tokens Alterer::split(const std::string& s) {
  Tokens out;
  for (size_t i = 0; i < s.size();) {
    Token t;
    while (i < s.size() && (s[i] == ' ' || s[i] == '\n' || (s[i] == '/' && i + 1 < s.size() && s[i + 1] == '/'))) {
      if (s[i] == '/') {
        while (i < s.size() && s[i] != '\n') ++i;
        continue;
      }
      t.space += s[i++];
    }
    if (i == s.size()) break;
    const char before = i == 0 ? ' ' : s[i - 1];
    size_t end = i + 1;
    if (s[i] == '"' || (s[i] == '%' && i + 1 < s.size() && s[i + 1] == '"')) {
      end = s.find('"', i + (s[i] == '%' ? 2 : 1));
      while (end != std::string::npos && s[end - 1] == '\\') end = s.find('"', end + 1);
      end = end == std::string::npos ? s.size() : end + 1;
      t.kind = s[i] == '%' ? 'i' : 's';
    } else if (s[i] == '%') {
      while (end < s.size() && is_word(s[end])) ++end;
      t.kind = 'i';
    } else if (is_digit(s[i]) || (s[i] == '-' && end < s.size() && (is_digit(s[end]) || s[end] == 'i') &&
                                  (before == ' ' || before == ',' || before == '[' || before == '{' || before == '='))) {
      while (end < s.size() && (is_word(s[end]) || ((s[end] == '-' || s[end] == '+') && s[end - 1] == 'e' && s[i] != '0')))
        ++end;
      while (end > i + 3 && s.compare(end - 3, 3, "...") == 0) end -= 3;
      t.kind = 'n';
    } else if (is_word(s[i]) && s[i] != '.') {
      while (end < s.size() && (is_word(s[end]) || s[end] == '#')) ++end;
      t.kind = 'i';
    } else if (s.compare(i, 2, "::") == 0) {
      end = i + 2;
    } else if (s.compare(i, 3, "...") == 0) {
      end = i + 3;
    }
    t.text = s.substr(i, end - i);
    i = end;
    out.push_back(std::move(t));
  }
  return out;
}

std::string Alterer::join(const Tokens& t) {
  std::string s;
  for (const Token& k : t) s += k.space + k.text;
  return s + "\n";
}

size_t Alterer::match(const Tokens& t, size_t open) {
  size_t depth = 0;
  for (size_t i = open; i < t.size(); ++i) {
    const std::string& s = t[i].text;
    if (s == "(" || s == "<" || s == "[" || s == "{") ++depth;
    if (s == ")" || s == ">" || s == "]" || s == "}") --depth;
    if (depth == 0) return i;
  }
  return t.size();
}

std::vector<Alterer::Range> Alterer::list(const Tokens& t, size_t open) {
  std::vector<Range> out;
  const size_t close = match(t, open);
  if (close >= t.size() || close == open + 1) return out;
  Range r{open + 1, open + 1};
  for (size_t i = open + 1; i <= close; ++i) {
    if (i == close || t[i].text == ",") {
      r.end = i;
      out.push_back(r);
      r.begin = i + 1;
    } else if (t[i].text == "(" || t[i].text == "<" || t[i].text == "[" || t[i].text == "{") {
      i = match(t, i);
    }
  }
  return out;
}

std::vector<Alterer::Call> Alterer::calls(const Tokens& t) {
  std::vector<Call> out;
  for (size_t i = 1; i + 1 < t.size(); ++i) {
    if (t[i].kind != 'i' || kWords.contains(t[i].text) || is_dtype(t[i].text)) continue;
    Call c;
    c.name = c.begin = i;
    if (i >= 2 && t[i - 1].text == "::") c.begin = i - 2;
    if (t[c.begin - 1].text == "function") continue;
    size_t at = i + 1;
    if (t[at].text == "!") at += 2;
    if (at < t.size() && t[at].text == "<") {
      c.attrs = at;
      at = match(t, at) + 1;
    }
    if (at >= t.size() || t[at].text != "(") continue;
    c.open = at;
    c.end = match(t, at) + 1;
    if (c.end > t.size()) continue;
    c.operands = list(t, at);
    out.push_back(std::move(c));
  }
  return out;
}

std::string Alterer::text_of(const Tokens& t, Range r) {
  std::string s;
  for (size_t i = r.begin; i < r.end; ++i) s += (i == r.begin ? "" : t[i].space) + t[i].text;
  return s;
}

void Alterer::replace(Tokens& t, Range r, const std::string& text) {
  Tokens with = split(text);
  if (!with.empty() && r.begin < t.size() && with.front().space.empty()) with.front().space = t[r.begin].space;
  t.erase(t.begin() + static_cast<std::ptrdiff_t>(r.begin), t.begin() + static_cast<std::ptrdiff_t>(r.end));
  t.insert(t.begin() + static_cast<std::ptrdiff_t>(r.begin), with.begin(), with.end());
}

size_t Alterer::main_inputs(const Tokens& t) {
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i].text != "graph") continue;
    while (i < t.size() && t[i].text != "(") ++i;
    return i;
  }
  return t.size();
}

size_t Alterer::main_return(const Tokens& t) {
  size_t open = main_inputs(t);
  if (open >= t.size()) return t.size();
  open = match(t, open);
  while (open < t.size() && t[open].text != "{") ++open;
  if (open >= t.size()) return t.size();
  const size_t close = match(t, open);
  for (size_t i = open + 1; i < close; ++i) {
    if (t[i].text == "return") return i;
    if (t[i].text == "<" || t[i].text == "(" || t[i].text == "{" || t[i].text == "[") i = match(t, i);
  }
  return t.size();
}

// Where the statement begins that `at` stands in; 0 when that cannot be said.
size_t Alterer::statement(const Tokens& t, size_t at) {
  size_t depth = 0;
  for (size_t i = at; i-- > 0;) {
    const std::string& s = t[i].text;
    if (s == ")" || s == ">" || s == "]" || s == "}") ++depth;
    if (s == "(" || s == "<" || s == "[" || s == "{") {
      if (depth == 0) {
        if (s == "{") return i + 1;
        continue;  // inside of an operand or an attribute
      }
      --depth;
      continue;
    }
    if (depth > 0) continue;
    if (s == "return") return i;
    if (s == "=" && i > 0) {
      // Not that of an attribute: no '<' stands open before it.
      size_t d = 0;
      bool in_attrs = false;
      for (size_t k = i; k-- > 0;) {
        const std::string& u = t[k].text;
        if (u == ")" || u == ">" || u == "]" || u == "}") ++d;
        if (u == "(" || u == "<" || u == "[" || u == "{") {
          if (d == 0) {
            in_attrs = u == "<" || u == "(";
            break;
          }
          --d;
        }
      }
      if (in_attrs) continue;
      size_t k = i - 1;
      if (t[k].kind != 'i') return 0;
      while (k >= 2 && t[k - 1].text == "," && t[k - 2].kind == 'i') k -= 2;
      if (k > 0 && t[k - 1].text == ":") return 0;
      if (k > 0 && t[k - 1].text == "return") --k;
      return k;
    }
  }
  return 0;
}

std::vector<size_t> Alterer::of_kind(const Tokens& t, char kind) const {
  std::vector<size_t> out;
  const size_t from = main_inputs(t);
  for (size_t i = from; i < t.size(); ++i) {
    if (t[i].kind == kind) out.push_back(i);
  }
  return out;
}

void Alterer::learn(const std::string& text) {
  const Tokens t = split(text);
  for (const Call& c : calls(t)) {
    auto& ops = ops_[c.operands.size()];
    if (std::find(ops.begin(), ops.end(), t[c.name].text) == ops.end() && c.begin == c.name) ops.push_back(t[c.name].text);
    if (c.attrs == 0) continue;
    for (const Range& r : list(t, c.attrs)) {
      const std::string a = text_of(t, r);
      if (a.find("graph") != std::string::npos) continue;
      learn_attribute(t[c.name].text, a);
    }
  }
}

void Alterer::learn_attribute(const std::string& op, const std::string& attr) {
  auto& known = attrs_[op];
  if (std::find(known.begin(), known.end(), attr) == known.end()) known.push_back(attr);
}

// --- changes

bool Alterer::change_number(Tokens& t) {
  const auto at = of_kind(t, 'n');
  if (at.empty()) return false;
  Token& k = t[one_of(at)];
  const std::string was = k.text;
  if (was.find_first_of(".ein") == std::string::npos && was.size() < 15) {
    const long long v = std::stoll(was);
    switch (below(9)) {
      case 0:
      case 1: k.text = std::to_string(v + 1); break;
      case 2:
      case 3: k.text = std::to_string(v - 1); break;
      case 4: k.text = "0"; break;
      case 5: k.text = "1"; break;
      case 6: k.text = std::to_string(-v); break;
      case 7: k.text = std::to_string(v * 2); break;
      default: k.text = t[one_of(at)].text;
    }
  } else {
    static constexpr std::array<std::string_view, 10> kNumbers{"0.0", "1.0",  "-1.0", "2.0",  "0.5",
                                                               "inf", "-inf", "nan",  "-0.0", "1e-6"};
    k.text = below(4) == 0 ? t[one_of(at)].text : std::string(one_of(kNumbers));
  }
  return k.text != was;
}

bool Alterer::change_size(Tokens& t) {
  const auto at = of_kind(t, 'n');
  if (at.empty()) return false;
  const std::string was = t[one_of(at)].text;
  static constexpr std::array<std::string_view, 9> kSizes{"1", "2", "3", "4", "6", "8", "N", "0", "?"};
  const std::string to(one_of(kSizes));
  bool any = false;
  for (size_t i : at) {
    if (t[i].text != was) continue;
    const bool is_dim = i >= 2 && (t[i - 1].text == "[" || t[i - 1].text == ",");
    if ((to == "N" || to == "?") && !is_dim) continue;
    t[i].text = to;
    any = true;
  }
  return any && was != to;
}

bool Alterer::change_dtype(Tokens& t) {
  std::vector<size_t> at;
  for (size_t i = 0; i < t.size(); ++i) {
    if (is_dtype(t[i].text)) at.push_back(i);
  }
  if (at.empty()) return false;
  const size_t chosen = one_of(at);
  const std::string was = t[chosen].text;
  std::string to(kDtypes[below(below(3) == 0 ? kDtypes.size() : 6)]);
  if (to == was) return false;
  const bool all = below(3) != 0;
  for (size_t i : at) {
    if (i == chosen || (all && t[i].text == was)) t[i].text = to;
  }
  return true;
}

std::optional<Alterer::TypedInput> Alterer::typed_input(const Tokens& t) {
  const size_t open = main_inputs(t);
  if (open >= t.size()) return std::nullopt;
  const auto inputs = list(t, open);
  if (inputs.empty()) return std::nullopt;
  const Range r = one_of(inputs);
  size_t colon = r.begin;
  while (colon < r.end && t[colon].text != ":") ++colon;
  if (colon == r.end) return std::nullopt;
  return TypedInput{r, colon};
}

bool Alterer::change_input_type(Tokens& t) {
  const auto input = typed_input(t);
  if (!input) return false;
  const auto [r, colon] = *input;
  size_t bracket = colon;
  while (bracket < r.end && t[bracket].text != "[") ++bracket;
  switch (below(8)) {
    case 0: replace(t, {colon, r.end}, ""); return true;
    case 1:
      if (bracket >= r.end) return false;
      replace(t, {bracket, match(t, bracket) + 1}, "[...]");
      return true;
    default: break;
  }
  if (bracket >= r.end) return false;
  const auto dims = list(t, bracket);
  static constexpr std::array<std::string_view, 6> kDims{"1", "?", "N", "2", "M", "5"};
  switch (below(5)) {
    case 0: insert(t, bracket + 1, dims.empty() ? std::string(one_of(kDims)) : std::string(one_of(kDims)) + ","); return true;
    case 1:
      if (dims.empty()) return false;
      if (dims.size() == 1) {
        replace(t, dims[0], "");
      } else {
        const size_t k = below(dims.size());
        k == 0 ? replace(t, {dims[0].begin, dims[1].begin}, "") : replace(t, {dims[k - 1].end, dims[k].end}, "");
      }
      return true;
    default:
      if (dims.empty()) return false;
      replace(t, one_of(dims), std::string(one_of(kDims)));
      return true;
  }
}

bool Alterer::change_operand(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (c.operands.empty()) return false;
  const Range r = one_of(c.operands);
  std::vector<std::string> names;
  const size_t open = main_inputs(t);
  for (size_t i = open; i + 1 < t.size(); ++i) {
    if (t[i].kind == 'i' && (t[i + 1].text == ":" || t[i + 1].text == "=" || t[i + 1].text == ",")) names.push_back(t[i].text);
  }
  static constexpr std::array<std::string_view, 8> kOthers{"_",         "f32 1", "f32 0",     "f32[1]{2}",
                                                           "i64[1]{0}", "i64 1", "bool true", "f32[1,1]{2}"};
  const std::string to = names.empty() || below(3) == 0 ? std::string(one_of(kOthers)) : one_of(names);
  if (t[r.begin].kind == 'i' && r.end > r.begin + 1 && t[r.begin + 1].text == "=") {  // named, as in Core ML
    replace(t, {r.begin + 2, r.end}, to);
  } else {
    replace(t, r, to);
  }
  return true;
}

// Where a constant stands: dtype [sizes] {elements}, or dtype element.
static std::vector<std::pair<size_t, size_t>> constants(const std::vector<Token>& t,
                                                        const std::function<size_t(size_t)>& match) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t i = 1; i + 1 < t.size(); ++i) {
    if (!is_dtype(t[i].text) || t[i - 1].text == ":") continue;
    if (t[i + 1].text == "[") {
      const size_t close = match(i + 1);
      if (close + 1 < t.size() && t[close + 1].text == "{") out.emplace_back(i, match(close + 1) + 1);
    } else if (t[i + 1].kind == 'n' || t[i + 1].text == "true" || t[i + 1].text == "false" || t[i + 1].text == "inf" ||
               t[i + 1].text == "nan") {
      out.emplace_back(i, i + 2);
    }
  }
  return out;
}

bool Alterer::constant_to_input(Tokens& t) {
  const auto all = constants(t, [&](size_t i) { return match(t, i); });
  if (all.empty()) return false;
  const auto [begin, end] = one_of(all);
  std::string type = t[begin].text + "[]";
  if (t[begin + 1].text == "[") type = t[begin].text + text_of(t, {begin + 1, match(t, begin + 1) + 1});
  const std::string name = fresh();
  replace(t, {begin, end}, name);
  const size_t open = main_inputs(t);
  if (open >= t.size() || open > begin) return false;
  const size_t close = match(t, open);
  insert(t, close, (close == open + 1 ? "" : ", ") + name + ": " + type);
  return true;
}

bool Alterer::change_constant(Tokens& t) {
  const auto all = constants(t, [&](size_t i) { return match(t, i); });
  if (all.empty()) return false;
  const auto [begin, end] = one_of(all);
  const std::string dtype = t[begin].text;
  if (t[begin + 1].text != "[") {
    const std::string v = t[begin + 1].text;
    static constexpr std::array<std::string_view, 3> kShapes{"[1]", "[1,1]", "[1,1,1]"};
    replace(t, {begin, end}, dtype + std::string(one_of(kShapes)) + "{" + v + "}");
    return true;
  }
  const size_t close = match(t, begin + 1);
  const std::string sizes = text_of(t, {begin + 2, close});
  const auto elements = list(t, close + 1);
  switch (below(5)) {
    case 0: replace(t, {begin, close + 1}, dtype + "[1" + (sizes.empty() ? "" : ",") + sizes + "]"); return true;
    case 1: replace(t, {begin, close + 1}, dtype + "[" + sizes + (sizes.empty() ? "" : ",") + "1]"); return true;
    case 2:
      if (elements.size() == 1 && t[elements[0].end - 1].text != "...") {
        replace(t, {begin, end}, dtype + " " + text_of(t, elements[0]));
        return true;
      }
      if (elements.empty()) return false;
      replace(t, {elements[0].begin, end - 1}, text_of(t, {elements[0].begin, elements[0].begin + 1}) + "...");
      return true;
    case 3: {
      if (elements.size() < 2) return false;
      const Range a = elements[below(elements.size())], b = elements[below(elements.size())];
      if (a.end - a.begin != 1 || b.end - b.begin != 1) return false;
      std::swap(t[a.begin].text, t[b.begin].text);
      return true;
    }
    default: {
      // One more or one fewer.
      if (elements.empty() || sizes.find(',') != std::string::npos ||
          sizes.find_first_not_of("0123456789") != std::string::npos)
        return false;
      const int n = std::stoi(sizes);
      if (below(2) == 0 && elements.size() > 1) {
        replace(t, {elements[elements.size() - 2].end, elements.back().end}, "");
        t[begin + 2].text = std::to_string(n - 1);
      } else {
        insert(t, elements.back().end, "," + text_of(t, elements.back()));
        t[begin + 2].text = std::to_string(n + 1);
      }
      return true;
    }
  }
}

bool Alterer::change_attribute(Tokens& t) {
  auto all = calls(t);
  std::erase_if(all, [](const Call& c) { return c.attrs == 0; });
  if (all.empty()) return false;
  const Call c = one_of(all);
  const auto attrs = list(t, c.attrs);
  if (attrs.empty()) return false;
  const size_t k = below(attrs.size());
  const Range r = attrs[k];
  switch (below(4)) {
    case 0:
    case 1:  // without it
      if (attrs.size() == 1) {
        replace(t, {c.attrs, match(t, c.attrs) + 1}, "");
      } else {
        k == 0 ? replace(t, {attrs[0].begin, attrs[1].begin}, "") : replace(t, {attrs[k - 1].end, r.end}, "");
      }
      return true;
    case 2: {  // as elsewhere
      const std::string name = t[r.begin].text;
      std::vector<std::string> same;
      for (const std::string& a : attrs_[t[c.name].text]) {
        if (a.starts_with(name + "=")) same.push_back(a);
      }
      if (same.empty()) return false;
      replace(t, r, one_of(same));
      return true;
    }
    default: {
      size_t open = r.begin;
      while (open < r.end && t[open].text != "[") ++open;
      if (open >= r.end) return false;
      const auto items = list(t, open);
      if (items.empty()) return false;
      if (below(2) == 0) {
        if (items.size() == 1) return false;
        replace(t, {items[items.size() - 2].end, items.back().end}, "");
      } else if (below(2) == 0) {
        insert(t, items.back().end, ", " + text_of(t, items.back()));
      } else {
        const Range a = one_of(items), b = one_of(items);
        if (a.end - a.begin != 1 || b.end - b.begin != 1) return false;
        std::swap(t[a.begin].text, t[b.begin].text);
      }
      return true;
    }
  }
}

bool Alterer::add_attribute(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  const auto& known = attrs_[t[c.name].text];
  if (known.empty()) return false;
  std::string a = one_of(known);
  if (c.attrs == 0) {
    insert(t, c.name + 1 + (t[c.name + 1].text == "!" ? 2 : 0), "<" + a + ">");
    t[c.name + 1].space.clear();
    return true;
  }
  const std::string name = a.substr(0, a.find('='));
  for (const Range& r : list(t, c.attrs)) {
    if (t[r.begin].text == name) return false;
  }
  insert(t, c.attrs + 1, a + ",");
  return true;
}

bool Alterer::add_result(Tokens& t) {
  const size_t at = main_return(t);
  if (at >= t.size()) return false;
  std::vector<std::string> names;
  for (size_t i = main_inputs(t); i < at; ++i) {
    if (t[i].kind == 'i' && (t[i + 1].text == "=" || t[i + 1].text == ":" || t[i + 1].text == ",")) names.push_back(t[i].text);
  }
  if (names.empty() || t[at + 1].text == "}") return false;
  insert(t, at + 1, " " + fresh() + " = " + one_of(names) + ",");
  return true;
}

bool Alterer::change_result(Tokens& t) {
  const size_t at = main_return(t);
  if (at >= t.size()) return false;
  std::vector<std::string> names;
  for (size_t i = main_inputs(t); i < at; ++i) {
    if (t[i].kind == 'i' && (t[i + 1].text == "=" || t[i + 1].text == ":")) names.push_back(t[i].text);
  }
  size_t end = at + 1;
  while (end < t.size() && t[end].text != "}" && t[end].text != ",") {
    if (t[end].text == "(" || t[end].text == "<" || t[end].text == "{" || t[end].text == "[") end = match(t, end);
    ++end;
  }
  if (names.empty() || end >= t.size()) return false;
  if (t[end].text == "," && below(2) == 0) {
    replace(t, {at + 1, end + 1}, "");
  } else {
    replace(t, {at + 1, end}, " " + fresh() + " = " + one_of(names));
  }
  return true;
}

bool Alterer::second_reader(Tokens& t) {
  // An operand that is a call gets a line of its own, and is a result too.
  auto all = calls(t);
  std::vector<Call> nested;
  for (const Call& c : all) {
    const std::string& b = t[c.begin - 1].text;
    if (b == "(" || b == ",") nested.push_back(c);
  }
  if (nested.empty()) return false;
  const Call c = one_of(nested);
  const size_t begin = statement(t, c.begin);
  const size_t back = main_return(t);
  if (begin == 0 || back >= t.size()) return false;
  const std::string name = fresh(), call = text_of(t, {c.begin, c.end});
  const bool in_main = begin <= back && statement(t, back) == back;
  if (in_main && below(4) != 0 && t[back + 1].text != "}")
    insert(t, back + 1, " " + fresh() + " = " + (below(2) == 0 ? "Neg(" + name + ")" : name) + ",");
  replace(t, {c.begin, c.end}, name);
  insert(t, begin, " " + name + " = " + call);
  if (begin + 1 < t.size()) t[begin].space = "\n  ";
  return true;
}

bool Alterer::change_operator(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  static constexpr std::array<std::string_view, 10> kUnary{"Neg", "Relu", "Identity", "Abs",        "Sqrt",
                                                           "Exp", "Tanh", "Sigmoid",  "Cast<to=1>", "Reciprocal"};
  static constexpr std::array<std::string_view, 9> kBinary{"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "MatMul", "Equal"};
  const auto& like = ops_[c.operands.size()];
  std::string to;
  if (c.operands.size() == 1 && below(2) == 0) {
    to = one_of(kUnary);
  } else if (c.operands.size() == 2 && below(2) == 0) {
    to = one_of(kBinary);
  } else if (!like.empty()) {
    to = one_of(like);
  }
  if (to.empty() || to == t[c.name].text) return false;
  if (c.attrs != 0 && below(2) == 0) replace(t, {c.attrs, match(t, c.attrs) + 1}, "");
  replace(t, {c.name, c.name + 1}, to);
  return true;
}

bool Alterer::change_domain(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (c.begin != c.name) return false;
  t[c.name].text = "own::" + t[c.name].text;
  if (t[0].text == "graph" || t[0].text == "function") {
    insert(t, 0, "opset 23, \"own\" 1\n");
  } else if (join(t).find("\"own\"") == std::string::npos) {
    size_t i = main_inputs(t);
    while (i > 0 && t[i].text != "graph") --i;
    insert(t, i, ", \"own\" 1\n");
  }
  return true;
}

bool Alterer::change_opset(Tokens& t) {
  static constexpr std::array<std::string_view, 19> kVersions{"7",  "8",  "9",  "10", "11", "12", "13", "14", "15", "16",
                                                              "17", "18", "19", "20", "21", "22", "23", "24", "25"};
  const std::string v(one_of(kVersions));
  if (t[0].text == "opset") {
    if (t.size() < 2 || t[1].kind != 'n') return false;
    t[1].text = v;
  } else {
    insert(t, 0, "opset " + v + "\n");
  }
  for (Token& k : t) {
    if (k.text == "graph" || k.text == "function") {
      k.space = "\n";
      break;
    }
  }
  return true;
}

bool Alterer::wrap_operand(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (c.operands.empty()) return false;
  const Range r = one_of(c.operands);
  static constexpr std::array<std::string_view, 14> kWraps{
      "Neg(", "Identity(", "Relu(", "Cast<to=10>(",         "Cast<to=1>(", "Cast<to=7>(", "Transpose(",
      "Exp(", "Shape(",    "Sqrt(", "Unsqueeze<axes=[0]>(", "Reshape(",    "Abs(",        "Dropout("};
  const std::string w(one_of(kWraps));
  const std::string inner = text_of(t, r);
  replace(t, r, w == "Reshape(" ? w + inner + ", i64[1]{-1})" : w + inner + ")");
  return true;
}

bool Alterer::unwrap_call(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (c.operands.empty()) return false;
  const std::string& b = t[c.begin - 1].text;
  if (b != "(" && b != ",") return false;
  const std::string inner = text_of(t, c.operands[below(4) == 0 ? below(c.operands.size()) : 0]);
  replace(t, {c.begin, c.end}, inner);
  return true;
}

bool Alterer::swap_operands(Tokens& t) {
  auto all = calls(t);
  std::erase_if(all, [](const Call& c) { return c.operands.size() < 2; });
  if (all.empty()) return false;
  const Call c = one_of(all);
  const size_t i = below(c.operands.size() - 1);
  const std::string a = text_of(t, c.operands[i]), b = text_of(t, c.operands[i + 1]);
  replace(t, c.operands[i + 1], a);
  replace(t, c.operands[i], b);
  return a != b;
}

bool Alterer::number_of_operands(Tokens& t) {
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (c.operands.empty()) return false;
  if (below(2) == 0) {
    if (c.operands.size() == 1) return false;
    replace(t, {c.operands[c.operands.size() - 2].end, c.operands.back().end}, "");
  } else {
    static constexpr std::array<std::string_view, 4> kMore{"_", "f32 0", "f32 1", "i64[1]{1}"};
    insert(t, c.operands.back().end, ", " + (below(2) == 0 ? text_of(t, one_of(c.operands)) : std::string(one_of(kMore))));
  }
  return true;
}

bool Alterer::default_value(Tokens& t) {
  const auto input = typed_input(t);
  if (!input) return false;
  const auto [r, colon] = *input;
  const std::string type = text_of(t, {colon + 1, r.end});
  if (type.find('=') != std::string::npos || type.find('[') == std::string::npos) return false;
  insert(t, r.end, " = " + type + (type.starts_with("bool") ? "{true...}" : "{1...}"));
  return true;
}

bool Alterer::read_in_body(Tokens& t) {
  const size_t back = main_return(t), open = main_inputs(t);
  if (back >= t.size() || t[back + 1].text == "}") return false;
  std::vector<std::string> names;
  for (size_t i = open; i < back; ++i) {
    if (t[i].kind == 'i' && (t[i + 1].text == "=" || t[i + 1].text == ":")) names.push_back(t[i].text);
  }
  if (names.empty()) return false;
  const std::string v = one_of(names), n = fresh(), c = fresh();
  insert(t, back + 1, " " + n + ",");
  insert(t, back,
         " " + n + " = If<then_branch=graph() { t" + n + " = Neg(" + v + ")  return t" + n + " }, else_branch=graph() { e" + n +
             " = Abs(" + v + ")  return e" + n + " }>(" + c + ") ");
  const size_t close = match(t, open);
  insert(t, close, (close == open + 1 ? "" : ", ") + c + ": bool[]");
  return true;
}

bool Alterer::drop_statement(Tokens& t) {
  // A named value becomes an input of the type that was there, or another value: only where a call stands.
  const auto all = calls(t);
  if (all.empty()) return false;
  const Call c = one_of(all);
  if (t[c.begin - 1].text != "=") return false;
  static constexpr std::array<std::string_view, 4> kUnary{"Identity", "Neg", "Relu", "Cast<to=1>"};
  if (c.operands.empty()) return false;
  replace(t, {c.begin, c.end}, std::string(one_of(kUnary)) + "(" + text_of(t, c.operands[below(c.operands.size())]) + ")");
  return true;
}

// One more result of a node, which the graph returns.
bool Alterer::second_result(Tokens& t) {
  auto all = calls(t);
  const size_t back = main_return(t);
  std::erase_if(all, [&](const Call& c) {
    return c.begin < 2 || c.begin > back || t[c.begin - 1].text != "=" || t[c.begin - 2].kind != 'i';
  });
  if (all.empty() || back >= t.size() || t[back + 1].text == "}") return false;
  const Call c = one_of(all);
  const std::string name = fresh();
  insert(t, back + 1, " " + name + ",");
  insert(t, c.begin - 1, ", " + name);
  return true;
}

// The graph becomes a function that the graph calls, and one attribute in it a reference to one of the function's.
bool Alterer::attribute_by_reference(Tokens& t) {
  for (const Token& k : t) {
    if (k.text == "function" || k.text == "@" || k.text == "own") return false;
  }
  auto all = calls(t);
  std::erase_if(all, [](const Call& c) { return c.attrs == 0; });
  const size_t open = main_inputs(t), back = main_return(t);
  if (all.empty() || back >= t.size()) return false;
  const Call c = one_of(all);
  const auto attrs = list(t, c.attrs);
  if (attrs.empty()) return false;
  const Range r = one_of(attrs);
  if (r.end < r.begin + 3 || t[r.begin + 2].text == "graph") return false;
  const std::string attr = t[r.begin].text, value = text_of(t, {r.begin + 2, r.end});
  std::string version = "23", names;
  if (t[0].text != "graph") {
    if (t[0].text != "opset" || t[2].text != "graph") return false;
    version = t[1].text;
  }
  for (const Range& input : list(t, open)) names += (names.empty() ? "" : ", ") + t[input.begin].text;
  size_t body = match(t, open);
  while (t[body].text != "{") ++body;
  const size_t close = match(t, body);
  std::string results = "r0";
  size_t n = 1;
  for (size_t i = back + 1; i < close; ++i) {
    if (t[i].text == ",") results += ", r" + std::to_string(n++);
    if (t[i].text == "(" || t[i].text == "<" || t[i].text == "{" || t[i].text == "[") i = match(t, i);
  }
  const std::string inputs = text_of(t, {open, match(t, open) + 1});
  const std::string inside =
      text_of(t, {body, r.begin + 2}) + "@" + attr + text_of(t, {r.end - 1, close + 1}).substr(t[r.end - 1].text.size());
  t = split("opset " + version + ", \"own\" 1\ngraph" + inputs + " { " + results + " = own::f(" + names + ")  return " +
            results + " }\nfunction own::f<" + attr + "=" + value + ">" + inputs + " opset " + version + " " + inside);
  return true;
}

std::string Alterer::alter(const std::string& text, std::string* what) {
  struct Way {
    std::string_view name;
    bool (Alterer::*change)(Tokens&);
    size_t weight;
  };
  static const std::vector<Way> kWays{
      {"number", &Alterer::change_number, 6},        {"size", &Alterer::change_size, 3},
      {"dtype", &Alterer::change_dtype, 2},          {"input type", &Alterer::change_input_type, 4},
      {"operand", &Alterer::change_operand, 3},      {"constant to input", &Alterer::constant_to_input, 3},
      {"constant", &Alterer::change_constant, 3},    {"attribute", &Alterer::change_attribute, 3},
      {"new attribute", &Alterer::add_attribute, 3}, {"new result", &Alterer::add_result, 2},
      {"result", &Alterer::change_result, 1},        {"second reader", &Alterer::second_reader, 4},
      {"operator", &Alterer::change_operator, 4},    {"domain", &Alterer::change_domain, 1},
      {"opset", &Alterer::change_opset, 2},          {"wrapped", &Alterer::wrap_operand, 2},
      {"unwrapped", &Alterer::unwrap_call, 2},       {"swapped", &Alterer::swap_operands, 3},
      {"operands", &Alterer::number_of_operands, 2}, {"default", &Alterer::default_value, 1},
      {"read in a body", &Alterer::read_in_body, 1}, {"replaced", &Alterer::drop_statement, 1},
      {"second result", &Alterer::second_result, 1}, {"attribute by reference", &Alterer::attribute_by_reference, 1}};
  size_t sum = 0;
  for (const Way& w : kWays) sum += w.weight;
  size_t at = below(sum);
  Tokens t = split(text);
  if (t.size() < 4) return "";
  for (const Way& w : kWays) {
    if (at >= w.weight) {
      at -= w.weight;
      continue;
    }
    *what = w.name;
    const std::string was = join(t);
    try {
      if (!(this->*w.change)(t)) return "";
    } catch (const std::exception&) {  // a number that is too large, or the end of the text
      return "";
    }
    std::string now = join(t);
    return now == was ? "" : now;
  }
  return "";
}

}  // namespace sx_mutant
