//   x ── Pad(0) ── Conv(pads p) ── y            =>   x ── Conv(pads p + pad) ── y
//   x ── Pad(z) ── ConvInteger, QLinearConv with zero point z ── y   =>   the same
//   x ── Pad(0) ── AveragePool ── y             =>   x ── AveragePool<count_include_pad>(pads p + pad) ── y
//   x ── Pad(-inf) ── MaxPool ── y              =>   x ── MaxPool(pads p + pad) ── y
//   x ── Relu ── Pad(0) ── MaxPool ── y         =>   x ── Relu ── MaxPool(pads p + pad) ── y
//
// What stops it: pads that are not known, negative, or on the batch or channel axis; a mode other than
// constant; a fill other than the one that the window pads with; auto_pad other than VALID, which pads
// nothing; an average that excludes its own pads or may count beyond them (ceil_mode); pads as wide as the
// window of a pool; another user of the padded value.
// Exact except for sums: zeros that were added no longer are.
#include <algorithm>
#include <cmath>

#include "passes/onnx/fuse/fusion.h"
#include "passes/onnx/fuse/padding.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, padded{"padded"};

bool is_quantized(const Node& n) { return n.is("ConvInteger") || n.is("QLinearConv"); }

// The value that a convolution pads with: zero, or the zero point for integers; nullopt if it is not known.
std::optional<double> zero_of(const Node& n, PassContext& c) {
  if (!is_quantized(n) || n.input(2) == nullptr) return 0.0;
  return n.input(2)->is_constant() ? c.splat(n.input(2)) : std::nullopt;
}

// Whether windows have no gaps. Those with gaps may touch nothing but pads.
bool is_dense(const Node& pool) {
  const auto dilations = pool.attr_ints("dilations").value_or(std::vector<int64_t>{});
  return std::ranges::all_of(dilations, [](int64_t d) { return d == 1; });
}

// The sum of the window's pads and those of Pad.
std::optional<std::vector<int64_t>> joined(const Match& m) {
  const Node& root = m.root();
  PassContext& c = m.context();
  const Node& pad = m.node(padded);
  const auto outer = pads_of(pad, c);
  const auto fill = fill_of(pad, c);
  const auto auto_pad = string_attr(root, "auto_pad");
  if (!outer || !fill || string_attr(pad, "mode") != "constant" || (auto_pad != "NOTSET" && auto_pad != "VALID"))
    return std::nullopt;
  const size_t rank = outer->size() / 2;
  if (rank < 3) return std::nullopt;
  for (size_t i = 0; i < outer->size(); ++i) {
    if ((*outer)[i] < 0 || (i % rank < 2 && (*outer)[i] != 0)) return std::nullopt;
  }
  const bool is_max = root.is("MaxPool");
  // Zeros do not change the maximum of nonnegative values, unless a window holds nothing else.
  const bool below_all =
      is_max && ((std::isinf(*fill) && *fill < 0) || (*fill == 0 && int_attr(root, "ceil_mode").value_or(0) == 0 &&
                                                      is_dense(root) && is_nonnegative(c, pad.input(0))));
  if (is_max ? !below_all : fill != zero_of(root, c)) return m.refuse("the window pads with another value"), std::nullopt;
  std::vector<int64_t> pads(2 * (rank - 2), 0);
  if (auto_pad == "NOTSET" && root.attr("pads") != nullptr) {
    const auto own = ints_attr(root, "pads");
    if (!own || own->size() != pads.size()) return std::nullopt;
    pads = *own;
  }
  if (root.is("AveragePool")) {
    const bool bare = std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
    if ((!bare && int_attr(root, "count_include_pad") != 1) || int_attr(root, "ceil_mode").value_or(0) != 0)
      return m.refuse("the average does not count padded elements"), std::nullopt;
  }
  for (size_t i = 0; i < rank - 2; ++i) {
    pads[i] += (*outer)[2 + i];
    pads[rank - 2 + i] += (*outer)[rank + 2 + i];
  }
  if (root.is("AveragePool") && counts_wrongly(root, pads))
    return m.refuse("onnxruntime 1.23 averages wrongly where ends are padded"), std::nullopt;
  if (!root.is("Conv") && !is_quantized(root)) {
    const auto kernel = ints_attr(root, "kernel_shape");
    if (!kernel || kernel->size() != rank - 2) return std::nullopt;
    for (size_t i = 0; i < pads.size(); ++i) {
      if (pads[i] >= (*kernel)[i % (rank - 2)]) return m.refuse("a pool pads less than its window"), std::nullopt;
    }
    // The second result of MaxPool is positions in its operand, which would change.
    for (size_t i = 1; i < root.num_results(); ++i) {
      if (root.result(i)->has_uses()) return std::nullopt;
    }
  }
  return pads;
}

Value* merge(Rewriter& b, const Match& m) {
  const Node& root = m.root();
  AttrInit attrs = attrs_of(root, {"pads", "auto_pad", "count_include_pad"});
  attrs.push_back(attr("pads", *joined(m)));
  if (root.is("AveragePool")) attrs.push_back(attr("count_include_pad", 1));
  std::vector<Value*> operands = operands_of(root);
  operands[0] = m[x];
  return b.op(root.op().name, operands, attrs);
}

}  // namespace

Pass fuse_pad() {
  const Pattern in = sole(Pad(x, rest).as(padded));
  return Rule{
      .numerics = Numerics::kRounds,
      .match = any_of(Conv(in, rest), ConvInteger(in, rest), QLinearConv(in, rest), MaxPool(in), AveragePool(in)),
      .when = [](const Match& m) { return joined(m).has_value(); },
      .build = merge,
      .opset = 7,
  };
}

}  // namespace sardonyx::onnx
