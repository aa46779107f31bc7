// Layers that several operators have in common. Values are of the MIL model.
#pragma once

#include <string_view>
#include <vector>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {

// activations.cc: x * sigmoid(alpha * x).
Value* swish(Lowering& ctx, Value* x, double alpha);

// normalization.cc: over all axes from `first` on. gamma and beta broadcast to x, or are null.
Value* layer_norm(Lowering& ctx, Value* x, Value* gamma, Value* beta, size_t first, double epsilon);
// 1 / sqrt(mean of squares + epsilon), with axes of size 1.
Value* inverse_rms(Lowering& ctx, Value* x, size_t first, double epsilon);

// products.cc: MatMul, of vectors too. The flags transpose the last two axes of a matrix.
Value* product(Lowering& ctx, Value* x, Value* y, bool transpose_x = false, bool transpose_y = false);

// conv.cc, products.cc
std::vector<Value*> lower_Conv(Lowering& ctx);
std::vector<Value*> lower_Gemm(Lowering& ctx);

// attention.cc. Queries, keys and values are [batch, heads, length, size].
//
// [batch, length, heads * size]   =>   [batch, heads, length, size]
// Refuses the node if the size of a head is not known.
Value* split_heads(Lowering& ctx, Value* x, int64_t heads);
// [batch, heads, length, size]   =>   [batch, length, heads * size]
Value* joined_heads(Lowering& ctx, Value* x);
// 0, 1, ... up to the size of the axis: i32[n].
Value* counted(Lowering& ctx, Value* x, size_t axis);
// softmax(q k' * scale + mask) v. The mask broadcasts to [batch, heads, queries, keys]: numbers to add, or
// bools that are true for keys to attend to, or null.
Value* attend(Lowering& ctx, Value* q, Value* k, Value* v, double scale, Value* mask);
// Rotary embedding: rotates pairs of the first `rotary` features of each head of x. Cosines and sines of the
// angles broadcast to [batch, heads, length, rotary / 2]. A pair is feature i of both halves, or two adjacent
// features if interleaved.
Value* rotated(Lowering& ctx, Value* x, Value* cosines, Value* sines, int64_t rotary, bool interleaved);

// pool.cc: the average pool that the node's attributes describe. x and the result have the shapes of the
// node's operand 0 and result 0, with any element type.
Value* average_pool(Lowering& ctx, Value* x);

// quantization.cc. A scale or zero point is a scalar, or has one number per index of the axis; zero points
// may be absent.
struct QuantizedOperand {
  size_t x, scale, zero;  // operands of the node
};
// The operand, dequantized to type `to`.
Value* dequantized(Lowering& ctx, QuantizedOperand operand, DType to, int64_t axis = 0);
// The operand, quantized to u8 as by DynamicQuantizeLinear, and dequantized.
Value* rounded_to_bytes(Lowering& ctx, size_t x);
// y, quantized to the element type of the node's result. `scale` and `zero` are indices of operands.
Value* quantized(Lowering& ctx, Value* y, size_t scale, size_t zero, int64_t axis = 0);

}  // namespace sardonyx::onnx_to_mil
