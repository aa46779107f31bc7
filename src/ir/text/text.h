// Shared by the printer and parser of the .sx text form: words, quoting, constants, types.
// docs/reference/text_form.md has the grammar.
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

// Larger constants print as a digest unless printed in full.
constexpr int64_t kMaxElements = 32;
// Limits for nested graphs (reading and printing) and nested expressions (reading).
constexpr int kMaxGraphDepth = 500;
constexpr int kMaxExpressionDepth = 200;

inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

// Letters, digits, '_' and '.', not beginning with a digit or a dot and not ending with a dot.
bool is_identifier(std::string_view s);
// Identifiers that need quotes as value names: dtypes, "_", "return", "graph", ...
bool is_reserved(std::string_view s);
// The dtype with exactly this name.
std::optional<DType> dtype_word(std::string_view s);

// "..." with \" \\ \n \t and \xHH; bytes that are not UTF-8 are escaped.
void quote(std::string& out, std::string_view s);
std::string to_hex(std::string_view bytes);

// "f32 0.5", "i64[2]{4,8}", "f32[8]{0.5...}", "f32[640]{#0123456789abcdef}".
void print_tensor(std::string& out, const Tensor& t, bool full);
// The payload in the only attribute of a Constant node (value, value_ints, ...), or null.
TensorPtr payload_of(const Attrs& set);
// Prints a double so that it reads back as the same bits and is never taken for an integer.
void print_double(std::string& out, double v);

// Collects the elements of one constant.
class ElementReader {
 public:
  explicit ElementReader(DType dtype) : dtype_(dtype) {}
  // Appends the element `word` (a number, true, false, nan, inf, or the bits as 0x...); returns false if it
  // is not an element of the dtype.
  bool add(std::string_view word);
  bool add_complex(std::string_view real, std::string_view imaginary);
  void add_string(std::string s) { strings_.push_back(std::move(s)), ++count_; }
  int64_t count() const { return count_; }
  // `repeat`: one element fills the whole tensor.
  TensorPtr finish(std::vector<int64_t> shape, bool repeat);

 private:
  std::byte* grow();
  DType dtype_;
  int64_t count_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<std::string> strings_;
};

// Parses the type at text[at...], in the spelling of Types::to_string, and moves `at` past it. Throws kParse
// with what was expected at `at`.
const Type* parse_type(Types& types, std::string_view text, size_t& at);
// The end of the dimension that begins at `at`: the next ',' or closing bracket that is not nested in it.
size_t end_of_dim(std::string_view text, size_t at);

}  // namespace sardonyx::text
