// Attention, including variants with graphs inside, rotary embeddings and linear attention.
//
// Intermediate results are rounded to the operands' dtype wherever the standard's own expansion has a tensor
// of that dtype.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "eval/elementwise.h"
#include "eval/products.h"

namespace sardonyx::eval {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Rounds each value to dtype t.
void round_to(Call& c, DType t, std::vector<double>& v) {
  if (t == DType::kF64) return;
  Array a = c.of<double>(t, {static_cast<int64_t>(v.size())}, v);
  v = load_all<double>(a);
}
double rounded(Call& c, DType t, double v) {
  std::vector<double> one{v};
  round_to(c, t, one);
  return one[0];
}

// The heads of a tensor of shape [batch, heads, length, size], or [batch, length, heads * size] with a number
// of heads.
struct Heads {
  std::vector<double> data;  // [batch][heads][length][size]
  int64_t batch = 0, count = 0, length = 0, size = 0;
  const double* row(int64_t b, int64_t h, int64_t i) const { return data.data() + ((b * count + h) * length + i) * size; }
};

Array split_heads(Call& c, const Array& x, std::string_view heads_attr) {
  if (x.rank() == 4) return x;
  c.require(x.rank() == 3, "expected operands of rank 3 or 4");
  const int64_t heads = c.int_attr(heads_attr);
  if (heads <= 0 || x.dim(2) % heads != 0) c.fail(fmt::format("{} does not divide into {} heads", describe(x), heads));
  const Array four = c.reshaped(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return four.transposed(std::vector<int64_t>{0, 2, 1, 3});
}

Heads heads_of(const Array& four) { return {load_all<double>(four), four.dim(0), four.dim(1), four.dim(2), four.dim(3)}; }

// Softmax over rows of `width`, with results and sums in dtype t. Rows that hold only -inf become zero.
void softmax_rows(Call& c, DType t, std::vector<double>& scores, int64_t width) {
  for (size_t first = 0; width > 0 && first < scores.size(); first += static_cast<size_t>(width)) {
    const std::span<double> row(scores.data() + first, static_cast<size_t>(width));
    double high = kMasked, sum = 0;
    for (double v : row) high = std::isnan(v) ? v : std::fmax(high, v);
    if (high == kMasked) high = 0;
    for (double& v : row) sum += v = std::exp(v - high);
    for (double& v : row) v = sum == 0 ? 0 : v / sum;
  }
  round_to(c, t, scores);
}

// Combines masks, causality, windows and padding into one bias per score. A score masked by any of them is
// masked.
std::vector<double> attention_bias(Call& c, const std::vector<int64_t>& score_shape) {
  const int64_t batch = score_shape[0], heads = score_shape[1], queries = score_shape[2], keys = score_shape[3];
  std::vector<double> bias(static_cast<size_t>(batch * heads * queries * keys), 0.0);
  if (c.has(3)) {
    Array mask = c.in(3);
    c.require(mask.rank() >= 1 && mask.rank() <= 4, "expected a mask of rank 1 to 4");
    if (const int64_t missing = keys - mask.dim(mask.rank() - 1); missing > 0 && mask.dim(mask.rank() - 1) != 1) {
      std::vector<int64_t> shape(mask.shape());
      shape.back() = missing;
      const double no = mask.dtype() == DType::kBool ? 0 : kMasked;
      mask = joined(c, std::vector<Array>{mask, c.full(mask.dtype(), shape, no)}, mask.rank() - 1);
    }
    bias = load_all<double>(mask.broadcast_to(score_shape));
    if (mask.dtype() == DType::kBool) {
      for (double& m : bias) m = m != 0 ? 0 : kMasked;
    }
  }
  const bool causal = c.int_attr("is_causal", 0) != 0;
  const int64_t left = c.int_attr("left_window_size", -1), right = c.int_attr("right_window_size", -1);
  std::vector<int64_t> valid;
  if (c.has(6)) {
    valid = c.ints(6);
    c.require(static_cast<int64_t>(valid.size()) == batch && !c.has(4),
              "expected one key length per batch, and no cache beside them");
  }
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t before = c.has(4) ? c.in(4).dim(2) : valid.empty() ? 0 : valid[static_cast<size_t>(b)] - queries;
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        double* row = bias.data() + ((b * heads + h) * queries + i) * keys;
        for (int64_t j = 0; j < keys; ++j) {
          const int64_t ahead = j - (i + before);
          const bool masked = (causal && ahead > 0) || (left >= 0 && -ahead > left) || (right >= 0 && ahead > right) ||
                              (!valid.empty() && j >= valid[static_cast<size_t>(b)]);
          if (masked) row[j] = kMasked;
        }
      }
    }
  }
  return bias;
}

}  // namespace

namespace kernels {

void Attention(Call& c) {
  const DType t = c.dtype();
  if (c.run.folding && t == DType::kF64) c.unsupported("f64 functions differ in their last bits between machines");
  const bool flat = c.in(0).rank() == 3;
  const Array new_keys = split_heads(c, c.in(1), "kv_num_heads"), new_values = split_heads(c, c.in(2), "kv_num_heads");
  Array all_keys = new_keys, all_values = new_values;
  c.require(c.has(4) == c.has(5), "past keys need past values, and the reverse");
  if (c.has(4)) {
    all_keys = joined(c, std::vector<Array>{c.in(4), new_keys}, 2);
    all_values = joined(c, std::vector<Array>{c.in(5), new_values}, 2);
  }
  Heads q = heads_of(split_heads(c, c.in(0), "q_num_heads")), k = heads_of(all_keys);
  const Heads v = heads_of(all_values);
  c.require(k.batch == q.batch && v.batch == q.batch && k.size == q.size && v.count == k.count && v.length == k.length &&
                k.count > 0 && q.count % k.count == 0,
            "queries, keys and values do not fit each other");
  const int64_t group = q.count / k.count, queries = q.length, keys = k.length;
  // Half of the scale goes to the queries and half to the keys, so that 16 bits hold the products. Wider
  // dtypes apply the whole scale after the sum, as runtimes do: a rounded square root would cost large scores
  // their last digits.
  const double scale = c.attr("scale") != nullptr ? c.float_attr("scale", 0) : 1 / std::sqrt(static_cast<double>(q.size));
  const bool halves = bit_width(t) <= 16;
  const double root = rounded(c, t, std::sqrt(scale));
  for (Heads* h : {&q, &k}) {
    if (!halves) break;
    for (double& x : h->data) x *= root;
    round_to(c, t, h->data);
  }
  // Scores: [batch][heads][queries][keys].
  const int64_t tile = queries * keys;
  std::vector<double> scores(static_cast<size_t>(q.batch * q.count * tile));
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.count; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const double* x = q.row(b, h, i);
        for (int64_t j = 0; j < keys; ++j) {
          const double* y = k.row(b, h / group, j);
          double sum = 0;
          for (int64_t d = 0; d < q.size; ++d) sum += x[d] * y[d];
          scores[static_cast<size_t>(((b * q.count + h) * queries + i) * keys + j)] = halves ? sum : sum * scale;
        }
      }
    }
  }
  round_to(c, t, scores);
  const int64_t mode = c.int_attr("qk_matmul_output_mode", 0);
  const std::vector<int64_t> score_shape{q.batch, q.count, queries, keys};
  auto show_scores = [&](int64_t when) {
    if (mode == when && c.wants(3)) c.set(3, c.of<double>(t, score_shape, scores));
  };
  show_scores(0);
  if (const double cap = c.float_attr("softcap", 0); cap > 0) {
    for (double& s : scores) s = std::tanh(s / cap) * cap;
    round_to(c, t, scores);
  }
  show_scores(1);
  const std::vector<double> bias = attention_bias(c, score_shape);
  for (size_t i = 0; i < scores.size(); ++i) scores[i] += bias[i];
  round_to(c, t, scores);
  show_scores(2);
  const DType precision = c.attr("softmax_precision") != nullptr ? static_cast<DType>(c.int_attr("softmax_precision")) : t;
  round_to(c, precision, scores);
  softmax_rows(c, precision, scores, keys);
  for (int64_t r = 0; keys > 0 && r < static_cast<int64_t>(bias.size()) / keys; ++r) {
    const auto first = bias.begin() + r * keys;
    if (std::all_of(first, first + keys, [](double m) { return m == kMasked; }))
      std::fill_n(scores.begin() + r * keys, keys, 0.0);
  }
  round_to(c, t, scores);
  show_scores(3);
  std::vector<double> out(static_cast<size_t>(q.batch * q.count * queries * v.size), 0.0);
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.count; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const double* weights = scores.data() + ((b * q.count + h) * queries + i) * keys;
        double* to = flat ? out.data() + ((b * queries + i) * q.count + h) * v.size
                          : out.data() + ((b * q.count + h) * queries + i) * v.size;
        for (int64_t j = 0; j < keys; ++j) {
          if (weights[j] == 0) continue;  // masked values may be anything, even NaN
          const double* from = v.row(b, h / group, j);
          for (int64_t d = 0; d < v.size; ++d) to[d] += weights[j] * from[d];
        }
      }
    }
  }
  const std::vector<int64_t> shape =
      flat ? std::vector<int64_t>{q.batch, queries, q.count * v.size} : std::vector<int64_t>{q.batch, q.count, queries, v.size};
  c.set(0, c.of<double>(t, shape, out));
  c.set(1, all_keys);
  c.set(2, all_values);
}

void FlexAttention(Call& c) {
  const DType t = c.dtype();
  Heads q = heads_of(c.in(0)), k = heads_of(c.in(1));
  const Heads v = heads_of(c.in(2));
  c.require(k.batch == q.batch && v.batch == q.batch && k.size == q.size && v.count == k.count && v.length == k.length &&
                k.count > 0 && q.count % k.count == 0,
            "queries, keys and values do not fit each other");
  const int64_t group = q.count / k.count, queries = q.length, keys = k.length;
  const double scale = c.attr("scale") != nullptr ? c.float_attr("scale", 0) : 1 / std::sqrt(static_cast<double>(q.size));
  const double root = rounded(c, t, std::sqrt(scale));
  for (Heads* h : {&q, &k}) {
    for (double& x : h->data) x *= root;
    round_to(c, t, h->data);
  }
  std::vector<double> scores;
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.count; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) {
          double sum = 0;
          for (int64_t d = 0; d < q.size; ++d) sum += q.row(b, h, i)[d] * k.row(b, h / group, j)[d];
          scores.push_back(sum);
        }
      }
    }
  }
  round_to(c, t, scores);
  const DType precision = c.attr("softmax_precision") != nullptr ? static_cast<DType>(c.int_attr("softmax_precision"))
                          : t == DType::kF64                     ? t
                                                                 : DType::kF32;
  const std::vector<int64_t> shape{q.batch, q.count, queries, keys};
  auto modified = [&](std::string_view name) {  // by the user's graph
    if (c.node.body(name) == nullptr) return;
    std::vector<EvalValue> inputs;
    inputs.emplace_back(c.of<double>(precision, shape, scores));
    const std::vector<EvalValue> results = c.run_body(c.body(name), std::move(inputs));
    const Array* a = results.size() == 1 ? results[0].array() : nullptr;
    if (a == nullptr || a->shape() != shape)
      c.fail(fmt::format("the graph '{}' has to give one tensor of the scores' shape", name));
    scores = load_all<double>(*a);
  };
  modified("score_mod");
  softmax_rows(c, precision, scores, keys);
  modified("prob_mod");
  std::vector<double> out(static_cast<size_t>(q.batch * q.count * queries * v.size), 0.0);
  for (int64_t b = 0; b < q.batch; ++b) {
    for (int64_t h = 0; h < q.count; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t row = (b * q.count + h) * queries + i;
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t d = 0; d < v.size; ++d) {
            out[static_cast<size_t>(row * v.size + d)] +=
                scores[static_cast<size_t>(row * keys + j)] * v.row(b, h / group, j)[d];
          }
        }
      }
    }
  }
  c.set(0, c.of<double>(c.dtype(2), {q.batch, q.count, queries, v.size}, out));
}

// Keeps a state matrix per head, which each step reads and updates.
void LinearAttention(Call& c) {
  const int64_t q_heads = c.int_attr("q_num_heads"), heads = c.int_attr("kv_num_heads");
  c.require(q_heads > 0 && heads > 0 && q_heads % heads == 0,
            "the number of query heads is not a multiple of the number of key heads");
  const Heads q = heads_of(split_heads(c, c.in(0), "q_num_heads")), k = heads_of(split_heads(c, c.in(1), "kv_num_heads")),
              v = heads_of(split_heads(c, c.in(2), "kv_num_heads"));
  c.require(k.size == q.size && k.length == q.length && v.length == q.length && k.batch == q.batch && v.batch == q.batch,
            "queries, keys and values do not fit each other");
  c.require(q.count == q_heads && k.count == heads && v.count == heads, "the operands differ in the number of heads");
  const std::string rule = c.string_attr("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") c.fail(fmt::format("unknown update rule \"{}\"", rule));
  c.require(gated == c.has(4) && delta == c.has(5), "decay and beta are there for gated and delta rules, and only for these");
  const int64_t batch = q.batch, steps = q.length, n = q.size, m = v.size;
  std::vector<double> decay, beta, state(static_cast<size_t>(batch * heads * n * m), 0.0);
  int64_t decay_size = 0, beta_size = 0;
  if (gated) {
    decay = c.doubles(4);
    decay_size = c.in(4).rank() == 0 ? 0 : c.in(4).dim(c.in(4).rank() - 1);
    c.require(decay_size == heads || decay_size == heads * n, "the decay's last axis fits neither heads nor keys");
    c.require(std::ssize(decay) == batch * steps * decay_size, "the decay has not one row for each step");
  }
  if (delta) {
    beta = c.doubles(5);
    beta_size = c.in(5).rank() == 0 ? 0 : c.in(5).dim(c.in(5).rank() - 1);
    c.require(beta_size == heads || beta_size == 1, "beta's last axis does not fit the heads");
    c.require(std::ssize(beta) == batch * steps * beta_size, "beta has not one row for each step");
  }
  if (c.has(3)) {
    state = c.doubles(3);
    c.require(c.in(3).shape() == std::vector<int64_t>{batch, heads, n, m}, "the state does not fit keys and values");
  }
  double scale = c.float_attr("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(n));
  std::vector<double> out(static_cast<size_t>(batch * steps * q_heads * m));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t < steps; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        double* s = state.data() + (b * heads + h) * n * m;
        const double* key = k.row(b, h, t);
        const double* value = v.row(b, h, t);
        for (int64_t i = 0; gated && i < n; ++i) {
          const int64_t column = decay_size == heads ? h : h * n + i;
          const double f = std::exp(decay[static_cast<size_t>((b * steps + t) * decay_size + column)]);
          for (int64_t j = 0; j < m; ++j) s[i * m + j] *= f;
        }
        for (int64_t j = 0; j < m; ++j) {
          double write = value[j];
          if (delta) {
            double known = 0;
            for (int64_t i = 0; i < n; ++i) known += s[i * m + j] * key[i];
            write = beta[static_cast<size_t>((b * steps + t) * beta_size + (beta_size == 1 ? 0 : h))] * (write - known);
          }
          for (int64_t i = 0; i < n; ++i) s[i * m + j] += key[i] * write;
        }
      }
      for (int64_t h = 0; h < q_heads; ++h) {
        const double* s = state.data() + (b * heads + h / (q_heads / heads)) * n * m;
        const double* query = q.row(b, h, t);
        for (int64_t j = 0; j < m; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += query[i] * s[i * m + j];
          out[static_cast<size_t>(((b * steps + t) * q_heads + h) * m + j)] = scale * sum;
        }
      }
    }
  }
  c.set(0, c.of<double>(c.dtype(), {batch, steps, q_heads * m}, out));
  c.set(1, c.of<double>(c.has(3) ? c.dtype(3) : c.dtype(), {batch, heads, n, m}, state));
}

// Rotates pairs of elements by angles whose cosines and sines are given for each position.
void RotaryEmbedding(Call& c) {
  const Array& x = c.in(0);
  const bool flat = x.rank() == 3;
  Heads h = heads_of(split_heads(c, x, "num_heads"));
  const int64_t given = c.int_attr("rotary_embedding_dim", 0), width = given == 0 ? h.size : given, half = width / 2;
  c.require(width <= h.size && width % 2 == 0, "rotary_embedding_dim does not fit the heads");
  const bool interleaved = c.int_attr("interleaved", 0) != 0;
  const std::vector<double> cosine = c.doubles(1), sine = c.doubles(2);
  const int64_t columns = c.in(1).rank() == 0 ? 0 : c.in(1).dim(c.in(1).rank() - 1);
  c.require(columns == half && cosine.size() == sine.size(), "cosines and sines do not fit rotary_embedding_dim");
  const int64_t rows = half == 0 ? 0 : static_cast<int64_t>(cosine.size()) / half;
  std::vector<int64_t> positions;
  if (c.has(3)) positions = c.ints(3);
  c.require(static_cast<int64_t>(c.has(3) ? positions.size() : static_cast<size_t>(rows)) == h.batch * h.length,
            "expected one position per step");
  std::vector<double> out(h.data.size());
  for (int64_t b = 0; b < h.batch; ++b) {
    for (int64_t n = 0; n < h.count; ++n) {
      for (int64_t i = 0; i < h.length; ++i) {
        const int64_t at = c.has(3) ? positions[static_cast<size_t>(b * h.length + i)] : b * h.length + i;
        if (at < 0 || at >= rows) c.fail(fmt::format("position {} is out of range: there are {}", at, rows));
        const double* from = h.row(b, n, i);
        double* to = out.data() + (flat ? (b * h.length + i) * h.count + n : (b * h.count + n) * h.length + i) * h.size;
        std::copy(from, from + h.size, to);
        for (int64_t k = 0; k < half; ++k) {
          const int64_t first = interleaved ? 2 * k : k, second = interleaved ? 2 * k + 1 : k + half;
          const double co = cosine[static_cast<size_t>(at * half + k)], si = sine[static_cast<size_t>(at * half + k)];
          to[first] = co * from[first] - si * from[second];
          to[second] = si * from[first] + co * from[second];
        }
      }
    }
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), out));
}

}  // namespace kernels
}  // namespace sardonyx::eval
