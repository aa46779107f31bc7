// Attributes: the immutable parameters of a node, for all dialects.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sardonyx/dim.h"
#include "sardonyx/dtype.h"
#include "sardonyx/tensor.h"
#include "sardonyx/type.h"

namespace sardonyx {

class Attr;

// A value that is not interpreted; `text` is its readable form. Reading it as any other kind is an error that
// shows the text.
struct OpaqueAttr {
  std::string text;
  friend bool operator==(const OpaqueAttr&, const OpaqueAttr&) = default;
};
// Inside an ONNX function: the value of the function's attribute `name`; type is onnx
// AttributeProto.AttributeType.
struct RefAttr {
  std::string name;
  int type = 0;
  friend bool operator==(const RefAttr&, const RefAttr&) = default;
};
using AttrList = std::vector<Attr>;                          // tuples and lists (jax params)
using AttrDict = std::vector<std::pair<std::string, Attr>>;  // named tuples (jax), in field order

// One attribute value. ONNX: int64, double (holds an f32), string, tensor, type, and lists of these; graphs
// are not attributes here but bodies of the node. JAX params use all kinds; a tuple of integers is an `ints`
// list, of dims a `Dims` list.
class Attr {
 public:
  using Ints = std::vector<int64_t>;
  using Floats = std::vector<double>;
  using Strings = std::vector<std::string>;
  using Tensors = std::vector<TensorPtr>;
  using TypeList = std::vector<const Type*>;
  using DimList = std::vector<Dim>;
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, DType, const Type*, TensorPtr, Dim, Ints,
                             Floats, Strings, Tensors, TypeList, DimList, AttrList, AttrDict, OpaqueAttr, RefAttr>;

  // Out of line: most code that builds nodes would otherwise be copies and destructors of this variant.
  Attr() noexcept;
  Attr(const Attr&);
  Attr(Attr&&) noexcept;
  Attr& operator=(const Attr&);
  Attr& operator=(Attr&&) noexcept;
  ~Attr();
  Attr(bool v);
  Attr(std::integral auto v) : Attr(static_cast<int64_t>(v)) {}
  Attr(int64_t v);
  Attr(double v);
  Attr(const char* s);
  Attr(std::string_view s);
  Attr(std::string v);
  Attr(DType v);
  Attr(const Type* v);
  Attr(TensorPtr v);
  Attr(Dim v);
  Attr(Ints v);
  Attr(Floats v);
  Attr(Strings v);
  Attr(Tensors v);
  Attr(TypeList v);
  Attr(DimList v);
  Attr(AttrList v);
  Attr(AttrDict v);
  Attr(OpaqueAttr v);
  Attr(RefAttr v);

  const Value& value() const { return value_; }
  template <class T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  bool is_none() const { return std::holds_alternative<std::monostate>(value_); }

  // Bitwise on floats (NaN equals itself, 0 differs from -0), by content on tensors.
  friend bool operator==(const Attr& a, const Attr& b);
  uint64_t hash() const;

 private:
  Value value_;
};

struct NamedAttr {
  NamedAttr();
  NamedAttr(std::string_view name, Attr value);
  NamedAttr(const NamedAttr&);
  NamedAttr(NamedAttr&&) noexcept;
  NamedAttr& operator=(const NamedAttr&);
  NamedAttr& operator=(NamedAttr&&) noexcept;
  ~NamedAttr();

  std::string name;
  Attr value;
  std::string doc;  // ONNX AttributeProto.doc_string
  // ONNX, for each tensor in the value: name, doc_string, metadata_props and unknown fields of the
  // TensorProto, in wire format. Empty, or one per tensor in the order of the file (a sparse tensor has two).
  std::vector<std::string> tensor_fields = {};
};

// An immutable set of attributes, interned per model (Model::attrs): nodes with equal attributes share one.
// Ordered by name. `wire` is the file's encoding of a set that was read and not changed; the writer copies
// it.
class Attrs {
 public:
  std::span<const NamedAttr> items() const { return items_; }
  bool empty() const { return items_.empty(); }
  const Attr* find(std::string_view name) const;  // nullptr if absent

  // Canonical pointers are equal if and only if names and values are; doc strings and tensor_fields do not
  // count.
  const Attrs* canonical() const { return canonical_; }
  std::string_view wire() const { return wire_; }

 private:
  friend class Model;
  std::vector<NamedAttr> items_;
  std::string_view wire_;
  const Attrs* canonical_ = nullptr;
  uint64_t hash_ = 0;
};

// For building: {{"axis", 1}, {"perm", std::vector<int64_t>{1, 0}}}.
using AttrInit = std::vector<NamedAttr>;
inline NamedAttr attr(std::string_view name, Attr value) { return {name, std::move(value)}; }

// A short readable form: "3", "[1, 0]", "\"NHWC\"", "f32[3]{...}"; `types` prints types and dims.
std::string to_string(const Attr& a, const Types& types);

}  // namespace sardonyx

extern template class std::vector<sardonyx::NamedAttr>;
