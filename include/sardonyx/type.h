// Types of values, interned per model: equal pointers mean equal types.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sardonyx/dim.h"
#include "sardonyx/dtype.h"

namespace sardonyx {

enum class TypeKind : uint8_t {
  kTensor,
  kSparseTensor,
  kSequence,  // ONNX sequence(T); element
  kOptional,  // ONNX optional(T); element
  kMap,       // ONNX map(key dtype, T); dtype = key, element
  kList,      // MIL list: element, one dim (length)
  kTuple,     // MIL tuple: elements
  kState,     // MIL state(T): element
  kToken,     // JAX tokens and other values that carry no data
  kOpaque,    // ONNX Opaque(domain, name)
};

// Immutable; owned by the Types table of a model. A null `const Type*` means "nothing known".
class Type {
 public:
  TypeKind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == TypeKind::kTensor; }
  DType dtype() const { return dtype_; }  // kUndefined when unknown or not a tensor
  bool ranked() const { return ranked_; }
  size_t rank() const { return rank_; }  // requires ranked()
  std::span<const Dim> dims() const { return {dims_, rank_}; }
  Dim dim(size_t axis) const { return dims_[axis]; }
  bool is_static() const;  // ranked, all dims integers
  // Number of elements when is_static(), else nullopt; throws kLimit on overflow.
  std::optional<int64_t> static_size() const;
  std::span<const Type* const> elements() const { return {elements_, element_count_}; }
  const Type* element() const { return element_count_ ? elements_[0] : nullptr; }
  std::string_view label() const { return label_; }  // kOpaque: "domain/name"

 private:
  friend class Types;
  TypeKind kind_ = TypeKind::kTensor;
  DType dtype_ = DType::kUndefined;
  bool ranked_ = false;
  uint32_t rank_ = 0;
  uint32_t element_count_ = 0;
  const Dim* dims_ = nullptr;
  const Type* const* elements_ = nullptr;
  std::string_view label_;
};

// The types of one model. References stay valid as long as the table.
class Types {
 public:
  explicit Types(Dims& dims);
  ~Types();
  Types(const Types&) = delete;
  Types& operator=(const Types&) = delete;

  const Type* tensor(DType dtype, std::span<const Dim> dims);
  const Type* tensor(DType dtype, std::initializer_list<int64_t> dims);
  const Type* tensor(DType dtype, std::span<const int64_t> dims);
  const Type* unranked(DType dtype);
  const Type* scalar(DType dtype) { return tensor(dtype, std::span<const Dim>{}); }
  const Type* make(TypeKind kind, DType dtype, std::span<const Type* const> elements, std::span<const Dim> dims = {},
                   bool ranked = false, std::string_view label = {});
  const Type* sequence(const Type* element) { return make(TypeKind::kSequence, DType::kUndefined, {&element, 1}); }
  const Type* optional(const Type* element) { return make(TypeKind::kOptional, DType::kUndefined, {&element, 1}); }

  const Type* with_dtype(const Type* t, DType dtype);
  const Type* with_dims(const Type* t, std::span<const Dim> dims);
  // Replaces anonymous unknown dims by fresh ones, so that two values never share an unknown by accident.
  const Type* freshen(const Type* t);
  // The same type in this table, for moving graphs between models.
  const Type* import(const Type* t, const Types& from);

  // The more precise of each part. Null if they contradict (different dtype, rank or integers).
  const Type* meet(const Type* a, const Type* b);
  // The type that holds for both, as for branches of an If or iterations of a Loop. Null = nothing known.
  const Type* join(const Type* a, const Type* b);
  // Provably the same type (an unknown dim equals only itself).
  static bool equal(const Type* a, const Type* b) { return a == b && a != nullptr; }

  // "f32[B,3]", "f32[?,3]", "f32[...]" (rank unknown), "?" (null), "seq(f32[3])", "optional(...)", "map(i64,
  // ...)", "token".
  std::string to_string(const Type* t) const;
  // Parses that spelling; each "?" is a fresh unknown. Throws kParse with the column of the error.
  const Type* parse(std::string_view text);
  Dims& dims() const { return *dims_; }

 private:
  Dims* dims_;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sardonyx
