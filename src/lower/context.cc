#include "lower/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/arrange.h"
#include "ir/spelling.h"
#include "lower/check_equation.h"
#include "lower/pairs.h"
#include "lower/threefry.h"
#include "sardonyx/version.h"
#include "support/interrupt.h"

namespace sardonyx {
namespace {

// Constants above this many bytes live in the main graph, once, however often the program mentions them.
constexpr size_t kSharedConstantBytes = 64;

// No result has an element: nothing is to be computed, and runtimes refuse some windows over nothing.
bool has_only_empty_results(const Node& eqn) {
  return eqn.num_results() > 0 && eqn.has(Trait::kPure) && std::ranges::all_of(eqn.results(), [](const Value& v) {
           return std::ranges::any_of(v.type()->dims(), [](Dim d) { return d.is(0); });
         });
}

std::vector<Value*> empty_results(Lowering& at) {
  std::vector<Value*> results;
  for (size_t i = 0; i < at.eqn.num_results(); ++i) {
    const Type* t = at.stored_out_type(i);
    results.push_back(at.zeros(t->dtype(), t->dims()));
  }
  return results;
}

// Every axis of `narrow`, aligned to the right, is that of `full` or 1.
bool broadcasts_to(const Type* narrow, const Type* full) {
  if (!narrow->is_tensor() || !narrow->ranked() || narrow->dtype() != full->dtype() || narrow->rank() > full->rank())
    return false;
  const auto aligned = full->dims().last(narrow->rank());
  return std::ranges::equal(narrow->dims(), aligned, [](Dim n, Dim f) { return n.is(1) || n == f; });
}

// Equations whose lowering may leave axes of size 1 to its readers: a reshape, if it puts some in front; `and` with a broadcast true.
bool makes_narrow(const Node& n) {
  if (n.is("broadcast_in_dim") || n.is("iota")) return true;
  if (n.is("and") || n.is("or")) {
    return std::ranges::any_of(n.operands(), [](const Use& u) {
      return u.value != nullptr && u.value->def() != nullptr && u.value->def()->is("broadcast_in_dim");
    });
  }
  return n.is("reshape") && n.result()->type()->rank() > n.input(0)->type()->rank() && n.result()->type()->dim(0).is(1);
}

// A reshape or broadcast that only adds axes before those of its operand: it does nothing to a narrow one.
bool puts_axes_in_front(const Node& n) {
  if (n.is_boundary() || (!n.is("broadcast_in_dim") && !n.is("reshape"))) return false;
  const Attr* order = n.attr("dimensions");
  if (order != nullptr && !order->is_none()) return false;
  auto from = n.input(0)->type()->dims(), to = n.result()->type()->dims();
  if (to.size() < from.size() || !std::ranges::equal(from, to.last(from.size()), [](Dim p, Dim q) { return p == q; }))
    return false;
  if (n.is("reshape") && to.size() == from.size()) return false;
  if (n.is("reshape")) return std::ranges::all_of(to.first(to.size() - from.size()), [](Dim d) { return d.is(1); });
  const Attr* places = n.attr("broadcast_dimensions");
  const auto* axes = places != nullptr ? places->get<Attr::Ints>() : nullptr;
  if (axes == nullptr || axes->size() != from.size()) return from.empty();
  for (size_t i = 0; i < axes->size(); ++i) {
    if ((*axes)[i] != static_cast<int64_t>(to.size() - from.size() + i)) return false;
  }
  return true;
}

}  // namespace

LoweringContext::LoweringContext(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry)
    : jax_(jax),
      onnx_(onnx),
      options_(options),
      registry_(registry),
      runtime_(options.target.empty() ? onnx::newest_runtime() : onnx::runtime_named(options.target)),
      main_((onnx.opset_imports = {{"", options.opset}}, onnx.add_function(options.model_name).graph()), facts_),
      values_(jax, nullptr) {
  sizes_by_graph_.push_back(std::make_unique<Sizes>(&main_));
}

// ---------------------------------------------------------------------------------------------------------------------
// Types and dims

Dim LoweringContext::import(Dim d) {
  if (d.is_int()) return d;
  auto [at, inserted] = dims_.try_emplace(d.word());
  if (inserted) at->second = onnx_.dims().import(d, jax_.dims());
  return at->second;
}

const Type* LoweringContext::import(const Type* t) {
  if (t == nullptr) return nullptr;
  auto [at, inserted] = types_.try_emplace(t, nullptr);
  if (!inserted) return at->second;
  const Type* result = nullptr;
  if (t->is_tensor() && t->ranked()) {
    std::vector<Dim> dims;
    for (Dim d : t->dims()) dims.push_back(import(d));
    result = onnx_.types().tensor(t->dtype(), dims);
  } else {
    result = onnx_.types().import(t, jax_.types());
  }
  return types_[t] = result;
}

DType pair_part(DType t) {
  if (t == DType::kC64) return DType::kF32;
  if (t == DType::kC128) return DType::kF64;
  return t == DType::kKey4 ? DType::kI64 : DType::kUndefined;
}

const Type* LoweringContext::stored(const Type* t) {
  if (t->dtype() == DType::kKey) return onnx_.types().with_dtype(t, DType::kI64);
  const DType part = pair_part(t->dtype());
  if (part == DType::kUndefined) return t;
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  dims.push_back(Dim::of(2));
  return onnx_.types().tensor(part, dims);
}

const Type* LoweringContext::interface_type(const Type* t) {
  if (!is_key(t->dtype())) return stored(t);
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  dims.push_back(Dim::of(t->dtype() == DType::kKey ? 2 : 4));
  return onnx_.types().tensor(DType::kU32, dims);
}

LoweringContext::KeyWords LoweringContext::key_words(const Value& key) const {
  auto at = key_words_.find(&key);
  return at == key_words_.end() ? KeyWords{} : at->second;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes at run time

void LoweringContext::add_origins(Value& input) {
  const Type* t = input.type();
  for (size_t axis = 0; axis < t->rank(); ++axis) {
    const Dim d = t->dim(axis);
    if (!d.is_expr()) continue;
    const DimOrigin origin{&input, static_cast<int64_t>(axis)};
    if (sizes_by_graph_[0]->origins.emplace(d.word(), origin).second) origin_list_.emplace_back(d, origin);
    if (function_ == nullptr) {
      for (std::string& symbol : onnx_.dims().symbols(d)) input_symbols_.insert(std::move(symbol));
    }
  }
}

// Sizes that depend on data: the first value of that size is where it can be read. Symbols that inputs tell are read there.
void LoweringContext::add_own_sizes(Value& result) {
  const Type* t = result.type();
  if (t == nullptr || !t->is_tensor() || !t->ranked() || !sizes_by_graph_.back()->seen.insert(t).second) return;
  for (size_t axis = 0; axis < t->rank(); ++axis) {
    const Dim d = t->dim(axis);
    if (!d.is_expr() || origin(d) != nullptr) continue;
    const std::string_view symbol = onnx_.dims().symbol_name(d);
    if (symbol.empty() || root_->input_symbols_.contains(symbol)) continue;
    sizes_by_graph_.back()->origins.emplace(d.word(), DimOrigin{&result, static_cast<int64_t>(axis)});
  }
}

const DimOrigin* LoweringContext::origin(Dim d) const {
  for (size_t i = sizes_by_graph_.size(); i-- > 0;) {
    const auto& known = sizes_by_graph_[i]->origins;
    if (auto at = known.find(d.word()); at != known.end()) return &at->second;
  }
  return nullptr;
}

LoweringContext::InBody::InBody(LoweringContext& context, OnnxBuilder& b) : context_(context) {
  context_.sizes_by_graph_.push_back(std::make_unique<Sizes>(&b));
}

LoweringContext::InBody::~InBody() { context_.sizes_by_graph_.pop_back(); }

size_t LoweringContext::depth_of(Dim d) {
  for (size_t i = sizes_by_graph_.size() - 1; i > 0; --i) {
    const auto& known = sizes_by_graph_[i]->origins;
    if (known.empty()) continue;
    for (const std::string& symbol : onnx_.dims().symbols(d)) {
      if (known.contains(onnx_.dims().symbol(symbol).word())) return i;
    }
  }
  return 0;
}

Value* LoweringContext::dim_vector(Dim d) {
  if (d.is_int()) return main_.i64s({d.value()});
  SX_CHECK(d.is_expr(), "an unknown size cannot be computed at run time");
  Sizes& sizes = *sizes_by_graph_[depth_of(d)];
  if (auto at = sizes.vectors.find(d.word()); at != sizes.vectors.end()) return at->second;
  Value* v = nullptr;
  if (const DimOrigin* from = origin(d)) {
    v = sizes.b->op("Shape", {from->value}, {attr("start", from->axis), attr("end", from->axis + 1)});
  } else {
    v = arithmetic(d, *sizes.b);
  }
  return sizes.vectors[d.word()] = v;
}

Value* LoweringContext::dim_scalar(Dim d) {
  if (d.is_int()) return main_.i64(d.value());
  Sizes& sizes = *sizes_by_graph_[depth_of(d)];
  if (auto at = sizes.scalars.find(d.word()); at != sizes.scalars.end()) return at->second;
  Value* v = sizes.b->op("Squeeze", {dim_vector(d), sizes.b->i64s({0})});
  return sizes.scalars[d.word()] = v;
}

Value* LoweringContext::arithmetic(Dim d, OnnxBuilder& b) {
  Dims& dims = onnx_.dims();
  const Dims::Parts parts = dims.parts(d);
  auto fold = [&](std::string_view op) {
    Value* v = dim_vector(parts.operands[0]);
    for (size_t i = 1; i < parts.operands.size(); ++i) v = b.op(op, {v, dim_vector(parts.operands[i])});
    return v;
  };
  switch (parts.form) {
    case Dims::Form::kInt: return b.i64s({d.value()});
    case Dims::Form::kSymbol: return solve_symbol(d);
    case Dims::Form::kAdd: return fold("Add");
    case Dims::Form::kMul: return fold("Mul");
    case Dims::Form::kMax: return fold("Max");
    case Dims::Form::kMin: return fold("Min");
    case Dims::Form::kFloorDiv: {
      Value* a = dim_vector(parts.operands[0]);
      Value* c = dim_vector(parts.operands[1]);
      // A size that is divided by and may be 0: then nothing has a size that the quotient could say, but integers cannot be divided.
      const bool may_be_zero = dims.less_equal(Dim::of(0), parts.operands[1]) && !dims.less(Dim::of(0), parts.operands[1]);
      if (may_be_zero) c = b.op("Max", {c, b.i64s({1})});
      const bool non_negative =
          dims.less_equal(Dim::of(0), parts.operands[0]) && dims.less_equal(Dim::of(0), parts.operands[1]);
      // Div of integers truncates; Mod has the sign of the divisor, so a - Mod(a, b) divides without remainder.
      if (!non_negative) a = b.op("Sub", {a, b.op("Mod", {a, c})});
      return b.op("Div", {a, c});
    }
    case Dims::Form::kUnknown: break;
  }
  SX_CHECK(false, "an unknown size cannot be computed at run time");
  return nullptr;
}

// The symbol is no input's size by itself: solve a linear one, such as S from 2*S + 1.
Value* LoweringContext::solve_symbol(Dim symbol) {
  Dims& dims = onnx_.dims();
  const std::string name(dims.symbol_name(symbol));
  for (const auto& [expr, from] : origin_list_) {
    auto at = [&](int64_t value) {
      return dims.substitute(expr,
                             [&](std::string_view s) { return s == name ? std::optional(Dim::of(value)) : std::nullopt; });
    };
    const Dim offset = at(0);
    const Dim slope = dims.sub(at(1), offset);
    if (!slope.is_int() || slope.value() == 0) continue;
    if (!(dims.add(dims.mul(slope, symbol), offset) == expr)) continue;
    Value* v = dim_vector(expr);
    if (!offset.is(0)) v = main_.op("Sub", {v, dim_vector(offset)});
    if (!slope.is(1)) v = main_.op("Div", {v, main_.i64s({slope.value()})});
    return v;
  }
  if (function_ != nullptr) {  // the caller knows it
    sizes_.push_back(symbol);
    const Dim one = Dim::of(1);
    return main_.graph().add_input(fmt::format("size_{}", name), onnx_.types().tensor(DType::kI64, {&one, 1}));
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("the size '{}' cannot be computed from the shapes of the inputs", name),
              {"help: give an input a dimension that is this symbol, or linear in it"});
}

Value* LoweringContext::shape(std::span<const Dim> dims) {
  if (std::ranges::all_of(dims, [](Dim d) { return d.is_int(); })) {
    std::vector<int64_t> values;
    for (Dim d : dims) values.push_back(d.value());
    return main_.i64s(values);
  }
  std::vector<uint64_t> key;
  size_t depth = 0;
  for (Dim d : dims) {
    key.push_back(d.word());
    if (d.is_expr()) depth = std::max(depth, depth_of(d));
  }
  Sizes* sizes = sizes_by_graph_[depth].get();
  if (auto at = sizes->shapes.find(key); at != sizes->shapes.end()) return at->second;
  // Runs of integers are one constant; runs of neighbouring axes of one input are one Shape.
  OnnxBuilder& b = *sizes->b;
  std::vector<Value*> pieces;
  for (size_t i = 0; i < dims.size();) {
    if (dims[i].is_int()) {
      std::vector<int64_t> run;
      for (; i < dims.size() && dims[i].is_int(); ++i) run.push_back(dims[i].value());
      pieces.push_back(b.i64s(run));
      continue;
    }
    const DimOrigin* from = origin(dims[i]);
    size_t n = 1;
    if (from != nullptr) {
      const Type* t = from->value->type();
      for (size_t axis = static_cast<size_t>(from->axis) + 1; axis < t->rank() && i + n < dims.size(); ++axis, ++n) {
        if (!(t->dim(axis) == dims[i + n])) break;
      }
    }
    // A trailing run of constants costs nothing as a constant: only take it along when a symbolic size follows or all is covered.
    while (n > 1 && dims[i + n - 1].is_int() && n != dims.size()) --n;
    if (n == 1) {
      pieces.push_back(dim_vector(dims[i]));
    } else {
      AttrInit attrs{attr("start", from->axis)};
      if (static_cast<size_t>(from->axis) + n < from->value->type()->rank())
        attrs.push_back(attr("end", from->axis + static_cast<int64_t>(n)));
      if (from->axis == 0) attrs.erase(attrs.begin());
      pieces.push_back(b.op("Shape", {from->value}, std::move(attrs)));
    }
    i += n;
  }
  Value* v = pieces.size() == 1 ? pieces[0] : b.op("Concat", pieces, {attr("axis", 0)});
  return sizes->shapes[std::move(key)] = v;
}

// ---------------------------------------------------------------------------------------------------------------------
// Constants

Value* LoweringContext::derived_constant(Value& source, std::string_view op, const std::vector<int64_t>& argument,
                                         const std::function<TensorPtr()>& compute) {
  auto [at, inserted] = derived_by_key_.try_emplace({&source, std::string(op), argument}, nullptr);
  if (inserted) {
    at->second = source.graph()->add_constant(compute());
    derived_.push_back({&source, std::string(op), argument, at->second});
  }
  return at->second;
}

void LoweringContext::settle_constants() {
  // How many forms of a constant are used, those that derive from forms of it included. Later ones first: they may derive from earlier ones.
  std::unordered_map<const Value*, size_t> forms;
  std::unordered_map<const Value*, const Value*> source_of_form;
  for (size_t i = derived_.size(); i-- > 0;) {
    const Derived& d = derived_[i];
    source_of_form[d.value] = d.source;
    if (d.value->has_uses() || forms[d.value] > 0) ++forms[d.source];
  }
  const auto would_be_twice = [&](const Derived& d) {
    for (const Value* from = d.source; from != nullptr;) {
      if ((from->has_uses() || forms[from] > 1) && from->constant()->byte_size() > kSharedConstantBytes) return true;
      const auto next = source_of_form.find(from);
      from = next == source_of_form.end() ? nullptr : next->second;
    }
    return false;
  };
  for (size_t i = derived_.size(); i-- > 0;) {
    const Derived& d = derived_[i];
    if (!d.value->has_uses()) continue;
    const bool shared = d.source->has_uses() || forms[d.source] > 1;
    if (would_be_twice(d)) {
      Graph& g = *d.value->graph();
      OnnxBuilder b(g, facts_);
      b.set_insertion_point(g.first());
      Value* node = d.op == "Reshape"     ? b.op("Reshape", {d.source, b.i64s(d.argument)})
                    : d.op == "Transpose" ? b.op("Transpose", {d.source}, {attr("perm", d.argument)})
                                          : b.op("Cast", {d.source}, {attr("to", d.argument[0])});
      g.replace_uses(*d.value, *node);
    } else if (!shared) {
      d.value->set_name(d.source->name());
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The loop over equations

namespace {

// For nodes of no equation, which stand between an input or a result and the program.
uint32_t at_border(Model& onnx, const LowerOptions& options, std::string_view what) {
  if (options.provenance == LowerOptions::Provenance::kOff) return 0;
  Provenance p;
  p.sources.emplace_back().lowering = what;
  p.source_count = 1;
  return onnx.add_provenance(std::move(p));
}

}  // namespace

void LoweringContext::run() {
  const Graph& from = jax_.graph();
  Graph& to = main_.graph();
  size_t i = 0;
  for (const Port& port : from.inputs()) {
    std::string name = i < options_.input_names.size() ? options_.input_names[i] : std::string(port.name.view());
    if (name.empty()) name = fmt::format("in_{}", i);
    const Type* type = import(port.value->type());
    Value* v = to.add_input(name, interface_type(type));
    if (is_key(type->dtype())) {
      main_.set_provenance(at_border(onnx_, options_, "key_from_words"));
      bind(*port.value, wrap_key(main_, *this, v, type->dtype()));
    } else {
      bind(*port.value, v);
    }
    add_origins(*v);
    ++i;
  }
  lower_nodes(from, main_);
  if (!unsupported_.empty()) report_unsupported();
  for (i = 0; i < from.outputs().size(); ++i) {
    std::string name = i < options_.output_names.size() ? options_.output_names[i] : std::string(from.outputs()[i].name.view());
    if (name.empty()) name = fmt::format("out_{}", i);
    Value* v = value(*from.output(i), main_);
    const Type* type = import(from.output(i)->type());
    if (is_key(type->dtype())) {
      main_.set_provenance(at_border(onnx_, options_, "words_of_key"));
      v = unwrap_key(main_, *this, v, type->dtype());
    }
    to.add_output(*v, name, interface_type(type));
  }
  settle_constants();
}

namespace {

// Complex numbers as pairs of reals: the same bytes.
TensorPtr as_stored(TensorPtr t) {
  if (!is_complex(t->dtype())) return t;
  const DType part = pair_part(t->dtype());
  std::vector<int64_t> shape(t->shape().begin(), t->shape().end());
  shape.push_back(2);
  if (!t->is_splat() && !t->is_deferred()) return Tensor::borrow(part, std::move(shape), t->stored_bytes(), t, t->file());
  std::vector<std::byte> scratch;
  auto bytes = t->bytes(scratch);
  return Tensor::own(part, std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
}

}  // namespace

Value* LoweringContext::value(const Value& jax, OnnxBuilder& b) {
  if (Value* v = values_[jax]) return v;
  SX_CHECK(jax.is_constant(), fmt::format("jax value '{}' is read before it was lowered", jax.name().view()));
  TensorPtr payload = jax.constant();
  if (payload->byte_size() <= kSharedConstantBytes) return b.constant(as_stored(std::move(payload)), jax.name());
  Value*& shared = large_constants_[payload.get()];
  if (shared == nullptr) shared = main_.constant(as_stored(payload), jax.name());
  return shared;
}

void LoweringContext::lower_nodes(const Graph& graph, OnnxBuilder& b) {
  for (const Node& eqn : graph.nodes()) {
    check_interrupt();
    lower_node(eqn, b);
  }
}

void LoweringContext::lower_body(const Graph& graph, const Node& caller, OnnxBuilder& b) {
  callers_.push_back(&caller);
  lower_nodes(graph, b);
  callers_.pop_back();
  mark(caller, b);
}

uint32_t LoweringContext::source_of(const Node& eqn) const {
  auto known = [&](const Node& n) {
    const Provenance& p = jax_.provenance(n.provenance());
    return !p.sources.empty() && !p.sources[0].file.empty();
  };
  if (known(eqn)) return eqn.provenance();
  for (size_t i = callers_.size(); i-- > 0;) {
    if (known(*callers_[i])) return callers_[i]->provenance();
  }
  return eqn.provenance();
}

void LoweringContext::begin_batch() {
  auto& starts = root_->batches_;
  if (starts.back() != onnx_.node_id_limit()) starts.push_back(onnx_.node_id_limit());
}

const LoweringContext::Primitive& LoweringContext::primitive(const Op& op) {
  auto [at, fresh] = primitives_.try_emplace(&op);
  if (fresh) at->second = {registry_.find(op.name), registry_.origin(op.name), has_known_axes(op.name)};
  return at->second;
}

void LoweringContext::lower_node(const Node& eqn, OnnxBuilder& b) {
  const Primitive& primitive = this->primitive(eqn.op());
  if (primitive.lower == nullptr) return refuse(eqn, {});
  const InTypes own_types(*this, nullptr);
  std::vector<Value*> operands;
  operands.reserve(eqn.num_inputs());
  for (const Use& u : eqn.operands()) operands.push_back(u.value ? value(*u.value, b) : nullptr);
  mark(eqn, b);
  begin_batch();
  try {
    check_counts(eqn);
    if (primitive.has_known_axes) check_equation(eqn);
    Lowering at(*this, eqn, b, std::move(operands));
    const Node* last = b.graph().last();
    std::vector<Value*> results = has_only_empty_results(eqn) ? empty_results(at) : (*primitive.lower)(at);
    if (primitive.origin != "builtin") check_new_nodes(eqn, b.graph(), last, primitive.origin);
    check_results(eqn, results, primitive.origin, b);
    for (size_t i = 0; i < results.size(); ++i) {
      bind(*eqn.result(i), results[i]);
      add_own_sizes(*results[i]);
    }
    begin_batch();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kUnsupported) {
      std::string reason = e.message();
      for (const std::string& note : e.notes()) reason += "; " + note;
      return refuse(eqn, std::move(reason));
    }
    const std::string by = primitive.origin == "builtin" ? "" : fmt::format(" ({})", primitive.origin);
    throw e.with_note(fmt::format("while lowering '{}' of {}{}", eqn.op().name, types_text(eqn), by))
        .with_note(source_text(eqn));
  }
}

void LoweringContext::check_new_nodes(const Node& eqn, const Graph& graph, const Node* last, std::string_view origin) {
  auto found = misspelling(graph, last);
  if (!found) return;
  throw Error(
      ErrorCode::kInvalidModel,
      fmt::format("the lowering of '{}' ({}) made a node that ONNX does not know: {}", eqn.op().name, origin, found->text),
      std::move(found->notes));
}

void LoweringContext::check_results(const Node& eqn, std::vector<Value*>& results, std::string_view origin, OnnxBuilder& b) {
  if (results.size() != eqn.num_results()) {
    throw Error(ErrorCode::kInternal, fmt::format("the lowering of '{}' ({}) gave {} results where the equation has {}",
                                                  eqn.op().name, origin, results.size(), eqn.num_results()));
  }
  Types& types = b.types();
  for (size_t i = 0; i < results.size(); ++i) {
    const Type* expected = stored(import(eqn.result(i)->type()));
    Value* v = results[i];
    if (v == nullptr) {
      throw Error(ErrorCode::kInternal,
                  fmt::format("the lowering of '{}' ({}) left result {} unbound", eqn.op().name, origin, i));
    }
    const Type* found = v->type();
    if (found == expected) continue;
    // Before meet(), which would take a 1 for a precise B.
    if (found != nullptr && broadcasts_to(found, expected) && may_stay_narrow(*eqn.result(i))) continue;
    if (found == nullptr || types.meet(found, expected) != nullptr) {
      // Inference knew less than JAX does.
      if (v->kind() != ValueKind::kInput) v->set_type(expected);
      continue;
    }
    // meet() is null: a proven contradiction, or two symbolic spellings that only JAX knows to be equal.
    const auto differs = [&](size_t d) { return onnx_.dims().compare(found->dim(d), expected->dim(d)) == Compare::kDifferent; };
    bool symbolic_only =
        found->is_tensor() && found->ranked() && found->dtype() == expected->dtype() && found->rank() == expected->rank();
    for (size_t d = 0; symbolic_only && d < found->rank(); ++d) symbolic_only = !differs(d);
    if (symbolic_only) {
      if (v->kind() != ValueKind::kInput) v->set_type(expected);
      continue;
    }
    // Not kInternal: a saved program may say what it likes, and lowerings may be a plugin's.
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the lowering of '{}' ({}) gave {} as result {} where the equation says {}", eqn.op().name, origin,
                            types.to_string(found), i, types.to_string(expected)));
  }
}

bool LoweringContext::may_stay_narrow(const Value& jax) const {
  if (!jax.has_uses()) return false;
  for (const Use& u : jax.uses()) {
    const Node& reader = *u.owner;
    if (puts_axes_in_front(reader)) {
      if (!may_stay_narrow(*reader.result())) return false;
      continue;
    }
    if (reader.is_boundary() || !reader.has(Trait::kElementwise) || reader.num_results() != 1) return false;
    const auto full = [&](const Use& other) {
      // Another broadcast might stay narrow as well, and two narrow operands make a narrow result.
      const Value* v = other.value;
      return v != nullptr && v != &jax && !(v->def() != nullptr && makes_narrow(*v->def())) &&
             std::ranges::equal(v->type()->dims(), reader.result()->type()->dims());
    };
    if (std::ranges::none_of(reader.operands(), full)) return false;
  }
  return true;
}

void LoweringContext::refuse(const Node& eqn, std::string reason) {
  std::string types = types_text(eqn);
  const std::string key = fmt::format("{}\n{}\n{}\n{}", eqn.op().name, types, reason, source_text(eqn));
  auto [at, inserted] = unsupported_.try_emplace(key);
  if (inserted) at->second = {std::string(eqn.op().name), std::move(types), std::move(reason), source_text(eqn), 0};
  ++at->second.count;
  // Stand-ins with the right types let the loop go on and find everything else that is missing.
  for (const Value& v : eqn.results()) bind(v, &onnx_.new_placeholder({}, stored(import(v.type()))));
}

void LoweringContext::report_unsupported() const {
  size_t count = 0;
  std::vector<std::string> notes;
  bool missing = false;
  for (const auto& [key, u] : unsupported_) {
    count += u.count;
    missing |= u.reason.empty();
    std::string line = fmt::format("{} of {}", u.primitive, u.types);
    if (u.count > 1) line += fmt::format(" ({} times)", u.count);
    if (!u.source.empty()) line += ", " + u.source;
    if (!u.reason.empty()) line += ": " + u.reason;
    notes.push_back(std::move(line));
  }
  if (missing)
    notes.emplace_back(
        "help: add a lowering with @sardonyx.lowering(\"primitive\"), or make a node of your own domain of it with "
        "custom_ops={\"primitive\": \"my.domain::MyOp\"}; see docs/plugins.md");
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot convert {} equation{} of this program", count, count == 1 ? "" : "s"), std::move(notes));
}

std::string LoweringContext::types_text(const Node& eqn) const {
  std::string text;
  for (size_t i = 0; i < eqn.num_inputs(); ++i) {
    text += (i ? ", " : "") + (eqn.input(i) ? jax_.types().to_string(eqn.input(i)->type()) : std::string("_"));
  }
  text += " -> ";
  for (size_t i = 0; i < eqn.num_results(); ++i) text += (i ? ", " : "") + jax_.types().to_string(eqn.result(i)->type());
  return text;
}

std::string LoweringContext::source_text(const Node& eqn) const {
  const Provenance& p = jax_.provenance(source_of(eqn));
  if (p.sources.empty() || p.sources[0].file.empty()) return {};
  const Source& s = p.sources[0];
  return fmt::format("at {}:{}{}", s.file, s.line, s.function.empty() ? "" : fmt::format(" ({})", s.function));
}

void LoweringContext::mark(const Node& eqn, OnnxBuilder& b) {
  const uint32_t provenance = import_provenance(eqn, primitive(eqn.op()).origin);
  b.set_provenance(provenance);
  main_.set_provenance(provenance);
}

uint32_t LoweringContext::import_provenance(const Node& eqn, std::string_view origin) {
  if (options_.provenance == LowerOptions::Provenance::kOff) return 0;
  const uint32_t source = source_of(eqn);
  const uint64_t key = (static_cast<uint64_t>(eqn.op().id) << 32) | source;
  auto [at, inserted] = provenance_.try_emplace(key, 0);
  if (inserted) {
    Provenance p = jax_.provenance(source);
    if (p.sources.empty()) p.sources.emplace_back();
    for (Source& s : p.sources) {
      s.primitive = eqn.op().name;
      s.lowering = origin == "builtin" ? std::string("lower_").append(eqn.op().name) : std::string(origin);
    }
    at->second = onnx_.add_provenance(std::move(p));
  }
  return at->second;
}

namespace {

// Plugins may write operators of other domains: each is imported in the version that they were asked for, the newest of several.
void import_domain(Function& f, const Op& op) {
  const auto add = [&](std::vector<OpsetImport>& imports) {
    for (OpsetImport& i : imports) {
      if (i.domain != op.domain && !(op.domain == "ai.onnx" && i.domain.empty())) continue;
      if (!op.known) i.version = std::max<int64_t>(i.version, op.since_version);
      return;
    }
    imports.push_back({std::string(op.domain), std::max(op.since_version, 1)});
  };
  add(f.model().opset_imports);
  if (&f != &f.model().main()) add(f.opset_imports);
}

// What no result needs goes: parts of tuples nobody reads, sizes computed and then not used. Recursion is over nesting only.
void sweep(Function& f, Graph& g) {
  for (Node* n = g.last(); n != nullptr; n = n->prev()) {
    if (!n->any_result_used()) {
      g.erase(*n);
      continue;
    }
    if (!n->op().domain.empty()) import_domain(f, n->op());
    for (const Body& b : n->bodies()) sweep(f, *b.graph);
  }
  std::vector<Value*> dead;
  for (Value* c : g.constants()) {
    if (!c->has_uses()) dead.push_back(c);
  }
  for (size_t i = dead.size(); i-- > 0;) g.erase_constant(*dead[i]);
}

}  // namespace

std::unique_ptr<Model> lower_to_onnx(const Model& jax, const LowerOptions& options, const LoweringRegistry& registry) {
  auto onnx = std::make_unique<Model>(DialectId::kOnnx);
  lower_to_onnx(jax, *onnx, options, registry);
  return onnx;
}

void lower_to_onnx(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry) {
  onnx.producer_name = "sardonyx";
  onnx.producer_version = version();
  LoweringContext context(jax, onnx, options, registry);
  context.run();
  for (const auto& f : onnx.functions()) sweep(*f, f->graph());
  arrange(onnx, context.batches());
  arrange_constants(onnx, 0);
  onnx.compact();
}

}  // namespace sardonyx
