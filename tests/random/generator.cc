#include "random/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "dialects/mil/ops.h"
#include "rewrite/values.h"

namespace sardonyx::fuzz {
namespace {

// The size that a symbol has in each of the two runs.
int64_t size_of_symbol(std::string_view symbol, int which) {
  static constexpr int64_t kSizes[2][3] = {{5, 3, 2}, {2, 7, 4}};
  return kSizes[which][symbol == "B" ? 0 : symbol == "T" ? 1 : 2];
}

// Rounded to half precision where that can represent it.
double as_half(double v) {
  constexpr double kLargestHalf = 65504;
  const double limit = std::numeric_limits<float>::max();
  if (std::abs(v) > kLargestHalf || std::abs(v) < std::ldexp(1, -14)) return std::clamp(v, -limit, limit);
  std::byte bytes[2];
  encode_element(DType::kF16, bytes, 0, v);
  return decode_element(DType::kF16, bytes, 0);
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Drafts

bool Draft::has_attr(std::string_view name) const {
  return std::any_of(op->attrs.begin(), op->attrs.end(), [&](const AttrSpec& s) { return s.name == name; });
}

const Attr* Draft::given(std::string_view name) const {
  const auto at = std::ranges::find_if(attrs, [&](const NamedAttr& a) { return a.name == name; });
  return at == attrs.end() ? nullptr : &at->value;
}

std::optional<int64_t> Draft::given_int(std::string_view name) const {
  const Attr* a = given(name);
  const int64_t* v = a != nullptr ? a->get<int64_t>() : nullptr;
  return v != nullptr ? std::optional(*v) : std::nullopt;
}

std::optional<size_t> Draft::slot(std::string_view name) const {
  for (size_t i = 0; i < op->inputs.size(); ++i) {
    if (op->inputs[i].name == name) return i;
  }
  return std::nullopt;
}

void Draft::set(std::string_view name, Attr value) {
  if (has_attr(name) && given(name) == nullptr) attrs.push_back(attr(name, std::move(value)));
}

void Draft::settle(size_t i, Value* v) {
  put(i, v);
  if (settled.size() <= i) settled.resize(i + 1);
  settled[i] = true;
}

Value* Draft::settled_tensor(size_t i) const { return is_settled(i) && in[i] != nullptr && in[i]->ranked() ? in[i] : nullptr; }

bool Draft::put(size_t i, Value* v) {
  if (is_settled(i)) return true;
  if (in.size() <= i) in.resize(i + 1, nullptr);
  in[i] = v;
  return v != nullptr;
}

void Draft::set_slot(std::string_view name, Value* value) {
  if (const auto at = slot(name)) put(*at, value);
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

Generator::Generator(uint64_t seed, const GeneratorOptions& options) : Dice(seed), options_(options) {
  static constexpr int kOpsets[] = {23, 23, 23, 23, 21, 21, 18, 17, 13, 13, 11, 9, 8, 7, 24, 25, 26, 28};
  static constexpr int kSpecifications[] = {9, 9, 8, 8, 8, 7, 7, 6, 6, 5};
  opset_ = options.opset != 0 ? options.opset : mil() ? one_of(kSpecifications) : one_of(kOpsets);
  static constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF32, DType::kF64,
                                      DType::kF64, DType::kF64, DType::kF16};
  main_dtype_ = options.dtype ? *options.dtype : mil() ? (chance(75) ? DType::kF32 : DType::kF16) : one_of(kFloats);
}

const Op* Generator::find(std::string_view name) const { return dialect(options_.dialect).find("", name, opset_); }

std::vector<Value*> Generator::visible() {
  std::vector<Value*> all;
  for (const Scope& s : scopes_) all.insert(all.end(), s.values.begin(), s.values.end());
  return all;
}

Value* Generator::pick(uint64_t dtypes, size_t min_rank, size_t max_rank) {
  std::vector<Value*> fit;
  for (Value* v : visible()) {
    if (!v->ranked() || v->type()->rank() < min_rank || v->type()->rank() > max_rank) continue;
    if (((dtypes >> static_cast<int>(v->dtype())) & 1) == 0 || !is_usable(*v)) continue;
    fit.push_back(v);
  }
  if (fit.empty()) return nullptr;
  // Prefer later values, so that chains grow.
  const size_t n = fit.size();
  return chance(50) ? fit[n - 1 - static_cast<size_t>(below(static_cast<int64_t>(std::min<size_t>(n, 4))))] : one_of(fit);
}

DType Generator::random_dtype(uint64_t allowed) {
  if ((allowed & bit(main_dtype_)) != 0 && chance(options_.growing ? 97 : 60)) return main_dtype_;
  static constexpr DType kCommon[] = {DType::kF32, DType::kF64,  DType::kI64, DType::kI32,
                                      DType::kF16, DType::kBool, DType::kU8};
  if (chance(70)) {
    const DType d = one_of(kCommon);
    if ((allowed & bit(d)) != 0) return d;
  }
  std::vector<DType> all;
  for (int t = 1; t <= 26; ++t) {
    if (((allowed >> t) & 1) != 0 && !is_complex(static_cast<DType>(t))) all.push_back(static_cast<DType>(t));
  }
  return all.empty() ? DType::kUndefined : one_of(all);
}

std::vector<Dim> Generator::random_dims(size_t rank) {
  std::vector<Dim> dims;
  for (size_t i = 0; i < rank; ++i) dims.push_back(one_of(palette_));
  return dims;
}

Value* Generator::pick_or_make(uint64_t dtypes, size_t min_rank, size_t max_rank) {
  if (reuses(90)) {
    if (Value* v = pick(dtypes, min_rank, max_rank)) return v;
  }
  const DType d = random_dtype(dtypes);
  if (d == DType::kUndefined) return nullptr;
  const auto dims = random_dims(static_cast<size_t>(between(
      static_cast<int64_t>(min_rank), static_cast<int64_t>(std::min<size_t>(max_rank, std::max<size_t>(min_rank, 4))))));
  return exactly(d, dims);
}

std::vector<int64_t> Generator::sizes(std::span<const Dim> dims, int which) {
  std::vector<int64_t> out;
  for (Dim d : dims) {
    const Dim got = model_->dims().substitute(
        d, [&](std::string_view symbol) -> std::optional<Dim> { return Dim::of(size_of_symbol(symbol, which)); });
    out.push_back(got.is_int() ? got.value() : -1);
  }
  return out;
}

TensorPtr Generator::random_tensor(DType dtype, std::vector<int64_t> shape) {
  int64_t size = 1;
  for (int64_t s : shape) size *= s;
  if (dtype == DType::kString) {
    std::vector<std::string> texts;
    for (int64_t i = 0; i < size; ++i) texts.push_back(std::string(static_cast<size_t>(below(3)), 'a') + "b");
    return Tensor::strings(std::move(shape), std::move(texts));
  }
  std::vector<std::byte> bytes(byte_size(dtype, static_cast<uint64_t>(size)));
  const bool extreme = options_.extreme && dtype == DType::kF32;
  const double scale = extreme && one_in(3) ? extreme_number() : 1;
  for (int64_t i = 0; i < size; ++i) {
    if (extreme) {
      const double v = one_in(scale == 1 ? 4 : 40) ? extreme_number() : as_half(scale * normal());
      encode_element(dtype, bytes.data(), i, v);
      continue;
    }
    if (is_float(dtype)) {
      const double v = odd_numbers && one_in(12) ? number() : chance(10) ? static_cast<double>(between(-2, 2)) : 1.5 * normal();
      encode_element(dtype, bytes.data(), i, v);
      continue;
    }
    int64_t v = dtype == DType::kBool ? below(2) : is_unsigned(dtype) ? below(4) : between(-3, 3);
    const int width = bit_width(dtype);
    if (width >= 8) {
      std::memcpy(bytes.data() + i * (width / 8), &v, static_cast<size_t>(std::min(width / 8, 8)));
    } else {
      const int per_byte = 8 / width;
      bytes[static_cast<size_t>(i / per_byte)] |=
          static_cast<std::byte>((v & ((1 << width) - 1)) << (width * static_cast<int>(i % per_byte)));
    }
  }
  return Tensor::own(dtype, std::move(shape), std::move(bytes));
}

Value* Generator::constant(TensorPtr payload) {
  // Equal constants are sometimes shared, and some become nodes.
  Graph& g = chance(70) && !in_function_ ? *scopes_.front().graph : *scopes_.back().graph;
  for (Value* c : g.constants()) {
    if (chance(80) && c->constant() != nullptr && c->constant()->equals(*payload)) return c;
  }
  if (in_function_ || (!mil() && &g == scopes_.back().graph && chance(20) && opset_ >= 9 && !options_.growing &&
                       has_constants_of(payload->dtype()))) {
    Node& n = model_->new_node(*find("Constant"), {}, 1);
    g.append(n);
    n.result()->set_type(types().tensor(payload->dtype(), payload->shape()));
    g.set_constant(*n.result(), payload);
    n.set_unchecked(false);
    samples_[n.result()] = {payload, payload};
    return n.result();
  }
  Value* v = g.add_constant(payload);
  samples_[v] = {payload, payload};
  return v;
}

bool Generator::has_constants_of(DType dtype) const {
  return mil() || (find("Constant")->outputs[0].types.tensor >> static_cast<int>(dtype) & 1) != 0;
}

Value* Generator::constant(DType dtype, std::vector<int64_t> shape) {
  if (dtype != DType::kString && !is_complex(dtype) && chance(35)) {
    static constexpr double kNice[] = {0, 1, 1, 2, -1, 0.5, 3};
    double v = options_.extreme && dtype == DType::kF32 && one_in(2) ? extreme_number() : one_of(kNice);
    if (is_unsigned(dtype) || dtype == DType::kBool) v = std::abs(v);
    if (!is_float(dtype)) v = std::floor(v);
    if (dtype == DType::kBool) v = v != 0;
    if (bit_width(dtype) >= 8 && dtype != DType::kF8E8M0) return constant(Tensor::full(dtype, std::move(shape), v));
  }
  return constant(random_tensor(dtype, std::move(shape)));
}

Value* Generator::ints(const std::vector<int64_t>& v) {
  if (!mil()) return constant(Tensor::vector(v));
  return constant(Tensor::of<int32_t>(DType::kI32, {std::ssize(v)}, std::vector<int32_t>(v.begin(), v.end())));
}
Value* Generator::scalar(DType dtype, double v) {
  return constant(dtype == DType::kString ? random_tensor(dtype, {}) : Tensor::full(dtype, {}, v));
}

Value* Generator::indices(std::vector<int64_t> shape, int64_t limit) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  std::vector<int64_t> v;
  const bool negative = !mil() && opset_ >= 11 && chance(30);
  for (int64_t i = 0; i < n; ++i) v.push_back(negative ? between(-limit, limit - 1) : below(limit));
  if (mil() || chance(30)) return constant(Tensor::of<int32_t>(DType::kI32, shape, std::vector<int32_t>(v.begin(), v.end())));
  return constant(Tensor::of<int64_t>(DType::kI64, shape, v));
}

Value* Generator::new_input(DType dtype, std::span<const Dim> dims) {
  if (in_function_) return nullptr;
  Graph& g = *scopes_.front().graph;
  const Type* t = types().tensor(dtype, dims);
  Value* v = g.add_input(fmt::format("x{}", g.inputs().size()), t);
  if (!options_.growing) samples_[v] = {random_tensor(dtype, sizes(dims, 0)), random_tensor(dtype, sizes(dims, 1))};
  scopes_.front().values.push_back(v);
  return v;
}

Value* Generator::exactly(DType dtype, std::span<const Dim> dims) {
  const Type* t = types().tensor(dtype, dims);
  std::vector<Value*> fit;
  for (Value* v : visible()) {
    if (Types::equal(v->type(), t) && is_usable(*v)) fit.push_back(v);
  }
  if (!fit.empty() && reuses(70)) return one_of(fit);
  int64_t elements = 1;
  for (Dim d : dims) elements = d.is_int() && elements >= 0 ? elements * d.value() : -1;
  if (elements >= 0 && elements <= kMostElements && (in_function_ || chance(options_.growing ? 35 : 60))) {
    std::vector<int64_t> shape;
    for (Dim d : dims) shape.push_back(d.value());
    return constant(dtype, std::move(shape));
  }
  if (std::any_of(dims.begin(), dims.end(), [](Dim d) { return d.is_unknown(); })) return nullptr;
  for (int which : {0, 1}) {
    int64_t n = 1;
    for (int64_t s : sizes(dims, which)) n = s < 0 || n < 0 ? -1 : n * s;
    if (n < 0 || n > kMostElements) return fit.empty() ? nullptr : fit.front();
  }
  return new_input(dtype, dims);
}

Value* Generator::partner(const Value& a, bool widen) {
  const DType d = a.dtype();
  const auto dims = a.type()->dims();
  const auto fits = [&](const Value& v) {
    if (!v.ranked() || v.dtype() != d || (!widen && v.type()->rank() > dims.size())) return false;
    const auto other = v.type()->dims();
    for (size_t i = 1; i <= std::min(dims.size(), other.size()); ++i) {
      const Dim x = dims[dims.size() - i], y = other[other.size() - i];
      if (!(x == y || y.is(1) || (widen && x.is(1)))) return false;
    }
    return true;
  };
  if (reuses(60)) {
    std::vector<Value*> fit;
    for (Value* v : visible()) {
      if (fits(*v) && is_usable(*v)) fit.push_back(v);
    }
    if (!fit.empty()) return one_of(fit);
  }
  std::vector<Dim> want(dims.begin(), dims.end());
  if (options_.growing && want.size() >= 2 && one_in(8)) {  // one number per channel
    std::vector<Dim> channels(want.size() - 1, Dim::of(1));
    channels[0] = want[1];
    return exactly(d, channels);
  }
  if (options_.growing && chance(50)) return exactly(d, want);
  const size_t drop = static_cast<size_t>(below(static_cast<int64_t>(want.size()) + 1));
  want.erase(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(chance(40) ? want.size() : drop));
  for (Dim& x : want) {
    if (!x.is_int() || chance(20)) x = Dim::of(1);
  }
  return exactly(d, want);
}

void Generator::put_ints(Draft& d, std::string_view name, const std::vector<int64_t>& v) {
  if (d.has_attr(name)) return d.set(name, Attr(Attr::Ints(v)));
  d.set_slot(name, ints(v));
}

// ---------------------------------------------------------------------------------------------------------------------
// Nodes

Node* Generator::add(Draft& d) {
  for (const Value* v : d.in) {
    if (v != nullptr && !is_usable(*v)) return nullptr;
  }
  while (!d.in.empty() && d.in.back() == nullptr) d.in.pop_back();
  Node* n = nullptr;
  try {
    n = &scopes_.back().builder->make(*d.op, d.in, d.results, d.attrs);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return nullptr;
  }
  if (options_.growing) return n;
  std::vector<Sample> results(n->num_results());
  for (int which : {0, 1}) {
    std::vector<TensorPtr> operands;
    for (const Value* v : d.in) operands.push_back(v != nullptr ? samples_[v][static_cast<size_t>(which)] : nullptr);
    const auto out = evaluate_node(*n, operands, 1 << 20);
    bool fine = out.has_value() && out->size() >= n->num_results();
    for (size_t i = 0; fine && i < n->num_results(); ++i) {
      fine = (*out)[i] != nullptr && (*out)[i]->size() <= kMostElements;
      if (fine) results[i][static_cast<size_t>(which)] = (*out)[i];
    }
    fine = fine && !(n->is("slice_by_index") && ends_early(*n->result()->type(), (*out)[0]->shape(), which));
    // Core ML's types keep a squeezed axis of unknown size, which disappears when that size is 1.
    fine = fine && !(n->is("squeeze") && n->result()->ranked() && n->result()->type()->rank() > (*out)[0]->rank());
    fine = fine && (!mil() || may_be_known(*n, operands));
    if (!fine) {
      scopes_.back().graph->erase(*n);
      return nullptr;
    }
    for (size_t i = 0; i < n->num_results(); ++i) check_types(*n, i, (*out)[i], which);
  }
  for (size_t i = 0; i < n->num_results(); ++i) show(*n->result(i), results[i]);
  if (chance(5)) n->set_name(model_->name(fmt::format("node_{}", n->id())));
  if (chance(15)) n->result()->set_name(model_->name(fmt::format("v{}", n->id())));
  return n;
}

// Whether an axis is shorter than its type says: Core ML's types assume that slices end within symbolic
// sizes.
bool Generator::ends_early(const Type& t, std::span<const int64_t> got, int which) {
  if (!t.is_tensor() || !t.ranked() || t.rank() != got.size()) return false;
  const auto expected = sizes(t.dims(), which);
  return !std::ranges::equal(expected, got, [](int64_t said, int64_t is) { return said <= is; });
}

// Whether the type rule accepts the node with constant operands. A pass that folds may reveal something that
// was unknown, such as a window larger than its operand.
bool Generator::may_be_known(const Node& n, std::span<const TensorPtr> operands) {
  Model alone(options_.dialect);
  ValueFacts facts;
  Graph& g = alone.add_function("main").graph();
  alone.set_opset_version("", opset_);
  Builder b(g, facts);
  std::vector<Value*> in;
  for (const TensorPtr& t : operands) in.push_back(t != nullptr ? b.constant(t) : nullptr);
  try {
    b.make(n.op(), in, n.num_results(), {});
    return true;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInternal) throw;
    return false;
  }
}

// Checks that the evaluator's result has the inferred type.
void Generator::check_types(const Node& n, size_t result, const TensorPtr& got, int which) {
  const Type* t = n.result(result)->type();
  if (t == nullptr || !t->is_tensor()) return;
  const auto wrong = [&] {
    std::string text = print(n);
    for (const Use& u : n.operands()) {
      text += fmt::format("\n  operand: {}", u.value == nullptr ? "_" : types().to_string(u.value->type()));
    }
    throw Error(ErrorCode::kInternal,
                fmt::format("a type rule of {} says {}, the evaluator {}[{}]", n.op().name, types().to_string(t),
                            to_string(got->dtype()), fmt::join(got->shape(), ",")),
                {std::move(text)});
  };
  if (t->dtype() != DType::kUndefined && t->dtype() != got->dtype()) wrong();
  if (!t->ranked()) return;
  if (t->rank() != got->rank()) wrong();
  const auto expected = sizes(t->dims(), which);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] >= 0 && expected[i] != got->shape()[i]) wrong();
  }
}

Value* Generator::add_draft(Draft& d) {
  Node* n = d.op != nullptr ? add(d) : nullptr;
  return n != nullptr ? n->result(n->num_results() - 1) : nullptr;
}

Value* Generator::add_one(std::string_view name, std::vector<Value*> in, AttrInit attrs) {
  Draft d{.op = find(name), .in = std::move(in), .attrs = std::move(attrs)};
  return add_draft(d);
}

void Generator::fill_attrs(Draft& d) {
  const Value* first = d.in.empty() ? nullptr : d.in.front();
  const auto rank = first != nullptr && first->ranked() ? static_cast<int64_t>(first->type()->rank()) : 0;
  for (const AttrSpec& s : d.op->attrs) {
    if (d.given(s.name) != nullptr || (!s.required && chance(50))) continue;
    switch (s.kind) {
      case AttrKind::kInt:
        if (s.name == "axis" || s.name == "axis_w") {
          d.set(s.name, Attr(opset_ >= 11 && chance(50) ? between(-rank, rank - 1) : below(rank)));
        } else if (s.name == "to" || s.name == "dtype" || s.name == "output_dtype") {
          if (s.required)
            d.set(s.name,
                  Attr(static_cast<int64_t>(random_dtype(find("Identity")->inputs[0].types.tensor & ~bit(DType::kString)))));
        } else if (s.name == "keepdims" || s.name == "exclusive" || s.name == "reverse" || s.name == "largest" ||
                   s.name == "select_last_index" || s.name == "upper" || s.name == "count_include_pad" ||
                   s.name == "ceil_mode") {
          d.set(s.name, Attr(below(2)));
        } else if (s.required) {
          d.set(s.name, Attr(between(1, 3)));
        }
        break;
      case AttrKind::kFloat: {
        static constexpr double kNice[] = {0.5, 1, 2, 0, -1, 0.25};
        static constexpr double kEpsilons[] = {1e-5, 1e-3, 0.01, 0.1, 1};
        const double v = s.name == "epsilon" ? one_of(kEpsilons) : one_in(4) ? number() : one_of(kNice);
        d.set(s.name, Attr(static_cast<double>(static_cast<float>(v))));
        break;
      }
      case AttrKind::kInts:
        if (s.name == "axes" && rank > 0) d.set(s.name, Attr(Attr::Ints{below(rank)}));
        break;
      case AttrKind::kString:
        if (s.name == "direction" && d.op->name == "BitShift") {
          d.set(s.name, Attr(chance(50) ? "LEFT" : "RIGHT"));
        } else if (s.name == "approximate") {
          d.set(s.name, Attr(chance(50) ? "tanh" : "none"));
        }
        break;
      default: break;
    }
  }
}

bool Generator::fill_generic(Draft& d) {
  std::unordered_map<std::string_view, DType> bound;
  const Value* like = nullptr;  // a tensor that the other operands broadcast with
  const auto note = [&](const Slot& s, const Value* v) {
    if (v == nullptr || v->type() == nullptr) return;
    if (!s.type_var.empty()) bound.try_emplace(s.type_var, v->dtype());
    if (like == nullptr && v->ranked()) like = v;
  };
  for (size_t i = 0; i < d.settled.size(); ++i) {
    const Slot* s = slot_of(*d.op, i, d.settled.size());
    if (s != nullptr && d.is_settled(i)) note(*s, d.in[i]);
  }
  const bool broadcasts = d.op->has(Trait::kBroadcasts) || d.op->has(Trait::kElementwise) ||
                          (d.op->max_inputs < 0 && d.op->since_version < 8 &&
                           d.op->outputs.size() == 1);  // Sum and similar operators, before they broadcast
  size_t i = 0;
  for (const Slot& s : d.op->inputs) {
    if (mil() && s.parameter) break;  // drawn last, by name
    if (s.arity == Arity::kOptional && !d.is_settled(i) && chance(60)) {
      d.put(i++, nullptr);
      continue;
    }
    int64_t count = 1;
    if (s.arity == Arity::kVariadic) count = std::max(between(1, 3), std::ssize(d.settled) - static_cast<int64_t>(i));
    for (; count > 0; --count, ++i) {
      if (d.is_settled(i)) continue;
      uint64_t allowed = s.types.tensor;
      if (allowed == 0) return false;
      if (auto at = bound.find(s.type_var); !s.type_var.empty() && at != bound.end()) allowed &= bit(at->second);
      Value* v = nullptr;
      if (broadcasts && like != nullptr && (allowed & bit(like->dtype())) != 0) {
        v = d.op->has(Trait::kBroadcasts) ? partner(*like) : exactly(like->dtype(), like->type()->dims());
      } else {
        v = pick_or_make(allowed);
      }
      if (!d.put(i, v)) return false;
      note(s, v);
    }
  }
  return !mil() || fill_mil_parameters(*this, d);
}

bool Generator::complete(Draft& d) {
  const Recipe* recipe = mil() ? find_mil_recipe(d.op->name) : find_recipe(d.op->name);
  const bool done = recipe != nullptr && recipe->complete != nullptr ? recipe->complete(*this, d) : fill_generic(d);
  if (done && !mil()) fill_attrs(d);
  return done;
}

bool Generator::random_node() {
  Draft d{.op = one_of(ops_)};
  if (!complete(d)) return false;
  const int64_t least = std::max(d.op->min_outputs, 1), most = d.op->max_outputs < 0 ? 1 : d.op->max_outputs;
  d.results = std::max(d.results, static_cast<size_t>(chance(70) ? least : between(least, std::max(most, least))));
  return add(d) != nullptr;
}

// Repeats a node, for passes that look for equal nodes.
bool Generator::repeat_node() {
  std::vector<Node*> all;
  for (Node& n : scopes_.back().graph->nodes()) {
    if (n.bodies().empty() && !n.has(Trait::kConstant) && n.op().known) all.push_back(&n);
  }
  if (all.empty()) return false;
  Node& n = *one_of(all);
  Draft d{.op = &n.op()};
  for (const Use& u : n.operands()) d.in.push_back(u.value);
  d.attrs.assign(n.attrs().items().begin(), n.attrs().items().end());
  d.results = n.num_results();
  if (chance(30) && !d.in.empty() && d.in[0] != nullptr && d.in[0]->ranked()) {  // or with another operand
    if (Value* v = exactly(d.in[0]->dtype(), d.in[0]->type()->dims())) d.in[0] = v;
  }
  return add(d) != nullptr;
}

void Generator::step() {
  const bool nested = scopes_.size() > 1;
  for (int attempt = 0; attempt < 40; ++attempt) {
    const int64_t what = below(100);
    bool done = false;
    if (what < 6) {
      done = repeat_node();
    } else if (what < 14 && !in_function_) {
      done = add_snippet();
    } else if (what < 17 && scopes_.size() < 4 && !in_function_) {
      done = add_if();
    } else if (what < 19 && !nested) {
      done = mil() ? add_while() : add_loop();
    } else if (what < 23 && !nested && mil()) {
      done = chance(50) ? add_state() : add_list();
    } else if (what < 21 && !nested && opset_ >= 9 && !mil()) {
      done = add_scan();
    } else if (what < 23 && !nested && opset_ >= 9 && functions_ < 2 && !mil()) {
      done = add_call();
    } else {
      done = random_node();
    }
    if (done) return;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The model

std::vector<EvalValue> Generator::input_samples(const Graph& g, int which) {
  std::vector<EvalValue> inputs;
  for (const Port& p : g.inputs()) inputs.emplace_back(samples_[p.value][static_cast<size_t>(which)]);
  return inputs;
}

void Generator::begin() {
  model_ = std::make_unique<Model>(options_.dialect);
  Function& main = model_->add_function("main");
  model_->set_opset_version("", opset_);
  if (mil()) {
    main.mil_opset = mil::opset_name(opset_);
  } else {
    model_->ir_version = 13;  // so that the writer need not raise it
  }
  palette_ = {model_->dims().symbol("B"), model_->dims().symbol("T"), Dim::of(3), Dim::of(5), Dim::of(1), Dim::of(4)};
  if (chance(40)) palette_ = {Dim::of(2), Dim::of(3), Dim::of(5), Dim::of(1)};
  if (options_.growing) {
    palette_.push_back(Dim::of(one_of(kSizes)));
    palette_.push_back(Dim::of(one_of(kSizes)));
    if (one_in(40)) palette_.push_back(Dim::of(0));
  }
  for (const Op& op : dialect(options_.dialect).ops()) {
    if (!op.domain.empty() || find(op.name) != &op || op.deprecated) continue;
    if (!can_evaluate(op) || op.has(Trait::kRandom) || op.has(Trait::kSubgraphs) || op.has(Trait::kConstant)) continue;
    if (mil() && op.name.starts_with("complex")) continue;  // exist only in coremltools' memory, in no package
    const Recipe* recipe = mil() ? find_mil_recipe(op.name) : find_recipe(op.name);
    ops_.insert(ops_.end(), static_cast<size_t>(recipe != nullptr ? recipe->weight : 1), &op);
  }
  scopes_.push_back({&main.graph(), std::make_unique<Builder>(main.graph(), facts_), {}});
}

std::optional<Generated> Generator::run() {
  if (mil() && options_.opset == 0 && options_.snippet_first && options_.only_snippet < options_.snippets.size()) {
    const int said = mil::opset_version(parse(options_.snippets[options_.only_snippet], "snippet")->main().mil_opset);
    if (said != 0) opset_ = said;
  }
  begin();
  for (int64_t k = between(1, 3); k > 0; --k) {
    const DType d = k == 1 ? main_dtype_ : random_dtype(mil() ? kMilInputs : find("Identity")->inputs[0].types.tensor);
    const auto dims = random_dims(static_cast<size_t>(below(5)));
    new_input(d, dims);
  }
  if (options_.snippet_first) add_snippet();
  const int64_t nodes = chance(70) ? between(1, 10) : between(8, 30);
  for (int64_t k = 0; k < nodes; ++k) step();

  Generated out;
  if (!finish(out)) return std::nullopt;
  return out;
}

bool Generator::finish(Generated& out) {
  Graph& g = model_->graph();
  std::vector<Value*> unread, read;
  for (Value* v : scopes_.front().values) {
    if (v->def() == nullptr) continue;
    (v->has_uses() ? read : unread).push_back(v);
  }
  if (unread.empty() && read.empty()) return false;
  std::vector<Value*> outputs;
  for (Value* v : unread) {
    if (outputs.empty() || chance(80)) outputs.push_back(v);  // values that are not returned are dead code
  }
  for (Value* v : read) {
    if (chance(10)) outputs.push_back(v);
  }
  if (outputs.empty()) outputs.push_back(read.back());
  if (chance(4)) outputs.push_back(outputs.front());  // one value under two names
  if (chance(4)) outputs.push_back(g.input(0));
  for (Value* v : outputs) {
    const Type* declared = chance(60) ? v->type() : nullptr;
    g.add_output(*v, fmt::format("y{}", g.outputs().size()), declared);
  }
  if (is_random(*model_)) return false;
  out.inputs = {input_samples(g, 0), input_samples(g, 1)};
  for (int which : {0, 1}) {
    try {
      evaluate(g, out.inputs[static_cast<size_t>(which)], kBounded);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      return false;
    }
  }
  out.model = std::move(model_);
  return true;
}

std::optional<Generated> generate(uint64_t seed, const GeneratorOptions& options) { return Generator(seed, options).run(); }

}  // namespace sardonyx::fuzz
