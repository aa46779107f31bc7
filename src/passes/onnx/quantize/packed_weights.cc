//   x ── MatMul(W) ── y   =>   x ── com.microsoft::MatMulNBits(codes, scales) ── y
//   i ── Gather(W) ── y   =>   i ── com.microsoft::GatherBlockQuantized(codes, scales) ── y
//
// onnxruntime makes the first of the standard form when it loads a model, except before Relu, and the second
// never: it dequantizes the whole table in each run.
//
// MatMulNBits stores a matrix by columns, each padded to whole blocks, with two codes in a byte and 8 as
// zero point unless others are given. It rounds x to 8 bits in blocks (accuracy_level 4), as it does in
// what onnxruntime makes of the standard form: in single precision a product takes up to three times as
// long.
#include "passes/onnx/quantize/packed_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/onnx/quantize/quantize_weights.h"
#include "rewrite/onnx_rewriter.h"

namespace sardonyx::onnx {
namespace {

constexpr std::string_view kDomain = "com.microsoft";

bool is_product(const Use& u, const compress::Axes& axes) {
  const Node& n = *u.owner;
  if (n.unchecked() || &u != &n.operands()[1]) return false;
  const Type* x = n.operands()[0].value->type();
  if (x == nullptr || !x->ranked() || x->rank() < 2) return false;
  if (n.is("MatMul")) return axes.summed == 0;
  if (!n.is("Gemm") || int_attr(n, "transA") != 0 || int_attr(n, "transB") != (axes.summed == 1 ? 1 : 0)) return false;
  return float_attr(n, "alpha") == 1 && (n.operands().size() < 3 || float_attr(n, "beta") == 1);
}

bool is_lookup(const Use& u, const compress::Axes& axes) {
  const Node& n = *u.owner;
  return !n.unchecked() && n.is("Gather") && &u == n.operands().data() && axes.is_table && axes.channel == 0;
}

// Codes of 4 bits, two in a byte, each of `rows` rows padded to whole bytes.
class Nibbles {
 public:
  Nibbles(int64_t rows, int64_t columns) : row_bytes_((columns + 1) / 2), bytes_(static_cast<size_t>(rows * row_bytes_)) {}

  void set(int64_t row, int64_t column, int code) {
    bytes_[static_cast<size_t>(row * row_bytes_ + column / 2)] |= static_cast<std::byte>(code << (column % 2 * 4));
  }
  TensorPtr take(std::vector<int64_t> shape) { return Tensor::own(DType::kU8, std::move(shape), std::move(bytes_)); }

 private:
  int64_t row_bytes_;
  std::vector<std::byte> bytes_;
};

// What MatMulNBits stores.
compress::Codes by_columns(std::span<const int64_t> shape, const compress::Axes& axes, int64_t block,
                           const compress::Codes& codes) {
  const int64_t rows = shape[axes.summed], columns = shape[axes.channel], blocks = (rows - 1) / block + 1;
  const bool is_turned = axes.summed == 1;
  const auto at = [&](int64_t row, int64_t column, int64_t height) {
    return is_turned ? column * height + row : row * columns + column;
  };
  const int offset = codes.zeros == nullptr ? 8 : 0;
  Nibbles made(columns, blocks * block), zeros(columns, blocks);
  std::vector<float> scale(static_cast<size_t>(columns * blocks));
  for (int64_t n = 0; n < columns; ++n) {
    for (int64_t k = 0; k < rows; ++k) made.set(n, k, static_cast<int>(codes.codes->as_double(at(k, n, rows))) + offset);
    for (int64_t b = 0; b < blocks; ++b) {
      scale[static_cast<size_t>(n * blocks + b)] = static_cast<float>(codes.scales->as_double(at(b, n, blocks)));
      if (codes.zeros != nullptr) zeros.set(n, b, static_cast<int>(codes.zeros->as_double(at(b, n, blocks))));
    }
  }
  return {made.take({columns, blocks, block / 2}), Tensor::of<float>(DType::kF32, {columns * blocks}, scale),
          codes.zeros != nullptr ? zeros.take({columns * ((blocks + 1) / 2)}) : nullptr};
}

}  // namespace

bool can_pack(const Value& weight, const compress::Axes& axes, PackedType type, const Runtime& runtime) {
  const Tensor& t = *weight.constant();
  if (bit_width(type.type) != 4 || t.dtype() != DType::kF32 || t.rank() != 2) return false;
  constexpr int64_t kLeast = 16, kMost = 256;
  const bool is_power = (type.block & (type.block - 1)) == 0;
  if (type.block < kLeast || type.block > kMost || !is_power || t.shape()[axes.summed] < type.block) return false;
  const Runtime& first_with_tables = runtime_named("ort-1.20");
  const auto all = [&](auto fits) { return std::ranges::all_of(weight.uses(), [&](const Use& u) { return fits(u, axes); }); };
  return all(is_product) || (runtime.number >= first_with_tables.number && all(is_lookup));
}

compress::Codes write_packed(Value& weight, const compress::Axes& axes, PackedType type, const compress::Codes& codes,
                             PassContext& context) {
  const TensorPtr whole = weight.constant();
  const auto shape = whole->shape();
  const compress::Codes stored = axes.is_table ? codes : by_columns(shape, axes, type.block, codes);
  context.model.set_opset_version(kDomain, 1);
  Graph& home = *weight.graph();
  Rewriter constants(home, context);
  constants.set_insertion_point(home.first());
  const auto constant = [&](const TensorPtr& t, std::string_view suffix) -> Value* {
    const std::string_view name = weight.name().view();
    if (t == nullptr) return nullptr;
    return constants.constant(t, name.empty() ? std::string() : fmt::format("{}{}", name, suffix));
  };
  Value *data = constant(stored.codes, kCodesSuffix), *scales = constant(stored.scales, kScaleSuffix),
        *zeros = constant(stored.zeros, kZerosSuffix);
  while (weight.has_uses()) {
    Node& n = *weight.uses().begin()->owner;
    Rewriter b(*n.graph(), context);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    const auto read = [&](std::initializer_list<Value*> first) {
      std::vector<Value*> operands(first);
      operands.push_back(scales);
      if (zeros != nullptr) operands.push_back(zeros);
      return operands;
    };
    const auto operand = [&](size_t i) { return i < n.operands().size() ? n.operands()[i].value : nullptr; };
    Value* y = nullptr;
    if (axes.is_table) {
      y = b.op("GatherBlockQuantized", read({data, operand(1)}),
               {attr("gather_axis", 0), attr("quantize_axis", 1), attr("block_size", type.block)}, kDomain);
    } else {
      y = b.op("MatMulNBits", read({operand(0), data}),
               {attr("K", shape[axes.summed]), attr("N", shape[axes.channel]), attr("bits", 4), attr("block_size", type.block),
                attr("accuracy_level", 4)},
               kDomain);
      y->set_type(n.result()->type());
      if (n.is("Gemm") && operand(2) != nullptr) y = b.Add(y, operand(2));
    }
    y->set_type(n.result()->type());
    n.graph()->replace_uses(*n.result(), *y);
    n.graph()->erase(n);
  }
  compress::erase_constant(weight);
  return stored;
}

}  // namespace sardonyx::onnx
