// Types: interned per model.
#include "sardonyx/type.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/dims/dim_facts.h"
#include "sardonyx/error.h"

namespace sardonyx {
namespace {

uint64_t mix(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}

std::string_view kind_name(TypeKind k) {
  switch (k) {
    case TypeKind::kTensor: return "tensor";
    case TypeKind::kSparseTensor: return "sparse";
    case TypeKind::kSequence: return "seq";
    case TypeKind::kOptional: return "optional";
    case TypeKind::kMap: return "map";
    case TypeKind::kList: return "list";
    case TypeKind::kTuple: return "tuple";
    case TypeKind::kState: return "state";
    case TypeKind::kToken: return "token";
    case TypeKind::kOpaque: return "opaque";
  }
  return "?";
}

}  // namespace

bool Type::is_static() const {
  if (!ranked_) return false;
  for (Dim d : dims())
    if (!d.is_int()) return false;
  return true;
}

std::optional<int64_t> Type::static_size() const {
  if (!is_static()) return std::nullopt;
  int64_t n = 1;
  bool overflow = false;
  for (Dim d : dims()) {
    if (d.is(0)) return 0;
    overflow |= __builtin_mul_overflow(n, d.value(), &n);
  }
  if (overflow) throw Error(ErrorCode::kLimit, "a tensor type has more than 2^63 elements");
  return n;
}

struct Types::Impl {
  std::deque<Type> types;
  std::deque<std::vector<Dim>> dims;
  std::deque<std::vector<const Type*>> elements;
  std::deque<std::string> labels;
  std::unordered_multimap<uint64_t, const Type*> index;
};

Types::Types(Dims& dims) : dims_(&dims), impl_(std::make_unique<Impl>()) {}
Types::~Types() = default;

const Type* Types::make(TypeKind kind, DType dtype, std::span<const Type* const> elements, std::span<const Dim> dims,
                        bool ranked, std::string_view label) {
  uint64_t h = mix(static_cast<uint64_t>(kind) << 16 | static_cast<uint64_t>(dtype) << 1 | (ranked ? 1 : 0), dims.size());
  for (Dim d : dims) h = mix(h, d.word());
  for (const Type* e : elements) h = mix(h, reinterpret_cast<uintptr_t>(e));
  h = mix(h, std::hash<std::string_view>()(label));
  auto [first, last] = impl_->index.equal_range(h);
  for (; first != last; ++first) {
    const Type* t = first->second;
    if (t->kind_ == kind && t->dtype_ == dtype && t->ranked_ == ranked && t->label_ == label &&
        std::equal(dims.begin(), dims.end(), t->dims().begin(), t->dims().end(), [](Dim a, Dim b) { return a.same(b); }) &&
        std::equal(elements.begin(), elements.end(), t->elements().begin(), t->elements().end()))
      return t;
  }
  Type& t = impl_->types.emplace_back();
  t.kind_ = kind;
  t.dtype_ = dtype;
  t.ranked_ = ranked;
  if (!dims.empty()) t.dims_ = impl_->dims.emplace_back(dims.begin(), dims.end()).data();
  t.rank_ = static_cast<uint32_t>(dims.size());
  if (!elements.empty()) t.elements_ = impl_->elements.emplace_back(elements.begin(), elements.end()).data();
  t.element_count_ = static_cast<uint32_t>(elements.size());
  if (!label.empty()) t.label_ = impl_->labels.emplace_back(label);
  impl_->index.emplace(h, &t);
  return &t;
}

const Type* Types::tensor(DType dtype, std::span<const Dim> dims) {
  return make(TypeKind::kTensor, dtype, {}, dims, /*ranked=*/true);
}

const Type* Types::tensor(DType dtype, std::initializer_list<int64_t> dims) {
  return tensor(dtype, std::span<const int64_t>(dims.begin(), dims.size()));
}

const Type* Types::tensor(DType dtype, std::span<const int64_t> dims) {
  std::vector<Dim> d;
  d.reserve(dims.size());
  for (int64_t v : dims) d.push_back(Dim::of(v));
  return tensor(dtype, d);
}

const Type* Types::unranked(DType dtype) { return make(TypeKind::kTensor, dtype, {}); }

const Type* Types::with_dtype(const Type* t, DType dtype) {
  return make(t->kind(), dtype, t->elements(), t->dims(), t->ranked(), t->label());
}

const Type* Types::with_dims(const Type* t, std::span<const Dim> dims) {
  return make(t->kind(), t->dtype(), t->elements(), dims, /*ranked=*/true, t->label());
}

const Type* Types::freshen(const Type* t) {
  if (t == nullptr) return nullptr;
  bool changed = std::ranges::any_of(t->dims(), &Dim::is_anonymous);
  if (!changed && t->elements().empty()) return t;
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  for (Dim& d : dims) {
    if (!d.is_anonymous()) continue;
    d = dims_->fresh_unknown();
  }
  std::vector<const Type*> elements(t->elements().begin(), t->elements().end());
  for (const Type*& e : elements) {
    const Type* fresh = freshen(e);
    changed |= fresh != e;
    e = fresh;
  }
  return changed ? make(t->kind(), t->dtype(), elements, dims, t->ranked(), t->label()) : t;
}

const Type* Types::import(const Type* t, const Types& from) {
  if (t == nullptr || &from == this) return t;
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  for (Dim& d : dims) d = dims_->import(d, *from.dims_);
  std::vector<const Type*> elements(t->elements().begin(), t->elements().end());
  for (const Type*& e : elements) e = import(e, from);
  return make(t->kind(), t->dtype(), elements, dims, t->ranked(), t->label());
}

const Type* Types::meet(const Type* a, const Type* b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  if (a->kind() != b->kind() || a->label() != b->label()) return nullptr;
  if (a->dtype() != b->dtype() && a->dtype() != DType::kUndefined && b->dtype() != DType::kUndefined) return nullptr;
  DType dtype = a->dtype() == DType::kUndefined ? b->dtype() : a->dtype();

  std::vector<Dim> dims;
  if (a->ranked() && b->ranked()) {
    if (a->rank() != b->rank()) return nullptr;
    for (size_t i = 0; i < a->rank(); ++i) {
      Dim x = a->dim(i), y = b->dim(i);
      if (contradict(*dims_, x, y)) return nullptr;
      // Integers are more precise than expressions, expressions more than unknowns; in a tie, a's dim wins.
      bool take_y = (y.is_int() && !x.is_int()) || (y.is_expr() && x.is_unknown()) || x.is_anonymous();
      dims.push_back(take_y ? y : x);
    }
  } else {
    const Type* known = a->ranked() ? a : b;
    dims.assign(known->dims().begin(), known->dims().end());
  }

  std::vector<const Type*> elements;
  if (a->elements().empty() || b->elements().empty()) {
    auto known = a->elements().empty() ? b->elements() : a->elements();
    elements.assign(known.begin(), known.end());
  } else {
    if (a->elements().size() != b->elements().size()) return nullptr;
    for (size_t i = 0; i < a->elements().size(); ++i) {
      const Type *x = a->elements()[i], *y = b->elements()[i];
      elements.push_back(meet(x, y));
      if (elements.back() == nullptr && (x != nullptr || y != nullptr)) return nullptr;
    }
  }
  return make(a->kind(), dtype, elements, dims, a->ranked() || b->ranked(), a->label());
}

const Type* Types::join(const Type* a, const Type* b) {
  if (a == b) return a;
  if (a == nullptr || b == nullptr || a->kind() != b->kind() || a->label() != b->label()) return nullptr;
  DType dtype = a->dtype() == b->dtype() ? a->dtype() : DType::kUndefined;
  if (a->elements().size() != b->elements().size()) return nullptr;
  bool ranked = a->ranked() && b->ranked() && a->rank() == b->rank();
  std::vector<Dim> dims;
  if (ranked) {
    for (size_t i = 0; i < a->rank(); ++i) {
      Dim x = a->dim(i), y = b->dim(i);
      dims.push_back(x == y || dims_->compare(x, y) == Compare::kEqual ? x : dims_->fresh_unknown());
    }
  }
  std::vector<const Type*> elements;
  for (size_t i = 0; i < a->elements().size(); ++i) elements.push_back(join(a->elements()[i], b->elements()[i]));
  return make(a->kind(), dtype, elements, dims, ranked, a->label());
}

std::string Types::to_string(const Type* t) const {
  if (t == nullptr) return "?";
  auto tensor = [&] {
    std::string out(t->dtype() == DType::kUndefined ? "?" : sardonyx::to_string(t->dtype()));
    if (!t->ranked()) return out + "[...]";
    out += '[';
    for (size_t i = 0; i < t->rank(); ++i) {
      if (i > 0) out += ',';
      out += dims_->to_string(t->dim(i));
    }
    return out + ']';
  };
  switch (t->kind()) {
    case TypeKind::kTensor: return tensor();
    case TypeKind::kSparseTensor: return "sparse(" + tensor() + ")";
    case TypeKind::kToken: return "token";
    case TypeKind::kOpaque: {
      std::string out = "opaque(\"";
      for (char c : t->label()) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
      }
      return out + "\")";
    }
    default: break;
  }
  std::string out(kind_name(t->kind()));
  out += '(';
  std::string_view separator;
  if (t->kind() == TypeKind::kMap) {
    out += t->dtype() == DType::kUndefined ? "?" : sardonyx::to_string(t->dtype());
    separator = ", ";
  }
  for (const Type* e : t->elements()) {
    out += separator;
    out += to_string(e);
    separator = ", ";
  }
  if (t->kind() == TypeKind::kList && t->rank() > 0) {
    out += separator;
    out += dims_->to_string(t->dim(0));
  }
  return out + ')';
}

}  // namespace sardonyx
