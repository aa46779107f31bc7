// Windows that slide over spatial axes, shared by convolution and pooling.
#pragma once

#include "eval/kernel.h"

namespace sardonyx::eval {

// How a dilated window of `kernel` elements moves over `size` elements, per spatial axis.
struct Window {
  std::vector<int64_t> size, kernel, strides, dilations, pads_begin, pads_end, out;
  size_t rank() const { return kernel.size(); }
  int64_t kernel_size() const { return product(kernel); }
  int64_t out_size() const { return product(out); }
  // The index on axis d that kernel element k reads when the window is at position `at`. It may lie outside
  // [0, size).
  int64_t place(size_t d, int64_t at, int64_t k) const { return at * strides[d] - pads_begin[d] + k * dilations[d]; }
};

// Reads strides, dilations, pads, auto_pad and ceil_mode. `kernel` is the kernel's spatial shape.
Window window_of(Call& c, std::span<const int64_t> size, std::vector<int64_t> kernel);
// [kernel element][window position]: the index that it reads there, in a plane of the input. -1 is padding.
std::vector<int64_t> sources_of(const Window& w);

// Convolves arrays of f64 as the node's attributes say. Exact for integers.
Array convolution(Call& c, const Array& x, const Array& weights);

// Visits all positions of a grid in row-major order: f(flat index, position).
template <class F>
void for_each_position(std::span<const int64_t> shape, F&& f) {
  const int64_t n = product(shape);
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    f(i, std::as_const(at));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

}  // namespace sardonyx::eval
