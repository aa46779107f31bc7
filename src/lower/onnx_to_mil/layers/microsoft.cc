// Operators of onnxruntime (com.microsoft), which its optimizer and its weight quantizer write. Slots and
// defaults are from onnxruntime's docs/ContribOperators.md. Attention is in microsoft_attention.cc, operators
// on quantized tensors in microsoft_quantization.cc. The evaluator runs none of them:
// tests/python/to_coreml/test_to_coreml_microsoft.py compares with onnxruntime.
#include <fmt/format.h>

#include <algorithm>

#include "lower/onnx_to_mil/arrays/indices.h"
#include "lower/onnx_to_mil/layers/layers.h"

namespace sardonyx::onnx_to_mil {
namespace {

constexpr int kIos18 = 9;
constexpr double kEpsilon = 1e-12;  // the default of most normalizations of com.microsoft

// The operand, which must have that rank.
Value* of_rank(Lowering& ctx, size_t i, size_t rank) {
  if (ctx.rank(i) != rank) ctx.unsupported(fmt::format("operand {} of rank {}; expected rank {}", i, ctx.rank(i), rank));
  return ctx.in(i);
}

// The activation of a fused operator. `parameter` returns its parameters in the order of ONNX's attributes.
Value* activated(Lowering& ctx, Value* y, const std::function<double(size_t)>& parameter) {
  MilBuilder& b = ctx.b;
  const std::string kind = ctx.string_attr("activation", "");
  const auto number = [&](size_t i) { return ctx.like(y, parameter(i)); };
  if (kind.empty()) return y;
  if (kind == "Relu") return b.relu(y);
  if (kind == "Sigmoid") return b.sigmoid(y);
  if (kind == "Tanh") return b.tanh(y);
  if (kind == "LeakyRelu") return b.leaky_relu(y, {.alpha = number(0)});
  if (kind == "HardSigmoid") return b.sigmoid_hard(y, {.alpha = number(0), .beta = number(1)});
  if (kind == "Clip") return b.clip(y, {.alpha = number(0), .beta = number(1)});
  ctx.unsupported(fmt::format("the activation {}", kind));
}

}  // namespace

// --- activations

std::vector<Value*> lower_QuickGelu(Lowering& ctx) { return {swish(ctx, ctx.in(0), ctx.float_attr("alpha", 1.702F))}; }

std::vector<Value*> lower_BiasGelu(Lowering& ctx) { return {ctx.b.gelu(ctx.b.add(ctx.in(0), ctx.in(1)), {.mode = "EXACT"})}; }

std::vector<Value*> lower_FastGelu(Lowering& ctx) {
  Value* x = ctx.in(0);
  if (ctx.has(1)) x = ctx.b.add(x, ctx.in(1));
  return {ctx.b.gelu(x, {.mode = "TANH_APPROXIMATION"})};
}

// The left half of x + bias, times gelu of the right half.
std::vector<Value*> lower_BiasSplitGelu(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Node& halves = b.split(b.add(ctx.in(0), ctx.in(1)), 2, {.axis = -1, .num_splits = 2});
  return {b.mul(halves.result(0), b.gelu(halves.result(1), {.mode = "EXACT"}))};
}

// --- normalizations

namespace {

// The sum of operands 0, 1 and the bias.
Value* skipped(Lowering& ctx, size_t bias) {
  if (ctx.is_used(1) || ctx.is_used(2))
    ctx.unsupported("the results mean and inv_std_var, which onnxruntime does not compute either");
  Value* sum = ctx.b.add(ctx.in(0), ctx.in(1));
  return ctx.has(bias) ? ctx.b.add(sum, ctx.in(bias)) : sum;
}

std::vector<Value*> with_sum(Lowering& ctx, Value* y, Value* sum) {
  std::vector<Value*> results{y, nullptr, nullptr, sum};
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace

std::vector<Value*> lower_SkipLayerNormalization(Lowering& ctx) {
  Value* sum = skipped(ctx, 4);
  const double epsilon = ctx.float_attr("epsilon", kEpsilon);
  return with_sum(ctx, layer_norm(ctx, sum, ctx.in(2), ctx.in_or_null(3), ctx.rank(0) - 1, epsilon), sum);
}

std::vector<Value*> lower_SkipSimplifiedLayerNormalization(Lowering& ctx) {
  Value* sum = skipped(ctx, 3);
  Value* unit = ctx.b.mul(sum, inverse_rms(ctx, sum, ctx.rank(0) - 1, ctx.float_attr("epsilon", kEpsilon)));
  return with_sum(ctx, ctx.b.mul(unit, ctx.in(2)), sum);
}

// The normalized sum of the embeddings of words, positions and segments. Result 1 is the sum of each row of
// the mask.
std::vector<Value*> lower_EmbedLayerNormalization(Lowering& ctx) {
  MilBuilder& b = ctx.b;
  Value* ids = of_rank(ctx, 0, 2);
  Value* sum = b.gather(ctx.in(2), ids, {.axis = 0});
  Value* positions = ctx.has(8) ? ctx.in(8) : counted(ctx, ids, 1);
  sum = b.add(sum, b.gather(ctx.in(3), positions, {.axis = 0}));
  if (ctx.has(1) && ctx.has(4)) sum = b.add(sum, b.gather(ctx.in(4), ctx.in(1), {.axis = 0}));
  std::vector<Value*> results{layer_norm(ctx, sum, ctx.in(5), ctx.in(6), 2, ctx.float_attr("epsilon", kEpsilon)), nullptr, sum};
  if (ctx.is_used(1)) {
    Value* ones = ctx.has(7) ? b.cast(b.equal(ctx.in(7), 1), {.dtype = DType::kI32}) : b.mul(ids, 0);
    results[1] = b.reduce_sum(ones, {.axes = {1}, .keep_dims = false});
  }
  results.resize(ctx.node.num_results());
  return results;
}

// --- products and convolutions

std::vector<Value*> lower_FusedMatMul(Lowering& ctx) {
  if (ctx.int_attr("transBatchA", 0) != 0 || ctx.int_attr("transBatchB", 0) != 0)
    ctx.unsupported("a product whose operands have their batch axes transposed (transBatchA, transBatchB)");
  ctx.in_type(0), ctx.in_type(1);  // refuses unknown ranks
  Value* y = product(ctx, ctx.in(0), ctx.in(1), ctx.int_attr("transA", 0) != 0, ctx.int_attr("transB", 0) != 0);
  const double alpha = ctx.float_attr("alpha", 1);
  return {alpha == 1 ? y : ctx.b.mul(y, ctx.like(y, alpha))};
}

std::vector<Value*> lower_FusedGemm(Lowering& ctx) {
  const auto parameter = [&](size_t i) {
    return ctx.float_attr(i == 0 ? "activation_alpha" : "activation_beta", i == 0 ? 0.01 : 0);
  };
  return {activated(ctx, lower_Gemm(ctx)[0], parameter)};
}

// Operand 3 is added before the activation.
std::vector<Value*> lower_FusedConv(Lowering& ctx) {
  Value* y = lower_Conv(ctx)[0];
  if (ctx.has(3)) y = ctx.b.add(y, ctx.in(3));
  const Attr* parameters = ctx.node.attr("activation_params");
  const auto* numbers = parameters != nullptr ? parameters->get<Attr::Floats>() : nullptr;
  return {activated(ctx, y, [&](size_t i) {
    if (numbers == nullptr || i >= numbers->size()) ctx.unsupported("an activation without its activation_params");
    return (*numbers)[i];
  })};
}

namespace {

// Unpacks integers from the bytes of each row, low bits first: u8 for 8 bits, u4 for fewer, [rows, count].
TensorPtr unpacked(const TensorPtr& packed, int64_t rows, int64_t count, int64_t bits) {
  const DType to = bits == 8 ? DType::kU8 : DType::kU4;
  const int64_t each = packed->size() / rows;  // bytes
  const std::vector<int64_t> shape{rows, count};
  const bool same = bits == bit_width(to) && count * bits == each * 8;
  if (same && !packed->is_deferred() && !packed->is_splat() && !packed->is_promise())
    return Tensor::borrow(to, shape, packed->stored_bytes(), packed, packed->file());
  return Tensor::defer(to, shape, [=] {
    std::vector<std::byte> scratch, out(byte_size(to, static_cast<uint64_t>(rows * count)));
    const std::span<const std::byte> in = packed->bytes(scratch);
    for (int64_t i = 0; i < rows * count; ++i) {
      const int64_t bit = i % count * bits;
      const auto from = static_cast<unsigned>(in[static_cast<size_t>(i / count * each + bit / 8)]);
      const unsigned v = from >> (bit % 8) & ((1U << bits) - 1);
      if (bits == 8) {
        out[static_cast<size_t>(i)] = static_cast<std::byte>(v);
      } else {
        out[static_cast<size_t>(i / 2)] |= static_cast<std::byte>(v << (i % 2 * 4));
      }
    }
    return out;
  });
}

// The weights of MatMulNBits, [N, K]: each block of a row has a scale and a zero point.
struct BlockedWeights {
  int64_t rows, columns, block;
  TensorPtr data;    // u4 or u8, [N, K]
  TensorPtr scales;  // [N, blocks]
  TensorPtr zeros;   // of data's type or of the scales', [N, blocks]
};

BlockedWeights weights_of(Lowering& ctx) {
  const int64_t rows = ctx.int_attr("N", 0), columns = ctx.int_attr("K", 0), bits = ctx.int_attr("bits", 4);
  const int64_t block = ctx.int_attr("block_size", 0);
  if (bits != 2 && bits != 4 && bits != 8) ctx.unsupported(fmt::format("weights of {} bits; expected 2, 4 or 8", bits));
  if (ctx.int_attr("weight_prepacked", 0) != 0) ctx.unsupported("weights that are packed for a GPU (weight_prepacked)");
  if (ctx.has(4)) ctx.unsupported("weights whose rows are in groups (g_idx)");
  const TensorPtr packed = ctx.constant(1), scales = ctx.has(2) ? ctx.in(2)->constant() : nullptr, zeros = ctx.constant(3);
  if (packed == nullptr || scales == nullptr || (ctx.has(3) && zeros == nullptr))
    ctx.unsupported("packed weights that are computed at run time, and Core ML wants them as constants");
  if (rows < 1 || columns < 1 || block < 1) ctx.unsupported("packed weights without rows, columns or blocks");
  const int64_t blocks = (columns + block - 1) / block;
  const auto check = [&](const TensorPtr& t, int64_t size, std::string_view what) {
    if (t->size() == size) return;
    ctx.unsupported(
        fmt::format("packed weights of N = {}, K = {} with {} {}; expected {}", rows, columns, t->size(), what, size));
  };
  check(packed, rows * blocks * (block * bits / 8), "bytes");
  check(scales, rows * blocks, "scales");
  BlockedWeights w{rows, columns, block, unpacked(packed, rows, columns, bits), scales->reshaped({rows, blocks})};
  if (zeros == nullptr) {
    w.zeros = Tensor::full(w.data->dtype(), {rows, blocks}, static_cast<double>(1 << (bits - 1)));
  } else if (zeros->dtype() == DType::kU8) {
    check(zeros, rows * ((blocks * bits + 7) / 8), "bytes of zero points");
    w.zeros = unpacked(zeros, rows, blocks, bits);
  } else {
    check(zeros, rows * blocks, "zero points");
    w.zeros = zeros->reshaped({rows, blocks});
  }
  return w;
}

// (data - zero) * scale as a value, which stays packed in the model if Core ML has an op for it.
Value* weight(Lowering& ctx, const BlockedWeights& w) {
  MilBuilder& b = ctx.b;
  const int64_t blocks = w.scales->shape()[1];
  if (ctx.version() >= kIos18 && w.columns == blocks * w.block && w.zeros->dtype() == w.data->dtype())
    return b.constexpr_blockwise_shift_scale({.data = w.data, .offset = w.zeros, .scale = w.scales});
  return b.constant(Tensor::defer(w.scales->dtype(), {w.rows, w.columns}, [w, blocks] {
    std::vector<std::byte> of_data, of_zeros, out(byte_size(w.scales->dtype(), static_cast<uint64_t>(w.rows * w.columns)));
    const std::span<const std::byte> data = w.data->bytes(of_data), zeros = w.zeros->bytes(of_zeros);
    for (int64_t i = 0; i < w.rows * w.columns; ++i) {
      const int64_t at = i / w.columns * blocks + i % w.columns / w.block;
      const double off = decode_element(w.zeros->dtype(), zeros.data(), at);
      const double v = decode_element(w.data->dtype(), data.data(), i);
      encode_element(w.scales->dtype(), out.data(), i, (v - off) * w.scales->as_double(at));
    }
    return out;
  }));
}

}  // namespace

// Gathers rows of a table of 8-bit or 4-bit integers. Each block of a row has a scale and a zero point.
std::vector<Value*> lower_GatherBlockQuantized(Lowering& ctx) {
  const TensorPtr data = ctx.constant(0), scales = ctx.in(2)->constant(), zeros = ctx.constant(3);
  if (data == nullptr || scales == nullptr || (ctx.has(3) && zeros == nullptr))
    ctx.unsupported("a packed table that is computed at run time, and Core ML wants it as a constant");
  const int64_t bits = ctx.int_attr("bits", 4), block = ctx.int_attr("block_size", 128);
  const bool bytes = data->dtype() == DType::kU8, fits = bytes || data->dtype() == DType::kU4 || data->dtype() == DType::kI4;
  if (!fits || (bits != 2 && bits != 4 && bits != 8) || block < 1)
    ctx.unsupported(fmt::format("a table of {} with {} bits in blocks of {}", to_string(data->dtype()), bits, block));
  if (data->rank() != 2 || ctx.int_attr("gather_axis", 0) != 0 || from_front(ctx.int_attr("quantize_axis", 1), 2) != 1)
    ctx.unsupported("a packed table that is not a matrix with blocks along its rows");
  const int64_t rows = data->shape()[0], columns = data->shape()[1] * (bytes ? 8 / bits : 1);
  const int64_t blocks = (columns + block - 1) / block;
  if (scales->size() != rows * blocks) ctx.unsupported("a packed table without a scale for each block");
  BlockedWeights w{rows, columns, block, bytes ? unpacked(data, rows, columns, bits) : data, scales->reshaped({rows, blocks})};
  if (zeros == nullptr) {
    w.zeros = Tensor::full(w.data->dtype(), {rows, blocks}, bytes ? static_cast<double>(1 << (bits - 1)) : 0);
  } else {
    w.zeros = bytes ? unpacked(zeros, rows, blocks, bits) : zeros->reshaped({rows, blocks});
  }
  Value* table = weight(ctx, w);
  return {ctx.b.gather(table, indices(ctx, 1, table, 0), {.axis = 0})};
}

std::vector<Value*> lower_MatMulNBits(Lowering& ctx) {
  constexpr size_t kMostAxes = 3;  // that Core ML's linear takes
  Value* x = ctx.in(0);
  const size_t rank = ctx.rank(0);
  Value *w = weight(ctx, weights_of(ctx)), *bias = ctx.in_or_null(5);
  Value* y = rank == 2 || rank == kMostAxes ? ctx.b.linear(x, {.weight = w}) : product(ctx, x, w, false, true);
  return {bias != nullptr ? ctx.b.add(y, bias) : y};
}

}  // namespace sardonyx::onnx_to_mil
