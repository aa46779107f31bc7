// MIL's reductions, products, normalizations, convolutions, pooling and recurrent layers.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

using Ints = std::vector<int64_t>;

void reduce(Mil m, std::string_view op) {
  const Array& x = m.in("x");
  const bool keep = m.flag("keep_dims");
  AttrInit attrs{attr("keepdims", keep ? 1 : 0)};
  if (!m.has("axes")) return m.set(m.onnx(op, {x}, std::move(attrs)));
  const Ints axes = m.ints("axes");
  if (axes.empty()) attrs.push_back(attr("noop_with_empty_axes", 1));
  m.set(m.onnx(op, {x, m.i64s(axes)}, std::move(attrs)));
}

void reduce_arg(Mil m, std::string_view op) {
  const Array y = m.onnx(op, {m.in("x")}, {attr("axis", m.integer("axis", -1)), attr("keepdims", m.flag("keep_dims") ? 1 : 0)});
  m.set(m.cast(y, m.c.version() < 8 ? DType::kI32 : m.dtype("output_dtype")));
}

}  // namespace

void reduce_l1_norm(Mil m) { reduce(m, "ReduceL1"); }
void reduce_l2_norm(Mil m) { reduce(m, "ReduceL2"); }
void reduce_log_sum(Mil m) { reduce(m, "ReduceLogSum"); }
void reduce_log_sum_exp(Mil m) { reduce(m, "ReduceLogSumExp"); }
void reduce_max(Mil m) { reduce(m, "ReduceMax"); }
void reduce_mean(Mil m) { reduce(m, "ReduceMean"); }
void reduce_min(Mil m) { reduce(m, "ReduceMin"); }
void reduce_prod(Mil m) { reduce(m, "ReduceProd"); }
void reduce_sum(Mil m) { reduce(m, "ReduceSum"); }
void reduce_sum_square(Mil m) { reduce(m, "ReduceSumSquare"); }
void reduce_argmax(Mil m) { reduce_arg(m, "ArgMax"); }
void reduce_argmin(Mil m) { reduce_arg(m, "ArgMin"); }

// ---------------------------------------------------------------------------------------------------------------------
// Products

namespace {

// Exchanges the last two axes.
Array swapped(const Array& x) {
  if (x.rank() < 2) return x;  // the product reports the mismatch
  Ints perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return x.transposed(perm);
}

}  // namespace

void matmul(Mil m) {
  Array x = m.in("x"), y = m.in("y");
  if (m.flag("transpose_x")) x = swapped(x);
  if (m.flag("transpose_y")) y = swapped(y);
  m.set(m.onnx("MatMul", {m.c.dense(x), m.c.dense(y)}));
}

void linear(Mil m) {
  const Array y = m.onnx("MatMul", {m.in("x"), m.c.dense(swapped(m.in("weight")))});
  m.set(m.has("bias") ? m.onnx("Add", {y, m.in("bias")}) : y);
}

void einsum(Mil m) { m.set(m.onnx("Einsum", m.list("values"), {attr("equation", m.in("equation").string_at(0))})); }

// softmax(query key^T / sqrt(d) + mask) value. A boolean mask keeps the positions where it is true.
void scaled_dot_product_attention(Mil m) {
  const Array &query = m.in("query"), &key = m.in("key");
  m.c.require(query.rank() >= 2 && key.rank() >= 2, "query and key are matrices or batches of matrices");
  const Array scale = m.like(query, 1 / std::sqrt(static_cast<double>(query.dim(query.rank() - 1))));
  Array scores = m.onnx("MatMul", {m.onnx("Mul", {query, scale}), m.c.dense(swapped(key))});
  if (m.has("attn_mask")) {
    const Array& mask = m.in("attn_mask");
    scores = mask.dtype() == DType::kBool
                 ? m.onnx("Where", {mask, scores, m.like(scores, -std::numeric_limits<double>::infinity())})
                 : m.onnx("Add", {scores, mask});
  }
  m.set(m.onnx("MatMul", {m.onnx("Softmax", {scores}, {attr("axis", -1)}), m.in("value")}));
}

// ---------------------------------------------------------------------------------------------------------------------
// Windows

namespace {

// strides, dilations and pads in ONNX's form.
AttrInit window(const Mil& m, size_t spatial, bool dilations) {
  AttrInit attrs{attr("strides", m.ints("strides", Ints(spatial, 1)))};
  if (dilations) attrs.push_back(attr("dilations", m.ints("dilations", Ints(spatial, 1))));
  const std::string type = m.text("pad_type", "valid");
  if (type == "custom") {
    const Ints pad = m.ints("pad", Ints(2 * spatial, 0));  // begin and end of each axis
    Ints pads(2 * spatial, 0);
    for (size_t i = 0; i < spatial; ++i) {
      pads[i] = pad.at(2 * i);
      pads[spatial + i] = pad.at(2 * i + 1);
    }
    attrs.push_back(attr("pads", pads));
  } else {
    attrs.push_back(attr("auto_pad", type == "same" ? "SAME_UPPER" : type == "same_lower" ? "SAME_LOWER" : "VALID"));
  }
  return attrs;
}

std::vector<Array> operands(const Mil& m) {
  std::vector<Array> in{m.in("x"), m.in("weight")};
  if (m.has("bias")) in.push_back(m.in("bias"));
  return in;
}

AttrInit pooling(const Mil& m) {
  const Ints kernel = m.ints("kernel_sizes");
  AttrInit attrs = window(m, kernel.size(), false);
  const Ints sizes(m.in("x").shape().begin() + std::min<std::ptrdiff_t>(2, std::ssize(m.in("x").shape())),
                   m.in("x").shape().end());
  if (m.flag("ceil_mode") && m.text("pad_type") == "custom" && sizes.size() == kernel.size()) {
    // No window begins in the end padding, even where nothing had to be rounded up.
    const Ints strides = m.ints("strides", Ints(kernel.size(), 1));
    Ints pads = m.ints("pad", Ints(2 * kernel.size(), 0));
    Ints all(pads.size(), 0);
    for (size_t i = 0; i < kernel.size() && strides.size() == kernel.size() && pads.size() == 2 * kernel.size(); ++i) {
      const int64_t room = sizes[i] + pads[2 * i] + pads[2 * i + 1] - kernel[i];
      if (strides[i] > 0 && room >= 0 && room % strides[i] == 0 && room >= sizes[i] + pads[2 * i])
        pads[2 * i + 1] -= strides[i];
      all[i] = pads[2 * i];
      all[kernel.size() + i] = pads[2 * i + 1];
    }
    for (NamedAttr& a : attrs) {
      if (a.name == "pads") a.value = Attr(all);
    }
  }
  attrs.push_back(attr("kernel_shape", kernel));
  attrs.push_back(attr("ceil_mode", m.flag("ceil_mode") ? 1 : 0));
  return attrs;
}

}  // namespace

void conv(Mil m) {
  m.c.require(m.in("x").rank() > 2, "x needs spatial axes");
  AttrInit attrs = window(m, m.in("x").rank() - 2, true);
  attrs.push_back(attr("group", m.integer("groups", 1)));
  m.set(m.onnx("Conv", operands(m), std::move(attrs)));
}

void conv_transpose(Mil m) {
  m.c.require(m.in("x").rank() > 2, "x needs spatial axes");
  const size_t spatial = m.in("x").rank() - 2;
  AttrInit attrs = window(m, spatial, true);
  attrs.push_back(attr("group", m.integer("groups", 1)));
  if (m.has("output_shape")) {
    const Ints shape = m.ints("output_shape");
    m.c.require(shape.size() >= spatial && m.in("weight").rank() == spatial + 2, "output_shape is too short");
    const Ints sizes(shape.end() - static_cast<std::ptrdiff_t>(spatial), shape.end());
    const std::string type = m.text("pad_type", "valid");
    if (type.starts_with("same")) {
      attrs.push_back(attr("output_shape", sizes));
    } else {  // the crop at the start stays; the sizes determine the end padding
      const Ints ones(spatial, 1), pad = type == "custom" ? m.ints("pad", Ints(2 * spatial, 0)) : Ints(2 * spatial, 0);
      const Ints strides = m.ints("strides", ones), dilations = m.ints("dilations", ones);
      m.c.require(pad.size() == 2 * spatial && strides.size() == spatial && dilations.size() == spatial,
                  "pads, strides and dilations need a number for each axis");
      Ints pads(2 * spatial, 0), more(spatial, 0);
      for (size_t i = 0; i < spatial; ++i) {
        const int64_t whole = (m.in("x").dim(i + 2) - 1) * strides[i] + (m.in("weight").dim(i + 2) - 1) * dilations[i] + 1;
        const int64_t behind = whole - pad[2 * i] - sizes[i];
        pads[i] = pad[2 * i];
        pads[spatial + i] = std::max<int64_t>(behind, 0);
        more[i] = std::max<int64_t>(-behind, 0);
      }
      std::erase_if(attrs, [](const NamedAttr& a) { return a.name == "pads" || a.name == "auto_pad"; });
      attrs.push_back(attr("pads", pads));
      attrs.push_back(attr("output_padding", more));
    }
  }
  m.set(m.onnx("ConvTranspose", operands(m), std::move(attrs)));
}

void max_pool(Mil m) { m.set(m.onnx("MaxPool", {m.in("x")}, pooling(m))); }

void avg_pool(Mil m) {
  AttrInit attrs = pooling(m);
  attrs.push_back(attr("count_include_pad", m.flag("exclude_padding_from_average") ? 0 : 1));
  m.set(m.onnx("AveragePool", {m.in("x")}, std::move(attrs)));
}

void l2_pool(Mil m) {
  AttrInit attrs = pooling(m);
  attrs.push_back(attr("p", 2));
  m.set(m.onnx("LpPool", {m.in("x")}, std::move(attrs)));
}

namespace {

void upsample(Mil m, std::string_view mode, std::string_view coordinates) {
  const Array& x = m.in("x");
  m.c.require(x.rank() >= 2, "x needs spatial axes");
  // The sizes of the result decide: if a factor is not whole, samples are spaced by the ratio of the sizes.
  Ints sizes(x.shape());
  const auto scale = [&](size_t axis, std::string_view slot) {
    sizes[axis] = static_cast<int64_t>(std::floor(m.number(slot, 1) * static_cast<double>(sizes[axis])));
  };
  scale(x.rank() - 2, "scale_factor_height");
  scale(x.rank() - 1, "scale_factor_width");
  m.set(m.onnx("Resize", {x, Array(), Array(), m.i64s(sizes)},
               {attr("mode", mode), attr("coordinate_transformation_mode", coordinates), attr("nearest_mode", "floor")}));
}

}  // namespace

void upsample_nearest_neighbor(Mil m) { upsample(m, "nearest", "asymmetric"); }
void upsample_bilinear(Mil m) { upsample(m, "linear", m.flag("align_corners", true) ? "align_corners" : "half_pixel"); }

// ---------------------------------------------------------------------------------------------------------------------
// Normalizations

namespace {

Array or_full(const Mil& m, std::string_view slot, int64_t size, double v) {
  return m.has(slot) ? m.in(slot) : m.c.dense(m.c.full(m.in("x").dtype(), {size}, v));
}

}  // namespace

void batch_norm(Mil m) {
  const Array& x = m.in("x");
  m.c.require(x.rank() >= 2, "x needs an axis of channels");
  const int64_t channels = x.dim(1);
  m.set(m.onnx("BatchNormalization",
               {x, or_full(m, "gamma", channels, 1), or_full(m, "beta", channels, 0), m.in("mean"), m.in("variance")},
               {attr("epsilon", m.number("epsilon", 1e-5))}));
}

void instance_norm(Mil m) {
  m.c.require(m.in("x").rank() >= 2, "x needs an axis of channels");
  const int64_t channels = m.in("x").dim(1);
  m.set(m.onnx("InstanceNormalization", {m.in("x"), or_full(m, "gamma", channels, 1), or_full(m, "beta", channels, 0)},
               {attr("epsilon", m.number("epsilon", 1e-5))}));
}

void layer_norm(Mil m) {
  const Array& x = m.in("x");
  Ints all(x.rank());
  std::iota(all.begin(), all.end(), 0);
  std::vector<size_t> axes = m.c.axes(m.ints("axes", all), x.rank());
  std::ranges::sort(axes);
  const bool trailing = !axes.empty() && axes.back() + 1 == x.rank() && axes.back() - axes.front() + 1 == axes.size();
  const double epsilon = m.number("epsilon", 1e-5);
  if (trailing) {
    const Ints shape(x.shape().begin() + static_cast<std::ptrdiff_t>(axes.front()), x.shape().end());
    std::vector<Array> in{x, m.has("gamma") ? m.in("gamma") : m.c.dense(m.c.full(x.dtype(), shape, 1))};
    if (m.has("beta")) in.push_back(m.in("beta"));
    return m.set(
        m.onnx("LayerNormalization", in, {attr("axis", static_cast<int64_t>(axes.front())), attr("epsilon", epsilon)}));
  }
  const Ints list(axes.begin(), axes.end());
  const auto mean = [&](const Array& a) { return m.onnx("ReduceMean", {a, m.i64s(list)}, {attr("keepdims", 1)}); };
  const auto fitted = [&](std::string_view slot) {  // gamma and beta have the sizes of the axes
    Ints shape(x.rank(), 1);
    for (size_t a : axes) shape[a] = x.dim(a);
    return m.reshape(m.in(slot), shape);
  };
  const Array centered = m.onnx("Sub", {x, mean(x)});
  const Array variance = m.onnx("Add", {mean(m.onnx("Mul", {centered, centered})), m.like(x, epsilon)});
  Array y = m.onnx("Div", {centered, m.onnx("Sqrt", {variance})});
  if (m.has("gamma")) y = m.onnx("Mul", {y, fitted("gamma")});
  if (m.has("beta")) y = m.onnx("Add", {y, fitted("beta")});
  m.set(y);
}

// Over the last three axes.
void l2_norm(Mil m) {
  const Array& x = m.in("x");
  const Array sum = m.onnx("ReduceSumSquare", {x, m.i64s({-3, -2, -1})}, {attr("keepdims", 1)});
  m.set(m.onnx("Div", {x, m.onnx("Sqrt", {m.onnx("Add", {sum, m.like(x, m.number("epsilon", 1e-6))})})}));
}

void local_response_norm(Mil m) {
  m.set(m.onnx("LRN", {m.in("x")},
               {attr("size", m.integer("size")), attr("alpha", m.number("alpha", 1e-4)), attr("beta", m.number("beta", 0.75)),
                attr("bias", m.number("k", 1))}));
}

// ---------------------------------------------------------------------------------------------------------------------
// Recurrent layers

namespace {

// Reorders the gates of a weight [gates * hidden, ...] and adds an axis for the direction.
Array gates(const Mil& m, const Array& w, std::initializer_list<int64_t> order) {
  const auto count = static_cast<int64_t>(order.size());
  Ints shape(w.shape());
  m.c.require(!shape.empty() && shape[0] % count == 0, "the first axis of a weight holds the gates");
  shape[0] /= count;
  shape.insert(shape.begin(), count);
  const Array y = m.onnx("Gather", {m.reshape(w, shape), m.i64s(order)}, {attr("axis", 0)});
  Ints out(w.shape());
  out.insert(out.begin(), 1);
  return m.reshape(y, out);
}

std::string activation(const Mil& m, std::string_view slot, std::string_view otherwise) {
  const std::string name = m.text(slot, otherwise);
  if (name == "tanh") return "Tanh";
  if (name == "sigmoid") return "Sigmoid";
  if (name == "relu") return "Relu";
  if (name == "linear") return "Affine";
  m.c.unsupported(fmt::format("the activation {} is not evaluated", name));
}

// Converts [directions, batch, hidden] to [batch, directions * hidden].
Array last(const Mil& m, const Array& h) {
  return m.reshape(m.c.dense(h.transposed(Ints{1, 0, 2})), {h.dim(1), h.dim(0) * h.dim(2)});
}
// The results of each step, or of the last step of each direction. ONNX's y is [time, directions, batch,
// hidden]; MIL's is [time or 1, batch, directions * hidden].
Array sequence(const Mil& m, const Array& y, const Array& h) {
  if (!m.flag("output_sequence")) return m.reshape(last(m, h), {1, h.dim(1), h.dim(0) * h.dim(2)});
  return m.reshape(m.c.dense(y.transposed(Ints{0, 2, 1, 3})), {y.dim(0), y.dim(2), y.dim(1) * y.dim(3)});
}

int64_t hidden_size(const Mil& m) {
  const Array& w = m.in("weight_hh");
  m.c.require(w.rank() == 2, "weight_hh is a matrix");
  return w.dim(1);
}

Array initial(const Mil& m, const Array& h, int64_t directions) {
  m.c.require(h.rank() == 2 && h.dim(1) % directions == 0, "a state is [batch, directions * hidden]");
  const Array split = m.reshape(h, {h.dim(0), directions, h.dim(1) / directions});
  return m.c.dense(split.transposed(Ints{1, 0, 2}));
}

}  // namespace

namespace {

// An activation of a recurrent layer. Core ML documents no parameters for the others.
std::function<double(double)> function(const Mil& m, std::string_view slot, std::string_view otherwise) {
  const std::string name = m.text(slot, otherwise);
  if (name == "tanh") return [](double v) { return std::tanh(v); };
  if (name == "sigmoid") return [](double v) { return 1 / (1 + std::exp(-v)); };
  if (name == "relu") return [](double v) { return v < 0 ? 0 : v; };
  if (name == "linear") return [](double v) { return v; };
  m.c.unsupported(fmt::format("the activation {} is not evaluated", name));
}

}  // namespace

// The weights' gate order is input, forget, output, cell. Peepholes feed the old cell to the input and forget
// gates, and the new cell to the output gate. clip bounds the cell. "reverse" returns its results in the
// order in which it reads x; the second half of "bidirectional" follows the order of the sequence.
void lstm(Mil m) {
  const Array &x = m.in("x"), &h0 = m.in("initial_h"), &c0 = m.in("initial_c");
  const std::string direction = m.text("direction", "forward");
  const auto directions = size_t{direction == "bidirectional" ? 2u : 1u}, n = static_cast<size_t>(hidden_size(m));
  m.c.require(x.rank() == 3, "x is [time, batch, input]");
  const auto steps = static_cast<size_t>(x.dim(0)), batch = static_cast<size_t>(x.dim(1)),
             width = static_cast<size_t>(x.dim(2));
  const Ints state{x.dim(1), static_cast<int64_t>(directions * n)};
  m.c.require(h0.shape() == state && c0.shape() == state, "a state is [batch, directions * hidden]");
  const auto gate = function(m, "recurrent_activation", "sigmoid"), candidate = function(m, "cell_activation", "tanh"),
             last = function(m, "activation", "tanh");
  const double clip = m.has("clip") ? m.number("clip") : std::numeric_limits<double>::infinity();
  const bool all = m.flag("output_sequence");
  const Ints shape{all ? x.dim(0) : 1, x.dim(1), state[1]};
  m.c.run.account->check(product(shape) + product(x.shape()), sizeof(double));
  const std::vector<double> in = load_all<double>(x);
  std::vector<double> h = load_all<double>(h0), cell = load_all<double>(c0), y(static_cast<size_t>(product(shape)));
  for (size_t d = 0; d < directions; ++d) {
    const auto numbers = [&](std::string slot, size_t count, bool required) -> std::vector<double> {
      if (d == 1) slot += "_back";
      if (!required && !m.has(slot)) return std::vector<double>(count, 0);
      m.c.require(m.in(slot).size() == static_cast<int64_t>(count), "the size of a weight does not match x and weight_hh");
      return load_all<double>(m.in(slot));
    };
    const std::vector<double> w = numbers("weight_ih", 4 * n * width, true), r = numbers("weight_hh", 4 * n * n, true),
                              bias = numbers("bias", 4 * n, false), peep = numbers("peephole", 3 * n, false);
    const bool back = d == 1 || direction == "reverse";
    std::vector<double> z(4 * n);
    for (size_t k = 0; k < steps; ++k) {
      const size_t t = back ? steps - 1 - k : k;
      for (size_t b = 0; b < batch; ++b) {
        const double* now = in.data() + (t * batch + b) * width;
        double *mine = h.data() + b * directions * n + d * n, *memory = cell.data() + b * directions * n + d * n;
        for (size_t i = 0; i < 4 * n; ++i) {
          z[i] = std::inner_product(now, now + width, w.data() + i * width, 0.0) +
                 std::inner_product(mine, mine + n, r.data() + i * n, 0.0) + bias[i];
        }
        for (size_t i = 0; i < n; ++i) {
          const double input = gate(z[i] + peep[i] * memory[i]), forget = gate(z[n + i] + peep[n + i] * memory[i]);
          memory[i] = std::clamp(forget * memory[i] + input * candidate(z[3 * n + i]), -clip, clip);
          mine[i] = gate(z[2 * n + i] + peep[2 * n + i] * memory[i]) * last(memory[i]);
          if (all) y[((d == 1 ? t : k) * batch + b) * directions * n + d * n + i] = mine[i];
        }
      }
    }
  }
  if (!all) y = h;
  m.set(m.c.of<double>(x.dtype(), shape, y), 0);
  m.set(m.c.of<double>(x.dtype(), state, h), 1);
  m.set(m.c.of<double>(x.dtype(), state, cell), 2);
}

namespace {

// The sequence in the order in which `direction` reads it. Core ML also returns the results of "reverse" in
// that order.
Array as_read(const Mil& m) {
  const Array& x = m.in("x");
  if (m.text("direction", "forward") != "reverse") return x;
  return m.onnx("Slice", {x, m.i64s({-1}), m.i64s({std::numeric_limits<int64_t>::min()}), m.i64s({0}), m.i64s({-1})});
}

}  // namespace

// MIL's gate order is reset, new, update; ONNX's is update, reset, new. The reset gate multiplies the state
// before the product, or with reset_after its product and the recurrent bias.
void gru(Mil m) {
  const Array& x = m.in("x");
  const int64_t hidden = hidden_size(m);
  const auto order = {int64_t{2}, int64_t{0}, int64_t{1}};
  const Array zero = m.c.dense(m.c.full(x.dtype(), {1, 3 * hidden}, 0));
  const Array recurrent = m.has("bias") ? gates(m, m.in("bias"), order) : zero;
  const Array input = m.has("input_bias") ? gates(m, m.in("input_bias"), order) : zero;
  const Array bias = m.onnx("Concat", {input, recurrent}, {attr("axis", 1)});
  const auto out = m.onnx_all("GRU",
                              {as_read(m), gates(m, m.in("weight_ih"), order), gates(m, m.in("weight_hh"), order), bias,
                               Array(), initial(m, m.in("initial_h"), 1)},
                              {attr("hidden_size", hidden), attr("linear_before_reset", m.flag("reset_after") ? 1 : 0),
                               attr("activations", Attr::Strings{activation(m, "recurrent_activation", "sigmoid"),
                                                                 activation(m, "activation", "tanh")})},
                              2);
  m.set(sequence(m, out[0], out[1]), 0);
  m.set(last(m, out[1]), 1);
}

void rnn(Mil m) {
  const Array& x = m.in("x");
  const int64_t hidden = hidden_size(m);
  const auto order = {int64_t{0}};
  const Array zero = m.c.dense(m.c.full(x.dtype(), {1, hidden}, 0));
  const Array bias = m.onnx("Concat", {m.has("bias") ? gates(m, m.in("bias"), order) : zero, zero}, {attr("axis", 1)});
  const auto out =
      m.onnx_all("RNN",
                 {as_read(m), gates(m, m.in("weight_ih"), order), gates(m, m.in("weight_hh"), order), bias, Array(),
                  initial(m, m.in("initial_h"), 1)},
                 {attr("hidden_size", hidden), attr("activations", Attr::Strings{activation(m, "activation", "tanh")})}, 2);
  m.set(sequence(m, out[0], out[1]), 0);
  m.set(last(m, out[1]), 1);
}

}  // namespace sardonyx::eval::mil_kernels
