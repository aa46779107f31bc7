#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "ir/graph/model_impl.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

// Larger tensors are compared by address: comparing weights just to intern a set would read the whole file.
constexpr size_t kCompareTensorBytes = 4096;

bool same_tensor(const TensorPtr& a, const TensorPtr& b) {
  if (a == b) return true;
  if (!a || !b || a->dtype() != b->dtype() || a->is_deferred() || b->is_deferred()) return false;
  if (a->byte_size() <= kCompareTensorBytes) return a->equals(*b);
  return std::ranges::equal(a->shape(), b->shape()) && a->is_splat() == b->is_splat() &&
         a->stored_bytes().data() == b->stored_bytes().data() && a->stored_bytes().size() == b->stored_bytes().size() &&
         !a->stored_bytes().empty();
}

uint64_t mix(uint64_t seed, uint64_t v) { return (seed ^ v) * 0x9e3779b97f4a7c15u + std::rotl(seed, 31); }
uint64_t hash_text(std::string_view s) { return XXH3_64bits(s.data(), s.size()); }

uint64_t hash_tensor(const TensorPtr& t) {
  if (!t) return 0;
  if (t->is_deferred()) return reinterpret_cast<uint64_t>(t.get());
  if (t->byte_size() <= kCompareTensorBytes) return t->hash();
  return mix(static_cast<uint64_t>(t->dtype()), reinterpret_cast<uint64_t>(t->stored_bytes().data()));
}

bool same_value(const Attr::Value& a, const Attr::Value& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::remove_cvref_t<decltype(x)>;
        const T& y = std::get<T>(b);
        if constexpr (std::same_as<T, double>) {
          return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y);
        } else if constexpr (std::same_as<T, Attr::Floats>) {
          return std::ranges::equal(
              x, y, {}, [](double v) { return std::bit_cast<uint64_t>(v); },
              [](double v) { return std::bit_cast<uint64_t>(v); });
        } else if constexpr (std::same_as<T, TensorPtr>) {
          return same_tensor(x, y);
        } else if constexpr (std::same_as<T, Attr::Tensors>) {
          return std::ranges::equal(x, y, same_tensor);
        } else if constexpr (std::same_as<T, Dim>) {
          return x.same(y);
        } else if constexpr (std::same_as<T, Attr::DimList>) {
          return std::ranges::equal(x, y, [](Dim p, Dim q) { return p.same(q); });
        } else {
          return x == y;
        }
      },
      a);
}

uint64_t hash_value(const Attr::Value& value) {
  const uint64_t seed = value.index() + 1;
  return std::visit(
      [&](const auto& x) -> uint64_t {
        using T = std::remove_cvref_t<decltype(x)>;
        uint64_t h = seed;
        if constexpr (std::same_as<T, std::monostate>) {
          return h;
        } else if constexpr (std::same_as<T, double>) {
          return mix(h, std::bit_cast<uint64_t>(x));
        } else if constexpr (std::same_as<T, std::string>) {
          return mix(h, hash_text(x));
        } else if constexpr (std::same_as<T, const Type*>) {
          return mix(h, reinterpret_cast<uint64_t>(x));
        } else if constexpr (std::same_as<T, TensorPtr>) {
          return mix(h, hash_tensor(x));
        } else if constexpr (std::same_as<T, Dim>) {
          return mix(h, x.word());
        } else if constexpr (std::same_as<T, OpaqueAttr>) {
          return mix(h, hash_text(x.text));
        } else if constexpr (std::same_as<T, RefAttr>) {
          return mix(mix(h, hash_text(x.name)), static_cast<uint64_t>(x.type));
        } else if constexpr (std::same_as<T, AttrDict>) {
          for (const auto& [key, v] : x) h = mix(mix(h, hash_text(key)), v.hash());
          return h;
        } else if constexpr (std::same_as<T, AttrList>) {
          for (const Attr& v : x) h = mix(h, v.hash());
          return h;
        } else if constexpr (requires { x.size(); }) {
          for (const auto& v : x) {
            using E = std::remove_cvref_t<decltype(v)>;
            if constexpr (std::same_as<E, std::string>)
              h = mix(h, hash_text(v));
            else if constexpr (std::same_as<E, double>)
              h = mix(h, std::bit_cast<uint64_t>(v));
            else if constexpr (std::same_as<E, TensorPtr>)
              h = mix(h, hash_tensor(v));
            else if constexpr (std::same_as<E, Dim>)
              h = mix(h, v.word());
            else if constexpr (std::same_as<E, const Type*>)
              h = mix(h, reinterpret_cast<uint64_t>(v));
            else
              h = mix(h, static_cast<uint64_t>(v));
          }
          return mix(h, x.size());
        } else {
          return mix(h, static_cast<uint64_t>(x));
        }
      },
      value);
}

uint64_t hash_items(std::span<const NamedAttr> items) {
  uint64_t h = items.size();
  for (const NamedAttr& a : items) {
    h = mix(mix(mix(h, hash_text(a.name)), a.value.hash()), hash_text(a.doc));
    for (const std::string& f : a.tensor_fields) h = mix(h, hash_text(f));
  }
  return h;
}

bool same_items(std::span<const NamedAttr> a, std::span<const NamedAttr> b) {
  return std::ranges::equal(a, b, [](const NamedAttr& x, const NamedAttr& y) {
    return x.name == y.name && x.doc == y.doc && x.tensor_fields == y.tensor_fields && x.value == y.value;
  });
}

}  // namespace

Attr::Attr() noexcept = default;
Attr::Attr(const Attr&) = default;
Attr::Attr(Attr&&) noexcept = default;
Attr& Attr::operator=(const Attr&) = default;
Attr& Attr::operator=(Attr&&) noexcept = default;
Attr::~Attr() = default;
Attr::Attr(bool v) : value_(v) {}
Attr::Attr(int64_t v) : value_(v) {}
Attr::Attr(double v) : value_(v) {}
Attr::Attr(std::string v) : value_(std::move(v)) {}
Attr::Attr(DType v) : value_(v) {}
Attr::Attr(const Type* v) : value_(v) {}
Attr::Attr(TensorPtr v) : value_(std::move(v)) {}
Attr::Attr(Dim v) : value_(v) {}
Attr::Attr(Ints v) : value_(std::move(v)) {}
Attr::Attr(Floats v) : value_(std::move(v)) {}
Attr::Attr(Strings v) : value_(std::move(v)) {}
Attr::Attr(Tensors v) : value_(std::move(v)) {}
Attr::Attr(TypeList v) : value_(std::move(v)) {}
Attr::Attr(DimList v) : value_(std::move(v)) {}
Attr::Attr(AttrList v) : value_(std::move(v)) {}
Attr::Attr(AttrDict v) : value_(std::move(v)) {}
Attr::Attr(OpaqueAttr v) : value_(std::move(v)) {}
Attr::Attr(RefAttr v) : value_(std::move(v)) {}
Attr::Attr(const char* s) : value_(std::string(s)) {}
Attr::Attr(std::string_view s) : value_(std::string(s)) {}

NamedAttr::NamedAttr() = default;
NamedAttr::NamedAttr(std::string_view n, Attr v) : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(const NamedAttr&) = default;
NamedAttr::NamedAttr(NamedAttr&&) noexcept = default;
NamedAttr& NamedAttr::operator=(const NamedAttr&) = default;
NamedAttr& NamedAttr::operator=(NamedAttr&&) noexcept = default;
NamedAttr::~NamedAttr() = default;

bool operator==(const Attr& a, const Attr& b) { return same_value(a.value_, b.value_); }
uint64_t Attr::hash() const { return hash_value(value_); }

const Attr* Attrs::find(std::string_view name) const {
  for (const NamedAttr& a : items_) {
    if (a.name == name) return &a.value;
  }
  return nullptr;
}

std::string to_string(const Attr& a, const Types& types) {
  auto list = [](const auto& items, auto&& show) {
    std::string text = "[";
    for (size_t i = 0; i < items.size(); ++i) text += (i ? ", " : "") + show(items[i]);
    return text + "]";
  };
  auto tensor = [](const TensorPtr& t) {
    return t ? fmt::format("{}[{}]{{...}}", to_string(t->dtype()), fmt::join(t->shape(), ",")) : std::string("none");
  };
  return std::visit(
      [&](const auto& x) -> std::string {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::same_as<T, std::monostate>)
          return "none";
        else if constexpr (std::same_as<T, bool>)
          return x ? "true" : "false";
        else if constexpr (std::same_as<T, int64_t>)
          return std::to_string(x);
        else if constexpr (std::same_as<T, double>)
          return fmt::format("{}", x);
        else if constexpr (std::same_as<T, std::string>)
          return fmt::format("\"{}\"", x);
        else if constexpr (std::same_as<T, DType>)
          return std::string(sardonyx::to_string(x));
        else if constexpr (std::same_as<T, const Type*>)
          return types.to_string(x);
        else if constexpr (std::same_as<T, TensorPtr>)
          return tensor(x);
        else if constexpr (std::same_as<T, Dim>)
          return types.dims().to_string(x);
        else if constexpr (std::same_as<T, Attr::Ints>)
          return fmt::format("[{}]", fmt::join(x, ", "));
        else if constexpr (std::same_as<T, Attr::Floats>)
          return fmt::format("[{}]", fmt::join(x, ", "));
        else if constexpr (std::same_as<T, Attr::Strings>)
          return list(x, [](const std::string& s) { return fmt::format("\"{}\"", s); });
        else if constexpr (std::same_as<T, Attr::Tensors>)
          return list(x, tensor);
        else if constexpr (std::same_as<T, Attr::TypeList>)
          return list(x, [&](const Type* t) { return types.to_string(t); });
        else if constexpr (std::same_as<T, Attr::DimList>)
          return list(x, [&](Dim d) { return types.dims().to_string(d); });
        else if constexpr (std::same_as<T, AttrList>)
          return list(x, [&](const Attr& v) { return to_string(v, types); });
        else if constexpr (std::same_as<T, AttrDict>) {
          std::string text = "{";
          for (size_t i = 0; i < x.size(); ++i)
            text += fmt::format("{}{}: {}", i ? ", " : "", x[i].first, to_string(x[i].second, types));
          return text + "}";
        } else if constexpr (std::same_as<T, OpaqueAttr>)
          return x.text;
        else
          return fmt::format("@{}", x.name);
      },
      a.value());
}

const Attrs* Model::attrs(AttrInit items) {
  if (items.empty()) return empty_attrs_;
  // Avoid stable_sort's temporary memory: most sets are small and already sorted.
  if (!std::ranges::is_sorted(items, {}, &NamedAttr::name)) std::ranges::stable_sort(items, {}, &NamedAttr::name);
  for (size_t i = 1; i < items.size(); ++i) {
    if (items[i].name == items[i - 1].name) {
      throw Error(ErrorCode::kInvalidModel, fmt::format("attribute '{}' is given twice", items[i].name));
    }
  }
  const uint64_t hash = hash_items(items);
  auto [at, end] = impl_->attrs_by_hash.equal_range(hash);
  for (; at != end; ++at) {
    if (same_items(at->second->items(), items)) return at->second;
  }
  const Attrs* canonical = nullptr;
  if (std::ranges::any_of(items, [](const NamedAttr& a) { return !a.doc.empty() || !a.tensor_fields.empty(); })) {
    AttrInit bare;
    for (const NamedAttr& a : items) bare.emplace_back(a.name, a.value);
    canonical = attrs(std::move(bare));
  }
  Attrs& set = impl_->attr_sets.emplace_back();
  set.items_ = std::move(items);
  set.canonical_ = canonical != nullptr ? canonical : &set;
  set.hash_ = hash;
  impl_->attrs_by_hash.emplace(hash, &set);
  return &set;
}

const Attrs* Model::attrs_from_wire(std::string_view wire, const std::function<AttrInit()>& parse) {
  if (wire.empty()) return empty_attrs_;
  // A large set contains a tensor and is rarely seen twice: hashing it would read the weights.
  const bool shared = wire.size() <= kCompareTensorBytes;
  const uint64_t hash = shared ? hash_text(wire) : 0;
  if (shared) {
    auto [at, end] = impl_->attrs_by_wire.equal_range(hash);
    for (; at != end; ++at) {
      if (at->second->wire() == wire) return at->second;
    }
  }
  const Attrs* parsed = attrs(parse());
  Attrs& set = impl_->attr_sets.emplace_back();
  set.items_ = parsed->items_;
  set.wire_ = wire;
  set.canonical_ = parsed->canonical_;
  set.hash_ = parsed->hash_;
  if (shared) impl_->attrs_by_wire.emplace(hash, &set);
  return &set;
}

const Attrs* Model::with_attr(const Attrs& base, std::string_view name, Attr value) {
  AttrInit items(base.items().begin(), base.items().end());
  auto at = std::ranges::find(items, name, &NamedAttr::name);
  if (at != items.end())
    at->value = std::move(value);
  else
    items.emplace_back(name, std::move(value));
  return attrs(std::move(items));
}

const Attrs* Model::without_attr(const Attrs& base, std::string_view name) {
  AttrInit items(base.items().begin(), base.items().end());
  std::erase_if(items, [&](const NamedAttr& a) { return a.name == name; });
  return attrs(std::move(items));
}

// ---------------------------------------------------------------------------------------------------------------------
// Provenance

uint32_t Model::add_provenance(Provenance p) {
  if (p.sources.empty() && p.rules.empty()) return 0;
  if (p.source_count < p.sources.size()) p.source_count = static_cast<uint32_t>(p.sources.size());
  if (p.sources.size() > 4) p.sources.resize(4);
  uint64_t hash = p.source_count;
  for (const Source& s : p.sources) {
    for (const std::string* part : {&s.file, &s.function, &s.scope, &s.primitive, &s.lowering, &s.stack}) {
      hash = mix(hash, hash_text(*part));
    }
    hash = mix(hash, static_cast<uint64_t>(s.line));
  }
  for (const std::string& r : p.rules) hash = mix(hash, hash_text(r));
  auto [at, end] = impl_->provenance_by_hash.equal_range(hash);
  for (; at != end; ++at) {
    const Provenance& known = impl_->provenance[at->second];
    if (known.source_count == p.source_count && known.sources == p.sources && known.rules == p.rules) return at->second;
  }
  const auto index = static_cast<uint32_t>(impl_->provenance.size());
  impl_->provenance_by_hash.emplace(hash, index);
  impl_->provenance.push_back(std::move(p));
  return index;
}

const Provenance& Model::provenance(uint32_t index) const {
  SX_CHECK(index < impl_->provenance.size(), "provenance index out of range");
  return impl_->provenance[index];
}

uint32_t Model::merge_provenance(uint32_t a, uint32_t b) {
  if (a == b || b == 0) return a;
  if (a == 0) return b;
  Provenance merged = provenance(a);
  const Provenance& other = provenance(b);
  uint32_t added = other.source_count;
  for (const Source& s : other.sources) {
    if (std::ranges::find(merged.sources, s) != merged.sources.end())
      --added;
    else if (merged.sources.size() < 4)
      merged.sources.push_back(s);
  }
  merged.source_count += added;
  for (const std::string& r : other.rules) {
    if (std::ranges::find(merged.rules, r) == merged.rules.end()) merged.rules.push_back(r);
  }
  return add_provenance(std::move(merged));
}

}  // namespace sardonyx

template class std::vector<sardonyx::NamedAttr>;
