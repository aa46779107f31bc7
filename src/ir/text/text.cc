#include "ir/text/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "sardonyx/error.h"
#include "support/printable.h"

namespace sardonyx::text {
namespace {

constexpr DType kWords[] = {
    DType::kF32,    DType::kU8,     DType::kI8,       DType::kU16,        DType::kI16,    DType::kI32,        DType::kI64,
    DType::kString, DType::kBool,   DType::kF16,      DType::kF64,        DType::kU32,    DType::kU64,        DType::kC64,
    DType::kC128,   DType::kBF16,   DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kU4,
    DType::kI4,     DType::kF4E2M1, DType::kF8E8M0,   DType::kU2,         DType::kI2,     DType::kU1,         DType::kU3,
    DType::kU6,     DType::kKey,    DType::kFloat0,   DType::kKey4};

// The raw bits of element i, low bits first.
uint64_t bits_of(DType dtype, const std::byte* base, int64_t i) {
  int width = bit_width(dtype);
  uint64_t v = 0;
  if (width >= 8) {
    std::memcpy(&v, base + static_cast<size_t>(i) * static_cast<size_t>(width / 8), static_cast<size_t>(width / 8));
    return v;
  }
  int64_t at = i * width;
  std::memcpy(&v, base + at / 8, 1);
  return (v >> (at % 8)) & ((1u << width) - 1);
}

uint64_t encode(DType dtype, double v) {
  std::byte raw[8] = {};
  encode_element(dtype, raw, 0, v);
  return bits_of(dtype, raw, 0);
}

std::optional<double> to_double(std::string_view word) {
  double v = 0;
  auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), v);
  if (end != word.data() + word.size()) return std::nullopt;
  if (code == std::errc::result_out_of_range) {  // like strtod: underflow gives 0, overflow infinity
    bool small = word.find("e-") != std::string_view::npos || word.find("E-") != std::string_view::npos;
    v = small ? 0.0 : std::numeric_limits<double>::infinity();
    return word[0] == '-' ? -v : v;
  }
  if (code != std::errc()) return std::nullopt;
  return v;
}

void print_float(std::string& out, DType dtype, uint64_t bits) {
  double v = 0;
  std::string shortest;
  std::byte raw[8];
  std::memcpy(raw, &bits, 8);
  v = decode_element(dtype, raw, 0);
  if (std::isnan(v)) {
    if (encode(dtype, std::numeric_limits<double>::quiet_NaN()) == bits) {
      out += "nan";
    } else {
      fmt::format_to(std::back_inserter(out), "0x{:0{}x}", bits, (bit_width(dtype) + 3) / 4);
    }
    return;
  }
  if (std::isinf(v)) {
    out += v < 0 ? "-inf" : "inf";
    return;
  }
  if (dtype == DType::kF64) {
    fmt::format_to(std::back_inserter(out), "{}", v);
  } else if (dtype == DType::kF32) {
    fmt::format_to(std::back_inserter(out), "{}", static_cast<float>(v));
  } else {
    for (int digits = 1; digits <= 17; ++digits) {
      shortest = fmt::format("{:.{}g}", v, digits);
      if (encode(dtype, *to_double(shortest)) == bits) break;
    }
    std::string exact = fmt::format("{}", v);
    out += exact.size() <= shortest.size() ? exact : shortest;
  }
}

void print_element(std::string& out, DType dtype, const std::byte* base, int64_t i) {
  if (is_complex(dtype)) {
    DType part = dtype == DType::kC64 ? DType::kF32 : DType::kF64;
    out += '(';
    print_float(out, part, bits_of(part, base, 2 * i));
    out += ' ';
    print_float(out, part, bits_of(part, base, 2 * i + 1));
    out += ')';
    return;
  }
  uint64_t bits = bits_of(dtype, base, i);
  if (dtype == DType::kBool && bits <= 1) {
    out += bits == 1 ? "true" : "false";
  } else if (dtype == DType::kBool) {
    fmt::format_to(std::back_inserter(out), "0x{:02x}", bits);
  } else if (is_float(dtype)) {
    print_float(out, dtype, bits);
  } else if (is_signed(dtype)) {
    int unused = 64 - bit_width(dtype);
    fmt::format_to(std::back_inserter(out), "{}", static_cast<int64_t>(bits << unused) >> unused);
  } else {
    fmt::format_to(std::back_inserter(out), "{}", bits);
  }
}

}  // namespace

bool is_identifier(std::string_view s) {
  return !s.empty() && is_letter(s[0]) && s.back() != '.' && std::all_of(s.begin(), s.end(), is_word_char);
}

std::optional<DType> dtype_word(std::string_view s) {
  if (s.size() < 2 || s.size() > 10 || std::string_view("fuibcsk").find(s[0]) == std::string_view::npos) return std::nullopt;
  for (DType d : kWords)
    if (to_string(d) == s) return d;
  return std::nullopt;
}

bool is_reserved(std::string_view s) {
  static constexpr std::string_view words[] = {"_", "return", "graph", "function", "none", "true", "false", "inf", "nan"};
  return std::find(std::begin(words), std::end(words), s) != std::end(words) || dtype_word(s).has_value();
}

void quote(std::string& out, std::string_view s) {
  out += '"';
  if (std::ranges::all_of(s, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; })) {
    out += s;
    out += '"';
    return;
  }
  std::string inside;
  for (char c : s) {
    switch (c) {
      case '"': inside += "\\\""; break;
      case '\\': inside += "\\\\"; break;
      case '\n': inside += "\\n"; break;
      case '\t': inside += "\\t"; break;
      default: inside += c;
    }
  }
  out += printable(std::move(inside));
  out += '"';
}

std::string to_hex(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char c : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

void print_double(std::string& out, double v) {
  size_t start = out.size();
  uint64_t bits;
  std::memcpy(&bits, &v, 8);
  print_float(out, DType::kF64, bits);
  if (out.find_first_not_of("-0123456789", start) == std::string::npos) out += ".0";
}

void print_tensor(std::string& out, const Tensor& t, bool full) {
  out += to_string(t.dtype());
  if (t.rank() > 0 || t.is_promise()) out += fmt::format("[{}]", fmt::join(t.shape(), ","));
  bool braces = t.rank() > 0;
  if (t.is_promise() || (!full && !t.is_splat() && t.size() > kMaxElements && t.dtype() != DType::kString)) {
    fmt::format_to(std::back_inserter(out), "{{#{:016x}}}", t.hash());
    return;
  }
  out += braces ? '{' : ' ';
  if (t.dtype() == DType::kString) {
    for (size_t i = 0; i < t.string_values().size(); ++i) {
      if (i > 0) out += ',';
      quote(out, t.string_values()[i]);
    }
  } else if (t.is_splat() && t.size() > 1) {
    print_element(out, t.dtype(), t.stored_bytes().data(), 0);
    out += "...";
  } else {
    std::vector<std::byte> scratch;
    auto bytes = t.bytes(scratch);
    for (int64_t i = 0; i < t.size(); ++i) {
      if (i > 0) out += ',';
      print_element(out, t.dtype(), bytes.data(), i);
    }
  }
  if (braces) out += '}';
}

// ---------------------------------------------------------------------------------------------------------------------
// Reading elements

std::byte* ElementReader::grow() {
  ++count_;
  size_t size = byte_size(dtype_, static_cast<uint64_t>(count_));
  if (bytes_.size() < size) bytes_.resize(size);
  return bytes_.data();
}

bool ElementReader::add(std::string_view word) {
  bool negative = !word.empty() && word[0] == '-';
  auto store = [&](uint64_t bits) {
    std::byte* base = grow();
    int width = bit_width(dtype_);
    if (width >= 8) {
      auto n = static_cast<size_t>(width / 8);
      std::memcpy(base + static_cast<size_t>(count_ - 1) * n, &bits, n);
    } else {
      int64_t at = (count_ - 1) * width;
      base[at / 8] |= static_cast<std::byte>((bits & ((1u << width) - 1)) << (at % 8));
    }
    return true;
  };
  const char *first = word.data(), *last = word.data() + word.size();
  if (word.starts_with("0x") && (is_float(dtype_) || dtype_ == DType::kBool)) {
    uint64_t bits = 0;
    auto [end, code] = std::from_chars(first + 2, last, bits, 16);
    if (end != last || code != std::errc()) return false;
    if (bit_width(dtype_) < 64 && bits >> bit_width(dtype_) != 0) return false;
    return store(bits);
  }
  if (dtype_ == DType::kBool) {
    if (word == "true" || word == "1") return store(1);
    return (word == "false" || word == "0") && store(0);
  }
  if (is_float(dtype_)) {
    if (dtype_ == DType::kF32) {  // round once, not through a double
      float f = 0;
      auto [end, code] = std::from_chars(first, last, f);
      if (end == last && code == std::errc() && !std::isnan(f)) {
        uint32_t bits;
        std::memcpy(&bits, &f, 4);
        return store(bits);
      }
    }
    auto v = to_double(word);
    return v && store(encode(dtype_, std::isnan(*v) ? std::numeric_limits<double>::quiet_NaN() : *v));
  }
  if (is_integer(dtype_)) {
    if (negative) {
      int64_t v = 0;
      auto [end, code] = std::from_chars(first, last, v);
      if (end != last || code != std::errc() || !is_signed(dtype_)) return false;
      if (bit_width(dtype_) < 64 && v < -(int64_t{1} << (bit_width(dtype_) - 1))) return false;
      return store(static_cast<uint64_t>(v));
    }
    uint64_t v = 0;
    auto [end, code] = std::from_chars(first, last, v);
    if (end != last || code != std::errc()) return false;
    int usable = bit_width(dtype_) - (is_signed(dtype_) ? 1 : 0);
    return (usable >= 64 || v >> usable == 0) && store(v);
  }
  return false;
}

bool ElementReader::add_complex(std::string_view real, std::string_view imaginary) {
  if (!is_complex(dtype_)) return false;
  ElementReader parts(dtype_ == DType::kC64 ? DType::kF32 : DType::kF64);
  if (!parts.add(real) || !parts.add(imaginary)) return false;
  bytes_.insert(bytes_.end(), parts.bytes_.begin(), parts.bytes_.end());
  ++count_;
  return true;
}

TensorPtr ElementReader::finish(std::vector<int64_t> shape, bool repeat) {
  if (dtype_ == DType::kString) return Tensor::strings(std::move(shape), std::move(strings_));
  if (repeat) return Tensor::splat(dtype_, std::move(shape), bytes_);
  return Tensor::own(dtype_, std::move(shape), std::move(bytes_));
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

size_t end_of_dim(std::string_view text, size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '(') ++depth;
    if (depth == 0 && (c == ',' || c == ']' || c == ')' || c == '}' || c == '>' || c == '\n')) return at;
    if (c == ')') --depth;
  }
  return text.size();
}

namespace {

[[noreturn]] void expected(std::string what) { throw Error(ErrorCode::kParse, "expected " + std::move(what)); }

void skip_space(std::string_view text, size_t& at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
}

bool take(std::string_view text, size_t& at, std::string_view what) {
  skip_space(text, at);
  if (text.substr(at, what.size()) != what) return false;
  at += what.size();
  return true;
}

void require(std::string_view text, size_t& at, std::string_view what) {
  if (!take(text, at, what)) expected("'" + std::string(what) + "' in a type");
}

std::string_view word(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  return text.substr(at, end - at);
}

const Type* type_at(Types& types, std::string_view text, size_t& at, int depth) {
  if (depth > 100) throw Error(ErrorCode::kLimit, "a type nests more than 100 levels");
  skip_space(text, at);
  auto dims = [&](DType dtype, TypeKind kind) -> const Type* {
    require(text, at, "[");
    if (take(text, at, "...")) {
      require(text, at, "]");
      return types.make(kind, dtype, {});
    }
    std::vector<Dim> list;
    if (!take(text, at, "]")) {
      do {
        skip_space(text, at);
        size_t end = end_of_dim(text, at);
        list.push_back(types.dims().parse(text.substr(at, end - at)));
        at = end;
      } while (take(text, at, ","));
      require(text, at, "]");
    }
    return types.make(kind, dtype, {}, list, /*ranked=*/true);
  };
  auto dtype_at = [&](bool required) {
    skip_space(text, at);
    if (at < text.size() && text[at] == '?') {
      ++at;
      return DType::kUndefined;
    }
    std::string_view w = word(text, at);
    auto d = dtype_word(w);
    if (!d && !required) return DType::kUndefined;
    if (!d) expected("a type like f32[B,3]");
    at += w.size();
    return *d;
  };
  if (at < text.size() && text[at] == '?') {
    ++at;
    return at < text.size() && text[at] == '[' ? dims(DType::kUndefined, TypeKind::kTensor) : nullptr;
  }
  std::string_view w = word(text, at);
  if (w == "token") {
    at += w.size();
    return types.make(TypeKind::kToken, DType::kUndefined, {});
  }
  static constexpr std::pair<std::string_view, TypeKind> kinds[] = {
      {"seq", TypeKind::kSequence},  {"optional", TypeKind::kOptional},  {"map", TypeKind::kMap},
      {"list", TypeKind::kList},     {"tuple", TypeKind::kTuple},        {"state", TypeKind::kState},
      {"opaque", TypeKind::kOpaque}, {"sparse", TypeKind::kSparseTensor}};
  for (auto [name, kind] : kinds) {
    if (w != name) continue;
    at += w.size();
    require(text, at, "(");
    if (kind == TypeKind::kSparseTensor) {
      DType dtype = dtype_at(true);
      const Type* t = dims(dtype, kind);
      require(text, at, ")");
      return t;
    }
    if (kind == TypeKind::kOpaque) {
      require(text, at, "\"");
      std::string label;
      for (; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] == '\\' && at + 1 < text.size()) ++at;
        label += text[at];
      }
      require(text, at, "\"");
      require(text, at, ")");
      return types.make(kind, DType::kUndefined, {}, {}, false, label);
    }
    DType key = DType::kUndefined;
    if (kind == TypeKind::kMap) {
      key = dtype_at(true);
      require(text, at, ",");
    }
    std::vector<const Type*> elements;
    std::vector<Dim> length;
    while (!take(text, at, ")")) {
      if (!elements.empty()) require(text, at, ",");
      if (kind == TypeKind::kList && elements.size() == 1) {
        skip_space(text, at);
        size_t end = end_of_dim(text, at);
        length.push_back(types.dims().parse(text.substr(at, end - at)));
        at = end;
        require(text, at, ")");
        break;
      }
      elements.push_back(type_at(types, text, at, depth + 1));
    }
    return types.make(kind, key, elements, length, !length.empty());
  }
  DType dtype = dtype_at(true);
  return dims(dtype, TypeKind::kTensor);
}

}  // namespace

const Type* parse_type(Types& types, std::string_view text, size_t& at) { return type_at(types, text, at, 0); }

TensorPtr payload_of(const Attrs& set) {
  if (set.items().size() != 1) return nullptr;
  const NamedAttr& a = set.items()[0];
  if (a.name == "value" || a.name == "val") {
    if (const auto* t = a.value.get<TensorPtr>()) return *t;
  } else if (a.name == "value_float") {
    if (const auto* f = a.value.get<double>()) return Tensor::full(DType::kF32, {}, *f);
  } else if (a.name == "value_int") {
    if (const auto* i = a.value.get<int64_t>()) return Tensor::scalar(*i);
  } else if (a.name == "value_ints") {
    if (const auto* v = a.value.get<Attr::Ints>()) return Tensor::vector(*v);
  } else if (a.name == "value_floats") {
    if (const auto* v = a.value.get<Attr::Floats>()) {
      std::vector<float> f(v->begin(), v->end());
      return Tensor::of<float>(DType::kF32, {static_cast<int64_t>(f.size())}, f);
    }
  } else if (a.name == "value_string") {
    if (const auto* s = a.value.get<std::string>()) return Tensor::strings({}, {*s});
  } else if (a.name == "value_strings") {
    if (const auto* s = a.value.get<Attr::Strings>()) return Tensor::strings({static_cast<int64_t>(s->size())}, *s);
  }
  return nullptr;
}

}  // namespace sardonyx::text

namespace sardonyx {

const Type* Types::parse(std::string_view text) {
  size_t at = 0;
  auto fail = [&](const std::string& what) {
    return Error(ErrorCode::kParse,
                 "cannot read the type '" + std::string(text) + "': " + what + " at column " + std::to_string(at + 1),
                 {"help: types read like f32[B,3], i64[], bool[...], seq(f32[3])"});
  };
  const Type* t = nullptr;
  try {
    t = text::parse_type(*this, text, at);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kParse) throw;
    throw fail(e.message());
  }
  while (at < text.size() && text[at] == ' ') ++at;
  if (at < text.size()) throw fail("expected the end");
  return t;
}

}  // namespace sardonyx
