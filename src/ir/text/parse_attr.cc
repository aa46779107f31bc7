#include "ir/text/parse_attr.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace sardonyx::text {

std::string AttrParser::word_or_string(std::string_view what) {
  if (lex_.kind() == Token::kString) return lex_.string(what);
  if (lex_.kind() != Token::kWord) lex_.expected(what);
  std::string s(lex_.raw());
  lex_.next();
  return s;
}

const Type* AttrParser::type() {
  size_t at = lex_.start();
  const Type* t = nullptr;
  try {
    t = parse_type(m_->types(), lex_.text(), at);
  } catch (const Error& e) {
    lex_.fail_at(at, e.message(), e.code());
  }
  lex_.seek(at);
  return t;
}

bool AttrParser::at_constant() {
  if (lex_.kind() != Token::kWord || !dtype_word(lex_.raw())) return false;
  char c = lex_.end() < lex_.text().size() ? lex_.text()[lex_.end()] : '\0';
  return c != '(' && c != '<' && c != ':' && c != '!';
}

// --- constants

TensorPtr AttrParser::constant() {
  size_t begin = lex_.start();
  DType dtype = *dtype_word(lex_.raw());
  lex_.next();
  std::vector<int64_t> shape;
  bool braces = lex_.take("[");
  if (braces) {
    while (!lex_.take("]")) {
      if (!shape.empty()) lex_.expect(",");
      shape.push_back(lex_.integer("a size"));
      if (shape.back() < 0) lex_.fail_at(begin, "a constant has no negative size");
    }
    lex_.expect("{", "and the elements");
  }
  return elements(dtype, std::move(shape), braces, begin);
}

TensorPtr AttrParser::elements(DType dtype, std::vector<int64_t> shape, bool braces, size_t begin) {
  if (braces && lex_.is("#")) return digest(dtype, std::move(shape), begin);
  ElementReader reader(dtype);
  bool repeat = false;
  while (!braces || !lex_.take("}")) {
    if (reader.count() > 0) lex_.expect(",", "or '}'");
    size_t at = lex_.start();
    bool ok = true;
    if (lex_.kind() == Token::kString && dtype == DType::kString) {
      reader.add_string(lex_.string("a string"));
    } else if (lex_.take("(")) {
      std::string_view real = lex_.raw();
      lex_.next();
      std::string_view imaginary = lex_.raw();
      lex_.next();
      ok = reader.add_complex(real, imaginary);
      lex_.expect(")", "after the real and the imaginary part");
    } else if (lex_.kind() == Token::kNumber || lex_.kind() == Token::kWord) {
      ok = reader.add(lex_.raw());
      lex_.next();
    } else {
      lex_.expected("an element");
    }
    if (!ok) lex_.fail_at(at, fmt::format("this does not fit {}", to_string(dtype)));
    if (!braces) break;
    if (reader.count() == 1 && lex_.take("...")) {
      repeat = true;
      lex_.expect("}");
      break;
    }
  }
  int64_t count = 1;
  for (int64_t d : shape)
    if (__builtin_mul_overflow(count, d, &count)) lex_.fail_at(begin, "this constant has too many elements", ErrorCode::kLimit);
  if (!repeat && reader.count() != count)
    lex_.fail_at(begin, fmt::format("this constant has {} elements, its shape asks for {}", reader.count(), count));
  try {
    return reader.finish(std::move(shape), repeat);
  } catch (const Error& e) {
    lex_.fail_at(begin, e.message(), e.code());
  }
}

// {#0123456789abcdef}: sixteen digits after the '#'
TensorPtr AttrParser::digest(DType dtype, std::vector<int64_t> shape, size_t begin) {
  size_t at = lex_.end();
  uint64_t hash = 0;
  std::string_view digits = lex_.text().substr(at, 16);
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  if (digits.size() != 16 || end != digits.data() + 16 || code != std::errc())
    lex_.fail_at(at, "a digest has 16 hexadecimal digits");
  lex_.seek(at + 16);
  lex_.expect("}");
  if (payloads_) {
    TensorPtr t = payloads_(hash);
    if (t == nullptr) lex_.fail_at(begin, "the sidecar has no constant with this digest");
    if (t->dtype() != dtype || !std::equal(shape.begin(), shape.end(), t->shape().begin(), t->shape().end()))
      lex_.fail_at(begin, "the sidecar's constant with this digest has another type");
    return t;
  }
  return Tensor::promise(dtype, std::move(shape), hash);
}

// --- attributes

Dim AttrParser::dim_until(std::string_view what) {
  size_t at = lex_.start(), end = end_of_dim(lex_.text(), at);
  while (end > at && lex_.text()[end - 1] == ' ') --end;
  if (end == at) lex_.expected(what);
  try {
    Dim d = m_->dims().parse(lex_.text().substr(at, end - at));
    lex_.seek(end);
    return d;
  } catch (const Error& e) {
    lex_.fail_at(at, e.message(), e.code());
  }
}

template <class Each>
void AttrParser::listed(std::string_view close, Each&& each) {
  for (bool first = true; !lex_.take(close); first = false) {
    if (!first) {
      lex_.expect(",", fmt::format("or '{}'", close));
      if (lex_.take(close)) return;
    }
    each();
  }
}

template <class List, class Each>
List AttrParser::list_of(Each&& each) {
  List items;
  listed("]", [&] { items.push_back(each()); });
  return items;
}

Attr AttrParser::attribute(int nesting) {
  if (nesting > kMaxExpressionDepth) lex_.fail("attributes nest too deeply here", ErrorCode::kLimit);
  if (lex_.kind() == Token::kString) return lex_.string("a string");
  if (lex_.kind() == Token::kNumber) return number();
  if (lex_.take("[")) return list(nesting);
  if (lex_.take("(")) {
    AttrList items;
    listed(")", [&] { items.push_back(attribute(nesting + 1)); });
    return items;
  }
  if (lex_.take("{")) {
    AttrDict items;
    listed("}", [&] {
      std::string key = word_or_string("a key");
      lex_.expect(":");
      items.emplace_back(std::move(key), attribute(nesting + 1));
    });
    return items;
  }
  if (lex_.take("@")) {
    RefAttr ref;
    ref.name = word_or_string("an attribute's name");
    if (lex_.take(":")) ref.type = static_cast<int>(lex_.integer("an attribute type's number"));
    return ref;
  }
  if (lex_.is("-") || lex_.is("?")) return dim_until("an attribute");
  if (lex_.kind() != Token::kWord) lex_.expected("an attribute");
  return word_attribute();
}

Attr AttrParser::number() {
  std::string_view s = lex_.raw();
  bool integer = s.find_first_not_of("-0123456789") == std::string_view::npos;
  // "2*B": an expression starting with a number
  char after = lex_.end() < lex_.text().size() ? lex_.text()[lex_.end()] : '\0';
  if (integer && (after == '*' || lex_.text().substr(lex_.end(), 2) == " *" || lex_.text().substr(lex_.end(), 2) == " +" ||
                  lex_.text().substr(lex_.end(), 2) == " -"))
    return dim_until("a dimension");
  if (integer) return lex_.integer("an integer");
  ElementReader reader(DType::kF64);
  if (!reader.add(s)) lex_.fail("this is not a number");
  lex_.next();
  return reader.finish({}, false)->as_double(0);
}

Attr AttrParser::list(int nesting) {
  size_t begin = lex_.start();
  AttrList items;
  listed("]", [&] { items.push_back(attribute(nesting + 1)); });
  auto all = [&](auto holds) { return std::all_of(items.begin(), items.end(), holds); };
  auto gather = [&]<class T>(std::vector<T> into) {
    for (const Attr& a : items) into.push_back(*a.get<T>());
    return into;
  };
  if (all([](const Attr& a) { return a.get<int64_t>(); })) return gather(Attr::Ints());
  if (all([](const Attr& a) { return a.get<int64_t>() || a.get<double>(); })) {
    Attr::Floats floats;
    for (const Attr& a : items) floats.push_back(a.get<double>() ? *a.get<double>() : static_cast<double>(*a.get<int64_t>()));
    return floats;
  }
  if (all([](const Attr& a) { return a.get<std::string>(); })) return gather(Attr::Strings());
  if (all([](const Attr& a) { return a.get<int64_t>() || a.get<Dim>(); })) {
    Attr::DimList dims;
    for (const Attr& a : items) dims.push_back(a.get<Dim>() ? *a.get<Dim>() : Dim::of(*a.get<int64_t>()));
    return dims;
  }
  lex_.fail_at(begin, "a list in brackets holds integers, floats, strings or dimensions; write (a, b) for other things");
}

Attr AttrParser::word_attribute() {
  std::string_view w = lex_.raw();
  char after = lex_.end() < lex_.text().size() ? lex_.text()[lex_.end()] : '\0';
  auto wrapped = [&](std::string_view name, char open) {
    if (w != name || after != open) return false;
    lex_.next();
    lex_.next();
    return true;
  };
  if (lex_.take("none")) return Attr();
  if (lex_.take("true")) return true;
  if (lex_.take("false")) return false;
  if (w == "inf" || w == "nan") {
    lex_.next();
    return w == "inf" ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (wrapped("dim", '(')) {
    Dim d = dim_until("a dimension");
    lex_.expect(")");
    return d;
  }
  if (wrapped("dims", '[')) return list_of<Attr::DimList>([&] { return dim_until("a dimension"); });
  if (wrapped("ints", '[')) return list_of<Attr::Ints>([&] { return lex_.integer("an integer"); });
  if (wrapped("floats", '[')) {
    Attr::Floats items;
    listed("]", [&] {
      Attr a = lex_.kind() == Token::kNumber ? number() : word_attribute();
      if (a.get<int64_t>()) a = static_cast<double>(*a.get<int64_t>());
      if (!a.get<double>()) lex_.expected("a number");
      items.push_back(*a.get<double>());
    });
    return items;
  }
  if (wrapped("strings", '[')) return list_of<Attr::Strings>([&] { return lex_.string("a string"); });
  if (wrapped("types", '[')) return list_of<Attr::TypeList>([&] { return type(); });
  if (wrapped("tensors", '[')) return list_of<Attr::Tensors>([&] { return tensor(); });
  if (w == "tensor" && after == '(') return tensor();
  if (wrapped("type", '(')) {
    const Type* t = type();
    lex_.expect(")");
    return t;
  }
  if (wrapped("dtype", '(')) {
    lex_.expect("?");
    lex_.expect(")");
    return DType::kUndefined;
  }
  if (wrapped("opaque", '(')) {
    if (lex_.kind() == Token::kString) {
      OpaqueAttr a{lex_.string("a text")};
      lex_.expect(")");
      return a;
    }
    lex_.expected("a quoted text");
  }
  if (w == "token" || (after == '(' && (w == "seq" || w == "optional" || w == "map" || w == "list" || w == "tuple" ||
                                        w == "state" || w == "sparse")))
    return type();
  if (auto dtype = dtype_word(w)) return dtype_attribute(*dtype);
  return dim_until("a dimension");
}

TensorPtr AttrParser::tensor() {
  if (lex_.is("tensor")) {
    lex_.next();
    lex_.expect("(");
    lex_.expect("none");
    lex_.expect(")");
    return nullptr;
  }
  if (!at_constant()) lex_.expected("a constant");
  return constant();
}

// f32 is a dtype, f32[3] a type, f32[3]{...} and f32 0.5 are constants.
Attr AttrParser::dtype_attribute(DType dtype) {
  size_t begin = lex_.start();
  lex_.next();
  if (lex_.is("[")) {
    lex_.seek(begin);
    const Type* t = type();
    if (!lex_.is("{")) return t;
    lex_.seek(begin);
    return constant();
  }
  bool element = lex_.kind() == Token::kNumber || lex_.is("true") || lex_.is("false") || lex_.is("nan") || lex_.is("inf") ||
                 (is_complex(dtype) && lex_.is("(")) || (dtype == DType::kString && lex_.kind() == Token::kString);
  if (!element) return dtype;
  lex_.seek(begin);
  return constant();
}

}  // namespace sardonyx::text
