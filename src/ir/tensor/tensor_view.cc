#include "ir/tensor/tensor_view.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "sardonyx/error.h"

namespace sardonyx {
namespace {

// The deleter of a tensor that is a view. It holds the view's description, and std::get_deleter() finds it.
struct ViewDeleter {
  TensorView view;
  void operator()(const Tensor* t) const { delete t; }
};

bool is_row_major(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d]) {
    if (shape[d] != 1 && strides[d] != step) return false;
  }
  return true;
}

// --- copying

struct Axis {
  int64_t size = 1;
  int64_t stride = 0;
};

template <class E>
struct Copier {
  const std::byte* from;
  std::byte* to;

  void put(int64_t target, int64_t source) const {
    std::memcpy(to + target * static_cast<int64_t>(sizeof(E)), from + source * static_cast<int64_t>(sizeof(E)), sizeof(E));
  }

  // Copies `count` adjacent elements of the target.
  void row(int64_t target, int64_t source, int64_t stride, int64_t count) const {
    if (stride == 1) {
      constexpr auto kWidth = static_cast<int64_t>(sizeof(E));
      std::memcpy(to + target * kWidth, from + source * kWidth, static_cast<size_t>(count) * sizeof(E));
      return;
    }
    for (int64_t i = 0; i < count; ++i) put(target + i, source + i * stride);
  }

  // Copies rows of the target that are columns of the source, tile by tile, so that both sides stay in cache.
  void square(int64_t target, int64_t target_step, int64_t source, int64_t source_step, int64_t rows, int64_t columns) const {
    constexpr int64_t kSquare = 16;
    for (int64_t c = 0; c < columns; c += kSquare) {
      const int64_t last_column = std::min(c + kSquare, columns);
      for (int64_t r = 0; r < rows; r += kSquare) {
        const int64_t last_row = std::min(r + kSquare, rows);
        if constexpr (sizeof(E) == 4) {
          if (last_row - r == kSquare && last_column - c == kSquare) {
            for (int64_t i = r; i < last_row; i += 4) {
              for (int64_t k = c; k < last_column; k += 4)
                four(target + i * target_step + k, target_step, source + k * source_step + i, source_step);
            }
            continue;
          }
        }
        for (int64_t row = r; row < last_row; ++row) {
          for (int64_t column = c; column < last_column; ++column)
            put(target + row * target_step + column, source + column * source_step + row);
        }
      }
    }
  }

  // Copies four by four elements of four bytes.
  void four(int64_t target, int64_t target_step, int64_t source, int64_t source_step) const {
    using Four [[gnu::vector_size(16)]] = uint32_t;
    Four in[4];
    for (int64_t i = 0; i < 4; ++i) std::memcpy(&in[i], from + (source + i * source_step) * 4, sizeof in[i]);
    const Four low = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5),
               high = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
    const Four low2 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5),
               high2 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
    const Four out[4] = {__builtin_shufflevector(low, low2, 0, 1, 4, 5), __builtin_shufflevector(low, low2, 2, 3, 6, 7),
                         __builtin_shufflevector(high, high2, 0, 1, 4, 5), __builtin_shufflevector(high, high2, 2, 3, 6, 7)};
    for (int64_t i = 0; i < 4; ++i) std::memcpy(to + (target + i * target_step) * 4, &out[i], sizeof out[i]);
  }

  // Copies a whole box, dense in the target.
  void box(std::span<const Axis> axes, int64_t target, int64_t source) const {
    if (axes.empty()) return put(target, source);
    const size_t last = axes.size() - 1;
    // The axis that is contiguous in the source.
    size_t side = last;
    if (axes[last].stride != 1) {
      for (size_t d = 0; d < last; ++d) side = axes[d].stride == 1 && axes[d].size > 1 ? d : side;
    }
    std::vector<int64_t> step(axes.size(), 1), at(axes.size(), 0);
    for (size_t d = last; d-- > 0;) step[d] = step[d + 1] * axes[d + 1].size;
    while (true) {
      if (side == last) {
        row(target, source, axes[last].stride, axes[last].size);
      } else {
        square(target, step[side], source, axes[last].stride, axes[side].size, axes[last].size);
      }
      size_t d = last;
      while (d-- > 0) {
        if (d == side) continue;
        target += step[d];
        source += axes[d].stride;
        if (++at[d] < axes[d].size) break;
        target -= step[d] * axes[d].size;
        source -= axes[d].stride * axes[d].size;
        at[d] = 0;
      }
      if (d > last) return;  // wrapped below 0
    }
  }

  // Copies `count` elements from index `first` on: whole slices of an axis at once, partial ones by recursion
  // over the next axis.
  void run(std::vector<Axis> axes, int64_t first, int64_t count, int64_t target, int64_t source) const {
    while (count > 0 && !axes.empty()) {
      int64_t inner = 1;
      for (size_t d = 1; d < axes.size(); ++d) inner *= axes[d].size;
      const std::vector<Axis> inside(axes.begin() + 1, axes.end());
      source += first / inner * axes[0].stride;
      if (const int64_t skipped = first % inner; skipped != 0) {
        const int64_t part = std::min(count, inner - skipped);
        run(inside, skipped, part, target, source);  // recurses over the axes
        source += axes[0].stride;
        target += part;
        count -= part;
      }
      if (const int64_t whole = count / inner; whole > 0) {
        std::vector<Axis> rows = axes;
        rows[0].size = whole;
        box(rows, target, source);
        source += whole * axes[0].stride;
        target += whole * inner;
        count -= whole * inner;
      }
      axes = inside;
      first = 0;
    }
    if (count > 0) put(target, source);
  }
};

struct Bytes16 {
  uint64_t a, b;
};

}  // namespace

void copy_strided(const std::byte* from, size_t width, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  int64_t first, std::span<std::byte> out) {
  if (out.empty()) return;
  std::vector<Axis> axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (!axes.empty() && axes.back().stride == strides[d] * shape[d]) {
      axes.back() = {axes.back().size * shape[d], strides[d]};
    } else {
      axes.push_back({shape[d], strides[d]});
    }
  }
  const auto count = static_cast<int64_t>(out.size() / width);
  const auto copy = [&]<class E>(E) { Copier<E>{from, out.data()}.run(axes, first, count, 0, 0); };
  switch (width) {
    case 1: return copy(uint8_t{});
    case 2: return copy(uint16_t{});
    case 4: return copy(uint32_t{});
    case 8: return copy(uint64_t{});
    case 16: return copy(Bytes16{});
    default: SX_CHECK(false, "elements of a width that no type has");
  }
}

TensorPtr make_view(TensorPtr storage, std::vector<int64_t> shape, std::vector<int64_t> strides) {
  SX_CHECK(!storage->is_deferred() && !storage->is_splat() && bit_width(storage->dtype()) >= 8, "only of elements in order");
  SX_CHECK(shape.size() == strides.size());
  int64_t size = 1, last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    SX_CHECK(shape[d] > 0 && strides[d] >= 0);
    size *= shape[d];
    last += (shape[d] - 1) * strides[d];
  }
  SX_CHECK(last < storage->size(), "a view beyond its storage");
  if (size == storage->size() && is_row_major(shape, strides)) {
    return std::ranges::equal(shape, storage->shape()) ? storage : storage->reshaped(std::move(shape));
  }
  const auto width = static_cast<size_t>(bit_width(storage->dtype())) / 8;
  const TensorPtr made = Tensor::defer(storage->dtype(), shape,
                                       Tensor::Fill([storage, width, shape, strides](int64_t first, std::span<std::byte> out) {
                                         copy_strided(storage->stored_bytes().data(), width, shape, strides, first, out);
                                       }));
  return {new Tensor(*made), ViewDeleter{{std::move(storage), std::move(strides)}}};
}

const TensorView* view_of(const TensorPtr& t) {
  const auto* found = std::get_deleter<ViewDeleter>(t);
  return found != nullptr ? &found->view : nullptr;
}

namespace {

// The deleter of a computed matrix that is transposed. It holds the matrix, which transposing again returns.
struct TransposedDeleter {
  TensorPtr source;
  void operator()(const Tensor* t) const { delete t; }
};

// A matrix that is computed in pieces, transposed: an element's row is read from the columns of the source.
TensorPtr transposed_matrix(const TensorPtr& t) {
  if (const auto* found = std::get_deleter<TransposedDeleter>(t)) return found->source;
  const int64_t rows = t->shape()[1], columns = t->shape()[0];
  const auto width = static_cast<size_t>(bit_width(t->dtype())) / 8;
  const auto fill = [=](int64_t first, std::span<std::byte> out) {
    const int64_t last = first + static_cast<int64_t>(out.size() / width) - 1;
    const int64_t from = first / columns, wide = last / columns - from + 1;  // rows of the result
    const int64_t top = wide == 1 ? first % columns : 0, bottom = wide == 1 ? last % columns + 1 : columns;
    const int64_t high = bottom - top;
    const std::unique_ptr<std::byte[]> tile(new std::byte[static_cast<size_t>(wide * high) * width]);  // uninitialized
    for (int64_t i = 0; i < high; ++i) {
      const auto line = static_cast<size_t>(wide) * width;
      t->read((top + i) * rows + from, {tile.get() + static_cast<size_t>(i) * line, line});
    }
    const int64_t shape[] = {wide, high}, strides[] = {1, wide};
    copy_strided(tile.get(), width, shape, strides, first - (from * columns + top), out);
  };
  const TensorPtr made = Tensor::defer(t->dtype(), {rows, columns}, Tensor::Fill(fill));
  return {new Tensor(*made), TransposedDeleter{t}};
}

}  // namespace

TensorPtr transposed_view(const TensorPtr& t, std::span<const int64_t> perm) {
  const TensorView* view = view_of(t);
  if (t->is_splat() || t->size() == 0 || bit_width(t->dtype()) < 8) return nullptr;
  if (view == nullptr && t->is_deferred()) {
    const bool matrix = perm.size() == 2 && perm[0] == 1 && t->reads_in_pieces() && !t->is_promise();
    return matrix ? transposed_matrix(t) : nullptr;
  }
  const std::vector<int64_t> strides = view != nullptr ? view->strides : dense_strides(t->shape());
  std::vector<int64_t> shape, moved;
  for (int64_t p : perm) {
    shape.push_back(t->shape()[static_cast<size_t>(p)]);
    moved.push_back(strides[static_cast<size_t>(p)]);
  }
  return make_view(view != nullptr ? view->storage : t, std::move(shape), std::move(moved));
}

}  // namespace sardonyx
