// Types of the onnx dialect for those of the jax dialect, the interface, and the checks around a lowering.
#include "lower/jax_to_onnx/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text/spelling.h"
#include "lower/jax_to_onnx/check_equation.h"
#include "lower/jax_to_onnx/lib/pairs.h"
#include "lower/jax_to_onnx/random/threefry.h"

namespace sardonyx::jax_to_onnx {
namespace {

// Results without elements need no computation, and runtimes refuse some windows over empty operands.
bool has_only_empty_results(const Node& eqn) {
  return eqn.num_results() > 0 && eqn.has(Trait::kPure) && std::ranges::all_of(eqn.results(), [](const Value& v) {
           return std::ranges::any_of(v.type()->dims(), [](Dim d) { return d.is(0); });
         });
}

// Checks nodes made by plugins: an unknown operator or attribute stops the conversion here, where the
// equation is known.
void check_new_nodes(const Node& eqn, const Graph& graph, const Node* last, std::string_view origin) {
  auto found = misspelling(graph, last);
  if (!found) return;
  throw Error(
      ErrorCode::kInvalidModel,
      fmt::format("the lowering of '{}' ({}) made a node that ONNX does not know: {}", eqn.op().name, origin, found->text),
      std::move(found->notes));
}

std::vector<Value*> empty_results(Lowering& ctx) {
  std::vector<Value*> results;
  for (size_t i = 0; i < ctx.node.num_results(); ++i) {
    const Type* t = ctx.stored_out_type(i);
    results.push_back(ctx.zeros(t->dtype(), t->dims()));
  }
  return results;
}

}  // namespace

Context::Context(const Model& jax, Model& onnx, const LowerOptions& options, const LoweringRegistry& registry)
    : EngineOf(jax, (onnx.opset_imports = {{"", options.opset}}, onnx.add_function(options.model_name).graph()),
               {.node = "equation",
                .task = "this program",
                .help = "help: add a lowering with @sardonyx.lowering(\"primitive\"), or map it to a node of your own domain "
                        "with custom_ops={\"primitive\": \"my.domain::MyOp\"}; see docs/inside/lowerings.md",
                .provenance = options.provenance != LowerOptions::Provenance::kOff,
                .exact_types = true},
               registry),
      options_(options),
      runtime_(options.target.empty() ? onnx::newest_runtime() : onnx::runtime_named(options.target)) {
  sizes_by_graph_.push_back(std::make_unique<Sizes>(&main_));
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

DType pair_part(DType t) {
  if (t == DType::kC64) return DType::kF32;
  if (t == DType::kC128) return DType::kF64;
  return t == DType::kKey4 ? DType::kI64 : DType::kUndefined;
}

const Type* Context::stored(const Type* t) {
  if (t->dtype() == DType::kKey) return model().types().with_dtype(t, DType::kI64);
  const DType part = pair_part(t->dtype());
  if (part == DType::kUndefined) return t;
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  dims.push_back(Dim::of(2));
  return model().types().tensor(part, dims);
}

const Type* Context::interface_type(const Type* t) {
  if (!is_key(t->dtype())) return stored(t);
  std::vector<Dim> dims(t->dims().begin(), t->dims().end());
  dims.push_back(Dim::of(t->dtype() == DType::kKey ? 2 : 4));
  return model().types().tensor(DType::kU32, dims);
}

Context::KeyWords Context::key_words(const Value& key) const {
  auto at = key_words_.find(&key);
  return at == key_words_.end() ? KeyWords{} : at->second;
}

// ---------------------------------------------------------------------------------------------------------------------
// The interface

namespace {

// For nodes between an input or a result and the program, which belong to no equation.
uint32_t boundary_provenance(Model& onnx, const LowerOptions& options, std::string_view what) {
  if (options.provenance == LowerOptions::Provenance::kOff) return 0;
  Provenance p;
  p.sources.emplace_back().lowering = what;
  p.source_count = 1;
  return onnx.add_provenance(std::move(p));
}

// The name that the options or the port give; else `prefix` and the position.
std::string port_name(const std::vector<std::string>& names, const Port& port, size_t i, std::string_view prefix) {
  std::string name = i < names.size() ? names[i] : std::string(port.name.view());
  return name.empty() ? fmt::format("{}_{}", prefix, i) : name;
}

}  // namespace

void Context::run() {
  EngineOf::run();
  settle_constants();
}

void Context::add_input(const Port& port, size_t i) {
  const Type* type = import(port.value->type());
  Value* v = main_.graph().add_input(port_name(options_.input_names, port, i, "in"), interface_type(type));
  if (is_key(type->dtype())) {
    main_.set_provenance(boundary_provenance(model(), options_, "key_from_words"));
    bind(*port.value, wrap_key(main_, *this, v, type->dtype()));
  } else {
    bind(*port.value, v);
  }
  add_origins(*v);
}

void Context::add_output(const Port& port, Value& jax, size_t i) {
  Value* v = value(jax, main_);
  const Type* type = import(jax.type());
  if (is_key(type->dtype())) {
    main_.set_provenance(boundary_provenance(model(), options_, "words_of_key"));
    v = unwrap_key(main_, *this, v, type->dtype());
  }
  main_.graph().add_output(*v, port_name(options_.output_names, port, i, "out"), interface_type(type));
}

// ---------------------------------------------------------------------------------------------------------------------
// One equation

std::vector<Value*> Context::lower(const Node& eqn, Builder& builder) {
  auto& b = static_cast<OnnxBuilder&>(builder);
  const InTypes own_types(*this, nullptr);
  Lowering ctx(*this, eqn, b);
  mark(eqn, b);
  check_counts(eqn);
  if (has_known_axes(eqn.op().name)) check_equation(eqn);
  const Node* last = b.graph().last();
  std::vector<Value*> results = has_only_empty_results(eqn) ? empty_results(ctx) : lower_with(ctx);
  if (const auto from = *lowering_origin(eqn.op()); from != "builtin") check_new_nodes(eqn, b.graph(), last, from);
  return results;
}

void Context::describe(const Node& eqn, Provenance& p) {
  const std::string_view from = *lowering_origin(eqn.op());
  if (p.sources.empty()) p.sources.emplace_back();
  for (Source& s : p.sources) {
    s.primitive = eqn.op().name;
    s.lowering = from == "builtin" ? std::string("lower_").append(eqn.op().name) : std::string(from);
  }
}

}  // namespace sardonyx::jax_to_onnx
