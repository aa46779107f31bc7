// Shared by gather and scatter: axes sorted by what an index does to them, and index tensors for GatherND and
// ScatterND.
//
// JAX indexes with vectors: the last axis of `indices` gives the corner of a window in the operand. GatherND
// and ScatterND index leading axes, one element at a time. So the operand is transposed to
//   [batching axes, indexed axes, whole axes]
// and a window over an indexed axis becomes its start plus an iota. Windows of size 1 have no axis of their
// own.
#pragma once

#include <vector>

#include "lower/jax_to_onnx/params.h"

namespace sardonyx::jax_to_onnx {

// Labels of axes for arrange(): operand axes are 0.., axes of `indices` are kIndexAxis...
constexpr int64_t kIndexAxis = 1000;
// Replaces negative labels by those of the axes of `indices`, in order.
void number_index_axes(std::vector<int64_t>& labels);

struct Indexing {
  using Ints = std::vector<int64_t>;

  Ints batching;                              // operand axes that correspond to axes of `indices`
  Ints index_batching;                        // those axes of `indices`
  Ints indexed;                               // operand axes not taken whole, ascending; each has a component
  Ints component;                             // of each indexed axis: its position in the index vector
  std::vector<Dim> window;                    // of each indexed axis: the size of the window
  Ints whole;                                 // operand axes taken whole, ascending
  Ints free;                                  // axes of `indices` that are neither batching nor the vector axis, ascending
  std::vector<Dim> operand_dims, index_dims;  // index_dims without the vector axis
  Ints index_map;                             // the operand axis of each component
  int64_t zeros = 0;                          // components appended for windows that always start at 0
  std::vector<Dim> slice;                     // the size of the window on each operand axis

  // index_map[k] is the operand axis of component k. With `need_index`, one axis counts as indexed even if
  // all are taken whole.
  Indexing(std::span<const Dim> operand, std::span<const Dim> indices, std::span<const Dim> slice_sizes, Ints map,
           Ints batching_axes, Ints index_batching_axes, bool need_index);

  Ints operand_perm() const;            // batching, indexed, whole
  std::vector<size_t> windows() const;  // positions in `indexed` whose window has an axis: its size is not provably 1
  std::vector<Dim> lead() const;        // sizes of the batching and free axes
  Ints lead_labels() const;             // their labels, batching ones first

  // `indices` with the components before the program adds the size to negative ones, if a Concat joins them
  // from single components. `lows` gets the least start of each component: minus the size, or 0.
  Value* unwrapped(Lowering& ctx, Value* indices, std::vector<Dim>& lows) const;
  // All components as i64 [batching.., free.., components], zeros included.
  Value* vectors(Lowering& ctx, Value* indices) const;
  // The components of the indexed axes, in their order.
  Value* starts(Lowering& ctx, Value* vectors) const;
  // For each component of the program: the last start whose window lies inside.
  std::vector<Dim> limits(Lowering& ctx) const;
  // bool [batching.., free..]: whether the window lies inside the operand. Null if there are no components.
  Value* inside(Lowering& ctx, Value* vectors, const std::vector<Dim>& lows = {}) const;
  // Starts clamped so that every window lies inside.
  Value* clamped(Lowering& ctx, Value* starts, const std::vector<Dim>& lows = {}) const;
  // [batching.., free.., windows.., indexed]. With `batch_counters` the batching axes are indexed too, in
  // front, because ScatterND has no batch axes.
  Value* grid(Lowering& ctx, Value* starts, bool batch_counters) const;
};

// The i in where(i < 0, i + size, i), JAX's way to count negative indices from the end, seen through
// reshapes; ONNX's Gather does so itself. Null if `index` is anything else, or has an element type that
// Gather does not take (it takes i32 and i64).
Value* before_wrapping(Lowering& ctx, Value* index, Dim size);

// Brings x, whose axes have the labels `from`, into the order `to`. A reshape to `dims` adds labels that x
// lacks as axes of size 1; axes missing in `to` have size 1 and are dropped.
Value* arrange(Lowering& ctx, Value* x, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
               std::span<const Dim> dims);

}  // namespace sardonyx::jax_to_onnx
