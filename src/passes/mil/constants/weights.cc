#include "passes/mil/constants/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sardonyx::mil {
namespace {

constexpr size_t kDeferBytes = 64 << 10;

}  // namespace

std::vector<Value*> constants_of(Graph& g) {
  std::vector<Value*> all(g.constants().begin(), g.constants().end());
  for (Node& n : g.nodes()) {
    if (n.has(Trait::kConstant) && n.result()->is_constant()) all.push_back(n.result());
  }
  return all;
}

std::string weight_key(const Value& v) {
  const Attr* key = v.def() != nullptr ? v.def()->attr("weight_key") : nullptr;
  return key != nullptr && key->get<std::string>() != nullptr ? "=" + *key->get<std::string>() : std::string();
}

TensorPtr known_value(const Value* v) {
  if (v == nullptr || v->is_constant()) return v != nullptr ? v->constant() : nullptr;
  const Node* n = v->def();
  const bool reshapes = n != nullptr && (n->is("squeeze") || n->is("expand_dims") || n->is("reshape"));
  if (!reshapes || n->input(0) == nullptr || !n->input(0)->is_constant() || !v->ranked()) return nullptr;
  const TensorPtr& t = n->input(0)->constant();
  if (t->is_promise() || t->size() != v->type()->static_size()) return nullptr;
  std::vector<int64_t> shape;
  for (Dim d : v->type()->dims()) shape.push_back(d.value());
  return t->reshaped(std::move(shape));
}

std::optional<Convolution> convolution(Node& n, PassContext& context, bool any_weight) {
  Convolution c{.node = &n, .transposed = n.is("conv_transpose")};
  if (!c.transposed && !n.is("conv")) return std::nullopt;
  const OpReader layer(n, context.facts);
  const Value *weight = layer.value_in("weight"), *bias = layer.value_in("bias");
  c.weight = known_value(weight);
  c.bias = known_value(bias);
  if (weight == nullptr || (bias != nullptr && c.bias == nullptr)) return std::nullopt;
  if (c.weight == nullptr && (!any_weight || !weight->ranked() || !weight->type()->is_static())) return std::nullopt;
  const auto rank = c.weight != nullptr ? c.weight->rank() : weight->type()->rank();
  if (rank < 3) return std::nullopt;
  const auto groups = layer.int_in("groups");
  if (!groups) return std::nullopt;
  c.groups = *groups;
  const auto size = [&](size_t axis) {
    return c.weight != nullptr ? c.weight->shape()[axis] : weight->type()->dim(axis).value();
  };
  c.channels = c.transposed ? size(1) * c.groups : size(0);
  return c;
}

namespace {

constexpr int64_t kBlock = 16;            // floats: a line of the cache
constexpr int64_t kAhead = 128 * kBlock;  // prefetch distance: weights are mapped, and seldom in the cache

// n floats times s, each rounded once.
[[gnu::always_inline]] inline void multiply_floats(const std::byte* from, std::byte* to, int64_t n, double s) {
  using Floats [[gnu::vector_size(16)]] = float;
  using Doubles [[gnu::vector_size(32)]] = double;
  constexpr int64_t kLanes = 4, kWidth = sizeof(float);
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    __builtin_prefetch(from + (i + kAhead) * kWidth);
    for (int64_t k = i; k < i + kBlock; k += kLanes) {
      Floats v;
      std::memcpy(&v, from + k * kWidth, sizeof v);
      v = __builtin_convertvector(__builtin_convertvector(v, Doubles) * s, Floats);
      std::memcpy(to + k * kWidth, &v, sizeof v);
    }
  }
  for (; i < n; ++i) {
    float v = 0;
    std::memcpy(&v, from + i * kWidth, sizeof v);
    v = static_cast<float>(static_cast<double>(v) * s);
    std::memcpy(to + i * kWidth, &v, sizeof v);
  }
}

#ifdef __x86_64__
[[gnu::target("avx2")]] void multiply_wide(const std::byte* from, std::byte* to, int64_t n, double s) {
  multiply_floats(from, to, n, s);
}
#endif

// n elements times s, each rounded once. `to` may be `from`.
void multiply(DType dtype, const std::byte* from, std::byte* to, int64_t n, double s) {
  if (dtype != DType::kF32) {
    for (int64_t i = 0; i < n; ++i) encode_element(dtype, to, i, decode_element(dtype, from, i) * s);
    return;
  }
#ifdef __x86_64__
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  if (wide) return multiply_wide(from, to, n, s);
#endif
  multiply_floats(from, to, n, s);
}

}  // namespace

Value* scaled(Rewriter& b, const Convolution& conv, const std::vector<double>& scale, const std::vector<double>& shift) {
  const auto channels = static_cast<size_t>(conv.channels);
  const auto at = [](const std::vector<double>& v, size_t c) { return v.size() == 1 ? v[0] : v[c]; };
  Value* weight = operand(*conv.node, b.context(), "weight");
  const DType dtype = weight->dtype();
  if (std::any_of(scale.begin(), scale.end(), [](double s) { return s != 1; })) {
    if (conv.weight == nullptr) return nullptr;
    const std::vector<int64_t> shape(conv.weight->shape().begin(), conv.weight->shape().end());
    const auto fill = [weight = conv.weight, shape, scale, at, dtype, transposed = conv.transposed, groups = conv.groups](
                          int64_t begin, std::span<std::byte> out) {
      const auto width = static_cast<size_t>(bit_width(dtype)) / 8;
      // Weights in memory are read once and written once.
      const bool in_memory = !weight->is_deferred() && !weight->is_splat();
      if (!in_memory) weight->read(begin, out);
      const std::byte* from = in_memory ? weight->stored_bytes().data() + static_cast<size_t>(begin) * width : out.data();
      // conv: [Cout, Cin/g, ...]; conv_transpose: [Cin, Cout/g, ...].
      int64_t inner = 1;
      for (size_t i = 2; i < shape.size(); ++i) inner *= shape[i];
      const auto count = static_cast<int64_t>(out.size() / width);
      // A run of adjacent elements has one channel.
      const int64_t run = transposed ? inner : inner * shape[1];
      for (int64_t k = 0, n = 0; k < count; k += n) {
        const int64_t block = (begin + k) / run;
        n = std::min(count - k, (block + 1) * run - (begin + k));
        const int64_t channel = transposed ? block / shape[1] / (shape[0] / groups) * shape[1] + block % shape[1] : block;
        const size_t place = static_cast<size_t>(k) * width;
        multiply(dtype, from + place, out.data() + place, n, at(scale, static_cast<size_t>(channel)));
      }
    };
    if (conv.weight->byte_size() > kDeferBytes && conv.weight->reads_in_pieces()) {
      weight = b.constant(Tensor::defer(dtype, shape, fill));
    } else {
      std::vector<std::byte> out(conv.weight->byte_size());
      fill(0, out);
      weight = b.constant(Tensor::own(dtype, shape, std::move(out)));
    }
  }
  std::vector<double> bias(channels, 0.0);
  if (conv.bias != nullptr) bias = doubles(*conv.bias);
  for (size_t c = 0; c < channels; ++c) {
    const double product = conv.bias != nullptr ? bias[c] * at(scale, c) : 0;
    // The sign of the NaN that 0 times infinity gives depends on the processor.
    bias[c] = std::isnan(product) ? std::numeric_limits<double>::quiet_NaN() : product + at(shift, c);
  }
  return b.like(*conv.node, {{"weight", weight}, {"bias", tensor_of(dtype, {conv.channels}, bias)}});
}

std::optional<std::vector<double>> per_channel(const Tensor& t, size_t spatial, int64_t channels) {
  if (!is_float(t.dtype()) || t.is_deferred()) return std::nullopt;
  if (t.size() == 1) return std::vector<double>{t.as_double(0)};
  const auto shape = t.shape();
  if (t.size() != channels || shape.size() < spatial + 1 || shape.size() > spatial + 2) return std::nullopt;
  if (shape[shape.size() - spatial - 1] != channels) return std::nullopt;
  return doubles(t);
}

Value* element_of(Rewriter& b, Value* list, int64_t i) { return b.slice_by_index(list, {i}, {0}, {.squeeze_mask = {true}}); }

bool comes_back(const Tensor& scale) {
  const bool half = scale.dtype() == DType::kF16;
  const double largest = half ? 65504.0 : std::numeric_limits<float>::max();
  const double least = half ? std::ldexp(1.0, -14) : std::numeric_limits<float>::min();
  for (double s : doubles(scale)) {
    if (!(std::abs(s) >= least && std::abs(s) * 255 <= largest)) return false;
  }
  return true;
}

}  // namespace sardonyx::mil
