// What gather and scatter share: axes sorted by what an index does to them, and index tensors for GatherND and ScatterND.
//
// JAX indexes with vectors: the last axis of `indices` names a corner of the operand, and a window starts there. GatherND and
// ScatterND index leading axes, one element at a time. So the operand is transposed to
//   [batching axes, indexed axes, whole axes]
// and a window over an indexed axis is written out as an iota added to its start. Windows of size 1 have no axis of their own.
#pragma once

#include <vector>

#include "lower/params.h"

namespace sardonyx {

// Labels of axes, by which arrange() finds them: operand axes are 0.., axes of `indices` are kIndexAxis...
constexpr int64_t kIndexAxis = 1000;
// `labels` with the axes of `indices`, in order, where a label is negative.
void number_index_axes(std::vector<int64_t>& labels);

struct Indexing {
  using Ints = std::vector<int64_t>;

  Ints batching;                              // operand axes that run along with the indices
  Ints index_batching;                        // the axes of `indices` they run along with
  Ints indexed;                               // operand axes that are not taken whole, in ascending order; each has a component
  Ints component;                             // of each indexed axis: its place in the index vector
  std::vector<Dim> window;                    // of each indexed axis: the window's size
  Ints whole;                                 // operand axes taken whole, ascending
  Ints free;                                  // axes of `indices` that are neither batching nor the vector, ascending
  std::vector<Dim> operand_dims, index_dims;  // index_dims without the vector axis
  Ints index_map;                             // the operand axis of each component
  int64_t zeros = 0;       // the last components, which the program does not have: of windows that start at 0
  std::vector<Dim> slice;  // the window's size on each operand axis

  // index_map[k] is the operand axis of component k. With `need_index`, one axis counts as indexed even if all are taken whole.
  Indexing(std::span<const Dim> operand, std::span<const Dim> indices, std::span<const Dim> slice_sizes, Ints map,
           Ints batching_axes, Ints index_batching_axes, bool need_index);

  Ints operand_perm() const;            // batching, indexed, whole
  std::vector<size_t> windows() const;  // places in `indexed` whose window has an axis: those not provably 1
  std::vector<Dim> lead() const;        // sizes of the batching and free axes
  Ints lead_labels() const;             // their labels, batching ones first

  // `indices` with the components as they are before negative ones are counted from the end, where they are put together from single ones.
  Value* unwrapped(Lowering& ctx, Value* indices) const;
  // All components as i64 [batching.., free.., components], zeros included.
  Value* vectors(Lowering& ctx, Value* indices) const;
  // Those of the indexed axes, in their order.
  Value* starts(Lowering& ctx, Value* vectors) const;
  // bool [batching.., free..]: the window lies inside the operand. Null where that is proven.
  Value* inside(Lowering& ctx, Value* vectors) const;
  // Starts moved so that every window lies inside.
  Value* clamped(Lowering& ctx, Value* starts) const;
  // [batching.., free.., windows.., indexed]; with `batch_counters` the batching axes are indexed too, in front (ScatterND has no
  // batch axes).
  Value* grid(Lowering& ctx, Value* starts, bool batch_counters) const;
};

// The i of where(i < 0, i + size, i), which is how JAX counts negative indices from the end, behind views that only shape it; ONNX's Gather
// counts so by itself. Null where `index` is something else, or would be another element type than Gather reads (i32 and i64).
Value* before_wrapping(Lowering& ctx, Value* index, Dim size);

// x, whose axes carry the labels `from`, with its axes in the order `to`. Labels that x lacks become axes of size 1 by reshaping
// to `dims`; axes that `to` lacks have size 1 and go.
Value* arrange(Lowering& ctx, Value* x, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
               std::span<const Dim> dims);

}  // namespace sardonyx
