#include "lower/stablehlo_to_jax/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

// Whether the size of the array that `n` counts is that of no input: then it can be read here alone.
bool introduces_size(const Node& n) {
  if (!n.is("range")) return false;
  const Dim size = n.result()->type()->dim(0);
  return std::ranges::none_of(n.model().graph().inputs(), [&](const Port& p) {
    return std::ranges::find(p.value->type()->dims(), size) != p.value->type()->dims().end();
  });
}

// Erases what computed sizes that became parameters. Recursion is over nesting only.
void sweep(Graph& g) {
  for (Node* n = g.last(); n != nullptr; n = n->prev()) {
    if (!n->any_result_used() && n->has(Trait::kPure) && !introduces_size(*n)) {
      g.erase(*n);
      continue;
    }
    for (const Body& b : n->bodies()) sweep(*b.graph);
  }
}

}  // namespace

std::unique_ptr<Model> lower_stablehlo_to_jax(const Model& stablehlo) {
  SX_CHECK(stablehlo.dialect() == DialectId::kStablehlo, "only a model of the stablehlo dialect can be lowered to JAX's");
  auto jax = std::make_unique<Model>(DialectId::kJax);
  jax->keep_alive_like(stablehlo);
  stablehlo_to_jax::Context context(stablehlo, *jax);
  context.run();
  sweep(jax->graph());
  jax->graph().erase_unused_constants();
  jax->compact();
  return jax;
}

}  // namespace sardonyx

namespace sardonyx::stablehlo_to_jax {
namespace {

constexpr size_t kMostElements = 64;
// Calls are lowered in line: a module of a kilobyte can call its way to any number of operations.
constexpr size_t kMostOperations = size_t{1} << 20;
constexpr size_t kDeepestCalls = 200;
// First character of symbols that are no sizes of inputs.
constexpr char kOpaque = '!';

// Of the number that the input i is.
std::string input_symbol(size_t i) { return fmt::format("{}input {}", kOpaque, i); }

}  // namespace

Context::Context(const Model& stablehlo, Model& jax)
    : EngineOf(stablehlo, jax.add_function("main").graph(), {.node = "operation", .task = "this StableHLO module"}, table()) {
  main_.graph().set_name(jax.name(stablehlo.graph().name().view()));
}

// ---------------------------------------------------------------------------------------------------------------------
// The interface

void Context::add_input(const Port& port, size_t i) {
  const Type* t = port.value->type();
  if (!t->is_tensor() || !t->ranked())
    throw Error(ErrorCode::kUnsupported, fmt::format("the input '{}' is {}, and expected is a tensor of known rank",
                                                     port.name.view(), source().types().to_string(t)));
  DimList dims;
  for (size_t axis = 0; axis < t->rank(); ++axis) {
    Dim d = import(t->dim(axis));
    if (d.is_unknown()) {
      const std::string name =
          fmt::format("{}_dim{}", port.name.empty() ? fmt::format("arg{}", i) : std::string(port.name.view()), axis);
      d = model().dims().symbol(name);
      is_named_.emplace(name, false);
    }
    dims.push_back(d);
  }
  Value* v = model().graph().add_input(port.name.view(), model().types().tensor(t->dtype(), dims));
  if (t->rank() == 0 && (is_signed(t->dtype()) || is_unsigned(t->dtype())))
    set_elements(*v, {opaque(fmt::format("input {}", i))});
  bind(*port.value, v);
}

void Context::add_output(const Port& port, Value& source, size_t /*i*/) {
  Value* v = value(source, main());
  model().graph().add_output(*v, port.name.view(), v->type());
}

// ---------------------------------------------------------------------------------------------------------------------
// Operations

std::vector<Value*> Context::lower(const Node& n, Builder& b) {
  if (++lowered_ > kMostOperations)
    throw Error(ErrorCode::kLimit, fmt::format("the module's calls amount to more than {} operations", kMostOperations));
  for (const Value& v : n.results()) {
    if (v.type() == nullptr || !v.type()->is_tensor() || !v.type()->ranked())
      throw Error(ErrorCode::kUnsupported, "a result without a rank");
  }
  std::vector<Value*> results = EngineOf::lower(n, b);
  if (n.num_results() != 1 || results.size() != 1 || elements(*results[0])) return results;
  std::vector<std::optional<Elements>> operands;
  for (const Use& u : n.operands()) operands.push_back(u.value == nullptr ? std::nullopt : elements(*value(*u.value, b)));
  auto known = computed_elements(*this, n, operands);
  if (!known) return results;
  // A number that is computed from sizes is a size.
  const Type* t = results[0]->type();
  const bool is_number = t->rank() == 0 && known->size() == 1 && !results[0]->is_constant() && results[0]->def() != nullptr;
  if (is_number && is_known(known->front()) && (is_signed(t->dtype()) || is_unsigned(t->dtype()))) {
    Value* whole = known->front().is_int() ? b.scalar_int(t->dtype(), known->front().value()) : nullptr;
    if (whole == nullptr && !n.is("get_dimension_size")) {
      whole = b.op("dim_as_value", std::initializer_list<Value*>{}, {attr("dim", known->front())});
      whole->set_type(t);
    }
    if (whole != nullptr) results[0] = whole;
  }
  if (!results[0]->is_constant()) set_elements(*results[0], std::move(*known));
  return results;
}

std::vector<Value*> Context::call(std::string_view callee, Lowering& ctx, std::span<Value* const> args) {
  const Function* f = source().find_function("", callee);
  if (f == nullptr) throw Error(ErrorCode::kInvalidModel, fmt::format("the module has no function '{}'", callee));
  if (std::ranges::find(calls_, callee) != calls_.end())
    throw Error(ErrorCode::kInvalidModel, fmt::format("the function '{}' calls itself", callee));
  if (calls_.size() == kDeepestCalls)
    throw Error(ErrorCode::kLimit, fmt::format("calls are nested more than {} deep", kDeepestCalls));
  const Graph& body = f->graph();
  if (body.inputs().size() != args.size())
    throw Error(ErrorCode::kInvalidModel,
                fmt::format("the function '{}' takes {} operands, not {}", callee, body.inputs().size(), args.size()));
  for (size_t i = 0; i < args.size(); ++i) {
    for (const auto& [key, text] : body.inputs()[i].metadata) {
      if (key != "jax.global_constant" || text.empty()) continue;
      if (const auto known = elements(*args[i]); known && known->size() == 1) name_size(text, known->front());
    }
  }
  calls_.push_back(callee);
  std::vector<Value*> results = ctx.inline_here(body, args);
  calls_.pop_back();
  return results;
}

// ---------------------------------------------------------------------------------------------------------------------
// Sizes

std::optional<Elements> Context::elements(const Value& v) const {
  if (const auto at = elements_.find(&v); at != elements_.end()) return at->second;
  if (!v.is_constant()) return {};
  const TensorPtr& t = v.constant();
  if (t->rank() > 2 || is_float(t->dtype()) || is_complex(t->dtype()) || t->dtype() == DType::kString) return {};
  const auto all = t->to_ints(kMostElements);
  if (!all) return {};
  Elements found;
  for (int64_t n : *all) {
    if (n >= int64_t{1} << 60 || n < -(int64_t{1} << 60)) return {};
    found.push_back(Dim::of(n));
  }
  return found;
}

bool Context::is_known(Dim d) const {
  if (d.is_int()) return true;
  return d.is_expr() && std::ranges::none_of(model().dims().symbols(d), [](const std::string& s) { return s[0] == kOpaque; });
}

Dim Context::opaque(std::string_view text) {
  const std::string name = fmt::format("{}{}", kOpaque, text);
  model().dims().set_range(name, {});
  return model().dims().symbol(name);
}

Dim Context::with_inputs_as_sizes(Dim d) {
  if (!d.is_expr()) return d;
  Dims& dims = model().dims();
  const Graph& g = model().graph();
  for (const std::string& symbol : dims.symbols(d)) {
    for (size_t i = 0; symbol[0] == kOpaque && i < g.inputs().size(); ++i) {
      if (symbol != input_symbol(i)) continue;
      std::string name(g.inputs()[i].name.view());
      if (name.empty()) name = fmt::format("arg{}", i);
      const Dim size = dims.symbol(name);
      dims.set_range(name, {.min = 0, .max = {}});
      is_named_.emplace(name, false);
      const Value& number = *g.input(i);
      main_.set_insertion_point(g.first());
      Value* parts[] = {main_.scalar_int(number.dtype(), 0), g.input(i), main_.scalar_int(number.dtype(), 1)};
      Value* counted = main_.op("range", parts, {attr("dtype", number.dtype()), attr("size", size)});
      main_.set_insertion_point(nullptr);
      counted->set_type(model().types().tensor(number.dtype(), std::span(&size, 1)));
      substitute(symbol, size);
      d = dims.substitute(d, [&](std::string_view s) { return s == symbol ? std::optional(size) : std::nullopt; });
    }
  }
  return d;
}

void Context::equate(Dim a, Dim b) {
  if (a == b || a.is_unknown() || b.is_unknown() || (a.is_int() && b.is_int())) return;
  const Dims& dims = model().dims();
  const auto replaceable = [&](Dim d) -> std::string_view {
    const std::string_view name = dims.symbol_name(d);
    if (name.empty()) return {};
    const auto at = is_named_.find(std::string(name));
    return name[0] == kOpaque || (at != is_named_.end() && !at->second) ? name : std::string_view();
  };
  const auto holds = [&](Dim d, std::string_view name) {
    return std::ranges::any_of(dims.symbols(d), [&](const std::string& s) { return s == name; });
  };
  // Opaque symbols go first, then the size of the later input.
  std::string_view of_a = replaceable(a), of_b = replaceable(b);
  if (!of_a.empty() && !of_b.empty() && of_b[0] != kOpaque && (of_a[0] == kOpaque || of_b < of_a)) of_b = {};
  if (!of_b.empty() && !holds(a, of_b)) return substitute(of_b, a);
  if (!of_a.empty() && !holds(b, of_a)) return substitute(of_a, b);
}

void Context::name_size(std::string_view name, Dim d) {
  Dims& dims = model().dims();
  if (!d.is_expr()) return;
  int64_t factor = 1, offset = 0;
  Dim of = d;
  if (const Dims::Parts p = dims.parts(d); p.form == Dims::Form::kFloorDiv && p.operands[1].is_int()) {
    factor = p.operands[1].value();
    of = p.operands[0];
  }
  if (const Dims::Parts p = dims.parts(of); p.form == Dims::Form::kAdd && p.operands.size() == 2) {
    for (size_t i : {0, 1}) {
      if (p.operands[i].is_int()) offset = p.operands[i].value(), of = p.operands[1 - i];
    }
  }
  const std::string symbol(dims.symbol_name(of));
  const auto at = is_named_.find(symbol);
  if (at == is_named_.end() || at->second) return;
  const std::string wanted(name);
  const Dim named = dims.symbol(wanted);
  is_named_[wanted] = true;
  substitute(symbol, dims.sub(dims.mul(Dim::of(factor), named), Dim::of(offset)));
}

void Context::substitute(std::string_view symbol, Dim by) {
  const std::string gone(symbol);  // the view may be of a key that goes
  is_named_.erase(gone);
  substitute_in(model().graph(), gone, by);
  for (Graph* g : open_) substitute_in(*g, gone, by);
  for (auto& [v, all] : elements_) {
    for (Dim& d : all) {
      if (d.is_expr())
        d = model().dims().substitute(d, [&](std::string_view s) { return s == gone ? std::optional(by) : std::nullopt; });
    }
  }
}

void Context::substitute_in(Graph& graph, std::string_view symbol, Dim by) {
  const auto in_dim = [&](Dim d) {
    if (!d.is_expr()) return d;
    return model().dims().substitute(d, [&](std::string_view s) { return s == symbol ? std::optional(by) : std::nullopt; });
  };
  const auto in_value = [&](Value& v) {
    const Type* t = v.type();
    if (t == nullptr || !t->is_tensor() || !t->ranked() || t->is_static()) return;
    DimList dims;
    for (Dim d : t->dims()) dims.push_back(in_dim(d));
    v.set_type(model().types().with_dims(t, dims));
  };
  const auto in_attr = [&](auto&& self, const Attr& a) -> Attr {
    if (const auto* d = a.get<Dim>()) return in_dim(*d);
    if (const auto* all = a.get<Attr::DimList>()) {
      DimList dims = *all;
      for (Dim& d : dims) d = in_dim(d);
      return sizes_param(dims);
    }
    if (const auto* all = a.get<AttrList>()) {
      AttrList list = *all;
      for (Attr& item : list) item = self(self, item);
      return list;
    }
    return a;
  };
  std::vector<Graph*> todo{&graph};
  while (!todo.empty()) {
    Graph& g = *todo.back();
    todo.pop_back();
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      in_value(*g.input(i));
      if (g.inputs()[i].declared != nullptr) g.input_port(i).declared = g.input(i)->type();
    }
    for (Node& n : g.nodes()) {
      for (Value& v : n.results()) in_value(v);
      for (const NamedAttr& a : n.attrs().items()) {
        const Attr now = in_attr(in_attr, a.value);
        if (now != a.value) n.set_attrs(model().with_attr(n.attrs(), a.name, now));
      }
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      if (g.outputs()[i].declared != nullptr) g.output_port(i).declared = g.output(i)->type();
    }
  }
}

}  // namespace sardonyx::stablehlo_to_jax
