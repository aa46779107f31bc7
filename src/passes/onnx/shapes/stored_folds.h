// Decides which of the values that could be constants are stored.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

inline constexpr int64_t kNodeBytes = 40, kTensorBytes = 16;  // in a file, without names

// The size of a constant in a file.
int64_t wire_bytes(const Tensor& t);
// The total size of the model's constants in a file.
int64_t constant_bytes(Model& m);
// Whether `n` broadcasts `v` and the result would have the same shape without it.
bool broadcasts_without(const Node& n, const Value& v);

// `nodes` depend on constants only, and `found` has their results. Results with users outside of `nodes` must
// be available: each is stored, or its node stays. The operands of such a node are in turn stored or
// computed, down to the constants of the file.
//
//    W ── Slice ── a ──┐
//    W ── Slice ── b ──┴ Concat ── c     =>   c
//
// Here c may be stored, though it is as large as W, because W disappears with the slices.
//
// The cheapest choice is a minimum cut. A node costs its bytes in the file and a stored value costs its
// elements. A constant without other users disappears once all of its users do.
//
// Without a budget (nullptr), removing a node is worth another 4 KiB, unless it only copies a constant that
// stays. This is all or nothing: if such folds would add more than 1 % to the file, none is made.
// The next run, which sees them again, does not make them either. With a budget, folds may add that many
// bytes, which are subtracted from it.
//
// Returns the values to store, the last one first.
std::vector<Value*> values_to_store(std::span<Node* const> nodes, const std::function<const Tensor*(const Value&)>& found,
                                    bool in_main_function, int64_t* budget);

}  // namespace sardonyx::onnx
