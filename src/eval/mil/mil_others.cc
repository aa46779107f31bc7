// Core ML's random numbers, lists, states and classifiers.
#include <fmt/format.h>

#include <algorithm>

#include "eval/mil/mil_kernel.h"

namespace sardonyx::eval::mil_kernels {
namespace {

using Ints = std::vector<int64_t>;

// Attributes for ONNX's random operators. The seed is passed on when given: the same seed gives the same
// numbers.
AttrInit drawing(const Mil& m, DType dtype) {
  AttrInit attrs{attr("dtype", static_cast<int64_t>(dtype))};
  if (m.integer("seed", -1) >= 0) attrs.push_back(attr("seed", static_cast<double>(m.integer("seed"))));
  return attrs;
}
DType drawn(const Mil& m, std::string_view slot) { return m.has(slot) ? m.in(slot).dtype() : DType::kF32; }

}  // namespace

void random_uniform(Mil m) {
  AttrInit attrs = drawing(m, drawn(m, "low"));
  attrs.push_back(attr("shape", m.ints("shape")));
  attrs.push_back(attr("low", m.number("low", 0)));
  attrs.push_back(attr("high", m.number("high", 1)));
  m.set(m.onnx("RandomUniform", {}, std::move(attrs)));
}

void random_normal(Mil m) {
  AttrInit attrs = drawing(m, drawn(m, "mean"));
  attrs.push_back(attr("shape", m.ints("shape")));
  attrs.push_back(attr("mean", m.number("mean", 0)));
  attrs.push_back(attr("scale", m.number("stddev", 1)));
  m.set(m.onnx("RandomNormal", {}, std::move(attrs)));
}

void random_bernoulli(Mil m) {
  const DType dtype = drawn(m, "prob");
  const Array p = m.c.dense(m.c.full(DType::kF32, m.ints("shape"), m.number("prob", 0.5)));
  m.set(m.onnx("Bernoulli", {p}, drawing(m, dtype)));
}

void random_categorical(Mil m) {
  Array x = m.in("x");
  const int64_t samples = m.integer("size", 1), classes = x.rank() > 0 ? x.dim(x.rank() - 1) : 0;
  m.c.require(classes > 0 && samples > 0, "the last axis of x holds the classes, and a sample is drawn at least");
  if (m.text("mode", "logits") == "probs") x = m.onnx("Log", {x});
  Ints shape(x.shape());
  const Array rows = m.reshape(x, {x.size() / classes, classes});
  AttrInit attrs = drawing(m, DType::kI32);
  attrs.push_back(attr("sample_size", samples));
  shape.back() = samples;
  m.set(m.cast(m.reshape(m.onnx("Multinomial", {rows}, std::move(attrs)), shape), x.dtype()));
}

// ---------------------------------------------------------------------------------------------------------------------
// Lists

namespace {

using Items = std::vector<EvalValue>;

const Items& items(const Mil& m) { return m.c.sequence(0); }

size_t position(const Mil& m, int64_t at, size_t size) {
  if (at < 0 || at >= static_cast<int64_t>(size)) m.c.fail(fmt::format("index {} is out of range for a list of {}", at, size));
  return static_cast<size_t>(at);
}

const Array& item(const Mil& m, int64_t at) {
  const EvalValue& v = items(m)[position(m, at, items(m).size())];
  if (v.array() == nullptr) m.c.fail(fmt::format("element {} of the list has not been written", at));
  return *v.array();
}

void put(Mil m, Items& list, int64_t at, const Array& value) {
  constexpr int64_t kMost = 1 << 20;
  m.c.require(at >= 0 && at < kMost, "an index into a list is at least 0 and below 2^20");
  if (static_cast<size_t>(at) >= list.size()) list.resize(static_cast<size_t>(at) + 1);
  list[static_cast<size_t>(at)] = EvalValue(value);
}

}  // namespace

// Elements that were never written are empty.
void make_list(Mil m) {
  const int64_t length = m.integer("init_length", 1);
  m.c.require(length >= 0 && length < 1 << 20, "the length of a list");
  m.c.set(0, EvalValue::sequence(Items(static_cast<size_t>(length))));
}

void list_length(Mil m) {
  const int64_t n = std::ssize(items(m));
  m.set(m.c.of<int64_t>(DType::kI32, {}, {&n, 1}));
}

void list_read(Mil m) { m.set(item(m, m.integer("index"))); }

void list_write(Mil m) {
  Items list = items(m);
  put(m, list, m.integer("index"), m.in("value"));
  m.c.set(0, EvalValue::sequence(std::move(list)));
}

void list_gather(Mil m) {
  std::vector<Array> rows;
  for (int64_t at : m.ints("indices")) {
    const Array& one = item(m, at);
    Ints shape(one.shape());
    shape.insert(shape.begin(), 1);
    rows.push_back(m.reshape(one, shape));
  }
  m.c.require(!rows.empty(), "there are no indices to gather");
  m.set(m.onnx("Concat", rows, {attr("axis", 0)}));
}

void list_scatter(Mil m) {
  const Array& value = m.in("value");
  const Ints at = m.ints("indices");
  m.c.require(value.rank() > 0 && value.dim(0) == std::ssize(at), "there is one row per index");
  Items list = items(m);
  const Ints shape(value.shape().begin() + 1, value.shape().end());
  for (int64_t i = 0; i < std::ssize(at); ++i) {
    const Array row = m.onnx("Gather", {value, m.i64s({i})}, {attr("axis", 0)});
    put(m, list, at[static_cast<size_t>(i)], m.reshape(row, shape));
  }
  m.c.set(0, EvalValue::sequence(std::move(list)));
}

// ---------------------------------------------------------------------------------------------------------------------
// States

namespace {

EvalState& state(const Mil& m) {
  EvalState* s = m.c.value(0).state();
  if (s == nullptr) m.c.fail(fmt::format("the operand is {}, not a state", describe(m.c.value(0))));
  return *s;
}

void write(const Mil& m, const Array& value) {
  EvalState& s = state(m);
  if (value.dtype() != s.content.dtype() || value.shape() != s.content.shape())
    m.c.fail(fmt::format("{} cannot be written to a state of {}", describe(EvalValue(value)), describe(EvalValue(s.content))));
  s.content = value;
}

}  // namespace

void read_state(Mil m) { m.set(state(m).content); }
void write_state(Mil m) { write(m, m.c.in(1)); }
void coreml_update_state(Mil m) {
  write(m, m.c.in(1));
  m.set(m.c.in(1));
}

// ---------------------------------------------------------------------------------------------------------------------
// Classes

// Returns the class with the highest probability (the first of equal ones) and the probability of each class.
void classify(Mil m) {
  const std::vector<double> p = load_all<double>(m.in("probabilities"));
  const Array& classes = m.in("classes");
  m.c.require(!p.empty() && std::ssize(p) == classes.size(), "expected as many classes as probabilities");
  const bool texts = classes.dtype() == DType::kString;
  auto all = std::make_shared<EvalMap>();
  all->key = texts ? DType::kString : DType::kI64;
  for (int64_t i = 0; i < classes.size(); ++i) {
    EvalValue v(m.c.of<double>(DType::kF64, {}, {&p[static_cast<size_t>(i)], 1}));
    if (texts) {
      all->entries.emplace_back(classes.string_at(i), std::move(v));
    } else {
      all->entries.emplace_back(classes.int_at(i), std::move(v));
    }
  }
  const auto best = std::max_element(p.begin(), p.end()) - p.begin();
  m.set(m.reshape(m.onnx("Gather", {m.c.dense(classes), m.i64s({best})}), {}));
  m.c.set(1, EvalValue(std::shared_ptr<const EvalMap>(std::move(all))));
}

}  // namespace sardonyx::eval::mil_kernels
