#include "passes/deferred_node.h"

#include <algorithm>
#include <optional>

#include "eval/elements.h"
#include "sardonyx/eval.h"

namespace sardonyx {
namespace {

// A node by itself, for evaluating it when the model may be gone.
struct HeldNode {
  explicit HeldNode(const Node& n) : model(n.op().dialect) {
    const std::vector<Value*> absent(n.num_inputs(), nullptr);
    const auto items = n.attrs().items();
    node = &model.new_node(n.op(), absent, n.num_results(), model.attrs(AttrInit(items.begin(), items.end())));
  }
  Model model;
  Node* node = nullptr;
};

// The axes of a transposition in their new order; nullopt where n is none, or its operand is not there to be read element by element.
std::optional<std::vector<int64_t>> transposed_axes(const Node& n, std::span<const TensorPtr> operands) {
  const TensorPtr x = operands.empty() ? nullptr : operands[0];
  if (x == nullptr || x->is_deferred() || x->is_splat() || bit_width(x->dtype()) < 8 || x->dtype() == DType::kString) return {};
  // Elsewhere an array would be a copy.
  if (reinterpret_cast<uintptr_t>(x->stored_bytes().data()) % std::min<size_t>(element_bytes(x->dtype()), 8) != 0) return {};
  std::optional<std::vector<int64_t>> axes;
  if (n.is("transpose") && operands.size() > 1 && operands[1] != nullptr) axes = operands[1]->to_ints();
  if (n.is("Transpose")) axes = n.attr_ints("perm");
  const auto rank = static_cast<int64_t>(x->rank());
  if (!axes || static_cast<int64_t>(axes->size()) != rank) return {};
  std::vector<bool> seen(axes->size(), false);
  for (int64_t& a : *axes) {
    if (a < 0) a += rank;
    if (a < 0 || a >= rank || seen[static_cast<size_t>(a)]) return {};
    seen[static_cast<size_t>(a)] = true;
  }
  return axes;
}

// Elements of a view, row-major from index `first` on, as many as fill `out`.
void copy_part(const Array& view, int64_t first, std::span<std::byte> out) {
  const size_t width = element_bytes(view.dtype());
  const auto copy = [&](const Array& part, size_t at, int64_t n) {
    Array to(view.dtype(), {part.shape().begin(), part.shape().end()}, out.data() + at, nullptr);
    SX_CHECK(part.size() == n, "a part of a view has another size");
    eval::copy_elements(part, to);
  };
  // Whole rows of an axis at once; what begins or ends amid one, by the next axis.
  const auto run = [&](const auto& self, const Array& rows, int64_t begin, int64_t n, size_t at) -> void {
    if (n == 0) return;
    const int64_t row = rows.size() / rows.dim(0);
    std::vector<int64_t> shape(rows.shape().begin(), rows.shape().end()), strides(rows.strides().begin(), rows.strides().end());
    const auto rows_from = [&](int64_t i, int64_t count) {
      shape[0] = count;
      return rows.view(shape, strides, i * strides[0]);
    };
    const auto inside = [&](int64_t i) {
      return rows.view({shape.begin() + 1, shape.end()}, {strides.begin() + 1, strides.end()}, i * strides[0]);
    };
    int64_t i = begin / row;
    if (const int64_t skipped = begin % row; skipped != 0) {
      const int64_t part = std::min(n, row - skipped);
      self(self, inside(i++), skipped, part, at);
      n -= part;
      at += static_cast<size_t>(part) * width;
    }
    if (const int64_t whole = n / row; whole > 0) {
      copy(rows_from(i, whole), at, whole * row);
      i += whole;
      n -= whole * row;
      at += static_cast<size_t>(whole * row) * width;
    }
    if (n > 0) self(self, inside(i), 0, n, at);
  };
  run(run, view, first, static_cast<int64_t>(out.size() / width), 0);
}

}  // namespace

TensorPtr defer_node(const Node& n, std::vector<TensorPtr> operands, const Type& t, uint64_t memory_cap) {
  if (const auto axes = transposed_axes(n, operands)) {
    const Array x = Array::of(operands[0]);
    std::vector<int64_t> sizes, strides;
    for (int64_t a : *axes) {
      sizes.push_back(x.dim(static_cast<size_t>(a)));
      strides.push_back(x.strides()[static_cast<size_t>(a)]);
    }
    return Tensor::defer(t.dtype(), sizes, [view = x.view(sizes, std::move(strides))](int64_t first, std::span<std::byte> out) {
      copy_part(view, first, out);
    });
  }
  auto held = std::make_shared<HeldNode>(n);
  auto compute = [held, memory_cap, operands = std::move(operands)] {
    const auto results = evaluate_node(*held->node, operands, memory_cap);
    SX_CHECK(results && results->front() != nullptr, "a constant that was folded cannot be computed");
    std::vector<std::byte> scratch;
    const auto bytes = results->front()->bytes(scratch);
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  std::vector<int64_t> shape;
  for (Dim d : t.dims()) shape.push_back(d.value());
  return Tensor::defer(t.dtype(), std::move(shape), std::move(compute));
}

}  // namespace sardonyx
