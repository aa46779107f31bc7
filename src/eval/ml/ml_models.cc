// ai.onnx.ml: linear models, support vector machines and trees.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <set>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

struct Matrix {
  std::vector<double> data;
  int64_t rows = 1, columns = 0;
  const double* row(int64_t r) const { return data.data() + r * columns; }
};

Matrix samples(Call& c) {
  const Array& x = c.in(0);
  if (x.rank() == 0 || x.rank() > 2) c.fail(fmt::format("expected a vector or a matrix, found {}", describe(x)));
  return {c.doubles(0), x.rank() == 2 ? x.dim(0) : 1, x.dim(x.rank() - 1)};
}

std::vector<double> floats(const Call& c, std::string_view name) { return c.floats_attr(name).value_or(std::vector<double>{}); }
std::vector<int64_t> ints(const Call& c, std::string_view name) {
  return c.attr(name) != nullptr ? *c.ints_attr(name) : std::vector<int64_t>{};
}
// The attribute NAME_as_tensor or NAME.
std::vector<double> numbers(const Call& c, const std::string& name) {
  if (const TensorPtr t = c.tensor_attr(name + "_as_tensor")) return load_all<double>(Array::of(t));
  return floats(c, name);
}

// --- transforms of final scores

double logistic(double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); }

// The quantile function of the normal distribution, approximated as the standard's implementations do
// (Winitzki 2008).
double probit(double p) {
  const double x = 2 * p - 1, sign = x < 0 ? -1 : 1, y = (1 - x) * (1 + x);
  if (y == 0) return 0;
  const double log = std::log(y), v = 2 / (std::numbers::pi * 0.147) + 0.5 * log;
  return 1.41421356 * sign * std::sqrt(std::sqrt(v * v - log / 0.147) - v);
}

void softmax(std::span<double> s, bool zeros_stay_small) {
  double high = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double v : s) high = std::max(high, v);
  for (double& v : s) {
    const bool zero = zeros_stay_small && std::fabs(v) <= 1e-7;
    v = zero ? v * std::exp(-high) : std::exp(v - high);
    sum += v;
  }
  for (double& v : s) v = sum == 0 ? 0.5 : v / sum;
}

void post_transform(const Call& c, const std::string& how, std::span<double> s) {
  if (how == "NONE") return;
  if (how == "LOGISTIC") {
    for (double& v : s) v = logistic(v);
  } else if (how == "SOFTMAX") {
    softmax(s, false);
  } else if (how == "SOFTMAX_ZERO") {
    softmax(s, true);
  } else if (how == "PROBIT") {
    for (double& v : s) v = probit(v);
  } else {
    c.fail(fmt::format("unknown post_transform \"{}\"", how));
  }
}

// --- labels

class Labels {
 public:
  Labels(Call& c, std::string_view ints_name) {
    if (c.attr("classlabels_strings") != nullptr) strings_ = *c.strings_attr("classlabels_strings");
    if (c.attr(ints_name) != nullptr) ints_ = *c.ints_attr(ints_name);
  }
  bool texts() const { return !strings_.empty(); }
  size_t size() const { return std::max(strings_.size(), ints_.size()); }

  void add(const Call& c, int64_t which) {
    if (size() != 0 && (which < 0 || which >= static_cast<int64_t>(size()))) c.fail(fmt::format("there is no label {}", which));
    picked_.push_back(which);
  }
  // Adds a number that is no index into the list. The standard returns one where a binary model has one label
  // or none.
  void add_number(int64_t number) {
    picked_.push_back(number);
    as_numbers_ = true;
  }
  EvalValue values(Call& c) const {
    const auto n = static_cast<int64_t>(picked_.size());
    if (texts()) {
      std::vector<std::string> out;
      for (int64_t k : picked_)
        out.push_back(as_numbers_ ? (k != 0 ? strings_[0] : std::string()) : strings_[static_cast<size_t>(k)]);
      return EvalValue(Tensor::strings({n}, std::move(out)));
    }
    std::vector<int64_t> out;
    for (int64_t k : picked_) out.push_back(ints_.empty() || as_numbers_ ? k : ints_[static_cast<size_t>(k)]);
    return c.of_ints(out);
  }
  int64_t number(size_t i) const { return i < ints_.size() ? ints_[i] : static_cast<int64_t>(i); }

 private:
  std::vector<std::string> strings_;
  std::vector<int64_t> ints_;
  std::vector<int64_t> picked_;
  bool as_numbers_ = false;
};

int64_t largest(std::span<const double> s) { return std::ranges::max_element(s) - s.begin(); }

// --- support vectors

class KernelFunction {
 public:
  explicit KernelFunction(Call& c, bool linear) {
    name_ = linear ? "LINEAR" : c.string_attr("kernel_type", "LINEAR");
    const std::vector<double> p = floats(c, "kernel_params");
    if (p.size() >= 3) gamma_ = p[0], coef0_ = p[1], degree_ = p[2];
    if (name_ != "LINEAR" && name_ != "POLY" && name_ != "RBF" && name_ != "SIGMOID") {
      c.fail(fmt::format("unknown kernel \"{}\"", name_));
    }
  }
  double operator()(const double* a, const double* b, int64_t n) const {
    double s = 0;
    if (name_ == "RBF") {
      for (int64_t i = 0; i < n; ++i) s += (a[i] - b[i]) * (a[i] - b[i]);
      return std::exp(-gamma_ * s);
    }
    for (int64_t i = 0; i < n; ++i) s += a[i] * b[i];
    if (name_ == "LINEAR") return s;
    s = s * gamma_ + coef0_;
    return name_ == "POLY" ? std::pow(s, degree_) : std::tanh(s);
  }

 private:
  std::string name_;
  double gamma_ = 0, coef0_ = 0, degree_ = 0;
};

// Computes class probabilities from pairwise ones (Wu, Lin, Weng 2004, second method, as in libsvm).
std::vector<double> coupled(const std::vector<std::vector<double>>& r) {
  const size_t k = r.size();
  std::vector<std::vector<double>> q(k, std::vector<double>(k, 0));
  std::vector<double> p(k, 1.0 / static_cast<double>(k)), qp(k);
  for (size_t t = 0; t < k; ++t) {
    for (size_t j = 0; j < k; ++j) {
      if (j == t) continue;
      q[t][t] += r[j][t] * r[j][t];
      q[t][j] = -r[j][t] * r[t][j];
    }
  }
  const double epsilon = 0.005 / static_cast<double>(k);
  for (size_t round = 0; round < std::max<size_t>(100, k); ++round) {
    double pqp = 0, error = 0;
    for (size_t t = 0; t < k; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < k; ++j) qp[t] += q[t][j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (size_t t = 0; t < k; ++t) error = std::max(error, std::fabs(qp[t] - pqp));
    if (error < epsilon) break;
    for (size_t t = 0; t < k; ++t) {
      const double diff = (pqp - qp[t]) / q[t][t];
      p[t] += diff;
      pqp = (pqp + diff * (diff * q[t][t] + 2 * qp[t])) / ((1 + diff) * (1 + diff));
      for (size_t j = 0; j < k; ++j) {
        qp[j] = (qp[j] + diff * q[t][j]) / (1 + diff);
        p[j] /= 1 + diff;
      }
    }
  }
  return p;
}

// Expands the score of a binary model to two. How the second score is computed depends on how the model was
// made.
std::vector<double> finished_scores(const Call& c, const std::string& how, std::vector<double> s, bool two_labels) {
  if (s.size() == 1 && how != "PROBIT" && two_labels) {
    s = {-s[0], s[0]};
    if (how == "NONE") return s;
  }
  post_transform(c, how, s);
  return s;
}

void set_scores(Call& c, const std::vector<std::vector<double>>& rows, DType t) {
  const auto width = static_cast<int64_t>(rows.empty() ? 0 : rows[0].size());
  std::vector<double> all;
  for (const auto& r : rows) all.insert(all.end(), r.begin(), r.end());
  c.set(1, c.of<double>(t, {static_cast<int64_t>(rows.size()), width}, all));
}

}  // namespace

namespace kernels {

void LinearRegressor(Call& c) {
  const Matrix x = samples(c);
  const std::vector<double> weights = floats(c, "coefficients"), intercepts = floats(c, "intercepts");
  const int64_t targets = c.int_attr("targets", 1);
  c.require(targets > 0 && targets <= std::ssize(weights) && std::ssize(weights) == targets * x.columns,
            "the coefficients do not fit the samples");
  std::vector<double> out;
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s;
    for (int64_t t = 0; t < targets; ++t) {
      double sum = static_cast<size_t>(t) < intercepts.size() ? intercepts[static_cast<size_t>(t)] : 0;
      for (int64_t k = 0; k < x.columns; ++k) sum += x.row(r)[k] * weights[static_cast<size_t>(t * x.columns + k)];
      s.push_back(sum);
    }
    post_transform(c, c.string_attr("post_transform", "NONE"), s);
    out.insert(out.end(), s.begin(), s.end());
  }
  c.set(0, c.of<double>(DType::kF32, {x.rows, targets}, out));
}

void LinearClassifier(Call& c) {
  const Matrix x = samples(c);
  const std::vector<double> weights = floats(c, "coefficients"), intercepts = floats(c, "intercepts");
  const std::string how = c.string_attr("post_transform", "NONE");
  Labels labels(c, "classlabels_ints");
  c.require(x.columns > 0 && !weights.empty() && static_cast<int64_t>(weights.size()) % x.columns == 0,
            "the coefficients do not fit the samples");
  const int64_t classes = static_cast<int64_t>(weights.size()) / x.columns;
  std::vector<std::vector<double>> rows;
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s;
    for (int64_t t = 0; t < classes; ++t) {
      double sum = static_cast<size_t>(t) < intercepts.size() ? intercepts[static_cast<size_t>(t)] : 0;
      for (int64_t k = 0; k < x.columns; ++k) sum += x.row(r)[k] * weights[static_cast<size_t>(t * x.columns + k)];
      s.push_back(sum);
    }
    if (classes == 1 && labels.size() == 2) s = {-s[0], s[0]};
    if (s.size() > 1) {
      labels.add(c, largest(s));
    } else {
      labels.add_number(s[0] > 0 ? labels.size() == 1 ? labels.number(0) : 1 : 0);
    }
    post_transform(c, how, s);
    rows.push_back(std::move(s));
  }
  c.set(0, labels.values(c));
  set_scores(c, rows, DType::kF32);
}

void SVMRegressor(Call& c) {
  const Matrix x = samples(c);
  const std::vector<double> weights = floats(c, "coefficients"), rho = floats(c, "rho"), vectors = floats(c, "support_vectors");
  const int64_t supports = c.int_attr("n_supports", 0);
  c.require(!rho.empty() && supports >= 0 && supports <= std::ssize(weights), "rho is missing, or n_supports out of range");
  const KernelFunction kernel(c, supports == 0);
  if (supports > 0) {
    c.require(static_cast<int64_t>(vectors.size()) == supports * x.columns && static_cast<int64_t>(weights.size()) == supports,
              "the support vectors do not fit the samples");
  } else {
    c.require(static_cast<int64_t>(weights.size()) == x.columns, "the coefficients do not fit the samples");
  }
  std::vector<double> out;
  for (int64_t r = 0; r < x.rows; ++r) {
    double s = rho[0];
    if (supports == 0) s += kernel(x.row(r), weights.data(), x.columns);
    for (int64_t j = 0; j < supports; ++j)
      s += weights[static_cast<size_t>(j)] * kernel(x.row(r), vectors.data() + j * x.columns, x.columns);
    if (c.int_attr("one_class", 0) != 0) s = s > 0 ? 1 : -1;
    post_transform(c, c.string_attr("post_transform", "NONE"), {&s, 1});
    out.push_back(s);
  }
  c.set(0, c.of<double>(DType::kF32, {x.rows, 1}, out));
}

void SVMClassifier(Call& c) {
  const Matrix x = samples(c);
  const std::vector<double> weights = floats(c, "coefficients"), rho = floats(c, "rho"), vectors = floats(c, "support_vectors"),
                            prob_a = floats(c, "prob_a"), prob_b = floats(c, "prob_b");
  const std::vector<int64_t> per_class = ints(c, "vectors_per_class");
  const std::string how = c.string_attr("post_transform", "NONE");
  Labels labels(c, "classlabels_ints");
  const size_t classes = std::max<size_t>(labels.size(), 1);
  int64_t supports = 0;
  std::vector<int64_t> first;
  for (int64_t n : per_class) {
    c.require(n >= 0 && n <= std::ssize(vectors), "a number of vectors is out of range");
    first.push_back(supports);
    supports += n;
  }
  c.require(!rho.empty() && !weights.empty(), "rho or coefficients are missing");
  const KernelFunction kernel(c, supports == 0);
  const bool positive = *std::ranges::min_element(weights) >= 0;
  const bool probabilities = !prob_a.empty() && supports > 0;
  const size_t pairs = classes * (classes - 1) / 2;
  if (supports > 0) {
    c.require(per_class.size() == classes && static_cast<int64_t>(vectors.size()) == supports * x.columns &&
                  rho.size() >= pairs && weights.size() == (classes - 1) * static_cast<size_t>(supports) &&
                  (!probabilities || (prob_a.size() >= pairs && prob_b.size() >= pairs)),
              "the support vectors do not fit classes and samples");
  } else {
    c.require(static_cast<int64_t>(weights.size()) == static_cast<int64_t>(classes) * x.columns,
              "the coefficients do not fit classes and samples");
  }
  std::vector<std::vector<double>> rows;
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> scores, votes;
    if (supports == 0) {
      for (size_t j = 0; j < classes; ++j) {
        scores.push_back(rho[0] + kernel(x.row(r), weights.data() + static_cast<int64_t>(j) * x.columns, x.columns));
      }
    } else {
      votes.assign(classes, 0);
      std::vector<double> near;
      for (int64_t j = 0; j < supports; ++j) near.push_back(kernel(x.row(r), vectors.data() + j * x.columns, x.columns));
      auto part = [&](size_t coefficients_of, size_t vectors_of) {
        double sum = 0;
        for (int64_t j = first[vectors_of]; j < first[vectors_of] + per_class[vectors_of]; ++j) {
          sum +=
              weights[coefficients_of * static_cast<size_t>(supports) + static_cast<size_t>(j)] * near[static_cast<size_t>(j)];
        }
        return sum;
      };
      for (size_t i = 0; i < classes; ++i) {
        for (size_t j = i + 1; j < classes; ++j) {
          const double s = rho[scores.size()] + part(j - 1, i) + part(i, j);
          scores.push_back(s);
          votes[s > 0 ? i : j] += 1;
        }
      }
    }
    if (probabilities) {
      std::vector<std::vector<double>> pairwise(classes, std::vector<double>(classes, 0));
      size_t k = 0;
      for (size_t i = 0; i < classes; ++i) {
        for (size_t j = i + 1; j < classes; ++j, ++k) {
          pairwise[i][j] = std::clamp(1 - logistic(scores[k] * prob_a[k] + prob_b[k]), 1e-7, 1 - 1e-7);
          pairwise[j][i] = 1 - pairwise[i][j];
        }
      }
      scores = coupled(pairwise);
    }
    const std::vector<double>& by = votes.empty() ? scores : votes;
    const int64_t best = largest(by);
    const double most = by[static_cast<size_t>(best)];
    if (rho.size() == 1 && classes != 2) {
      labels.add_number(most > 0 ? 1 : 0);
    } else if (rho.size() == 1 && !probabilities && positive && most >= 0.5) {
      labels.add(c, 1);
    } else {
      labels.add(c, best);
    }
    rows.push_back(finished_scores(c, how, std::move(scores), classes == 2));
  }
  c.set(0, labels.values(c));
  set_scores(c, rows, DType::kF32);
}

}  // namespace kernels

// --- trees

namespace {

enum class Test : uint8_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual, kMember, kLeaf };

struct TreeNode {
  Test test = Test::kLeaf;
  int64_t feature = 0;
  double value = 0;
  bool missing_is_true = false;
  size_t yes = 0, no = 0;                                // indices of nodes
  std::vector<double> members = {};                      // of kMember
  std::vector<std::pair<int64_t, double>> weights = {};  // of a leaf: target and weight
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<size_t> roots;
};

// Finds the leaf that a sample reaches. A walk takes at most as many steps as there are nodes, so a cycle is
// an error.
const TreeNode& leaf(const Call& c, const Forest& f, size_t at, const double* sample, int64_t features) {
  for (size_t steps = 0; steps <= f.nodes.size(); ++steps) {
    const TreeNode& n = f.nodes[at];
    if (n.test == Test::kLeaf) return n;
    if (n.feature < 0 || n.feature >= features)
      c.fail(fmt::format("feature {} is out of range: there are {}", n.feature, features));
    const double x = sample[n.feature];
    bool yes = false;
    switch (n.test) {
      case Test::kLessEqual: yes = x <= n.value; break;
      case Test::kLess: yes = x < n.value; break;
      case Test::kGreaterEqual: yes = x >= n.value; break;
      case Test::kGreater: yes = x > n.value; break;
      case Test::kEqual: yes = x == n.value; break;
      case Test::kNotEqual: yes = x != n.value; break;
      default: yes = std::ranges::find(n.members, x) != n.members.end();
    }
    if (std::isnan(x)) yes = n.missing_is_true;
    at = yes ? n.yes : n.no;
  }
  c.fail("the nodes of a tree form a cycle");
}

// Reads the older encoding: nodes are named by tree and number, leaves are nodes, weights refer to leaves.
Forest named_forest(const Call& c, const std::string& what) {
  const std::vector<int64_t> trees = ints(c, "nodes_treeids"), ids = ints(c, "nodes_nodeids"),
                             features = ints(c, "nodes_featureids"), yes = ints(c, "nodes_truenodeids"),
                             no = ints(c, "nodes_falsenodeids"), missing = ints(c, "nodes_missing_value_tracks_true");
  const std::vector<double> values = numbers(c, "nodes_values");
  const auto modes = c.strings_attr("nodes_modes").value_or(std::vector<std::string>{});
  const size_t n = trees.size();
  c.require(
      ids.size() == n && features.size() == n && yes.size() == n && no.size() == n && values.size() == n && modes.size() == n,
      "the lists of nodes differ in length");
  Forest f;
  std::map<std::pair<int64_t, int64_t>, size_t> place;
  std::map<int64_t, size_t> roots;
  for (size_t i = 0; i < n; ++i) {
    place[{trees[i], ids[i]}] = i;
    roots.try_emplace(trees[i], i);
  }
  auto find = [&](int64_t tree, int64_t id) {
    const auto at = place.find({tree, id});
    if (at == place.end()) c.fail(fmt::format("tree {} has no node {}", tree, id));
    return at->second;
  };
  static const std::map<std::string, Test> kTests = {{"BRANCH_LEQ", Test::kLessEqual},
                                                     {"BRANCH_LT", Test::kLess},
                                                     {"BRANCH_GTE", Test::kGreaterEqual},
                                                     {"BRANCH_GT", Test::kGreater},
                                                     {"BRANCH_EQ", Test::kEqual},
                                                     {"BRANCH_NEQ", Test::kNotEqual},
                                                     {"LEAF", Test::kLeaf}};
  for (size_t i = 0; i < n; ++i) {
    TreeNode t;
    const auto test = kTests.find(modes[i]);
    if (test == kTests.end()) c.fail(fmt::format("unknown mode \"{}\"", modes[i]));
    t.test = test->second;
    t.feature = features[i];
    t.value = values[i];
    t.missing_is_true = i < missing.size() && missing[i] != 0;
    if (t.test != Test::kLeaf) t.yes = find(trees[i], yes[i]), t.no = find(trees[i], no[i]);
    f.nodes.push_back(std::move(t));
  }
  const std::vector<int64_t> w_trees = ints(c, what + "_treeids"), w_nodes = ints(c, what + "_nodeids"),
                             w_ids = ints(c, what + "_ids");
  const std::vector<double> weights = numbers(c, what + "_weights");
  c.require(w_trees.size() == w_nodes.size() && w_ids.size() == w_nodes.size() && weights.size() == w_nodes.size(),
            "the lists of weights differ in length");
  for (size_t i = 0; i < w_nodes.size(); ++i) f.nodes[find(w_trees[i], w_nodes[i])].weights.emplace_back(w_ids[i], weights[i]);
  for (const auto& [tree, root] : roots) f.roots.push_back(root);
  return f;
}

enum class Aggregate : uint8_t { kAverage, kSum, kMin, kMax };

// One score per target for each sample, before base values.
std::vector<std::vector<double>> aggregated(const Call& c, const Forest& f, const Matrix& x, int64_t targets, Aggregate how) {
  std::vector<std::vector<double>> out;
  const double start = how == Aggregate::kMin   ? std::numeric_limits<double>::infinity()
                       : how == Aggregate::kMax ? -std::numeric_limits<double>::infinity()
                                                : 0;
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> s(static_cast<size_t>(targets), start);
    for (size_t root : f.roots) {
      for (const auto& [target, weight] : leaf(c, f, root, x.row(r), x.columns).weights) {
        if (target < 0 || target >= targets) c.fail(fmt::format("target {} is out of range: there are {}", target, targets));
        double& v = s[static_cast<size_t>(target)];
        switch (how) {
          case Aggregate::kMin: v = std::min(v, weight); break;
          case Aggregate::kMax: v = std::max(v, weight); break;
          default: v += weight;
        }
      }
    }
    for (double& v : s) {
      if (std::isinf(v)) v = 0;  // no tree votes on that target
      if (how == Aggregate::kAverage) v /= static_cast<double>(f.roots.size());
    }
    out.push_back(std::move(s));
  }
  return out;
}

void set_rows(Call& c, const std::vector<std::vector<double>>& rows, int64_t columns, DType t) {
  std::vector<double> all;
  for (const auto& r : rows) all.insert(all.end(), r.begin(), r.end());
  c.set(0, c.of<double>(t, {static_cast<int64_t>(rows.size()), columns}, all));
}

}  // namespace

namespace kernels {

void TreeEnsembleRegressor(Call& c) {
  const Matrix x = samples(c);
  const Forest f = named_forest(c, "target");
  const int64_t targets = c.int_attr("n_targets", 1);
  c.require(targets > 0 && targets < (int64_t{1} << 31), "n_targets is out of range");
  static const std::map<std::string, Aggregate> kHow = {
      {"AVERAGE", Aggregate::kAverage}, {"SUM", Aggregate::kSum}, {"MIN", Aggregate::kMin}, {"MAX", Aggregate::kMax}};
  const std::string name = c.string_attr("aggregate_function", "SUM");
  const auto how = kHow.find(name);
  if (how == kHow.end()) c.fail(fmt::format("unknown aggregate function \"{}\"", name));
  const std::vector<double> base = numbers(c, "base_values");
  auto rows = aggregated(c, f, x, targets, how->second);
  for (auto& s : rows) {
    for (size_t t = 0; t < s.size() && !base.empty(); ++t) s[t] += base[std::min(t, base.size() - 1)];
    post_transform(c, c.string_attr("post_transform", "NONE"), s);
  }
  set_rows(c, rows, targets, DType::kF32);
}

void TreeEnsembleClassifier(Call& c) {
  const Matrix x = samples(c);
  const Forest f = named_forest(c, "class");
  Labels labels(c, "classlabels_int64s");
  c.require(labels.size() > 0, "class labels are missing");
  const std::vector<int64_t> ids = ints(c, "class_ids");
  const bool binary = std::set<int64_t>(ids.begin(), ids.end()).size() == 1 && labels.size() <= 2;
  const std::vector<double> base = numbers(c, "base_values"), weights = numbers(c, "class_weights");
  const bool positive = std::ranges::all_of(weights, [](double w) { return w >= 0; });
  const std::string how = c.string_attr("post_transform", "NONE");
  auto rows = aggregated(c, f, x, static_cast<int64_t>(std::max<size_t>(labels.size(), 1)), Aggregate::kSum);
  for (auto& s : rows) {
    if (!binary) {
      for (size_t t = 0; t < s.size() && t < base.size(); ++t) s[t] += base[t];
      labels.add(c, largest(s));
      post_transform(c, how, s);
      continue;
    }
    // One column of weights scores the second class.
    double score = s[static_cast<size_t>(ids[0])];
    if (base.size() == 1) score += base[0];
    if (base.size() == 2) score += base[1];
    const bool second = positive ? score > 0.5 : score > 0;
    if (labels.size() == 2) {
      labels.add(c, second ? 1 : 0);
    } else {
      labels.add_number(second ? labels.texts() ? 1 : labels.number(0) : 0);
    }
    if (how == "NONE" || how == "PROBIT") {
      s = {1 - score, score};
    } else {
      s = {-score, score};
    }
    post_transform(c, how, s);
  }
  c.set(0, labels.values(c));
  set_scores(c, rows, DType::kF32);
}

// Reads the newer encoding: inner nodes and leaves are in separate lists.
void TreeEnsemble(Call& c) {
  const Matrix x = samples(c);
  auto tensor = [&](std::string_view name) {
    const TensorPtr t = c.tensor_attr(name);
    return t ? load_all<double>(Array::of(t)) : std::vector<double>{};
  };
  const std::vector<double> splits = tensor("nodes_splits"), modes = tensor("nodes_modes"),
                            leaf_weights = tensor("leaf_weights"), members = tensor("membership_values");
  const std::vector<int64_t> features = ints(c, "nodes_featureids"), yes = ints(c, "nodes_truenodeids"),
                             no = ints(c, "nodes_falsenodeids"), yes_leaf = ints(c, "nodes_trueleafs"),
                             no_leaf = ints(c, "nodes_falseleafs"), roots = ints(c, "tree_roots"),
                             targets_of = ints(c, "leaf_targetids"), missing = ints(c, "nodes_missing_value_tracks_true");
  const size_t n = features.size();
  c.require(splits.size() == n && modes.size() == n && yes.size() == n && no.size() == n && yes_leaf.size() == n &&
                no_leaf.size() == n && targets_of.size() == leaf_weights.size(),
            "the lists of nodes or of leaves differ in length");
  Forest f;
  auto target = [&](int64_t at, bool is_leaf) {  // leaves follow the nodes
    const auto limit = static_cast<int64_t>(is_leaf ? leaf_weights.size() : n);
    if (at < 0 || at >= limit) c.fail(fmt::format("there is no {} {}", is_leaf ? "leaf" : "node", at));
    return static_cast<size_t>(at) + (is_leaf ? n : 0);
  };
  size_t next_member = 0;
  for (size_t i = 0; i < n; ++i) {
    TreeNode t;
    c.require(modes[i] >= 0 && modes[i] <= 6, "unknown mode of a node");
    t.test = static_cast<Test>(static_cast<int>(modes[i]));
    t.feature = features[i];
    t.value = splits[i];
    t.missing_is_true = i < missing.size() && missing[i] != 0;
    t.yes = target(yes[i], yes_leaf[i] != 0);
    t.no = target(no[i], no_leaf[i] != 0);
    if (t.test == Test::kMember) {  // up to the next NaN
      while (next_member < members.size() && !std::isnan(members[next_member])) t.members.push_back(members[next_member++]);
      ++next_member;
    }
    f.nodes.push_back(std::move(t));
  }
  for (size_t i = 0; i < leaf_weights.size(); ++i) {
    TreeNode t;
    t.weights.emplace_back(targets_of[i], leaf_weights[i]);
    f.nodes.push_back(std::move(t));
  }
  for (int64_t r : roots) f.roots.push_back(target(r, false));
  const int64_t targets = c.int_attr("n_targets", 1), how = c.int_attr("aggregate_function", 1),
                post = c.int_attr("post_transform", 0);
  c.require(targets > 0 && targets < (int64_t{1} << 31) && how >= 0 && how <= 3 && post >= 0 && post <= 4,
            "an attribute is out of range");
  static constexpr std::string_view kPost[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  auto rows = aggregated(c, f, x, targets, static_cast<Aggregate>(how));
  for (auto& s : rows) post_transform(c, std::string(kPost[post]), s);
  set_rows(c, rows, targets, c.dtype());
}

}  // namespace kernels
}  // namespace sardonyx::eval
