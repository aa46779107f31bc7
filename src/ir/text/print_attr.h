// AttrPrinter: prints the parts of one node: names, documentation, attributes, constants. The printer of
// graphs (print.cc) uses it; parse_attr.h reads its text back.
#pragma once

#include <string>
#include <string_view>

#include "ir/text/text.h"
#include "sardonyx/attr.h"
#include "sardonyx/ir.h"

namespace sardonyx::text {

// Appends to out_.
class AttrPrinter {
 protected:
  AttrPrinter(const Model& m, const PrintOptions& options) : m_(m), options_(options) {}

  void word_or_quote(std::string_view s);
  // Prints a key and its value; nothing if the value is empty.
  void meta(std::string_view key, const Metadata& data);
  void quoted(std::string_view key, std::string_view value);
  void hex(std::string_view key, std::string_view bytes);

  void named_attr(const NamedAttr& a);
  void attribute(const Attr& a);
  void constant(const Tensor& t);

  const Model& m_;
  PrintOptions options_;
  std::string out_;

 private:
  template <class List, class Print>
  void list(std::string_view prefix, const List& items, Print&& print);
  void bare_dim(Dim d);
  bool is_clear_alone(Dim d) const;
  void tensor(const TensorPtr& t);
};

}  // namespace sardonyx::text
