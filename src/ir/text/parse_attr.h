// AttrParser: parses the parts of one node: constants, types, dimensions, attributes. The parser of graphs
// (parse.cc) uses it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/text/lexer.h"
#include "ir/text/text.h"
#include "sardonyx/attr.h"
#include "sardonyx/ir.h"

namespace sardonyx::text {

// Reads from the lexer's position and leaves the lexer after what it read. Errors point at the text. The
// model, whose tables hold types, names and dims, must exist before the first call.
class AttrParser {
 protected:
  AttrParser(std::string_view source, std::string_view file, const PayloadSource& payloads)
      : lex_(source, file), payloads_(payloads) {}

  std::string word_or_string(std::string_view what);
  const Type* type();

  // f32 0.5, i64[2]{4,8}, f32[640]{#0123456789abcdef}
  bool at_constant();
  TensorPtr constant();

  // `nesting`: the number of enclosing attributes.
  Attr attribute(int nesting);

  Lexer lex_;
  const PayloadSource& payloads_;
  std::unique_ptr<Model> m_;

 private:
  TensorPtr elements(DType dtype, std::vector<int64_t> shape, bool braces, size_t begin);
  TensorPtr digest(DType dtype, std::vector<int64_t> shape, size_t begin);
  Dim dim_until(std::string_view what);
  template <class Each>
  void listed(std::string_view close, Each&& each);
  template <class List, class Each>
  List list_of(Each&& each);
  Attr number();
  Attr list(int nesting);
  Attr word_attribute();
  TensorPtr tensor();
  Attr dtype_attribute(DType dtype);
};

}  // namespace sardonyx::text
