#include "rewrite/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <unordered_map>
#include <unordered_set>

#include "sardonyx/eval.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

// Normally distributed numbers by Marsaglia's polar method, as libstdc++'s std::normal_distribution has them.
// The standard leaves the method open, and the same seed shall mean the same inputs on every system.
class Normal {
 public:
  explicit Normal(double deviation) : deviation_(deviation) {}

  double operator()(std::mt19937_64& random) {
    if (has_other_) {
      has_other_ = false;
      return other_ * deviation_;
    }
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * uniform(random) - 1;
      y = 2 * uniform(random) - 1;
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    other_ = x * factor;
    has_other_ = true;
    return y * factor * deviation_;
  }

 private:
  static double uniform(std::mt19937_64& random) {
    const double u = static_cast<double>(random()) * 0x1p-64;
    return u < 1 ? u : std::nextafter(1.0, 0.0);
  }

  double deviation_;
  double other_ = 0;
  bool has_other_ = false;
};

// A loop may not end on random inputs: the graph then counts as unsuited to these inputs.
constexpr EvalOptions kBounded{.max_steps = 4 << 20, .max_iterations = 10000, .states_too = true};

EvalOptions bounded(bool fast) {
  EvalOptions options = kBounded;
  options.fast_products = fast;
  return options;
}

// --- inputs

struct Recipe {
  uint64_t seed;
  int sizes;  // how symbols are sized: 0 and 1 = primes, 2 = all ones
  bool specials;
  int64_t least, most;  // range of integers
};

// Shapes tried in turn for unranked inputs. The last ones broadcast, and concatenate along one axis.
const std::vector<int64_t> kUnranked[] = {{3, 5}, {2, 3, 5, 7}, {2, 3, 5}, {3}, {}, {1, 1, 1, 1}, {1, 1, 1}};

class InputMaker {
 public:
  InputMaker(const Model& m, const Recipe& r, const std::vector<int64_t>& unranked)
      : model_(const_cast<Model&>(m)), recipe_(r), unranked_(unranked), random_(r.seed) {}

  std::vector<EvalValue> make() {
    std::vector<EvalValue> inputs;
    for (const Port& p : model_.graph().inputs()) inputs.push_back(value(p.declared != nullptr ? p.declared : p.value->type()));
    return inputs;
  }
  bool met_unranked() const { return met_unranked_; }

 private:
  int64_t size_of(Dim d) {
    if (d.is_int()) return d.value();
    if (d.is_unknown()) return recipe_.sizes == 2 ? 1 : 3;
    static constexpr int64_t kSizes[2][6] = {{5, 7, 3, 11, 2, 13}, {2, 3, 5, 4, 7, 6}};
    const Dim got = model_.dims().substitute(d, [&](std::string_view symbol) -> std::optional<Dim> {
      const auto at = symbols_.try_emplace(std::string(symbol), symbols_.size()).first->second;
      return Dim::of(recipe_.sizes == 2 ? 1 : kSizes[recipe_.sizes][at % 6]);
    });
    return got.is_int() ? std::max<int64_t>(got.value(), 0) : 3;
  }

  double number() {
    static constexpr double kSpecials[] = {std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(),
                                           -0.0,
                                           0.0,
                                           1e-40,
                                           1.0,
                                           -1.0,
                                           3e38,
                                           0.5};
    if (recipe_.specials && random_() % 4 == 0) return kSpecials[random_() % std::size(kSpecials)];
    return normal_(random_);
  }

  EvalValue value(const Type* t) {
    if (t == nullptr) throw Error(ErrorCode::kUnsupported, "an input has no type");
    if (t->kind() == TypeKind::kSequence)
      return EvalValue::sequence({value(t->element()), value(t->element()), value(t->element())});
    if (t->kind() == TypeKind::kOptional) return EvalOptional{std::make_shared<const EvalValue>(value(t->element()))};
    if (t->kind() == TypeKind::kState) return value(t->element());  // its initial content
    if (!t->is_tensor()) throw Error(ErrorCode::kUnsupported, "an input is not a tensor");
    std::vector<int64_t> shape;
    if (t->ranked()) {
      for (Dim d : t->dims()) shape.push_back(size_of(d));
    } else {
      shape = unranked_;
      met_unranked_ = true;
    }
    int64_t size = 1;
    for (int64_t s : shape) size *= s;
    const DType d = t->dtype();
    if (d == DType::kString) {
      std::vector<std::string> texts;
      for (int64_t i = 0; i < size; ++i) texts.push_back(std::string(random_() % 4, 'a') + "b");
      return EvalValue(Tensor::strings(shape, texts));
    }
    if (is_complex(d)) throw Error(ErrorCode::kUnsupported, "an input is complex");
    std::vector<std::byte> bytes(byte_size(d, static_cast<uint64_t>(size)));
    for (int64_t i = 0; i < size; ++i) {
      if (is_float(d)) {
        encode_element(d, bytes.data(), i, number());
      } else {
        int64_t v = recipe_.least + static_cast<int64_t>(random_() % static_cast<uint64_t>(recipe_.most - recipe_.least + 1));
        if (d == DType::kBool) v = static_cast<int64_t>(random_() % 2);
        if (is_unsigned(d)) v = std::abs(v);
        const int width = bit_width(d);
        if (width >= 8) {
          std::memcpy(bytes.data() + i * (width / 8), &v, static_cast<size_t>(width / 8));
        } else {
          const int per_byte = 8 / width;
          bytes[static_cast<size_t>(i / per_byte)] |=
              static_cast<std::byte>((v & ((1 << width) - 1)) << (width * static_cast<int>(i % per_byte)));
        }
      }
    }
    return EvalValue(Tensor::own(d, shape, std::move(bytes)));
  }

  Model& model_;
  const Recipe& recipe_;
  const std::vector<int64_t>& unranked_;
  bool met_unranked_ = false;
  std::mt19937_64 random_;
  Normal normal_{1.5};
  std::unordered_map<std::string, size_t> symbols_;
};

// --- double precision

bool is_narrow_float(DType d) { return d == DType::kF32 || d == DType::kF16 || d == DType::kBF16; }

double ulp(DType d, double magnitude) {
  const int mantissa = d == DType::kF64 ? 52 : d == DType::kF32 ? 23 : d == DType::kF16 ? 10 : d == DType::kBF16 ? 7 : 2;
  if (magnitude == 0 || !std::isfinite(magnitude)) return 0;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  return std::ldexp(1.0, exponent - 1 - mantissa);
}

// Which dtypes are perturbed by an ulp: see sensitivity().
enum class Nudge { kNothing, kDoubles, kAll };

// v in double precision, moved by an ulp of its type if `nudge` says so, up or down depending on `place`. A
// lone whole number stays: it may be an exponent or a count.
double widened(double v, DType t, bool alone, Nudge nudge, uint64_t& place) {
  if (nudge == Nudge::kNothing || (nudge == Nudge::kDoubles && t != DType::kF64) || (alone && v == std::floor(v))) return v;
  place = place * 6364136223846793005u + 1442695040888963407u;
  return v + ((place >> 63) != 0 ? 1 : -1) * ulp(t, std::abs(v));
}

TensorPtr widened(const TensorPtr& t, Nudge nudge, uint64_t& place) {
  if (t == nullptr || !(is_narrow_float(t->dtype()) || t->dtype() == DType::kF64)) return t;
  if (t->dtype() == DType::kF64 && t->size() > 1 << 16) return t;
  std::vector<double> wide;
  for (int64_t i = 0; i < t->size(); ++i) wide.push_back(widened(t->as_double(i), t->dtype(), t->size() == 1, nudge, place));
  return Tensor::of<double>(DType::kF64, {t->shape().begin(), t->shape().end()}, wide);
}

// The same graph with f64 instead of narrower floats. Only for evaluation: its types are stale.
std::unique_ptr<Model> widened(const Model& m, Nudge nudge) {
  auto copy = clone_model(m);
  uint64_t place = 1;
  for (const auto& f : copy->functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      const std::vector<Value*> constants(g->constants().begin(), g->constants().end());
      for (Value* v : constants) g->set_constant(*v, widened(v->constant(), nudge, place));
      for (Node& n : g->nodes()) {
        if (n.has(Trait::kConstant) && n.result()->is_constant())
          g->set_constant(*n.result(), widened(n.result()->constant(), nudge, place));
        for (std::string_view name : {"to", "dtype"}) {
          const Attr* a = n.attr(name);
          const int64_t* code = a != nullptr ? a->get<int64_t>() : nullptr;
          if (code != nullptr && (*code == 1 || *code == 10 || *code == 16))
            n.set_attrs(copy->with_attr(n.attrs(), name, int64_t{11}));
        }
        if (n.is("ConstantOfShape")) {
          if (const Attr* a = n.attr("value"); a != nullptr && a->get<TensorPtr>() != nullptr) {
            n.set_attrs(copy->with_attr(n.attrs(), "value", widened(*a->get<TensorPtr>(), nudge, place)));
          } else {
            n.set_attrs(copy->with_attr(n.attrs(), "value", Tensor::full(DType::kF64, {1}, 0)));
          }
        }
      }
    }
  }
  return copy;
}

EvalValue widened(const EvalValue& v, Nudge nudge, uint64_t& place) {
  if (const Array* a = v.array()) return is_float(a->dtype()) ? EvalValue(widened(a->to_tensor(), nudge, place)) : v;
  if (const auto* items = v.items()) {
    std::vector<EvalValue> wide;
    for (const EvalValue& i : *items) wide.push_back(widened(i, nudge, place));
    return EvalValue::sequence(std::move(wide));
  }
  if (const EvalOptional* o = v.optional(); o != nullptr && o->value)
    return EvalOptional{std::make_shared<const EvalValue>(widened(*o->value, nudge, place))};
  return v;
}

// --- comparing

// How far results move when inputs and constants move by about an ulp. For f64, which has no wider truth,
// this estimates the rounding error. A rule that rounds constants again cannot be more accurate than this
// where large terms cancel.
double sensitivity(const Array& a, const Array* nudged) {
  double most = 0;
  if (nudged == nullptr || nudged->shape() != a.shape()) return most;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(a.double_at(i) - nudged->double_at(i));
    if (std::isfinite(d)) most = std::max(most, d);
  }
  return most;
}

// How to compare results, and where to record the largest error.
struct Judge {
  Numerics numerics;
  std::optional<Tolerance> tolerance;
  ValueCheck* check;    // gets the largest error
  std::string where{};  // "result 'y', "
};

std::string number_text(DType d, double v) {
  return d == DType::kF64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
}

// The floats of one result before and after.
class FloatResults {
 public:
  // `moved`: see `backwards` in compare_values(). For f64, `truth` is the same computation on nudged inputs.
  FloatResults(const Array& a, const Array& b, const Array* truth, const Judge& judge, std::optional<double> moved)
      : a_(a), b_(b), truth_(truth), judge_(judge), moved_(moved) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (std::isfinite(a.double_at(i))) largest_ = std::max(largest_, std::abs(a.double_at(i)));
    }
    const bool is_double = a.dtype() == DType::kF64;
    has_truth_ = !is_double && truth != nullptr && truth->shape() == a.shape() && is_float(truth->dtype());
    // Results near zero that come from numbers near 1, such as the logarithm of a softmax, keep the rounding
    // of those numbers.
    slack_ = 16 * (ulp(a.dtype(), moved ? std::max(largest_, 1.0) : largest_) + (is_double ? sensitivity(a, truth) : 0));
    if (moved && has_truth_) error_before_ = sensitivity(*truth, &a);
  }

  // Describes the element with the largest difference; nullopt if all agree.
  std::optional<std::string> difference() const {
    std::optional<std::string> found;
    double worst = -1;
    for (int64_t i = 0; i < a_.size(); ++i) {
      const double x = a_.double_at(i), y = b_.double_at(i);
      if ((std::isnan(x) && std::isnan(y)) || (x == y && std::signbit(x) == std::signbit(y))) continue;
      const double error = std::abs(x - y);
      if (error > judge_.check->largest_error) {
        judge_.check->largest_error = error;
        judge_.check->largest_at = judge_.where + change(i);
      }
      const double rank = std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
      if (is_fine(i, x, y) || rank <= worst) continue;
      worst = rank;
      found = change(i) + explanation(i, x, y);
    }
    return found;
  }

 private:
  std::string change(int64_t i) const {
    return fmt::format("element {} of [{}]: {} became {}", i, fmt::join(a_.shape(), ","),
                       number_text(a_.dtype(), a_.double_at(i)), number_text(b_.dtype(), b_.double_at(i)));
  }

  bool is_held_to_truth(double x) const {
    return judge_.numerics == Numerics::kRounds && !judge_.tolerance && has_truth_ && std::isfinite(x);
  }

  // The bound on |y - truth|, or on |y - x| without a truth.
  double allowed(int64_t i, double x) const {
    if (judge_.tolerance) {
      const Tolerance& t = *judge_.tolerance;
      return t.atol + t.rtol * std::abs(x) + t.of_largest * largest_;
    }
    if (judge_.numerics == Numerics::kExact) return 0;
    if (judge_.numerics == Numerics::kRelaxed) return 1e-3 * largest_;
    if (!is_held_to_truth(x)) return slack_;
    const double before = moved_ ? error_before_ : std::abs(x - truth_->double_at(i));
    return 2 * before + 4 * ulp(a_.dtype(), largest_) + 4 * moved_.value_or(0);
  }

  bool is_fine(int64_t i, double x, double y) const {
    if (judge_.tolerance) return x == y || std::abs(x - y) <= allowed(i, x);
    if (judge_.numerics == Numerics::kExact) return false;
    if (judge_.numerics == Numerics::kRelaxed)
      return x == y || std::abs(x - y) <= allowed(i, x) || (!std::isfinite(x) && !std::isfinite(y));
    if (is_held_to_truth(x)) return std::abs(y - truth_->double_at(i)) <= allowed(i, x);
    if (moved_ && std::isnan(x)) return true;                            // a NaN may become a number
    if (has_truth_ && std::isfinite(truth_->double_at(i))) return true;  // the original overflowed: any result is closer
    return x == y || std::abs(x - y) <= slack_;
  }

  std::string explanation(int64_t i, double x, double y) const {
    const double bound = allowed(i, x);
    if (is_held_to_truth(x)) {
      const double t = truth_->double_at(i);
      return fmt::format(" (in double precision {}: off by {:.2g}, {:.2g} is allowed)", t, std::abs(y - t), bound);
    }
    if (!std::isfinite(x) || !std::isfinite(y) || bound == 0) return {};
    return fmt::format(" (off by {:.2g}, {:.2g} is allowed)", std::abs(x - y), bound);
  }

  const Array &a_, &b_;
  const Array* truth_;
  const Judge& judge_;
  std::optional<double> moved_;
  bool has_truth_ = false;
  double largest_ = 0, slack_ = 0, error_before_ = 0;
};

std::optional<std::string> differ(const Array& a, const Array& b, const Array* truth, const Judge& judge,
                                  std::optional<double> moved) {
  const auto is_number = [](DType t) { return is_float(t) || is_integer(t); };
  // kRelaxed passes may change the dtype on purpose (update_output_dtypes).
  if (a.dtype() != b.dtype() && !(judge.numerics == Numerics::kRelaxed && is_number(a.dtype()) && is_number(b.dtype())))
    return fmt::format("{} became {}", to_string(a.dtype()), to_string(b.dtype()));
  if (a.shape() != b.shape())
    return fmt::format("shape [{}] became [{}]", fmt::join(a.shape(), ","), fmt::join(b.shape(), ","));
  if (a.dtype() == DType::kString) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (a.string_at(i) != b.string_at(i))
        return fmt::format("element {}: '{}' became '{}'", i, a.string_at(i), b.string_at(i));
    }
    return std::nullopt;
  }
  if (is_complex(a.dtype())) return std::nullopt;
  if (!is_float(a.dtype())) {
    for (int64_t i = 0; i < a.size(); ++i) {
      if (a.int_at(i) != b.int_at(i)) return fmt::format("element {}: {} became {}", i, a.int_at(i), b.int_at(i));
    }
    return std::nullopt;
  }
  return FloatResults(a, b, truth, judge, moved).difference();
}

std::optional<std::string> differ(const EvalValue& a, const EvalValue& b, const EvalValue* truth, const Judge& judge,
                                  const EvalValue* nudged = nullptr) {
  if (a.array() != nullptr && b.array() != nullptr) {
    const Array* exact = truth != nullptr ? truth->array() : nullptr;
    const bool moves = nudged != nullptr && exact != nullptr && is_float(exact->dtype());
    return differ(*a.array(), *b.array(), exact, judge,
                  moves ? std::optional(sensitivity(*exact, nudged->array())) : std::nullopt);
  }
  if (a.items() != nullptr && b.items() != nullptr) {
    if (a.items()->size() != b.items()->size()) return "a sequence has another length";
    for (size_t i = 0; i < a.items()->size(); ++i) {
      if (auto d = differ((*a.items())[i], (*b.items())[i], nullptr, judge)) return d;
    }
    return std::nullopt;
  }
  if (describe(a) != describe(b)) return fmt::format("{} became {}", describe(a), describe(b));
  return std::nullopt;
}

// A Dropout in training mode, or one whose mode is an input, draws random numbers.
bool may_drop(const Node& n) {
  if (!n.is("Dropout")) return false;
  if (n.op().since_version < 7) return n.attr_int("is_test", 0) == 0;
  const Value* training = n.input(2);
  if (training == nullptr) return false;
  const TensorPtr known = training->constant();
  return known == nullptr || known->size() != 1 || known->as_int(0) != 0;
}

// Evaluates `before`, and its replacement through `after(inputs)`, on inputs of all kinds.
using After = std::function<std::vector<EvalValue>(std::span<const EvalValue> inputs)>;

// The results in double precision; empty if an operator has no f64 kernel.
std::vector<EvalValue> evaluate_widened(const Model& m, std::span<const EvalValue> inputs, Nudge nudge, uint64_t seed,
                                        bool fast) {
  try {
    std::vector<EvalValue> wide;
    for (const EvalValue& v : inputs) wide.push_back(widened(v, nudge, seed));
    return evaluate(widened(m, nudge)->graph(), wide, bounded(fast));
  } catch (const Error&) {
    return {};
  }
}

// Finds inputs that the graph accepts, and its results. False if these inputs do not suit it: indices out of
// range, sizes that do not match.
bool find_inputs(const Model& m, const Recipe& recipe, bool fast, SeededRun& run, std::string& skipped) {
  std::string first;
  for (const std::vector<int64_t>& unranked : kUnranked) {
    InputMaker maker(m, recipe, unranked);
    try {
      run.inputs = maker.make();
      run.results = evaluate(m.graph(), run.inputs, bounded(fast));
      return true;
    } catch (const Error& e) {
      if (first.empty()) first = e.message();
    }
    if (!maker.met_unranked()) break;
  }
  skipped = first;
  return false;
}

constexpr size_t kRecipes = 5, kSizes = 3;  // the first three recipes have all kinds of sizes

// After how many runs the others differ from them in their numbers alone.
size_t enough_runs(const Model& m) {
  bool closed = true;
  for (const Port& p : m.graph().inputs()) {
    const Type* t = p.declared != nullptr ? p.declared : p.value->type();
    if (t == nullptr || !t->is_tensor() || !t->ranked() || !is_float(t->dtype())) return kRecipes;
    closed &= std::ranges::all_of(t->dims(), [](Dim d) { return d.is_int(); });
  }
  return closed ? 1 : kSizes;
}

// Calls see(run) for each run, until it says false.
template <class See>
void for_each_run(const Model& m, Numerics numerics, bool fast, std::string& skipped, const See& see) {
  if (is_random(m)) {
    skipped = "it is random";
    return;
  }
  const bool exact = numerics == Numerics::kExact;
  const Recipe recipes[kRecipes] = {
      {1, 0, exact, -3, 3}, {2, 1, false, 0, 2}, {3, 2, exact, 1, 4}, {4, 0, false, 0, 0}, {5, 1, exact, -1, 1}};
  for (const Recipe& recipe : recipes) {
    SeededRun run{.seed = recipe.seed};
    if (!find_inputs(m, recipe, fast, run, skipped)) continue;
    if (!see(run)) return;
  }
}

ValueCheck compare(const Model& before, Numerics numerics, const After& after, bool backwards = false,
                   const std::optional<Tolerance>& tolerance = std::nullopt, const CompareProgress& progress = {}) {
  constexpr double kEnough = 1;  // seconds
  ValueCheck check;
  Judge judge{numerics, tolerance, &check};
  const auto outputs = before.graph().outputs();
  const bool fast = backwards && numerics != Numerics::kExact;
  const size_t enough = fast ? enough_runs(before) : kRecipes;
  const bool has_truth = numerics == Numerics::kRounds && !tolerance;
  const size_t each = has_truth ? 3 : 2;  // evaluations
  Stopwatch watch;
  double seconds = 0;
  size_t total = kRecipes * each;
  const auto step = [&](size_t of_run) {
    if (progress) progress(check.runs * each + of_run, total);
  };
  const auto see = [&](const SeededRun& run) {
    const std::vector<EvalValue>& a = run.results;
    std::vector<EvalValue> b, moved, truth;
    step(1);
    if (has_truth) {
      truth = evaluate_widened(before, run.inputs, Nudge::kDoubles, run.seed, fast);
      step(2);
    }
    try {
      b = after(run.inputs);
    } catch (const Error& e) {
      if (numerics == Numerics::kRelaxed) return true;  // inputs outside the domain that the pass documents
      check.difference = fmt::format("the result cannot be evaluated: {}", e.what());
      return false;
    }
    ++check.runs;
    if (a.size() != b.size()) check.difference = "another number of results";
    for (size_t i = 0; i < a.size() && !check.difference; ++i) {
      judge.where = i < outputs.size() ? fmt::format("result '{}', ", outputs[i].name.view()) : std::string();
      auto d = differ(a[i], b[i], i < truth.size() ? &truth[i] : nullptr, judge);
      if (d && backwards && !tolerance && i < truth.size()) {
        if (moved.empty()) moved = evaluate_widened(before, run.inputs, Nudge::kAll, run.seed, fast);
        if (i < moved.size()) d = differ(a[i], b[i], &truth[i], judge, &moved[i]);
      }
      if (!d) continue;
      std::string shown;
      for (const EvalValue& v : run.inputs) shown += (shown.empty() ? "" : ", ") + describe(v);
      check.difference = fmt::format("result {} differs: {} (inputs {}, seed {})", i, *d, shown, run.seed);
    }
    seconds += watch.lap();
    // The next run would take as long as those so far did on average.
    const bool is_enough = run.seed >= enough && seconds + seconds / static_cast<double>(check.runs) > kEnough;
    if (is_enough) total = check.runs * each;
    step(0);
    return !check.difference && !is_enough;
  };
  for_each_run(before, numerics, fast, check.skipped, see);
  return check;
}

// --- extracting part of a graph as a model

class Cutter {
 public:
  explicit Cutter(const Model& from) : from_(from), model_(std::make_unique<Model>(from.dialect())) {
    model_->add_function("cut");
    model_->ir_version = from.ir_version;
    model_->opset_imports = from.opset_imports;
    model_->keep_alive_like(from);
  }

  // Copies the nodes in order; operands from elsewhere become inputs. False if a value has no type.
  bool copy(std::span<Node* const> nodes) {
    for (const Node* n : nodes) {
      if (!n->bodies().empty() || !n->op().known) return false;
      std::vector<Value*> operands;
      for (const Use& u : n->operands()) {
        Value* v = u.value == nullptr ? nullptr : value(*u.value);
        if (u.value != nullptr && v == nullptr) return false;
        operands.push_back(v);
      }
      Node& made = model_->new_node(n->op(), operands, n->num_results(), model_->attrs(attrs_of(*n)));
      model_->graph().append(made);
      made.set_unchecked(false);
      if (n->has(Trait::kConstant)) model_->graph().set_constant(*made.result(), n->result()->constant());
      for (size_t i = 0; i < n->num_results(); ++i) {
        made.result(i)->set_type(model_->types().import(n->result(i)->type(), from_.types()));
        map_[n->result(i)] = made.result(i);
      }
    }
    return true;
  }

  // The copy of a value: the result of a copied node, a constant, or else a new input. Null if its type is
  // unknown.
  Value* value(const Value& v) {
    Value*& known = map_[&v];
    if (known != nullptr) return known;
    if (v.is_constant()) return known = model_->graph().add_constant(v.constant());
    if (v.type() == nullptr) return nullptr;
    const Type* t = model_->types().import(v.type(), from_.types());
    inputs_.push_back(&v);
    return known = model_->graph().add_input(fmt::format("v{}", inputs_.size()), t);
  }

  bool add_output(const Value& v) {
    Value* copy = value(v);
    if (copy != nullptr) model_->graph().add_output(*copy, fmt::format("r{}", model_->graph().outputs().size()));
    return copy != nullptr;
  }

  const std::vector<const Value*>& inputs() const { return inputs_; }  // the originals, in order

  Model& model() { return *model_; }

 private:
  const Model& from_;
  std::unique_ptr<Model> model_;
  std::unordered_map<const Value*, Value*> map_;
  std::vector<const Value*> inputs_;
};

}  // namespace

bool is_random(const Model& m) {
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) {
        if (n.has(Trait::kRandom) || may_drop(n)) return true;
      }
    }
  }
  return false;
}

std::vector<SeededRun> seeded_runs(const Model& m, Numerics numerics, std::string& skipped) {
  std::vector<SeededRun> runs;
  for_each_run(m, numerics, /*fast=*/false, skipped, [&](SeededRun& run) {
    if (numerics == Numerics::kRounds) run.truth = evaluate_widened(m, run.inputs, Nudge::kDoubles, run.seed, /*fast=*/false);
    runs.push_back(std::move(run));
    return true;
  });
  return runs;
}

ValueCheck compare_values(const Model& before, Numerics numerics, const After& after,
                          const std::optional<Tolerance>& tolerance) {
  return compare(before, numerics, after, /*backwards=*/false, tolerance);
}

ValueCheck compare_values(const Model& before, const Model& after, Numerics numerics, bool backwards,
                          const std::optional<Tolerance>& tolerance, const CompareProgress& progress) {
  const auto old = before.graph().inputs(), now = after.graph().inputs();
  const EvalOptions options = bounded(backwards && numerics != Numerics::kExact);
  return compare(
      before, numerics,
      [&](std::span<const EvalValue> inputs) {
        if (now.size() == old.size()) return evaluate(after.graph(), inputs, options);
        std::vector<EvalValue> left;  // some inputs were pruned
        for (const Port& p : now) {
          const auto at = std::find_if(old.begin(), old.end(), [&](const Port& o) { return o.name == p.name; });
          if (at != old.end()) left.push_back(inputs[static_cast<size_t>(at - old.begin())]);
        }
        return evaluate(after.graph(), left, options);
      },
      backwards, tolerance, progress);
}

namespace {

// Whether `inner` is `outer` or nested in it.
bool sees(const Graph* inner, const Graph* outer) {
  while (inner != nullptr && inner != outer) inner = inner->enclosing();
  return inner != nullptr;
}

// The nodes of the set in execution order, outer graphs first. Walks each graph backwards from the node that
// leads to the root.
std::vector<Node*> in_order(const std::unordered_set<const Node*>& set, const Node& root) {
  std::vector<Node*> ordered;
  for (Node* n = const_cast<Node*>(&root); n != nullptr && ordered.size() < set.size();) {
    if (set.contains(n)) ordered.push_back(n);
    Node* before = n->prev();
    n = before != nullptr ? before : n->graph()->parent();
  }
  std::reverse(ordered.begin(), ordered.end());
  return ordered;
}

// How far operands are followed backwards; integers are always followed.
enum class Reach {
  kMatched,      // only through matched nodes
  kNewOperands,  // to the operands of the new nodes
  kEverything,
};

ValueCheck compare_region(const Node& root, std::span<Value* const> made, std::span<Node* const> matched,
                          std::span<Node* const> fresh, Numerics numerics, Reach reach) {
  constexpr size_t kMostNodes = 400;
  std::unordered_set<const Node*> inside;
  std::vector<Node*> region;
  const auto include = [&](Node* n) {
    if (inside.insert(n).second) region.push_back(n);
  };
  std::unordered_set<const Value*> read_anew(made.begin(), made.end());
  for (Node* n : matched) include(n);
  for (Node* n : fresh) {
    include(n);
    for (const Use& u : n->operands()) read_anew.insert(u.value);
  }
  for (size_t i = 0; i < region.size() && region.size() < kMostNodes; ++i) {
    for (const Use& u : region[i]->operands()) {
      Node* def = u.value != nullptr ? u.value->def() : nullptr;
      if (def == nullptr || !sees(root.graph(), def->graph()) || !def->bodies().empty()) continue;
      const bool is_float_border = reach == Reach::kMatched || (reach == Reach::kNewOperands && read_anew.contains(u.value));
      if (is_float_border && is_float(u.value->dtype())) continue;
      if (reach != Reach::kMatched && (!def->op().known || def->has(Trait::kRandom))) continue;
      include(def);
    }
  }
  ValueCheck check;
  const std::vector<Node*> ordered = in_order(inside, root);
  Model& model = root.graph()->model();
  Cutter after(model), before(model);
  std::vector<Node*> old;
  for (Node* n : ordered) {
    if (std::find(fresh.begin(), fresh.end(), n) == fresh.end()) old.push_back(n);
  }
  bool whole = after.copy(ordered) && before.copy(old);
  for (size_t i = 0; i < made.size() && whole; ++i) {
    if (made[i] == nullptr || !root.result(i)->has_uses()) continue;
    whole = before.add_output(*root.result(i)) && after.add_output(*made[i]);
  }
  for (const Value* v : std::vector<const Value*>(after.inputs())) whole = whole && before.value(*v) != nullptr;
  if (!whole) {
    check.skipped = "a part of it has bodies, calls a function, or reads a value of unknown type";
    return check;
  }
  return compare(
      before.model(), numerics,
      [&](std::span<const EvalValue> inputs) {
        std::vector<EvalValue> same;
        for (const Value* v : after.inputs()) {
          const auto at = std::find(before.inputs().begin(), before.inputs().end(), v);
          same.push_back(inputs[static_cast<size_t>(at - before.inputs().begin())]);
        }
        return evaluate(after.model().graph(), same, kBounded);
      },
      /*backwards=*/true);
}

}  // namespace

ValueCheck compare_rewrite(const Node& root, std::span<Value* const> made, std::span<Node* const> matched,
                           std::span<Node* const> fresh, Numerics numerics) {
  // First follow the results back through matched nodes, new nodes and integers.
  ValueCheck check = compare_region(root, made, matched, fresh, numerics, Reach::kMatched);
  if (!check.difference) return check;
  // The rule may have looked beyond its pattern (at the node that makes an operand, say). Then one input of
  // the extracted graph depends on another, and random inputs give a wrong verdict. So follow the operands
  // further: to those of the new nodes if that suffices, else as far as types are known.
  ValueCheck further = compare_region(root, made, matched, fresh, numerics, Reach::kNewOperands);
  if (further.runs > 0 && !further.difference) return further;
  ValueCheck whole = compare_region(root, made, matched, fresh, numerics, Reach::kEverything);
  return whole.runs > 0 || whole.difference ? whole : check;
}

}  // namespace sardonyx
