// Runs over the equations of a program, and converts types from jax to onnx.
#include "lower/jax_to_onnx/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/spelling.h"
#include "lower/jax_to_onnx/check_equation.h"
#include "lower/jax_to_onnx/pairs.h"
#include "lower/jax_to_onnx/threefry.h"
#include "support/interrupt.h"

namespace sardonyx {
namespace {

// If no result has an element, nothing has to be computed; runtimes refuse some windows over nothing.
bool has_only_empty_results(const Node& eqn) {
  return eqn.num_results() > 0 && eqn.has(Trait::kPure) && std::ranges::all_of(eqn.results(), [](const Value& v) {
           return std::ranges::any_of(v.type()->dims(), [](Dim d) { return d.is(0); });
         });
}

std::vector<Value*> empty_results(Lowering& ctx) {
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.eqn.num_results(); ++i) {
    const Type* t = ctx.stored_out_type(i);
    results.push_back(ctx.zeros(t->dtype(), t->dims()));
  }
  return results;
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
// The loop over equations

namespace {

// For nodes without an equation: between an input or a result and the program.
uint32_t boundary_provenance(Model& onnx, const LowerOptions& options, std::string_view what) {
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
      main_.set_provenance(boundary_provenance(onnx_, options_, "key_from_words"));
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
      main_.set_provenance(boundary_provenance(onnx_, options_, "words_of_key"));
      v = unwrap_key(main_, *this, v, type->dtype());
    }
    to.add_output(*v, name, interface_type(type));
  }
  settle_constants();
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
    Lowering ctx(*this, eqn, b, std::move(operands));
    const Node* last = b.graph().last();
    std::vector<Value*> results = has_only_empty_results(eqn) ? empty_results(ctx) : (*primitive.lower)(ctx);
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

}  // namespace sardonyx
