//   one number ── Expand ── Unsqueeze ── Sub(x, ·)                =>   Sub(x, number)
//   zeros ── Tile, Slice ... ── LSTM, GRU, RNN as initial state   =>   LSTM, GRU, RNN without it
//   zeros ── Expand ... ── Conv, ConvTranspose as bias            =>   Conv, ConvTranspose without it
//
// A repeated number stays the same number however it is expanded or reshaped. An elementwise user that gets
// its shape from the other operand can use it as a scalar. Flax's RMSNorm subtracts such a mean, made of
// zeros.
// An absent initial state is zero and does not depend on the batch size. PyTorch's newer exporter gives each
// convolution a bias of zeros, which would keep a following batch normalization from folding into the
// weights.
// What stops it: a user whose shape comes from the expanded value or is not known.
// Exact: the numbers are the same. Without a bias, a sum of -0 stays -0 (rounds).
#include <algorithm>
#include <cmath>

#include "passes/onnx/fuse/fusion.h"

namespace sardonyx::onnx {
namespace {

using namespace pattern;
constexpr Var x{"x"}, v{"v"};
constexpr int kSteps = 8;

// The constant that v repeats; null if there is none or v is the constant itself.
Value* number_behind(Value* v, PassContext& c) {
  for (int i = 0; i < kSteps; ++i) {
    if (v->is_constant()) return i > 0 && c.splat(v) ? v : nullptr;
    const Node* n = v->def();
    if (n == nullptr || n->unchecked() || !(is_view(*n) || n->is("Expand"))) return nullptr;
    v = n->input(0);
  }
  return nullptr;
}

// The operand of an elementwise op that repeats a number while the other one has the shape of the result.
std::optional<size_t> spared_operand(const Node& n, PassContext& c) {
  if (n.num_inputs() != 2) return std::nullopt;
  for (size_t i : {1, 0}) {
    if (number_behind(n.input(i), c) != nullptr && same_shape(n.input(1 - i), n.result())) return i;
  }
  return std::nullopt;
}

// Whether v is zero everywhere. Not -0, which a cell may return as it is.
bool is_zeros(const Value* v, PassContext& c) {
  for (int i = 0; i < kSteps; ++i) {
    if (v->is_constant()) {
      const auto number = c.splat(v);
      return number == 0 && !std::signbit(*number);
    }
    const Node* n = v->def();
    if (n == nullptr || n->unchecked()) return false;
    if (n->is("ConstantOfShape")) {
      const TensorPtr number = repeated_number(*n);
      return number != nullptr && number->as_double(0) == 0 && !std::signbit(number->as_double(0));
    }
    if (!is_view(*n) && !n->is("Expand") && !n->is("Tile") && !n->is("Slice") && !n->is("Gather") && !n->is("Transpose"))
      return false;
    v = n->input(0);
  }
  return false;
}

constexpr size_t kStates[] = {5, 6};  // initial_h, initial_c

bool is_needless(const Node& n, size_t i, PassContext& c) { return n.input(i) != nullptr && is_zeros(n.input(i), c); }

std::vector<Value*> without_states(Rewriter& b, const Match& m) {
  const Node& n = m.root();
  std::vector<Value*> operands = operands_of(n);
  for (size_t i : kStates) {
    if (is_needless(n, i, m.context())) operands[i] = nullptr;
  }
  while (operands.back() == nullptr) operands.pop_back();
  return results_of(b.node(n.op().name, operands, n.num_results(), attrs_of(n)));
}

constexpr size_t kBias = 2;

}  // namespace

Pass read_splats_directly() {
  Rule numbers{
      .name = "numbers",
      .match = any_of(Add(rest), Mul(rest), Sub(rest), Div(rest)),
      .when = [](const Match& m) { return spared_operand(m.root(), m.context()).has_value(); },
      .build =
          [](Rewriter& b, const Match& m) {
            Value* spared = m.root().input(*spared_operand(m.root(), m.context()));
            Value* number = number_behind(spared, m.context());
            std::vector<std::byte> element(static_cast<size_t>(bit_width(number->dtype())) / 8);
            if (element.empty()) return static_cast<Value*>(nullptr);
            if (number->constant()->rank() > 0) {
              std::vector<std::byte> scratch;
              const auto bytes = number->constant()->bytes(scratch);
              std::copy_n(bytes.begin(), element.size(), element.begin());
              number = b.constant(Tensor::own(number->dtype(), {}, std::move(element)));
            }
            return b.like(m.root(), *spared, *number);
          },
  };
  Rule states{
      .name = "states",
      .match = any_of(LSTM(rest), GRU(rest), RNN(rest)),
      .when =
          [](const Match& m) {
            return std::any_of(std::begin(kStates), std::end(kStates),
                               [&](size_t i) { return is_needless(m.root(), i, m.context()); });
          },
      .build_all = without_states,
  };
  Rule biases{
      .name = "biases",
      .numerics = Numerics::kRounds,
      .match = any_of(Conv(x, v, rest), ConvTranspose(x, v, rest)),
      .when = [](const Match& m) { return is_needless(m.root(), kBias, m.context()); },
      .build = [](Rewriter& b, const Match& m) { return b.op(m.root().op().name, {m[x], m[v]}, attrs_of(m.root())); },
  };
  return std::vector<Rule>{numbers, states, biases};
}

}  // namespace sardonyx::onnx
