//   ... ── y    =>    ... ── y_type_fp32 ── cast ── y
//
// For results y for which the option requests another element type.
//
// types: NAME=fp16, several on separate lines or separated by commas; FUNCTION<tab>NAME=fp16 in one function
// only, "#0" is the first. In memory, coremltools' `output_types` give them. Without them nothing changes.
// Inputs that are returned unchanged stay, as do lists and states. Relaxed: a narrower type rounds, as
// requested. After coremltools' pass of this name.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/mil/ops.h"
#include "passes/mil/interface/interface_options.h"
#include "passes/mil/params.h"

namespace sardonyx::mil {
namespace {

struct Wanted {
  std::string function, name;
  DType type = DType::kUndefined;
};

std::vector<Wanted> wanted_types(const PassContext& context) {
  std::vector<Wanted> all;
  for (const std::string& entry : list_entries(context.options().text("types", {}))) {
    const size_t equals = entry.rfind('='), tab = entry.find('\t');
    if (equals == std::string::npos)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("an element type is written NAME=fp16, not '{}'", entry));
    const size_t first = tab == std::string::npos ? 0 : tab + 1;
    const std::string type = entry.substr(equals + 1);
    if (dtype_named(type) == DType::kUndefined)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a Core ML element type", type),
                  {"help: fp16, fp32, int32, ..."});
    all.push_back({tab == std::string::npos ? std::string() : entry.substr(0, tab), entry.substr(first, equals - first),
                   dtype_named(type)});
  }
  return all;
}

bool update(Graph& g, size_t i, DType to, PassContext& context) {
  Value& v = *g.output(i);
  if (v.type() == nullptr || !v.type()->is_tensor() || v.dtype() == to || v.kind() == ValueKind::kInput) return false;
  const std::string name(g.outputs()[i].name.view());
  Rewriter b(g, context);
  if (v.def() != nullptr) b.set_provenance(v.def()->provenance());
  Value* cast = b.cast(&v, {.dtype = to});
  v.set_name(g.model().name(fmt::format("{}_type_{}", name, v.dtype() == DType::kUndefined ? "other" : dtype_name(v.dtype()))));
  cast->set_name(g.outputs()[i].name);
  for (size_t other = 0; other < g.outputs().size(); ++other) {
    if (other != i && g.outputs()[other].name.view() == name) g.output_port(other).name = v.name();
  }
  g.set_output(i, *cast);
  g.output_port(i).declared = cast->type();
  context.log.count("casts");
  return true;
}

bool run(PassContext& context) {
  bool changed = false;
  for (const Wanted& w : wanted_types(context)) {
    bool found = false;
    for (const auto& f : context.model.functions()) {
      if (!w.function.empty() && w.function != f->name) continue;
      const size_t i = find_port(f->graph().outputs(), w.name);
      if (i == SIZE_MAX) continue;
      found = true;
      changed |= update(f->graph(), i, w.type, context);
    }
    if (!found) throw Error(ErrorCode::kInvalidArgument, fmt::format("there is no result '{}' to change the type of", w.name));
  }
  return changed;
}

}  // namespace

Pass update_output_dtypes() {
  return Pass::on_model(Numerics::kRelaxed, run).option("types", "element types of results, separated by commas: NAME=fp16");
}

}  // namespace sardonyx::mil
