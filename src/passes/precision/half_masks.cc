#include "passes/precision/half_masks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/tensor/tensor_transform.h"
#include "ir/tensor/tensor_view.h"

namespace sardonyx::precision {
namespace {

constexpr std::array<std::string_view, 26> kCarry = {
    "gemm",    "add",     "band_part", "cast", "concat",   "expand_dims", "fill",      "gather",         "identity",
    "maximum", "minimum", "mul",       "pad",  "real_div", "reshape",     "select",    "slice_by_index", "slice_by_size",
    "split",   "squeeze", "stack",     "sub",  "tile",     "transpose",   "gather_nd", "reduce_max"};

// Calls f with all elements of a single-precision tensor, in pieces.
template <class F>
void each_float(const Tensor& t, const F& f) {
  if (t.is_splat()) return f(static_cast<float>(t.as_double(0)));
  const int64_t most = t.reads_in_pieces() ? 16384 : t.size();
  std::vector<float> piece(static_cast<size_t>(std::min(t.size(), most)));
  for (int64_t first = 0; first < t.size(); first += static_cast<int64_t>(piece.size())) {
    const auto n = static_cast<size_t>(std::min<int64_t>(t.size() - first, static_cast<int64_t>(piece.size())));
    t.read(first, std::as_writable_bytes(std::span(piece).first(n)));
    std::for_each(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n), f);
  }
}

// Whether no magnitude exceeds the largest half and one is at least the least that has all digits: true for
// nearly all weights, so four are checked at a time.
bool all_fit(const Tensor& t) {
  using Order [[gnu::vector_size(16)]] = int32_t;
  constexpr size_t kLanes = 4;
  constexpr int64_t kPiece = 65536;
  if (t.is_splat() || !t.reads_in_pieces()) return false;
  const Order magnitude = Order{} + 0x7fffffff, most = Order{} + std::bit_cast<int32_t>(static_cast<float>(kLargestHalf));
  const Order least = Order{} + std::bit_cast<int32_t>(static_cast<float>(kLeastNormalHalf));
  Order beyond{}, usual{};
  const auto check = [&](std::span<const std::byte> bytes) {
    constexpr size_t kStep = kLanes * sizeof(float);
    size_t i = 0;
    for (Order x; i + kStep <= bytes.size(); i += kStep) {
      std::memcpy(&x, bytes.data() + i, kStep);
      beyond |= (x & magnitude) > most;
      usual |= (x & magnitude) >= least;
    }
    Order rest{};
    std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
    beyond |= (rest & magnitude) > most;
    usual |= (rest & magnitude) >= least;
  };
  if (!t.is_deferred()) {
    check(t.stored_bytes());
  } else {
    std::vector<float> piece(static_cast<size_t>(std::min(t.size(), kPiece)));
    for (int64_t first = 0; first < t.size(); first += kPiece) {
      const auto bytes =
          std::as_writable_bytes(std::span(piece).first(static_cast<size_t>(std::min(t.size() - first, kPiece))));
      t.read(first, bytes);
      check(bytes);
    }
  }
  return (beyond[0] | beyond[1] | beyond[2] | beyond[3]) == 0 && (usual[0] | usual[1] | usual[2] | usual[3]) != 0;
}

float clamped(float v) {
  constexpr auto kLargest = static_cast<float>(kLargestHalf);
  return std::isfinite(v) ? std::clamp(v, -kLargest, kLargest) : v;
}

HalfFit fit_of(const Tensor& t, float mask) {
  HalfFit fit;
  if (t.dtype() != DType::kF32 || t.is_promise() || t.size() == 0 || all_fit(t)) return fit;
  float largest = 0;
  each_float(t, [&](float v) {
    const float a = std::abs(v);
    largest = std::max(largest, a);
    fit.overflows |= a > static_cast<float>(kLargestHalf) && a < mask;
    fit.saturates |= a >= mask && std::isfinite(a);
  });
  fit.vanishes = largest > 0 && largest < static_cast<float>(kLeastNormalHalf);
  return fit;
}

class Masked {
 public:
  explicit Masked(HalfFits& fits) : fits_(fits) {}

  std::unordered_set<const Value*> values;

  void collect(Graph& g) {
    for (Node& n : g.nodes()) {
      bool any = is_in(kCarry, n) && std::ranges::any_of(n.operands(), [&](const Use& u) { return is_masked(u.value); });
      for (const Body& body : n.bodies()) {
        collect(*body.graph);
        for (const Port& p : body.graph->outputs()) any |= is_masked(p.use->value);
      }
      if (!any) continue;
      for (Value& v : n.results()) values.insert(&v);
    }
  }

 private:
  bool is_masked(const Value* v) {
    if (v == nullptr) return false;
    if (!v->is_constant()) return values.contains(v);
    const HalfFit fit = fits_.of(v->constant());
    return fit.overflows || fit.saturates;
  }

  HalfFits& fits_;
};

}  // namespace

HalfFit HalfFits::of(const TensorPtr& t) {
  // The order of elements does not matter.
  if (const TensorView* view = view_of(t); view != nullptr && view->storage->size() == t->size()) return of(view->storage);
  const auto [at, is_new] = known_.try_emplace(t);
  if (is_new) at->second = fit_of(*t, mask_);
  return at->second;
}

bool is_factor(const Node& n, size_t operand) {
  static constexpr std::string_view kProducts[] = {"batch_norm", "conv",   "conv_transpose", "gemm",
                                                   "layer_norm", "linear", "matmul",         "instance_norm"};
  static constexpr std::string_view kOthers[] = {"Einsum", "einsum", "GRU", "gru", "LSTM", "lstm", "RNN", "rnn"};
  static constexpr std::string_view kSummands[] = {"beta", "bias", "epsilon", "mean"};
  if (std::ranges::find(kSummands, slot_word(n, operand)) != std::end(kSummands)) return false;
  const bool is_recurrent = n.op().dialect == DialectId::kOnnx && !n.is("Einsum");
  if (std::ranges::find(kOthers, n.op().name) != std::end(kOthers)) return !is_recurrent || operand < 3;
  return is_in(kProducts, n) || (is(n, "scaled_dot_product_attention") && operand < 3);
}

bool only_hides(const Tensor& t) {
  constexpr float kUsual = -1000, kLargest = static_cast<float>(kLargestHalf);
  if (t.dtype() != DType::kF32 || t.rank() == 0 || t.size() == 0 || t.is_splat()) return false;
  const int64_t width = t.shape().back();
  int64_t place = 0;
  bool good = true, hides = false, shows = false;
  each_float(t, [&](float v) {
    good &= !(std::isfinite(v) && v > kLargest);
    hides |= std::isfinite(v) && v < -kLargest;
    shows |= v > kUsual;
    if (++place % width != 0) return;
    good &= shows || !hides;
    hides = shows = false;
  });
  return good;
}

TensorPtr saturated(const TensorPtr& t) {
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  if (t->is_splat()) return Tensor::full(DType::kF32, std::move(shape), clamped(static_cast<float>(t->as_double(0))));
  std::vector<float> out;
  out.reserve(static_cast<size_t>(t->size()));
  each_float(*t, [&](float v) { out.push_back(clamped(v)); });
  return Tensor::of<float>(DType::kF32, std::move(shape), out);
}

TensorPtr saved_from_zero(const Tensor& t) {
  constexpr int64_t kSmall = 400;
  if (t.is_promise() || t.size() >= kSmall) return nullptr;
  const double least = std::ldexp(1.0, -24);
  std::vector<double> all = doubles(t);
  bool any = false;
  for (double& e : all) {
    std::byte half[2];
    encode_element(DType::kF16, half, 0, e);
    if (e == 0 || decode_element(DType::kF16, half, 0) != 0 || std::abs(e) <= std::ldexp(1.0, -149)) continue;
    e = std::copysign(least, e);
    any = true;
  }
  return any ? tensor_of(DType::kF32, {t.shape().begin(), t.shape().end()}, all) : nullptr;
}

std::unordered_set<const Value*> masked_values(Graph& function, HalfFits& fits) {
  Masked masked(fits);
  masked.collect(function);
  return std::move(masked.values);
}

}  // namespace sardonyx::precision
