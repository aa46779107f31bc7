#include "ir/infer/known.h"

namespace sardonyx {
namespace {

const AttrSpec* default_of(const Node& n, std::string_view name) {
  if (n.attr(name) != nullptr) return nullptr;
  for (const AttrSpec& s : n.op().attrs) {
    if (s.name == name) return s.has_default ? &s : nullptr;
  }
  return nullptr;
}

template <class T>
std::optional<T> own_attr(const Node& n, std::string_view name) {
  const Attr* a = n.attr(name);
  const T* value = a != nullptr ? a->get<T>() : nullptr;
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

}  // namespace

std::optional<int64_t> int_attr(const Node& n, std::string_view name) {
  if (const AttrSpec* s = default_of(n, name)) return s->default_int;
  if (const auto b = own_attr<bool>(n, name)) return *b ? 1 : 0;
  return own_attr<int64_t>(n, name);
}

std::optional<double> float_attr(const Node& n, std::string_view name) {
  if (const AttrSpec* s = default_of(n, name)) return static_cast<double>(static_cast<float>(s->default_float));
  return own_attr<double>(n, name);
}

std::optional<std::string> string_attr(const Node& n, std::string_view name) {
  if (const AttrSpec* s = default_of(n, name)) return std::string(s->default_string);
  return own_attr<std::string>(n, name);
}

std::optional<std::vector<int64_t>> ints_attr(const Node& n, std::string_view name) {
  if (const AttrSpec* s = default_of(n, name)) return std::vector<int64_t>(s->default_ints.begin(), s->default_ints.end());
  return own_attr<Attr::Ints>(n, name);
}

std::optional<int64_t> from_front(int64_t axis, std::optional<size_t> rank) {
  if (!rank) return axis >= 0 ? std::optional(axis) : std::nullopt;
  const auto size = static_cast<int64_t>(*rank);
  if (axis < -size || axis >= size) return std::nullopt;
  return axis < 0 ? axis + size : axis;
}

std::optional<std::vector<int64_t>> from_front(std::optional<std::vector<int64_t>> axes, std::optional<size_t> rank) {
  if (!axes) return std::nullopt;
  for (int64_t& axis : *axes) {
    const auto at = from_front(axis, rank);
    if (!at) return std::nullopt;
    axis = *at;
  }
  return axes;
}

bool is_permutation(std::span<const int64_t> axes) {
  uint64_t few = 0;  // a bit for each axis seen
  std::vector<bool> many(axes.size() > 64 ? axes.size() : 0);
  for (const int64_t axis : axes) {
    if (axis < 0 || axis >= std::ssize(axes)) return false;
    const auto at = static_cast<size_t>(axis);
    if (many.empty() ? (few >> at & 1) != 0 : many[at]) return false;
    if (many.empty()) {
      few |= uint64_t{1} << at;
    } else {
      many[at] = true;
    }
  }
  return true;
}

std::optional<std::vector<int64_t>> known_ints(const Value* v, const ValueFacts* facts) {
  if (v == nullptr) return std::nullopt;
  if (const TensorPtr& t = v->constant()) {
    if (!is_integer(t->dtype()) || t->is_promise()) return std::nullopt;
    return t->to_ints();
  }
  const SymbolicValue* known = facts != nullptr ? facts->find(*v) : nullptr;
  if (known == nullptr) return std::nullopt;
  std::vector<int64_t> out;
  for (Dim d : known->elements) {
    if (!d.is_int()) return std::nullopt;
    out.push_back(d.value());
  }
  return out;
}

}  // namespace sardonyx
