// Which of the values that could be constants are stored as constants.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::onnx {

inline constexpr int64_t kNodeBytes = 40, kTensorBytes = 16;  // in a file, names not counted

// What a constant takes in a file.
int64_t wire_bytes(const Tensor& t);
// What the constants of a model take in a file.
int64_t constant_bytes(Model& m);
// Whether n reads v for its elements only: without v the result's shape would be the same.
bool broadcasts_without(const Node& n, const Value& v);

// Nodes that depend on constants only, in order, and what they compute. Somebody else reads some of these results: each of them is stored, or
// its node stays and reads others, which are stored or computed in turn, down to the constants that the file has.
//
//    W ── Slice ── a ──┐              W ── Slice ── a ──┐
//    W ── Slice ── b ──┴ Concat ── y    =>   y                    c may be stored, though it is as large as W: W goes with the slices
//
// The cheapest choice is a minimum cut: a node costs its bytes in the file, a stored value its elements, and a constant that nobody else reads
// costs nothing once all nodes that read it go.
//
// Without a budget (nullptr), a node is worth 4 KiB more, unless it only copies what stays. That is all or nothing: where such folds would add
// more than 1 % to the file, none is made, so that the next run, which sees them again, does not make them either. With a budget, folds may add
// so many bytes; they are taken off.
//
// Returns the values to store, the last first.
std::vector<Value*> values_to_store(std::span<Node* const> nodes, const std::function<const Tensor*(const Value&)>& found,
                                    bool in_main_function, int64_t* budget);

}  // namespace sardonyx::onnx
