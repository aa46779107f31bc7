// LSTM, GRU, RNN: Core ML's lstm, gru and rnn, which go forward over [sequence, batch, features].
//
// A backward direction runs forward over the reversed sequence, and its results are reversed. Two directions
// become one lstm, whose results are concatenated, or two ops gru or rnn, whose results are stacked. The
// order of gates differs: ONNX has i o f c and z r h, Core ML i f o z and r o z.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "lower/onnx_to_mil/control/counted_loop.h"

namespace sardonyx::onnx_to_mil {
namespace {

// The rows of direction `d` of a constant [directions, gates * hidden, ...], with its gates in `order`.
TensorPtr gates(const Tensor& t, size_t d, const std::vector<size_t>& order, int64_t hidden) {
  std::vector<int64_t> shape(t.shape().begin() + 1, t.shape().end());
  const int64_t rows = shape[0];
  shape[0] = hidden * static_cast<int64_t>(order.size());
  std::vector<std::byte> scratch;
  const auto all = t.bytes(scratch);
  const size_t row_bytes = rows == 0 ? 0 : all.size() / static_cast<size_t>(t.shape()[0] * rows);
  std::vector<std::byte> out;
  for (size_t gate : order) {
    const auto begin = (d * static_cast<size_t>(rows) + gate * static_cast<size_t>(hidden)) * row_bytes;
    const auto part = all.subspan(begin, static_cast<size_t>(hidden) * row_bytes);
    out.insert(out.end(), part.begin(), part.end());
  }
  return Tensor::own(t.dtype(), std::move(shape), std::move(out));
}

// Rows [first, last) of a matrix.
TensorPtr part(const Tensor& t, int64_t first, int64_t last) {
  std::vector<std::byte> scratch;
  const auto all = t.bytes(scratch);
  const size_t row = t.shape()[0] == 0 ? 0 : all.size() / static_cast<size_t>(t.shape()[0]);
  const auto own = all.subspan(static_cast<size_t>(first) * row, static_cast<size_t>(last - first) * row);
  std::vector<int64_t> shape(t.shape().begin(), t.shape().end());
  shape[0] = last - first;
  return Tensor::own(t.dtype(), std::move(shape), {own.begin(), own.end()});
}

TensorPtr sum(const Tensor& a, const Tensor& c) {
  std::vector<std::byte> out(a.byte_size());
  for (int64_t i = 0; i < a.size(); ++i) encode_element(a.dtype(), out.data(), i, a.as_double(i) + c.as_double(i));
  return Tensor::own(a.dtype(), {a.shape().begin(), a.shape().end()}, std::move(out));
}

struct Weights {
  TensorPtr input, hidden, bias, hidden_bias, peephole;  // null: none
};

// The operands that all three operators share: X, W, R, B, sequence_lens, initial_h.
class Recurrent {
 public:
  Recurrent(Lowering& ctx, std::string_view op, std::vector<size_t> order) : ctx_(ctx), b_(ctx.b), order_(std::move(order)) {
    x_ = ctx.in(0);
    if (!ctx.takes(op, x_->dtype())) ctx.unsupported(fmt::format("Core ML's {} takes no {}", op, to_string(x_->dtype())));
    if (ctx.int_attr("layout", 0) != 0) {
      by_batch_ = true;
      x_ = ctx.transpose(x_, std::vector<int64_t>{1, 0, 2});
    }
    for (size_t i : {1, 2, 3}) {
      if (ctx.has(i) && !ctx.in(i)->is_constant()) ctx.unsupported("weights that are computed, and Core ML wants constants");
    }
    w_ = ctx.in(1)->constant();
    r_ = ctx.in(2)->constant();
    if (ctx.has(3)) bias_ = ctx.in(3)->constant();
    hidden_ = r_->shape()[2];
    const std::string direction = ctx.string_attr("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    reversed_ = direction == "reverse";
    if (ctx.has(4) && !is_whole(4)) ctx.unsupported("sequences of several lengths in one batch");
    if (ctx.has(2) && w_->shape()[0] != static_cast<int64_t>(directions_))
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("weights of {} directions, where '{}' has {}", w_->shape()[0], direction, directions_));
  }

  size_t directions() const { return directions_; }
  int64_t hidden() const { return hidden_; }

  // The weights of direction d. `apart`: keeps the biases of input and hidden state separate.
  Weights weights(size_t d, bool apart) const {
    Weights w{gates(*w_, d, order_, hidden_), gates(*r_, d, order_, hidden_), nullptr, nullptr, nullptr};
    if (bias_ == nullptr) return w;
    std::vector<size_t> second;
    for (size_t gate : order_) second.push_back(gate + order_.size());
    w.bias = gates(*bias_, d, order_, hidden_);
    w.hidden_bias = gates(*bias_, d, second, hidden_);
    if (!apart) w.bias = sum(*w.bias, *w.hidden_bias);
    return w;
  }

  Value* x() const { return x_; }

  // The sequence in the order of direction d.
  Value* sequence(size_t d) { return goes_back(d) ? b_.reverse(x_, {.axes = {0}}) : x_; }

  // The initial state of direction d from operand i: [batch, hidden].
  Value* initial(size_t i, size_t d) {
    if (!ctx_.has(i)) {
      const Dim batch = x_->type()->dim(1);
      if (batch.is_int()) return b_.full(x_->dtype(), {batch.value(), hidden_}, 0);
      std::vector<Value*> sizes{ctx_.size_of(x_, 1)};
      sizes.push_back(b_.i32s(std::vector<int64_t>{hidden_}));
      const TensorPtr zero = Tensor::full(x_->dtype(), {}, 0);
      return b_.fill(ctx_.join(sizes), {.value = zero});
    }
    Value* h = ctx_.in(i);
    if (by_batch_) h = ctx_.transpose(h, std::vector<int64_t>{1, 0, 2});
    if (directions_ == 1) return ctx_.squeeze(h, std::vector<int64_t>{0});
    const auto at = as_int(d);
    h = b_.slice_by_index(h, {at, 0, 0}, {at + 1, 0, 0}, {.end_mask = {false, true, true}});
    return ctx_.squeeze(h, std::vector<int64_t>{0});
  }

  // The initial states of both directions from operand i, concatenated: [batch, 2 * hidden].
  Value* initial_of_both(size_t i) {
    const Dim batch = x_->type()->dim(1), both = Dim::of(2 * hidden_);
    if (!ctx_.has(i)) {
      if (batch.is_int()) return b_.full(x_->dtype(), {batch.value(), 2 * hidden_}, 0);
      std::vector<Value*> sizes{ctx_.size_of(x_, 1)};
      sizes.push_back(b_.i32s(std::vector<int64_t>{2 * hidden_}));
      return b_.fill(ctx_.join(sizes), {.value = Tensor::full(x_->dtype(), {}, 0)});
    }
    Value* h = ctx_.in(i);  // [directions, batch, hidden], or [batch, directions, hidden]
    if (!by_batch_) h = swapped(h, 0, std::vector<Dim>{batch, Dim::of(2), Dim::of(hidden_)});
    return ctx_.reshape(h, std::vector<Dim>{batch, both});
  }

  // Y from [sequence, batch, 2 * hidden].
  Value* all_steps_of_both(Value* y) {
    const Dim sequence = x_->type()->dim(0), batch = x_->type()->dim(1), two = Dim::of(2), n = Dim::of(hidden_);
    if (by_batch_)
      return ctx_.reshape(ctx_.transpose(y, std::vector<int64_t>{1, 0, 2}), std::vector<Dim>{batch, sequence, two, n});
    y = ctx_.reshape(y, std::vector<Dim>{sequence, batch, two, n});
    return swapped(y, 1, std::vector<Dim>{sequence, two, batch, n});
  }

  // Y_h or Y_c from [batch, 2 * hidden].
  Value* last_of_both(Value* h) {
    const Dim batch = x_->type()->dim(1), two = Dim::of(2), n = Dim::of(hidden_);
    h = ctx_.reshape(h, std::vector<Dim>{batch, two, n});
    return by_batch_ ? h : swapped(h, 0, std::vector<Dim>{two, batch, n});
  }

  // ONNX's Y from the outputs of each direction, [sequence, batch, hidden].
  Value* all_steps(std::vector<Value*> steps) {
    for (size_t d = 0; d < steps.size(); ++d) {
      if (goes_back(d)) steps[d] = b_.reverse(steps[d], {.axes = {0}});
    }
    // layout 0: [sequence, directions, batch, hidden]; 1: [batch, sequence, directions, hidden]
    if (steps.size() == 1) {
      Value* y = by_batch_ ? ctx_.transpose(steps[0], std::vector<int64_t>{1, 0, 2}) : steps[0];
      return ctx_.unsqueeze(y, std::vector<int64_t>{by_batch_ ? 2 : 1});
    }
    if (by_batch_) {
      for (Value*& v : steps) v = ctx_.transpose(v, std::vector<int64_t>{1, 0, 2});
    }
    return b_.stack(steps, {.axis = by_batch_ ? 2 : 1});
  }

  // Y_h and Y_c from the last states, [batch, hidden].
  Value* last(std::vector<Value*> states) {
    const int64_t axis = by_batch_ ? 1 : 0;
    return states.size() == 1 ? ctx_.unsqueeze(states[0], std::vector<int64_t>{axis}) : b_.stack(states, {.axis = axis});
  }

  // The node's results: Y, then Y_h and Y_c from the last states. Null for results without users.
  std::vector<Value*> results(const std::vector<Value*>& steps, const std::vector<std::vector<Value*>>& states) {
    std::vector<Value*> all{ctx_.is_used(0) ? all_steps(steps) : nullptr};
    for (const auto& s : states) all.push_back(ctx_.is_used(all.size()) ? last(s) : nullptr);
    all.resize(ctx_.node.num_results());
    return all;
  }

  // Activation k of direction d as Core ML names it.
  std::string activation(size_t d, size_t k, size_t count, const std::string& otherwise) {
    const Attr* a = ctx_.node.attr("activations");
    const auto* names = a != nullptr ? a->get<Attr::Strings>() : nullptr;
    std::string name = names != nullptr && names->size() > d * count + k ? (*names)[d * count + k] : otherwise;
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "relu" || name == "sigmoid" || name == "tanh") return name;
    if (name == "affine") ctx_.unsupported("the activation Affine");
    ctx_.unsupported(fmt::format("the activation {}", name));
  }

 private:
  // Swaps `axis` and the next axis; `dims` is the shape of the result. A reshape suffices if one of them has
  // size 1.
  Value* swapped(Value* v, size_t axis, const std::vector<Dim>& dims) {
    if (dims[axis].is(1) || dims[axis + 1].is(1)) return ctx_.reshape(v, dims);
    std::vector<int64_t> perm = iota(dims.size(), 0);
    std::swap(perm[axis], perm[axis + 1]);
    return ctx_.transpose(v, perm);
  }

  bool goes_back(size_t d) const { return reversed_ || d == 1; }

  // Whether all sequences have the length of X.
  bool is_whole(size_t i) const {
    const auto lengths = ctx_.ints(i);
    const Dim whole = x_->type()->dim(0);
    return lengths && whole.is_int() && std::ranges::all_of(*lengths, [&](int64_t n) { return n == whole.value(); });
  }

  Lowering& ctx_;
  MilBuilder& b_;
  Value* x_ = nullptr;
  TensorPtr w_, r_, bias_;
  std::vector<size_t> order_;  // ONNX's index of each of Core ML's gates
  int64_t hidden_ = 0;
  size_t directions_ = 1;
  bool reversed_ = false, by_batch_ = false;
};

}  // namespace

namespace {

constexpr std::string_view kLstmGates[] = {"sigmoid", "tanh", "tanh"};

// Both directions in one op, which requires equal activations.
std::vector<Value*> lstm_of_both(Lowering& ctx, Recurrent& r, const Tensor* peepholes) {
  Weights w[] = {r.weights(0, false), r.weights(1, false)};
  for (size_t d = 0; d < 2 && peepholes != nullptr; ++d) w[d].peephole = gates(*peepholes, d, {0, 2, 1}, r.hidden());
  Value* h = r.initial_of_both(5);
  Value* c = r.initial_of_both(6);
  Node& n = ctx.b.lstm(r.x(), h, c,
                       {.activation = r.activation(0, 2, 3, "tanh"),
                        .bias = w[0].bias,
                        .bias_back = w[1].bias,
                        .cell_activation = r.activation(0, 1, 3, "tanh"),
                        .direction = "bidirectional",
                        .output_sequence = true,
                        .peephole = w[0].peephole,
                        .peephole_back = w[1].peephole,
                        .recurrent_activation = r.activation(0, 0, 3, "sigmoid"),
                        .weight_hh = w[0].hidden,
                        .weight_hh_back = w[1].hidden,
                        .weight_ih = w[0].input,
                        .weight_ih_back = w[1].input});
  std::vector<Value*> results{ctx.is_used(0) ? r.all_steps_of_both(n.result(0)) : nullptr};
  for (size_t i : {1, 2}) results.push_back(ctx.is_used(i) ? r.last_of_both(n.result(i)) : nullptr);
  results.resize(ctx.node.num_results());
  return results;
}

}  // namespace

std::vector<Value*> lower_LSTM(Lowering& ctx) {
  Recurrent r(ctx, "lstm", {0, 2, 1, 3});
  if (ctx.int_attr("input_forget", 0) != 0) ctx.unsupported("input and forget gates in one");
  const TensorPtr peepholes = ctx.has(7) ? ctx.in(7)->constant() : nullptr;
  if (ctx.has(7) && peepholes == nullptr) ctx.unsupported("peepholes that are computed");
  if (ctx.node.attr("clip") != nullptr) ctx.unsupported("gates that are clipped");
  bool same = r.directions() == 2;
  for (size_t k = 0; same && k < std::size(kLstmGates); ++k)
    same = r.activation(0, k, 3, std::string(kLstmGates[k])) == r.activation(1, k, 3, std::string(kLstmGates[k]));
  if (same) return lstm_of_both(ctx, r, peepholes.get());
  std::vector<Value*> steps, states, cells;
  for (size_t d = 0; d < r.directions(); ++d) {
    Weights w = r.weights(d, false);
    if (peepholes != nullptr) w.peephole = gates(*peepholes, d, {0, 2, 1}, r.hidden());
    Value* x = r.sequence(d);
    Value* h = r.initial(5, d);
    Value* c = r.initial(6, d);
    mil_params::lstm p{.activation = r.activation(d, 2, 3, "tanh"),
                       .bias = w.bias,
                       .cell_activation = r.activation(d, 1, 3, "tanh"),
                       .direction = "forward",
                       .output_sequence = true,
                       .peephole = w.peephole,
                       .recurrent_activation = r.activation(d, 0, 3, "sigmoid"),
                       .weight_hh = w.hidden,
                       .weight_ih = w.input};
    Node& n = ctx.b.lstm(x, h, c, p);
    steps.push_back(n.result(0));
    states.push_back(n.result(1));
    cells.push_back(n.result(2));
  }
  return r.results(steps, {states, cells});
}

namespace {

Value* activated(MilBuilder& b, const std::string& name, Value* x) {
  return name == "relu" ? b.relu(x) : name == "sigmoid" ? b.sigmoid(x) : b.tanh(x);
}

// One direction of a GRU, step by step. Returns all states and the last one.
//
//   z = f(x Wz + h Rz), r = f(x Wr + h Rr), h' = (1 - z) n + z h
//   n = g(x Wn + (r h) Rn)                        linear_before_reset=0
//   n = g(x Wn + r (h Rn + b))                    linear_before_reset=1, as in PyTorch
std::vector<Value*> gru_by_steps(Lowering& ctx, Recurrent& r, size_t d, bool resets_after) {
  const int64_t n = r.hidden();
  const Dim length = r.x()->type()->dim(0);
  const Weights w = r.weights(d, resets_after);
  const std::string f = r.activation(d, 0, 2, "sigmoid"), g = r.activation(d, 1, 2, "tanh");
  const auto linear = [](MilBuilder& b, Value* v, const TensorPtr& weight, const TensorPtr& bias) {
    return bias != nullptr ? b.linear(v, {.bias = bias, .weight = weight}) : b.linear(v, {.weight = weight});
  };
  const auto two = [&](MilBuilder& b, Value* v, int64_t first) -> Node& {
    return b.split(v, 2, {.axis = 1, .split_sizes = {first, n}});
  };
  Value* from_x = linear(ctx.b, r.sequence(d), w.input, w.bias);  // of all steps at once
  Counted loop;
  loop.vars.push_back(r.initial(5, d));
  loop.stacked = 1;
  loop.rows.push_back(loop.vars[0]->type());
  loop.step = [&](MilBuilder& b, Value* i, std::span<Value* const> vars) -> std::vector<Value*> {
    Value* h = vars[0];
    Node& of_x = two(b, b.gather(from_x, i, {.axis = 0}), 2 * n);
    const auto gates = [&](Value* of_h) -> Node& { return two(b, activated(b, f, b.add(of_x.result(0), of_h)), n); };
    Value *z = nullptr, *of_h = nullptr;
    if (resets_after) {
      Node& all = two(b, linear(b, h, w.hidden, w.hidden_bias), 2 * n);
      Node& zr = gates(all.result(0));
      z = zr.result(0);
      of_h = b.mul(zr.result(1), all.result(1));
    } else {
      Node& zr = gates(linear(b, h, part(*w.hidden, 0, 2 * n), nullptr));
      z = zr.result(0);
      of_h = linear(b, b.mul(zr.result(1), h), part(*w.hidden, 2 * n, 3 * n), nullptr);
    }
    Value* fresh = activated(b, g, b.add(of_x.result(1), of_h));
    Value* difference = b.sub(h, fresh);
    Value* next = b.add(fresh, b.mul(z, difference));
    return {next, next};
  };
  if (length.is(1)) {
    Value* h = loop.step(ctx.b, ctx.b.i32(0), loop.vars)[0];
    return {ctx.unsqueeze(h, std::vector<int64_t>{0}), h};
  }
  loop.most =
      length.is_int() ? ctx.b.i32(static_cast<int32_t>(length.value())) : ctx.b.squeeze(ctx.size_of(r.x(), 0), {.axes = {0}});
  const std::vector<Value*> found = run(ctx, loop);
  return {found[1], found[0]};
}

}  // namespace

// Core ML's gru resets the state before the product. `reset_after` (iOS 18) is not used, since coremltools
// lists its own comparison with PyTorch as failing; nor is gru for batches of more than one sequence, for
// which coremltools reports zeros.
std::vector<Value*> lower_GRU(Lowering& ctx) {
  if (ctx.node.attr("clip") != nullptr) ctx.unsupported("gates that are clipped");
  const bool resets_after = ctx.int_attr("linear_before_reset", 0) != 0;
  const bool one_sequence = ctx.in_dims(0)[ctx.int_attr("layout", 0) != 0 ? 0 : 1].is(1);
  const bool has_op = one_sequence && !resets_after;
  Recurrent r(ctx, "gru", has_op ? std::vector<size_t>{1, 2, 0} : std::vector<size_t>{0, 1, 2});
  std::vector<Value*> steps, states;
  for (size_t d = 0; d < r.directions(); ++d) {
    if (!has_op) {
      const std::vector<Value*> found = gru_by_steps(ctx, r, d, resets_after);
      steps.push_back(found[0]);
      states.push_back(found[1]);
      continue;
    }
    const Weights w = r.weights(d, false);
    Value* x = r.sequence(d);
    Value* h = r.initial(5, d);
    mil_params::gru p{.activation = r.activation(d, 1, 2, "tanh"),
                      .bias = w.bias,
                      .direction = "forward",
                      .output_sequence = true,
                      .recurrent_activation = r.activation(d, 0, 2, "sigmoid"),
                      .weight_hh = w.hidden,
                      .weight_ih = w.input};
    Node& n = ctx.b.gru(x, h, p);
    steps.push_back(n.result(0));
    states.push_back(n.result(1));
  }
  return r.results(steps, {states});
}

std::vector<Value*> lower_RNN(Lowering& ctx) {
  Recurrent r(ctx, "rnn", {0});
  if (ctx.node.attr("clip") != nullptr) ctx.unsupported("gates that are clipped");
  std::vector<Value*> steps, states;
  for (size_t d = 0; d < r.directions(); ++d) {
    const Weights w = r.weights(d, false);
    Value* x = r.sequence(d);
    Value* h = r.initial(5, d);
    mil_params::rnn p{.activation = r.activation(d, 0, 1, "tanh"),
                      .bias = w.bias,
                      .direction = "forward",
                      .output_sequence = true,
                      .weight_hh = w.hidden,
                      .weight_ih = w.input};
    Node& n = ctx.b.rnn(x, h, p);
    steps.push_back(n.result(0));
    states.push_back(n.result(1));
  }
  return r.results(steps, {states});
}

}  // namespace sardonyx::onnx_to_mil
