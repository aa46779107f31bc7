#include "ir/text/print_attr.h"

#include <fmt/format.h>

#include <algorithm>

namespace sardonyx::text {
namespace {

bool is_attr_word(std::string_view s) {
  static constexpr std::string_view words[] = {"dim",   "dims",   "floats", "strings", "ints",     "types", "tensors",
                                               "type",  "opaque", "token",  "seq",     "optional", "map",   "list",
                                               "tuple", "state",  "sparse", "doc",     "tensor"};
  return is_reserved(s) || std::find(std::begin(words), std::end(words), s) != std::end(words);
}

}  // namespace

template <class List, class Print>
void AttrPrinter::list(std::string_view prefix, const List& items, Print&& print) {
  out_ += prefix;
  out_ += '[';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out_ += ", ";
    print(items[i]);
  }
  out_ += ']';
}

void AttrPrinter::word_or_quote(std::string_view s) {
  if (is_identifier(s)) {
    out_ += s;
  } else {
    quote(out_, s);
  }
}

void AttrPrinter::meta(std::string_view key, const Metadata& data) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(out_), " {} {{", key);
  for (size_t i = 0; i < data.size(); ++i) {
    if (i > 0) out_ += ", ";
    quote(out_, data[i].first);
    out_ += ": ";
    quote(out_, data[i].second);
  }
  out_ += '}';
}

void AttrPrinter::quoted(std::string_view key, std::string_view value) {
  if (value.empty()) return;
  fmt::format_to(std::back_inserter(out_), " {} ", key);
  quote(out_, value);
}

void AttrPrinter::hex(std::string_view key, std::string_view bytes) {
  if (!bytes.empty()) fmt::format_to(std::back_inserter(out_), " {} \"{}\"", key, to_hex(bytes));
}

void AttrPrinter::named_attr(const NamedAttr& a) {
  word_or_quote(a.name);
  out_ += '=';
  attribute(a.value);
  quoted("doc", a.doc);
}

void AttrPrinter::bare_dim(Dim d) { out_ += m_.dims().to_string(d); }

// Whether a symbol stands alone unambiguously; one that looks like another kind of attribute is wrapped.
bool AttrPrinter::is_clear_alone(Dim d) const {
  if (!d.is_expr()) return false;
  std::string text = m_.dims().to_string(d);
  size_t end = 0;
  while (end < text.size() && is_word_char(text[end])) ++end;
  std::string_view first = std::string_view(text).substr(0, end);
  return is_identifier(first) && !is_attr_word(first);
}

void AttrPrinter::attribute(const Attr& a) {
  std::visit(
      [&](const auto& x) {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::same_as<T, std::monostate>) {
          out_ += "none";
        } else if constexpr (std::same_as<T, bool>) {
          out_ += x ? "true" : "false";
        } else if constexpr (std::same_as<T, int64_t>) {
          out_ += std::to_string(x);
        } else if constexpr (std::same_as<T, double>) {
          print_double(out_, x);
        } else if constexpr (std::same_as<T, std::string>) {
          quote(out_, x);
        } else if constexpr (std::same_as<T, DType>) {
          if (x == DType::kUndefined) {
            out_ += "dtype(?)";
          } else {
            out_ += sardonyx::to_string(x);
          }
        } else if constexpr (std::same_as<T, const Type*>) {
          if (x != nullptr && x->is_tensor() && x->dtype() != DType::kUndefined) {
            out_ += m_.types().to_string(x);
          } else {
            out_ += "type(" + m_.types().to_string(x) + ")";
          }
        } else if constexpr (std::same_as<T, TensorPtr>) {
          tensor(x);
        } else if constexpr (std::same_as<T, Dim>) {
          if (is_clear_alone(x)) {
            bare_dim(x);
          } else {
            out_ += "dim(";
            bare_dim(x);
            out_ += ')';
          }
        } else if constexpr (std::same_as<T, Attr::Ints>) {
          list("", x, [&](int64_t v) { fmt::format_to(std::back_inserter(out_), "{}", v); });
        } else if constexpr (std::same_as<T, Attr::Floats>) {
          list(x.empty() ? "floats" : "", x, [&](double v) { print_double(out_, v); });
        } else if constexpr (std::same_as<T, Attr::Strings>) {
          list(x.empty() ? "strings" : "", x, [&](const std::string& v) { quote(out_, v); });
        } else if constexpr (std::same_as<T, Attr::Tensors>) {
          list("tensors", x, [&](const TensorPtr& v) { tensor(v); });
        } else if constexpr (std::same_as<T, Attr::TypeList>) {
          list("types", x, [&](const Type* t) { out_ += m_.types().to_string(t); });
        } else if constexpr (std::same_as<T, Attr::DimList>) {
          bool bare = std::any_of(x.begin(), x.end(), [](Dim d) { return d.is_expr(); }) &&
                      std::all_of(x.begin(), x.end(), [&](Dim d) { return d.is_int() || is_clear_alone(d); });
          list(bare ? "" : "dims", x, [&](Dim d) { bare_dim(d); });
        } else if constexpr (std::same_as<T, AttrList>) {
          out_ += '(';
          for (size_t i = 0; i < x.size(); ++i) {
            if (i > 0) out_ += ", ";
            attribute(x[i]);
          }
          out_ += ')';
        } else if constexpr (std::same_as<T, AttrDict>) {
          out_ += '{';
          for (size_t i = 0; i < x.size(); ++i) {
            if (i > 0) out_ += ", ";
            word_or_quote(x[i].first);
            out_ += ": ";
            attribute(x[i].second);
          }
          out_ += '}';
        } else if constexpr (std::same_as<T, OpaqueAttr>) {
          out_ += "opaque(";
          quote(out_, x.text);
          out_ += ')';
        } else if constexpr (std::same_as<T, RefAttr>) {
          out_ += '@';
          word_or_quote(x.name);
          if (x.type != 0) fmt::format_to(std::back_inserter(out_), ":{}", x.type);
        }
      },
      a.value());
}

void AttrPrinter::constant(const Tensor& t) { print_tensor(out_, t, options_.full_constants); }

void AttrPrinter::tensor(const TensorPtr& t) {
  if (t == nullptr) {
    out_ += "tensor(none)";
  } else {
    constant(*t);
  }
}

}  // namespace sardonyx::text
