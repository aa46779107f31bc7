// PRNG keys and the threefry2x32 hash in integer operators: bit-equal to JAX, whatever runs the graph.
#pragma once

#include <utility>

#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/lib/pairs.h"

namespace sardonyx::jax_to_onnx {

// Makes a key of the graph (see Context::stored) from words in u32[..., 2] (kKey) or u32[..., 4]
// (kKey4), and the reverse.
Value* wrap_key(OnnxBuilder& b, Context& context, Value* words, DType dtype);
Value* unwrap_key(OnnxBuilder& b, Context& context, Value* key, DType dtype);

// Makes a key from its two words, u32 of the key's shape, and the reverse.
Value* pack_key(OnnxBuilder& b, Context& context, Context::KeyWords words);
Context::KeyWords split_key(OnnxBuilder& b, Context& context, Value* key);

// Hashes the counters (x0, x1) under the key (k0, k1); u32 operands that broadcast. A null x0 means 0. Salmon
// et al., "Parallel random numbers: as easy as 1, 2, 3", SC11; 20 rounds, as in JAX.
std::pair<Value*, Value*> threefry2x32(OnnxBuilder& b, Value* k0, Value* k1, Value* x0, Value* x1);

// jax.random.split: keys of the shape of `key` with `shape` appended. `partitionable` is JAX's setting
// jax_threefry_partitionable.
Context::KeyWords split_into(Lowering& ctx, Context::KeyWords key, std::span<const Dim> shape, bool partitionable);

}  // namespace sardonyx::jax_to_onnx
