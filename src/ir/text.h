// What printer and parser of the .sx text form share: words, quoting, constants, types. docs/text_form.md has the grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sardonyx/dtype.h"
#include "sardonyx/ir.h"
#include "sardonyx/tensor.h"
#include "sardonyx/type.h"

namespace sardonyx::text {

// Constants of more elements print as a digest unless asked for in full.
constexpr int64_t kMaxElements = 32;
// Nested graphs and nested expressions are read (and graphs printed) to these depths.
constexpr int kMaxGraphDepth = 500;
constexpr int kMaxExpressionDepth = 200;

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

// Letters, digits, '_' and '.', not beginning with a digit or a dot and not ending with a dot.
bool is_identifier(std::string_view s);
// Identifiers that cannot stand for a value without quotes: dtypes, "_", "return", "graph", ...
bool is_reserved(std::string_view s);
// The dtype with exactly this name.
std::optional<DType> dtype_word(std::string_view s);

// "..." with \" \\ \n \t and \xHH; bytes that are not UTF-8 are escaped.
void quote(std::string& out, std::string_view s);
std::string to_hex(std::string_view bytes);

// "f32 0.5", "i64[2]{4,8}", "f32[8]{0.5...}", "f32[640]{#0123456789abcdef}".
void print_tensor(std::string& out, const Tensor& t, bool full);
// The tensor that the only attribute of a Constant node says (value, value_ints, ...), or null.
TensorPtr payload_of(const Attrs& set);
// A double that reads back as the same bits and is never taken for an integer.
void print_double(std::string& out, double v);

// Collects the elements of one constant.
class ElementReader {
 public:
  explicit ElementReader(DType dtype) : dtype_(dtype) {}
  // Appends what `word` says (a number, true, false, nan, inf, or the bits as 0x...); false when it is no element of that dtype.
  bool add(std::string_view word);
  bool add_complex(std::string_view real, std::string_view imaginary);
  void add_string(std::string s) { strings_.push_back(std::move(s)), ++count_; }
  int64_t count() const { return count_; }
  // `repeat`: the single element stands for all.
  TensorPtr finish(std::vector<int64_t> shape, bool repeat);

 private:
  std::byte* grow();
  DType dtype_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

// The type at text[at...], as Types::to_string spells it; moves `at` behind it. Throws kParse that says what was expected at `at`.
const Type* parse_type(Types& types, std::string_view text, size_t& at);
// Where the dimension that begins at `at` ends: at a ',' or closing bracket that is not inside it.
size_t end_of_dim(std::string_view text, size_t at);

}  // namespace sardonyx::text
