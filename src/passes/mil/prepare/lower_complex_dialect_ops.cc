//   complex(a, b)                =>    two values, a and b
//   complex_real(c)              =>    identity of the real part
//   complex_fft(c), ..., ifft    =>    products with cos and sin of 2 pi (j k mod N) / N
//   complex_stft(x)              =>    convolutions with those matrices, row by row
//
// complex_imag, complex_shape and complex_abs are similar to complex_real. ifft divides by N; rfft and irfft
// keep or restore one half. Core ML has no complex numbers, but frontends write such ops. A complex value
// becomes its real and its imaginary part. The steps are those of coremltools' pass of this name, one for
// one. A complex result of a function is an error, and so is an unknown size along the axis of a transform.
#include <fmt/format.h>

#include <numbers>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

using Ints = std::vector<int64_t>;

struct Complex {
  Value* real = nullptr;
  Value* imag = nullptr;
};

[[noreturn]] void refuse(const Node& n, std::string_view why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("cannot lower {}: {}", print(n), why));
}

class Lowering {
 public:
  explicit Lowering(PassContext& context) : context_(context) {}

  // Whether n was a complex op. Its parts are known afterwards; n itself is dead.
  bool lower(Node& n) {
    if (!n.op().known || !n.op().name.starts_with("complex")) return false;
    if (n.unchecked()) refuse(n, "the op is malformed");
    Rewriter b(*n.graph(), context_);
    b.set_insertion_point(&n);
    b.set_provenance(n.provenance());
    b_ = &b;
    node_ = &n;
    before_ = n.prev();
    const std::string_view op = n.op().name;
    if (op == "complex") {
      complex({in("real_data"), in("imag_data")});
    } else if (op == "complex_real") {
      real(b_->identity(parts("data").real));
    } else if (op == "complex_imag") {
      real(b_->identity(parts("data").imag));
    } else if (op == "complex_shape") {
      real(b_->shape(parts(given("x") ? "x" : "data").real));
    } else if (op == "complex_abs") {
      const Complex c = parts("x");
      Value* r = b_->square(c.real);
      Value* i = b_->square(c.imag);
      real(b_->sqrt(b_->add(r, i)));
    } else if (op == "complex_fft" || op == "complex_fftn") {
      transform(with_zeros(), /*inverse=*/false);
    } else if (op == "complex_ifft" || op == "complex_ifftn") {
      transform(parts("data"), /*inverse=*/true);
    } else if (op == "complex_rfft" || op == "complex_rfftn") {
      transform_real();
    } else if (op == "complex_irfft" || op == "complex_irfftn") {
      restore_real();
    } else {
      windows();  // complex_stft
    }
    return true;
  }

 private:
  // --- the op's operands and results

  OpReader read() const { return {*node_, context_.facts}; }
  Value* in(std::string_view slot) const { return read().value_in(slot); }
  bool given(std::string_view slot) const { return in(slot) != nullptr; }

  Complex parts_of(Value* v) const {
    const auto known = parts_.find(v);
    if (known == parts_.end()) refuse(*node_, "its operand was not computed by an op on complex numbers");
    return known->second;
  }
  Complex parts(std::string_view slot) const { return parts_of(in(slot)); }

  void complex(Complex c) {
    parts_[node_->result()] = c;
    note_made();
  }
  void real(Value* v) {
    note_made();
    Value& old = *node_->result();
    if (v->type() == nullptr) v->set_type(old.type());
    v->set_name(old.name());
    v->def()->set_name(node_->name());
    node_->graph()->replace_uses(old, *v);
    claim(v->def());
  }
  void note_made() {
    for (const Node* made = node_->prev(); made != before_; made = made->prev()) unclaimed_.insert(made);
  }
  // Ops made for complex values have the provenance of the first op that makes real values of them.
  void claim(Node* n) {
    std::vector<Node*> todo{n};
    while (!todo.empty()) {
      Node* last = todo.back();
      todo.pop_back();
      if (unclaimed_.erase(last) == 0) continue;
      last->set_provenance(node_->provenance());
      for (const Use& u : last->operands()) {
        if (u.value != nullptr && u.value->def() != nullptr) todo.push_back(u.value->def());
      }
    }
  }

  // --- ops

  Value* expand(Value* x, int64_t axis) { return b_->expand_dims(x, {.axes = {axis}}); }
  Value* range(int64_t start, const Rewriter::Numbers& end, int64_t step) { return b_->range_1d(end, start, step); }
  Value* gather(Value* x, Value* indices, int64_t axis) { return b_->gather(x, indices, {.axis = axis}); }
  Value* join(std::initializer_list<Value*> values, int64_t axis) { return b_->concat(values, {.axis = axis}); }

  Ints shape_of(const Value* v) const {
    if (!v->ranked() || !v->type()->is_static()) refuse(*node_, "the sizes of its operand are unknown");
    Ints shape;
    for (Dim d : v->type()->dims()) shape.push_back(d.value());
    return shape;
  }
  int64_t size(const Value* v, int64_t axis) const {
    const Ints shape = shape_of(v);
    return shape.at(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis));
  }

  // --- lengths and axes of a transform: `n` and `dim`, or `shapes` and `dims`
  // half: the last axis holds half of what was transformed
  struct Axes {
    Ints lengths, axes;
  };
  Axes axes_of(const Value* data, bool half) const {
    const bool many = node_->op().name.ends_with("n");
    const Ints shape = shape_of(data);
    const auto rank = static_cast<int64_t>(shape.size());
    const auto wanted = [&](std::string_view slot) -> std::optional<Ints> {
      if (many) {
        if (!given(slot)) return std::nullopt;
        if (auto v = read().ints_in(slot)) return v;
      } else if (auto v = read().int_in(slot)) {
        return Ints{*v};
      } else if (!given(slot)) {
        return std::nullopt;
      }
      refuse(*node_, fmt::format("'{}' is not a constant", slot));
    };
    const auto lengths = wanted(many ? "shapes" : "n");
    auto axes = wanted(many ? "dims" : "dim");
    for (int64_t a : axes.value_or(Ints{})) {
      if (a < -rank || a >= rank) refuse(*node_, fmt::format("there is no axis {}", a));
    }
    for (int64_t l : lengths.value_or(Ints{})) {
      if (l <= 0) refuse(*node_, fmt::format("{} is not a length", l));
    }
    if (!axes) {
      axes.emplace();
      const int64_t count = lengths ? static_cast<int64_t>(lengths->size()) : rank;
      for (int64_t a = rank - count; a < rank; ++a) axes->push_back(a);
    }
    Axes found{lengths.value_or(Ints{}), *axes};
    if (!lengths) {
      for (int64_t a : *axes) found.lengths.push_back(size(data, a));
      if (half) found.lengths.back() = 2 * (size(data, axes->back()) - 1);
    }
    if (found.lengths.size() != found.axes.size()) refuse(*node_, "it has more lengths than axes, or fewer");
    return found;
  }

  // x cut or zero-padded to that size.
  Value* resize(Value* x, int64_t axis, int64_t length) {
    const int64_t now = size(x, axis);
    if (length < now) return gather(x, range(0, length, 1), axis);
    if (length == now) return x;
    Ints rest = shape_of(x);
    rest[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rest.size()) : axis)] = length - now;
    Value* zeros = b_->fill(rest, {.value = 0.0});
    return join({x, zeros}, axis);
  }

  // cos and sin of 2 pi j k / n for all k below n, and all j below n (with `half`, up to n / 2).
  std::pair<Value*, Value*> matrices(Value* n, bool half) {
    n = b_->cast(n, {.dtype = "fp32"});
    Value* rows = n;
    if (half) rows = b_->add(b_->floor_div(n, 2.0), 1.0);
    Value* j = range(0, rows, 1);
    Value* k = range(0, n, 1);
    j = b_->reshape(j, {-1, 1});
    k = b_->reshape(k, {1, -1});
    Value* angle = b_->matmul(j, k);
    angle = b_->mod(angle, n);  // or products of large indices would lose the angle
    angle = b_->mul(angle, 2 * std::numbers::pi);
    angle = b_->real_div(angle, n);
    Value* cos = b_->cos(angle);
    return {cos, b_->sin(angle)};
  }

  Complex along(Complex c, int64_t length, int64_t axis, bool inverse) {
    const auto rank = static_cast<int64_t>(shape_of(c.real).size());
    if (axis < 0) axis += rank;
    Ints perm;
    for (int64_t i = 0; i < rank; ++i) perm.push_back(i == 0 ? axis : i == axis ? 0 : i);
    const auto swapped = [&](Value* x) { return b_->transpose(x, {.perm = perm}); };
    c.real = swapped(c.real);
    c.imag = swapped(c.imag);
    c.real = resize(c.real, 0, length);
    c.imag = resize(c.imag, 0, length);
    const Ints shape = shape_of(c.real);
    c.real = b_->reshape(c.real, {shape[0], -1});
    c.imag = b_->reshape(c.imag, {shape[0], -1});
    Value* n = b_->cast(shape[0], {.dtype = "fp32"});
    const auto [cos, sin] = matrices(n, /*half=*/false);
    const auto times = [&](Value* m, Value* x) { return b_->matmul(m, x); };
    Value *rr = times(cos, c.real), *ri = times(sin, c.imag);
    Value* real = inverse ? b_->sub(rr, ri) : b_->add(rr, ri);
    Value *ir = times(sin, c.real), *ii = times(cos, c.imag);
    Value* imag = inverse ? b_->add(ir, ii) : b_->sub(ir, ii);
    if (!inverse) imag = b_->mul(imag, -1.0);
    real = b_->reshape(real, shape);
    imag = b_->reshape(imag, shape);
    real = swapped(real);
    imag = swapped(imag);
    const std::string norm = read().text_in("norm").value_or("backward");
    if (norm != (inverse ? "forward" : "backward")) {
      Value* scale = norm == "ortho" ? b_->sqrt(n) : n;
      real = b_->real_div(real, scale);
      imag = b_->real_div(imag, scale);
    }
    return {real, imag};
  }

  // --- the transforms

  // Real data with an imaginary part of zeros.
  Complex with_zeros() {
    Value* data = in("data");
    if (is_complex(data->dtype())) return parts_of(data);
    Value* shape = b_->shape(data);
    Value* zero = b_->cast(0.0, {.dtype = "fp32"});
    return {data, b_->fill(shape, {.value = zero})};
  }

  void transform(Complex c, bool inverse) {
    const Axes t = axes_of(c.real, /*half=*/false);
    for (size_t i = 0; i < t.axes.size(); ++i) c = along(c, t.lengths[i], t.axes[i], inverse);
    complex(c);
  }

  void transform_real() {
    Value* data = in("data");
    const Axes t = axes_of(data, /*half=*/false);
    const int64_t axis = t.axes.back();
    Complex c{data, b_->fill(b_->shape(data), {.value = 0.0})};
    c = along(c, t.lengths.back(), axis, /*inverse=*/false);
    Value* half = range(0, size(c.real, axis) / 2 + 1, 1);
    c = {gather(c.real, half, axis), gather(c.imag, half, axis)};
    for (size_t i = 0; i + 1 < t.axes.size(); ++i) c = along(c, t.lengths[i], t.axes[i], /*inverse=*/false);
    complex(c);
  }

  void restore_real() {
    Complex c = parts("data");
    const Axes t = axes_of(c.real, /*half=*/true);
    const bool many = node_->op().name.ends_with("n");
    for (size_t i = 0; i + 1 < t.axes.size(); ++i) c = along(c, t.lengths[i], t.axes[i], /*inverse=*/true);
    const int64_t axis = t.axes.back(), length = t.lengths.back();
    if (many || given("n")) {
      c.real = resize(c.real, axis, length / 2 + 1);
      c.imag = resize(c.imag, axis, length / 2 + 1);
    }
    // The other half mirrors this one: its conjugate, reversed.
    const int64_t last = size(c.real, axis) - (length % 2 == 0 ? 2 : 1);
    if (last > 0) {
      Value* back = range(last, 0, -1);
      Value *real = gather(c.real, back, axis), *imag = gather(c.imag, back, axis);
      imag = b_->mul(imag, -1.0);
      c.real = join({c.real, real}, axis);
      c.imag = join({c.imag, imag}, axis);
    }
    Value* out = along(c, length, axis, /*inverse=*/true).real;
    real(many ? resize(out, axis, length) : out);
  }

  void windows() {
    const ComplexStft stft(*node_, context_.facts);
    const auto n = stft.n_fft(), length = stft.win_length();
    Value *size = in("n_fft"), *hop = in("hop_length"), *window = stft.window(), *data = stft.input();
    const bool half = stft.onesided();
    if (!n || size == nullptr || data == nullptr) refuse(*node_, "'n_fft' is not a constant");
    if (length && *length > *n) refuse(*node_, "the window is longer than n_fft");
    const bool from_complex = is_complex(data->dtype());
    if (from_complex && half) refuse(*node_, "half of the frequencies is enough for real inputs only: onesided must be false");
    Complex in = from_complex ? parts_of(data) : Complex{data, nullptr};
    const bool flat = in.real->ranked() && in.real->type()->rank() == 1;
    if (hop == nullptr) hop = b_->floor_div(size, 4);
    if (flat) in.real = expand(in.real, 0);
    if (flat && in.imag != nullptr) in.imag = expand(in.imag, 0);
    auto [cos, sin] = matrices(size, half);
    if (length) {
      const int64_t before = (*n - *length) / 2, after = *n - *length - before;
      const auto fill = [&](int64_t count, double v) { return b_->fill({count}, {.value = v}); };
      Value* left = fill(before, 0);
      if (window == nullptr) window = fill(*length, 1);
      window = join({left, window, fill(after, 0)}, 0);
    }
    if (window != nullptr) {
      cos = b_->mul(window, cos);
      sin = b_->mul(window, sin);
    }
    sin = b_->sub(0.0, sin);
    cos = expand(cos, 1);
    sin = expand(sin, 1);
    Value* stride = expand(hop, 0);
    const auto filter = [&](Value* x, Value* kernel) { return b_->conv(x, kernel, {.pad_type = "valid", .strides = stride}); };
    Value* signal = expand(in.real, 1);
    Complex out{filter(signal, cos), nullptr};
    out.imag = filter(signal, sin);
    if (in.imag != nullptr) {
      signal = expand(in.imag, 1);
      Value* cos_imag = filter(signal, cos);
      Value* sin_imag = filter(signal, sin);
      out.real = b_->sub(out.real, sin_imag);
      out.imag = b_->add(out.imag, cos_imag);
    }
    if (flat) {
      const auto squeeze = [&](Value* x) { return b_->squeeze(x, {.axes = {0}}); };
      out.real = squeeze(out.real);
      out.imag = squeeze(out.imag);
    }
    if (stft.normalized()) {
      Value* scale = b_->sqrt(b_->cast(size, {.dtype = "fp32"}));
      out.real = b_->real_div(out.real, scale);
      out.imag = b_->real_div(out.imag, scale);
    }
    complex(out);
  }

  PassContext& context_;
  Rewriter* b_ = nullptr;
  Node* node_ = nullptr;
  const Node* before_ = nullptr;  // the op before node_ when its lowering began
  std::unordered_map<const Value*, Complex> parts_;
  std::unordered_set<const Node*> unclaimed_;  // made here, but not yet for a particular op
};

}  // namespace

Pass lower_complex_dialect_ops() {
  return Pass::on_graph(Numerics::kRounds, needs({"complex*"}), [](Graph& top, PassContext& context) {
    for (const Port& p : top.outputs()) {
      if (is_complex(p.use->value->dtype())) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("Core ML has no complex numbers, and '{}' is a complex result", p.name.view()),
                    {"help: return the real and the imaginary part"});
      }
    }
    Lowering lowering(context);
    std::vector<Node*> gone;
    // Depth first, so that outer values that a nested block uses are lowered before it.
    std::vector<Node*> todo;
    const auto push = [&](const Graph& g) {
      for (Node* n = g.last(); n != nullptr; n = n->prev()) todo.push_back(n);
    };
    push(top);
    while (!todo.empty()) {
      Node* n = todo.back();
      todo.pop_back();
      for (const Body& b : n->bodies()) push(*b.graph);
      if (lowering.lower(*n)) gone.push_back(n);
    }
    for (auto n = gone.rbegin(); n != gone.rend(); ++n) {
      if ((*n)->any_result_used()) refuse(**n, "an op that does not take complex numbers uses it");
      (*n)->graph()->erase(**n);
    }
    context.log.count("ops", gone.size());
    return !gone.empty();
  });
}

}  // namespace sardonyx::mil
