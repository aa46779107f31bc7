// Checks the inputs of a graph against its signature, and makes up inputs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "eval/elements.h"
#include "sardonyx/error.h"
#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

// The values of named sizes, as far as inputs determine them.
class Sizes {
 public:
  explicit Sizes(const Graph& g) : dims_(g.model().dims()) {}

  // The size that d stands for; nullopt when it is not known.
  std::optional<int64_t> value(Dim d) {
    if (d.is_int()) return d.value();
    if (!d.is_expr()) return std::nullopt;
    const Dim known = dims_.substitute(d, [&](std::string_view symbol) -> std::optional<Dim> {
      const auto at = known_.find(symbol);
      return at == known_.end() ? std::nullopt : std::optional(Dim::of(at->second));
    });
    return known.is_int() ? std::optional(known.value()) : std::nullopt;
  }
  // Whether d can be n, given what is known so far. A lone symbol is n from now on.
  bool agrees(Dim d, int64_t n) {
    if (const auto v = value(d)) return *v == n;
    if (const std::string_view symbol = dims_.symbol_name(d); !symbol.empty()) known_.emplace(symbol, n);
    return true;
  }
  void fix(Dim d, int64_t n) {
    for (const std::string& symbol : dims_.symbols(d)) known_.emplace(symbol, n);
  }

 private:
  Dims& dims_;
  std::map<std::string, int64_t, std::less<>> known_;
};

bool is_kind(const Type& t, const EvalValue& v) {
  switch (t.kind()) {
    case TypeKind::kTensor: return v.array() != nullptr;
    case TypeKind::kSequence: return v.items() != nullptr;
    case TypeKind::kMap: return v.map() != nullptr;
    case TypeKind::kOptional: return v.absent() || v.optional() != nullptr || is_kind(*t.element(), v);
    default: return true;
  }
}

// Records what the value says about named sizes. Returns false when it contradicts the type.
bool fits(const Type* t, const EvalValue& v, Sizes& sizes) {
  if (t == nullptr) return true;
  if (t->kind() == TypeKind::kState) t = t->element();  // a state is given as the tensor it begins with
  if (!is_kind(*t, v)) return false;
  const Array* a = v.array();
  if (!t->is_tensor() || a == nullptr) return true;
  if (t->dtype() != DType::kUndefined && t->dtype() != a->dtype()) return false;
  if (!t->ranked()) return true;
  if (t->rank() != a->rank()) return false;
  for (size_t d = 0; d < a->rank(); ++d) {
    if (!sizes.agrees(t->dim(d), a->dim(d))) return false;
  }
  return true;
}

const Type* type_of(const Port& p) { return p.declared != nullptr ? p.declared : p.value->type(); }

// The next number of a SplitMix64 stream.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
double uniform(uint64_t& state) { return static_cast<double>(next_random(state) >> 11) * 0x1p-53; }

class Maker {
 public:
  Maker(const Graph& g, Sizes& sizes, uint64_t seed, int64_t open_size)
      : graph_(g), sizes_(sizes), state_(seed), open_(open_size) {}

  EvalValue make(const Type* t, std::string_view name) {
    if (t != nullptr && t->kind() == TypeKind::kSequence)
      return EvalValue::sequence({make(t->element(), name), make(t->element(), name)});
    if (t != nullptr && t->kind() == TypeKind::kOptional)
      return EvalOptional{std::make_shared<const EvalValue>(make(t->element(), name))};
    if (t == nullptr || !t->is_tensor() || t->dtype() == DType::kUndefined) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("no random value can be made for input '{}'", name),
                  {fmt::format("its type is {}", graph_.model().types().to_string(t))});
    }
    std::vector<int64_t> shape;
    for (Dim d : t->ranked() ? t->dims() : std::span<const Dim>{}) {
      if (!sizes_.value(d)) sizes_.fix(d, open_);
      const int64_t n = sizes_.value(d).value_or(open_);
      if (n < 0) throw Error(ErrorCode::kInvalidArgument, fmt::format("a size of input '{}' would be {}", name, n));
      shape.push_back(n);
    }
    const int64_t n = eval::product(shape);
    if (t->dtype() == DType::kString) {
      std::vector<std::string> texts;
      for (int64_t i = 0; i < n; ++i) texts.push_back(fmt::format("{:x}", next_random(state_) & 0xffff));
      return EvalValue(Tensor::strings(std::move(shape), std::move(texts)));
    }
    if (n > (int64_t{1} << 34)) throw Error(ErrorCode::kLimit, fmt::format("input '{}' would have {} elements", name, n));
    const size_t width = element_bytes(t->dtype());
    auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(n) * width);
    Array a(t->dtype(), std::move(shape), bytes->data(), bytes);
    for (int64_t i = 0; i < n; ++i) {
      if (is_float(t->dtype())) {  // the Box-Muller transform
        const double v = std::sqrt(-2 * std::log(1 - uniform(state_))) * std::cos(2 * std::numbers::pi * uniform(state_));
        eval::store<double>(a, i, 1, &v);
      } else if (is_complex(t->dtype())) {
        const std::complex<double> v{2 * uniform(state_) - 1, 2 * uniform(state_) - 1};
        eval::store<std::complex<double>>(a, i, 1, &v);
      } else {
        const auto v =
            static_cast<int64_t>(next_random(state_) % (t->dtype() == DType::kBool || bit_width(t->dtype()) == 2 ? 2 : 5));
        eval::store<int64_t>(a, i, 1, &v);
      }
    }
    return a;
  }

 private:
  const Graph& graph_;
  Sizes& sizes_;
  uint64_t state_;
  int64_t open_;
};

}  // namespace

void check_inputs(const Graph& graph, std::span<const EvalValue> inputs) {
  const std::span<const Port> ports = graph.inputs();
  if (inputs.size() > ports.size()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the graph has {} inputs, {} are given", ports.size(), inputs.size()));
  }
  Sizes sizes(graph);
  for (size_t i = 0; i < ports.size(); ++i) {
    const Type* t = type_of(ports[i]);
    const bool given = i < inputs.size() && !inputs[i].absent();
    const bool is_state = t != nullptr && t->kind() == TypeKind::kState;
    const std::string expected = graph.model().types().to_string(is_state ? t->element() : t);
    if (!given) {
      if (ports[i].default_value != nullptr) continue;
      if (t != nullptr && (t->kind() == TypeKind::kOptional || t->kind() == TypeKind::kState)) continue;
      throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' is missing", ports[i].name.view()),
                  {fmt::format("it is {}", expected)});
    }
    if (!fits(t, inputs[i], sizes)) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{} '{}' is {}, expected {}", is_state ? "state" : "input",
                                                           ports[i].name.view(), describe(inputs[i]), expected));
    }
  }
}

void fill_inputs(const Graph& graph, std::vector<EvalValue>& inputs, uint64_t seed, int64_t open_size) {
  const std::span<const Port> ports = graph.inputs();
  inputs.resize(std::max(inputs.size(), ports.size()));
  Sizes sizes(graph);
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!inputs[i].absent()) fits(type_of(ports[i]), inputs[i], sizes);
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!inputs[i].absent() || ports[i].default_value != nullptr) continue;
    if (const Type* t = type_of(ports[i]); t != nullptr && t->kind() == TypeKind::kState) continue;
    // Each input draws from its own stream, so that giving one does not change the others.
    uint64_t own = seed + i;
    inputs[i] = Maker(graph, sizes, next_random(own), open_size).make(type_of(ports[i]), ports[i].name.view());
  }
}

}  // namespace sardonyx
