// MIL's elementwise ops, activations, quantization and compressed constants.
#include <fmt/format.h>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

// x + the op's epsilon.
Array shifted(const Mil& m, double otherwise) {
  const Array& x = m.in("x");
  return m.onnx("Add", {x, m.like(x, m.number("epsilon", otherwise))});
}

// A parameter with one element per channel (the second axis), in x's dtype.
Array per_channel(const Mil& m, std::string_view slot) {
  const Array& x = m.in("x");
  m.c.require(x.rank() >= 2, "x needs an axis of channels");
  std::vector<int64_t> shape(x.rank() - 1, 1);
  shape[0] = m.in(slot).size();
  return m.reshape(m.cast(m.in(slot), x.dtype()), shape);
}

}  // namespace

void identity(Mil m) { m.c.set(0, m.c.value(0)); }

void cast(Mil m) { m.set(m.cast(m.in("x"), m.dtype("dtype"))); }

void clamped_relu(Mil m) {
  const Array x = m.onnx("LeakyRelu", {m.in("x")}, {attr("alpha", m.number("alpha"))});
  m.set(m.onnx("Min", {x, m.like(x, m.number("beta"))}));
}

void clip(Mil m) {
  const Array& x = m.in("x");
  m.set(m.onnx("Clip", {x, m.like(x, m.number("alpha")), m.like(x, m.number("beta"))}));
}

void cumsum(Mil m) {
  const Array& x = m.in("x");
  m.set(m.onnx("CumSum", {x, m.i64s({m.integer("axis")})},
               {attr("exclusive", m.flag("exclusive") ? 1 : 0), attr("reverse", m.flag("reverse") ? 1 : 0)}));
}

void elu(Mil m) { m.set(m.onnx("Elu", {m.in("x")}, {attr("alpha", m.number("alpha", 1))})); }

void exp2(Mil m) {
  const Array& x = m.in("x");
  m.set(m.onnx("Pow", {m.like(x, 2), x}));
}

void square(Mil m) { m.set(m.onnx("Mul", {m.in("x"), m.in("x")})); }

void real_div(Mil m) {
  // Integer division truncates.
  m.set(m.onnx("Div", {m.in("x"), m.in("y")}));
}

void floor_div(Mil m) {
  const Array &x = m.in("x"), &y = m.in("y");
  if (is_float(x.dtype())) return m.set(m.onnx("Floor", {m.onnx("Div", {x, y})}));
  m.set(m.onnx("Div", {m.onnx("Sub", {x, m.onnx("Mod", {x, y})}), y}));
}

void mod(Mil m) {
  const Array &x = m.in("x"), &y = m.in("y");
  if (!is_float(x.dtype())) return m.set(m.onnx("Mod", {x, y}));
  const Array whole = m.onnx("Floor", {m.onnx("Div", {x, y})});
  m.set(m.onnx("Sub", {x, m.onnx("Mul", {whole, y})}));
}

void not_equal(Mil m) { m.set(m.onnx("Not", {m.onnx("Equal", {m.in("x"), m.in("y")})})); }

void gelu(Mil m) {
  const std::string mode = m.text("mode", "exact");
  const Array& x = m.in("x");
  if (mode == "sigmoid_approximation") {
    const Array s = m.onnx("Sigmoid", {m.onnx("Mul", {x, m.like(x, 1.702)})});
    return m.set(m.onnx("Mul", {x, s}));
  }
  m.set(m.onnx("Gelu", {x}, {attr("approximate", mode == "tanh_approximation" ? "tanh" : "none")}));
}

void inverse(Mil m) { m.set(m.onnx("Reciprocal", {shifted(m, 1e-4)})); }
void log(Mil m) { m.set(m.onnx("Log", {shifted(m, 1e-45)})); }
void rsqrt(Mil m) { m.set(m.onnx("Reciprocal", {m.onnx("Sqrt", {shifted(m, 1e-12)})})); }

void leaky_relu(Mil m) { m.set(m.onnx("LeakyRelu", {m.in("x")}, {attr("alpha", m.number("alpha", 0.01))})); }

void linear_activation(Mil m) {
  const Array& x = m.in("x");
  const Array y = m.onnx("Mul", {x, m.like(x, m.number("alpha", 1))});
  m.set(m.onnx("Add", {y, m.like(x, m.number("beta", 0))}));
}

void prelu(Mil m) { m.set(m.onnx("PRelu", {m.in("x"), per_channel(m, "alpha")})); }

void relu6(Mil m) {
  const Array& x = m.in("x");
  m.set(m.onnx("Min", {m.onnx("Relu", {x}), m.like(x, 6)}));
}

void scaled_tanh(Mil m) {
  const Array& x = m.in("x");
  const Array y = m.onnx("Tanh", {m.onnx("Mul", {x, m.like(x, m.number("beta", 1))})});
  m.set(m.onnx("Mul", {y, m.like(x, m.number("alpha", 1))}));
}

void sigmoid_hard(Mil m) {
  m.set(m.onnx("HardSigmoid", {m.in("x")}, {attr("alpha", m.number("alpha", 0.2)), attr("beta", m.number("beta", 0.5))}));
}

void silu(Mil m) { m.set(m.onnx("Mul", {m.in("x"), m.onnx("Sigmoid", {m.in("x")})})); }

void softmax(Mil m) { m.set(m.onnx("Softmax", {m.in("x")}, {attr("axis", m.integer("axis", -1))})); }

void softplus_parametric(Mil m) {
  const Array y = m.onnx("Softplus", {m.onnx("Mul", {m.in("x"), per_channel(m, "beta")})});
  m.set(m.onnx("Mul", {y, per_channel(m, "alpha")}));
}

void threshold(Mil m) {
  const Array& x = m.in("x");
  m.set(m.onnx("Max", {x, m.like(x, m.number("alpha"))}));
}

void thresholded_relu(Mil m) {
  const Array& x = m.in("x");
  const Array passes = m.onnx("GreaterOrEqual", {x, m.like(x, m.number("alpha", 1))});
  m.set(m.onnx("Where", {passes, x, m.like(x, 0)}));
}

// ---------------------------------------------------------------------------------------------------------------------
// Quantization

namespace {

// Reshapes a scale or zero point, one for all or one along an axis, so that it broadcasts against x.
Array along_axis(const Mil& m, const Array& p, const Array& x, int64_t axis) {
  if (p.size() == 1 && p.rank() == 0) return p;
  std::vector<int64_t> shape(x.rank(), 1);
  shape[m.c.axis(axis, x.rank())] = p.size();
  return m.reshape(p, shape);
}

// scale * (x - offset), computed in the scale's type.
Array scaled(const Mil& m, const Array& x, const Array& scale, const Array* offset) {
  Array y = m.cast(x, scale.dtype());
  if (offset != nullptr) y = m.onnx("Sub", {y, m.cast(*offset, scale.dtype())});
  return m.onnx("Mul", {y, scale});
}

}  // namespace

void quantize(Mil m) {
  const Array& x = m.in("input");
  const DType to = m.dtype("output_dtype");
  const int64_t axis = m.integer("axis");
  const Array scale = along_axis(m, m.in("scale"), x, axis);
  Array y = m.onnx("Round", {m.onnx("Div", {x, scale})});
  y = m.onnx("Where", {m.onnx("IsNaN", {y}), m.like(y, 0), y});  // whatever the zero point and the sign of the integers
  if (m.has("zero_point")) y = m.onnx("Add", {y, m.cast(along_axis(m, m.in("zero_point"), x, axis), x.dtype())});
  const bool negative = is_signed(to);
  y = m.onnx("Clip", {y, m.like(y, negative ? -128 : 0), m.like(y, negative ? 127 : 255)});
  m.set(m.cast(y, to));
}

void dequantize(Mil m) {
  const Array& x = m.in("input");
  const int64_t axis = m.integer("axis");
  const Array scale = along_axis(m, m.in("scale"), x, axis);
  if (!m.has("zero_point")) return m.set(scaled(m, x, scale, nullptr));
  const Array zero = along_axis(m, m.in("zero_point"), x, axis);
  m.set(scaled(m, x, scale, &zero));
}

void constexpr_affine_dequantize(Mil m) {
  const Array& x = m.in("quantized_data");
  const int64_t axis = m.integer("axis");
  const Array zero = along_axis(m, m.in("zero_point"), x, axis);
  m.set(scaled(m, x, along_axis(m, m.in("scale"), x, axis), &zero));
}

void constexpr_cast(Mil m) { m.set(m.cast(m.in("source_val"), m.dtype("output_dtype"))); }

namespace {

// Repeats p, which has one element per block of x, to x's shape.
Array blocks(const Mil& m, const Array& p, const Array& x) {
  m.c.require(p.rank() == x.rank(), "a scale and the data differ in rank");
  std::vector<int64_t> wide, repeat;
  for (size_t i = 0; i < x.rank(); ++i) {
    const int64_t n = p.dim(i);
    m.c.require(n > 0 && x.dim(i) % n == 0, "a scale does not divide the data into blocks");
    wide.insert(wide.end(), {n, 1});
    repeat.insert(repeat.end(), {n, x.dim(i) / n});
  }
  const Array spread = m.reshape(p, wide).broadcast_to(repeat);
  return m.reshape(spread, x.shape());
}

// Unpacks a list of bits, the lowest first.
std::vector<int64_t> unpacked(std::span<const int64_t> bytes, int bits, int64_t count) {
  if (bits < 1 || count < 0 || count > static_cast<int64_t>(bytes.size()) * 8 / bits)
    throw Error(ErrorCode::kInvalidModel, "there are fewer packed numbers than their shape needs");
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    int64_t v = 0;
    for (int b = 0; b < bits; ++b) {
      const int64_t at = i * bits + b;
      v |= (bytes[static_cast<size_t>(at / 8)] >> (at % 8) & 1) << b;
    }
    out.push_back(v);
  }
  return out;
}

// Looks each index up in a table of shape [blocks of each axis..., entries, vector].
Array looked_up(const Mil& m, const Array& x) {
  const Array& lut = m.in("lut");
  const std::vector<int64_t> indices = load_all<int64_t>(x);
  const std::vector<double> values = load_all<double>(lut);
  const size_t rank = x.rank();
  m.c.require(lut.rank() == rank + 2, "a table has two axes more than its indices");
  const int64_t entries = lut.dim(rank), vector = lut.dim(rank + 1);
  // Each index stands for a vector along one axis, which grows by the vector's length.
  size_t axis = 0;
  if (vector != 1) {
    m.c.require(m.has("vector_axis") && rank > 0, "a table of vectors needs their axis");
    axis = m.c.axis(m.integer("vector_axis"), rank);
  }
  std::vector<int64_t> shape(x.shape());
  if (rank > 0) shape[axis] *= vector;
  m.c.run.account->check(product(shape), sizeof(double));
  std::vector<double> out(static_cast<size_t>(product(shape)));
  const std::vector<int64_t> strides = dense_strides(x.shape()), lut_strides = dense_strides(lut.shape());
  const std::vector<int64_t> out_strides = dense_strides(shape);
  for (size_t i = 0; i < indices.size(); ++i) {
    m.c.require(indices[i] >= 0 && indices[i] < entries, "an index is out of range for its table");
    int64_t from = indices[i] * vector, to = 0;
    for (size_t d = 0; d < rank; ++d) {
      m.c.require(lut.dim(d) > 0 && x.dim(d) % lut.dim(d) == 0, "the table has other blocks than its indices");
      const int64_t place = static_cast<int64_t>(i) / strides[d] % x.dim(d);
      from += place / (x.dim(d) / lut.dim(d)) * lut_strides[d];
      to += place * (d == axis ? vector : 1) * out_strides[d];
    }
    const int64_t step = rank > 0 ? out_strides[axis] : 1;
    for (int64_t k = 0; k < vector; ++k) out[static_cast<size_t>(to + k * step)] = values[static_cast<size_t>(from + k)];
  }
  return m.c.of<double>(lut.dtype(), shape, out);
}

// Places the values, in order, where the mask has a bit, and zeros elsewhere.
Array spread(const Mil& m, const std::vector<int64_t>& mask, const std::vector<int64_t>& shape, const Array& data) {
  const std::vector<double> values = load_all<double>(data);
  std::vector<double> out;
  size_t next = 0;
  for (int64_t bit : mask) {
    m.c.require(bit == 0 || next < values.size(), "the mask has more bits than there are values");
    out.push_back(bit != 0 ? values[next++] : 0);
  }
  return m.c.of<double>(data.dtype(), shape, out);
}
Array spread(const Mil& m, const Array& mask, const Array& data) {
  return spread(m, load_all<int64_t>(mask), mask.shape(), data);
}

// The elements of x where the mask has a bit.
Array kept(const Mil& m, const Array& mask, const Array& x) {
  const std::vector<int64_t> bits = load_all<int64_t>(mask);
  const std::vector<double> all = load_all<double>(x);
  m.c.require(bits.size() == all.size(), "the mask and the data differ in size");
  std::vector<double> out;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) out.push_back(all[i]);
  }
  return m.c.of<double>(x.dtype(), {std::ssize(out)}, out);
}

Array blockwise(const Mil& m, const Array& x) {
  const Array scale = blocks(m, m.in("scale"), x);
  if (!m.has("offset")) return scaled(m, x, scale, nullptr);
  const Array offset = blocks(m, m.in("offset"), x);
  return scaled(m, x, scale, &offset);
}

}  // namespace

void constexpr_blockwise_shift_scale(Mil m) { m.set(blockwise(m, m.in("data"))); }

void constexpr_lut_to_dense(Mil m) {
  const Array& lut = m.in("lut");
  if (m.c.version() < 9) {
    const std::vector<int64_t> indices = load_all<int64_t>(m.in("indices")), shape = m.ints("shape");
    const std::vector<double> values = load_all<double>(lut);
    std::vector<double> out;
    int bits = 0;
    while ((int64_t{1} << bits) < lut.size()) ++bits;
    m.c.require(static_cast<int64_t>(indices.size()) * 8 >= product(shape) * bits, "there are fewer indices than elements");
    for (int64_t i : unpacked(indices, bits, product(shape))) {
      m.c.require(static_cast<size_t>(i) < values.size(), "an index is out of range for its table");
      out.push_back(values[static_cast<size_t>(i)]);
    }
    return m.set(m.c.of<double>(lut.dtype(), shape, out));
  }
  m.set(looked_up(m, m.in("indices")));
}

void constexpr_sparse_to_dense(Mil m) {
  if (m.c.version() < 9) {
    const std::vector<int64_t> bits = load_all<int64_t>(m.in("mask")), shape = m.ints("shape");
    m.c.require(static_cast<int64_t>(bits.size()) * 8 >= product(shape), "the mask is too short");
    return m.set(spread(m, unpacked(bits, 1, product(shape)), shape, m.in("nonzero_data")));
  }
  m.set(spread(m, m.in("mask"), m.in("nonzero_data")));
}

// Returns the mask and the table's values for the indices that it keeps. Where an index stands for a vector,
// the mask grows along that axis too.
void constexpr_lut_to_sparse(Mil m) {
  Array mask = m.in("indices_mask");
  const Array all = looked_up(m, spread(m, mask, m.in("indices_nonzero_data")));
  if (all.shape() != mask.shape()) {
    const size_t axis = m.c.axis(m.integer("vector_axis"), mask.rank());
    std::vector<int64_t> wide(mask.shape()), repeated;
    wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
    repeated = wide;
    repeated[axis + 1] = all.dim(axis) / mask.dim(axis);
    mask = m.c.dense(m.reshape(m.reshape(mask, wide).broadcast_to(repeated), all.shape()));
  }
  m.set(kept(m, mask, all), 1);
  m.set(mask, 0);
}

void constexpr_sparse_blockwise_shift_scale(Mil m) {
  const Array& mask = m.in("data_mask");
  const Array all = spread(m, mask, m.in("nonzero_data"));
  m.set(mask, 0);
  m.set(kept(m, mask, blockwise(m, all)), 1);
}

}  // namespace sardonyx::eval::mil_kernels
