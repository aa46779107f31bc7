// Model-local functions: jits that @sardonyx.onnx_function marked become calls, and their jaxprs become
// function bodies.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lower/jax_to_onnx/context.h"
#include "lower/jax_to_onnx/kernels.h"

namespace sardonyx::jax_to_onnx {

std::optional<FunctionMark> FunctionMark::parse(std::string_view jit_name) {
  constexpr std::string_view kPrefix = "onnx_function:";
  if (!jit_name.starts_with(kPrefix)) return std::nullopt;
  const auto j = nlohmann::json::parse(jit_name.substr(kPrefix.size()), nullptr, /*allow_exceptions=*/false);
  if (!j.is_object() || !j.contains("function") || !j["function"].is_string()) return std::nullopt;
  FunctionMark mark{.name = j["function"].get<std::string>()};
  if (const auto at = j.find("namespace"); at != j.end() && at->is_string()) mark.name_space = at->get<std::string>();
  if (const auto at = j.find("unique"); at != j.end() && at->is_boolean()) mark.unique = at->get<bool>();
  if (const auto at = j.find("attributes"); at != j.end() && at->is_object()) {
    for (const auto& [name, operand] : at->items()) {
      if (operand.is_number_unsigned()) mark.attributes.emplace_back(operand.get<size_t>(), name);
    }
    std::ranges::sort(mark.attributes);
  }
  return mark;
}

const std::string* FunctionMark::attribute(size_t operand) const {
  const auto at = std::ranges::find(attributes, operand, [](const auto& a) { return a.first; });
  return at == attributes.end() ? nullptr : &at->second;
}

namespace {

// ONNX attributes hold f32 and i64; a value of that element type passes through one unchanged.
bool fits_attribute(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16 || (is_integer(t) && t != DType::kU64);
}

constexpr int kFloatAttribute = 1, kIntAttribute = 2;  // AttributeProto.AttributeType

// The value of the function's own attribute inside its body: t[].
Value* attribute_value(OnnxBuilder& b, const std::string& name, DType t) {
  const bool is_int = is_integer(t);
  const DType held = is_int ? DType::kI64 : DType::kF32;
  const Attr reference(RefAttr{name, is_int ? kIntAttribute : kFloatAttribute});
  Value* v = b.op("Constant", {}, {attr(is_int ? "value_int" : "value_float", reference)});
  v->set_type(b.types().scalar(held));
  return t == held ? v : b.Cast(v, {.to = t});
}

// The attribute that a call passes for an operand: a number, or an attribute of the enclosing function.
// Nullopt if the operand is computed.
std::optional<Attr> attribute_of(Value* v) {
  if (!fits_attribute(v->dtype())) return {};
  if (!v->ranked() || v->type()->rank() != 0) return {};
  if (v->is_constant()) {
    if (!is_integer(v->dtype())) return Attr(splat_value(v).value());
    return Attr((*v->constant()->to_ints())[0]);
  }
  if (v->def() != nullptr && v->def()->is("Cast")) v = v->def()->input(0);
  if (v->def() == nullptr || !v->def()->is("Constant")) return {};
  for (const char* kind : {"value_float", "value_int"}) {
    if (const Attr* a = v->def()->attr(kind); a != nullptr && a->get<RefAttr>() != nullptr) return *a;
  }
  return {};
}

}  // namespace

Context::Context(Context& caller, Function& function)
    : EngineOf(caller.source(), function.graph(), caller.pair(), caller.table_),
      options_(caller.options_),
      runtime_(caller.runtime_),
      root_(caller.root_),
      function_(&function) {
  callers_ = caller.callers_;
  sizes_by_graph_.push_back(std::make_unique<Sizes>(&main_));
}

void Context::run_function(const Node& eqn, const FunctionMark& mark) {
  const Graph& from = *eqn.bodies()[0].graph;
  Graph& to = main_.graph();
  this->mark(eqn, main_);
  for (size_t i = 0; i < from.inputs().size(); ++i) {
    if (const std::string* name = mark.attribute(i)) {
      if (!from.input(i)->has_uses()) continue;
      function_->attributes.push_back(*name);
      bind(*from.input(i), attribute_value(main_, *name, from.input(i)->dtype()));
      continue;
    }
    Value* v = to.add_input(fmt::format("input_{}", to.inputs().size()), stored_type(from.input(i)->type()));
    v->set_type(to.inputs().back().declared);
    bind(*from.input(i), v);
    add_origins(*v);
  }
  lower_body(from, eqn, main_);
  for (size_t i = 0; i < from.outputs().size(); ++i) {
    const Value& result = *from.output(i);
    to.add_output(*value(result, main_), fmt::format("output_{}", i), stored_type(result.type()));
  }
  settle_constants();
}

std::vector<Value*> Context::call_function(const Node& eqn, const FunctionMark& wanted, std::span<Value* const> args,
                                           OnnxBuilder& b) {
  const Graph& body = *eqn.bodies()[0].graph;
  // Attributes that this call computes stay operands.
  FunctionMark mark = wanted;
  AttrInit attributes;
  std::erase_if(mark.attributes, [&](const auto& a) {
    auto value = a.first < args.size() ? attribute_of(args[a.first]) : std::nullopt;
    if (value && body.input(a.first)->has_uses()) attributes.push_back(attr(a.second, *value));
    return !value;
  });
  std::vector<const Type*> operands;
  for (const Port& p : body.inputs()) operands.push_back(import(p.value->type()));
  auto& known = root_->definitions_;
  auto at = std::find_if(known.begin(), known.end(), [&](const Definition& d) {
    return d.mark.name == mark.name && d.mark.name_space == mark.name_space && d.mark.attributes == mark.attributes &&
           d.operands == operands && equal_graphs(*d.jax, body);
  });
  if (at == known.end()) {
    const std::string group = fmt::format("{}.{}{}", mark.name_space, mark.name, mark.unique ? ".unique" : "");
    const int n = ++root_->function_counters_[group];
    Function& f = model().add_function(mark.name);
    f.domain = mark.unique && n == 1 ? group : fmt::format("{}.{}", group, n);
    f.opset_imports = {{"", options_.opset}};
    model().set_opset_version(f.domain, 1);
    Context inside(*this, f);
    inside.run_function(eqn, mark);
    take(inside);
    root_->definitions_.push_back({&body, mark, std::move(operands), &f, std::move(inside.sizes_)});
    at = root_->definitions_.end() - 1;
  }
  const Definition definition = *at;
  if (function_ != nullptr) {
    auto& imports = function_->opset_imports;
    if (std::none_of(imports.begin(), imports.end(),
                     [&](const OpsetImport& i) { return i.domain == definition.function->domain; }))
      imports.push_back({definition.function->domain, 1});
  }
  std::vector<Value*> all;
  for (size_t i = 0; i < args.size(); ++i) {
    if (mark.attribute(i) == nullptr) all.push_back(args[i]);
  }
  for (Dim d : definition.sizes) all.push_back(dim_vector(d));
  this->mark(eqn, b);
  Node& call =
      b.make(model().op(definition.function->domain, definition.function->name), all, eqn.num_results(), std::move(attributes));
  std::vector<Value*> results;
  for (Value& v : call.results()) results.push_back(&v);
  return results;
}

}  // namespace sardonyx::jax_to_onnx
