// RNN, GRU, LSTM with all of the standard's activations, directions, lengths, layouts and clipping, computed
// in f64.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

using Activation = std::function<double(double)>;

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

// The node's k-th activation: a name, and parameters from the lists, which hold them in order.
class Activations {
 public:
  Activations(const Call& c, std::vector<std::string> defaults, size_t directions) : c_(c) {
    names_ = c.attr("activations") != nullptr ? *c.strings_attr("activations") : std::vector<std::string>{};
    while (names_.size() < defaults.size() * directions) names_.push_back(defaults[names_.size() % defaults.size()]);
    if (c.attr("activation_alpha") != nullptr) alpha_ = *c.floats_attr("activation_alpha");
    if (c.attr("activation_beta") != nullptr) beta_ = *c.floats_attr("activation_beta");
  }
  Activation next() {
    std::string name = names_[next_++];
    for (char& ch : name) ch = static_cast<char>(ch >= 'A' && ch <= 'Z' ? ch + 32 : ch);
    if (name == "sigmoid") return sigmoid;
    if (name == "tanh") return [](double x) { return std::tanh(x); };
    if (name == "relu") return [](double x) { return x < 0 ? 0 : x; };
    if (name == "softsign") return [](double x) { return x / (1 + std::fabs(x)); };
    if (name == "softplus") return [](double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); };
    if (name == "affine") {
      const double a = alpha(1), b = beta(0);
      return [=](double x) { return a * x + b; };
    }
    if (name == "leakyrelu") {
      const double a = alpha(0.01);
      return [=](double x) { return x < 0 ? a * x : x; };
    }
    if (name == "thresholdedrelu") {
      const double a = alpha(1);
      return [=](double x) { return x > a ? x : 0; };
    }
    if (name == "scaledtanh") {
      const double a = alpha(1), b = beta(1);
      return [=](double x) { return a * std::tanh(b * x); };
    }
    if (name == "hardsigmoid") {
      const double a = alpha(0.2), b = beta(0.5);
      return [=](double x) { return std::clamp(a * x + b, 0.0, 1.0); };
    }
    if (name == "elu") {
      const double a = alpha(1);
      return [=](double x) { return x < 0 ? a * std::expm1(x) : x; };
    }
    c_.fail(fmt::format("unknown activation \"{}\"", name));
  }

 private:
  double alpha(double otherwise) { return next_alpha_ < alpha_.size() ? alpha_[next_alpha_++] : otherwise; }
  double beta(double otherwise) { return next_beta_ < beta_.size() ? beta_[next_beta_++] : otherwise; }
  const Call& c_;
  std::vector<std::string> names_;
  std::vector<double> alpha_, beta_;
  size_t next_ = 0, next_alpha_ = 0, next_beta_ = 0;
};

// The weights of one direction.
struct Weights {
  const double* w;  // [gates * hidden][input]
  const double* r;  // [gates * hidden][hidden]
  const double* b;  // [2 * gates * hidden], for w and then r; may be null
  const double* p;  // peepholes, [3 * hidden]; may be null
};

// One step. Reads x [input]; updates h [hidden] and, for LSTM, cell [hidden].
using Step = std::function<void(const Weights&, const double* x, double* h, double* cell)>;

struct Sizes {
  int64_t input = 0, hidden = 0;
};

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// The part that the three operators share: layouts, directions, lengths, initial states, results. Calls
// make_step once per direction, in order.
void recurrent(Call& c, int64_t gates, size_t initial_cell, size_t peepholes,
               const std::function<Step(const Sizes&)>& make_step) {
  const bool batch_first = c.int_attr("layout", 0) != 0;
  Array x = c.in(0);
  c.require(x.rank() == 3 && c.in(1).rank() == 3 && c.in(2).rank() == 3, "expected x, w and r of rank 3");
  const std::vector<int64_t> swap{1, 0, 2};
  if (batch_first) x = x.transposed(swap);
  const int64_t steps = x.dim(0), batch = x.dim(1), directions = c.in(1).dim(0);
  const Sizes s{x.dim(2), c.in(2).dim(2)};
  const std::string direction = c.string_attr("direction", "forward");
  if (directions != (direction == "bidirectional" ? 2 : 1))
    c.fail(fmt::format("{} directions do not fit direction \"{}\"", directions, direction));
  if (c.in(1).shape() != std::vector<int64_t>{directions, gates * s.hidden, s.input} ||
      c.in(2).shape() != std::vector<int64_t>{directions, gates * s.hidden, s.hidden}) {
    c.fail(fmt::format("weights {} and {} do not fit {}", describe(c.in(1)), describe(c.in(2)), describe(c.in(0))));
  }
  const std::vector<double> data = load_all<double>(x), w = c.doubles(1), r = c.doubles(2);
  auto optional_doubles = [&](size_t i, int64_t size) {
    std::vector<double> v;
    if (c.has(i)) v = c.doubles(i);
    if (!v.empty() && static_cast<int64_t>(v.size()) != size)
      c.fail(fmt::format("operand {} has {} elements, expected {}", i, v.size(), size));
    return v;
  };
  auto state = [&](size_t i) {
    std::vector<double> v(static_cast<size_t>(directions * batch * s.hidden), 0.0);
    if (i == 0 || !c.has(i)) return v;
    const Array a = batch_first ? c.in(i).transposed(swap) : c.in(i);
    if (a.shape() != std::vector<int64_t>{directions, batch, s.hidden})
      c.fail(fmt::format("the initial state {} does not fit", describe(c.in(i))));
    return load_all<double>(a);
  };
  const std::vector<double> bias = optional_doubles(3, directions * 2 * gates * s.hidden);
  const std::vector<double> peephole =
      peepholes == 0 ? std::vector<double>{} : optional_doubles(peepholes, directions * 3 * s.hidden);
  std::vector<int64_t> lengths(static_cast<size_t>(batch), steps);
  if (c.has(4)) {
    lengths = c.ints(4);
    c.require(static_cast<int64_t>(lengths.size()) == batch &&
                  std::ranges::all_of(lengths, [&](int64_t n) { return n >= 0 && n <= steps; }),
              "sequence lengths do not fit");
  }
  std::vector<double> h = state(5), cell = state(initial_cell);
  std::vector<double> all(static_cast<size_t>(steps * directions * batch * s.hidden), 0.0);
  for (int64_t d = 0; d < directions; ++d) {
    const Step step = make_step(s);
    const Weights weights{w.data() + d * gates * s.hidden * s.input, r.data() + d * gates * s.hidden * s.hidden,
                          bias.empty() ? nullptr : bias.data() + d * 2 * gates * s.hidden,
                          peephole.empty() ? nullptr : peephole.data() + d * 3 * s.hidden};
    const bool backwards = direction == "reverse" || d == 1;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t n = lengths[static_cast<size_t>(b)];
      double* h_b = h.data() + (d * batch + b) * s.hidden;
      double* cell_b = cell.data() + (d * batch + b) * s.hidden;
      for (int64_t k = 0; k < n; ++k) {
        const int64_t t = backwards ? n - 1 - k : k;
        step(weights, data.data() + (t * batch + b) * s.input, h_b, cell_b);
        std::copy(h_b, h_b + s.hidden, all.data() + ((t * directions + d) * batch + b) * s.hidden);
      }
    }
  }
  const DType t = c.dtype();
  auto result = [&](const std::vector<double>& v, std::vector<int64_t> shape, const std::vector<int64_t>& perm) {
    const Array a = c.of<double>(t, std::move(shape), v);
    return batch_first ? a.transposed(perm) : a;
  };
  c.set(0, result(all, {steps, directions, batch, s.hidden}, {2, 0, 1, 3}));
  c.set(1, result(h, {directions, batch, s.hidden}, {1, 0, 2}));
  if (initial_cell != 0) c.set(2, result(cell, {directions, batch, s.hidden}, {1, 0, 2}));
}

// Returns a function that clips as the node's clip attribute says.
std::function<double(double)> clipping(const Call& c) {
  if (c.attr("clip") == nullptr) return [](double v) { return v; };
  const double limit = c.float_attr("clip", 0);
  return [limit](double v) { return std::clamp(v, -limit, limit); };
}

}  // namespace

namespace kernels {

void RNN(Call& c) {
  Activations activations(c, {"Tanh"}, static_cast<size_t>(c.in(1).dim(0)));
  const auto clip = clipping(c);
  recurrent(c, 1, 0, 0, [&](const Sizes& s) -> Step {
    return [f = activations.next(), s, clip, next = std::vector<double>(static_cast<size_t>(s.hidden))](
               const Weights& w, const double* x, double* h, double*) mutable {
      for (int64_t i = 0; i < s.hidden; ++i) {
        double v = dot(x, w.w + i * s.input, s.input) + dot(h, w.r + i * s.hidden, s.hidden);
        if (w.b != nullptr) v += w.b[i] + w.b[s.hidden + i];
        next[static_cast<size_t>(i)] = f(clip(v));
      }
      std::ranges::copy(next, h);
    };
  });
}

// The weights' gate order: update z, reset r, hidden h.
void GRU(Call& c) {
  Activations activations(c, {"Sigmoid", "Tanh"}, static_cast<size_t>(c.in(1).dim(0)));
  const bool linear = c.int_attr("linear_before_reset", 0) != 0;
  const auto clip = clipping(c);
  recurrent(c, 3, 0, 0, [&](const Sizes& s) -> Step {
    const Activation f = activations.next(), g = activations.next();
    return [f, g, s, clip, linear](const Weights& w, const double* x, double* h, double*) {
      const int64_t n = s.hidden;
      auto bias = [&](int64_t at) { return w.b != nullptr ? w.b[at] : 0; };
      std::vector<double> z(static_cast<size_t>(n)), reset(z), next(z);
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(i);
        z[k] = f(clip(dot(x, w.w + i * s.input, s.input) + dot(h, w.r + i * n, n) + bias(i) + bias(3 * n + i)));
        reset[k] =
            f(clip(dot(x, w.w + (n + i) * s.input, s.input) + dot(h, w.r + (n + i) * n, n) + bias(n + i) + bias(4 * n + i)));
      }
      std::vector<double> kept(h, h + n);
      if (!linear) {
        for (int64_t i = 0; i < n; ++i) kept[static_cast<size_t>(i)] *= reset[static_cast<size_t>(i)];
      }
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(i);
        double recurrent_part = dot(kept.data(), w.r + (2 * n + i) * n, n) + bias(5 * n + i);
        if (linear) recurrent_part *= reset[k];
        const double candidate = g(clip(dot(x, w.w + (2 * n + i) * s.input, s.input) + recurrent_part + bias(2 * n + i)));
        next[k] = (1 - z[k]) * candidate + z[k] * h[i];
      }
      std::ranges::copy(next, h);
    };
  });
}

// The weights' gate order: input i, output o, forget f, cell c. Peepholes: i, o, f.
void LSTM(Call& c) {
  Activations activations(c, {"Sigmoid", "Tanh", "Tanh"}, static_cast<size_t>(c.in(1).dim(0)));
  const bool coupled = c.int_attr("input_forget", 0) != 0;
  const auto clip = clipping(c);
  recurrent(c, 4, 6, 7, [&](const Sizes& s) -> Step {
    const Activation f = activations.next(), g = activations.next(), last = activations.next();
    return [f, g, last, s, clip, coupled](const Weights& w, const double* x, double* h, double* cell) {
      const int64_t n = s.hidden;
      std::vector<double> next(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        auto gate = [&](int64_t k) {
          double v = dot(x, w.w + (k * n + i) * s.input, s.input) + dot(h, w.r + (k * n + i) * n, n);
          if (w.b != nullptr) v += w.b[k * n + i] + w.b[(4 + k) * n + i];
          return v;
        };
        auto peep = [&](int64_t k, double state) { return w.p != nullptr ? w.p[k * n + i] * state : 0; };
        const double input = f(clip(gate(0) + peep(0, cell[i])));
        const double forget = coupled ? 1 - input : f(clip(gate(2) + peep(2, cell[i])));
        const double candidate = g(clip(gate(3)));
        cell[i] = forget * cell[i] + input * candidate;
        const double output = f(clip(gate(1) + peep(1, cell[i])));
        next[static_cast<size_t>(i)] = output * last(cell[i]);
      }
      std::ranges::copy(next, h);
    };
  });
}

}  // namespace kernels
}  // namespace sardonyx::eval
