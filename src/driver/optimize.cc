#include "driver/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sardonyx/infer.h"
#include "support/mapped_file.h"
#include "support/nearest.h"
#include "support/stopwatch.h"

namespace sardonyx {
namespace {

struct InputSpec {
  std::string name;
  const Type* type;  // dtype undefined when the text does not say it
};

InputSpec parse_spec(Model& m, const std::string& text) {
  const auto malformed = [&] {
    return Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no shape of an input", text),
                 {"expected x=f32[1,3,B] or x:1,3,B"});
  };
  // Names may hold colons ("input:0"): the last sign counts.
  const size_t equals = text.rfind('='), colon = text.rfind(':');
  if (equals != std::string::npos && equals > 0) {
    std::string type = text.substr(equals + 1);
    if (type.starts_with("[")) type = "f32" + type;
    if (type.find('[') == std::string::npos) throw malformed();
    const Type* t = m.types().parse(type);
    return {text.substr(0, equals), text[equals + 1] == '[' ? m.types().with_dtype(t, DType::kUndefined) : t};
  }
  if (colon == std::string::npos || colon == 0) throw malformed();
  return {text.substr(0, colon),
          m.types().with_dtype(m.types().parse("f32[" + text.substr(colon + 1) + "]"), DType::kUndefined)};
}

}  // namespace

void fix_input_shapes(Model& m, const std::vector<std::string>& specs) {
  if (specs.empty()) return;
  Graph& g = m.graph();
  Dims& dims = m.dims();
  std::map<std::string, Dim, std::less<>> fixed;
  std::vector<std::pair<Port*, const Type*>> wanted;
  for (const std::string& text : specs) {
    const InputSpec spec = parse_spec(m, text);
    Port* port = nullptr;
    std::vector<std::string_view> names;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      names.push_back(g.inputs()[i].name.view());
      if (names.back() == spec.name) port = &g.input_port(i);
    }
    const auto refuse = [&](std::string what, std::string note) {
      throw Error(ErrorCode::kInvalidArgument, std::move(what), {std::move(note)});
    };
    if (port == nullptr) {
      const std::string_view meant = nearest(spec.name, names);
      refuse(fmt::format("the model has no input '{}'", spec.name),
             meant.empty() ? fmt::format("it has: {}", fmt::join(names, ", ")) : fmt::format("did you mean '{}'?", meant));
    }
    const Type* has = port->declared;
    if (has != nullptr && has->is_tensor()) {
      if (spec.type->dtype() != DType::kUndefined && has->dtype() != spec.type->dtype())
        refuse(fmt::format("input '{}' is {}, not {}", spec.name, to_string(has->dtype()), to_string(spec.type->dtype())),
               "the type of elements cannot be changed");
      if (has->ranked() && has->rank() != spec.type->rank())
        refuse(fmt::format("input '{}' has {} axes, '{}' has {}", spec.name, has->rank(), text, spec.type->rank()),
               fmt::format("the model says {}", m.types().to_string(has)));
      for (size_t i = 0; has->ranked() && i < has->rank(); ++i) {
        const Dim old = has->dim(i), now = spec.type->dim(i);
        if (dims.compare(old, now) == Compare::kDifferent && old.is_int())
          refuse(fmt::format("axis {} of input '{}' is {}, not {}", i, spec.name, dims.to_string(old), dims.to_string(now)),
                 "only sizes that the model leaves open can be given");
        if (const std::string_view symbol = dims.symbol_name(old); !symbol.empty() && !(old == now)) {
          const auto [at, is_new] = fixed.emplace(symbol, now);
          if (!is_new && !(at->second == now))
            refuse(
                fmt::format("the size '{}' would be both {} and {}", symbol, dims.to_string(at->second), dims.to_string(now)),
                "all axes of one name have one size");
        }
      }
    }
    const DType dtype = has != nullptr ? has->dtype() : spec.type->dtype();
    wanted.emplace_back(port, m.types().with_dtype(spec.type, dtype));
  }
  const auto substituted = [&](const Type* t) -> const Type* {
    if (t == nullptr || !t->is_tensor() || !t->ranked()) return t;
    std::vector<Dim> now;
    for (Dim d : t->dims()) {
      now.push_back(dims.substitute(d, [&](std::string_view symbol) -> std::optional<Dim> {
        const auto at = fixed.find(symbol);
        return at == fixed.end() ? std::nullopt : std::optional(at->second);
      }));
    }
    return m.types().with_dims(t, now);
  };
  std::vector<Graph*> todo{&g};
  while (!todo.empty()) {
    Graph& at = *todo.back();
    todo.pop_back();
    for (size_t i = 0; i < at.inputs().size(); ++i) at.input_port(i).declared = substituted(at.inputs()[i].declared);
    for (size_t i = 0; i < at.outputs().size(); ++i) at.output_port(i).declared = substituted(at.outputs()[i].declared);
    for (auto& [value, info] : at.value_info) info.declared = substituted(info.declared);
    for (Node& n : at.nodes()) {
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  for (auto& [port, type] : wanted) {
    port->declared = type;
    port->value->set_type(m.types().freshen(type));
  }
}

OptimizeReport optimize_model(Model& m, const OptimizeOptions& options) {
  OptimizeReport report;
  check_request(options.request, m.dialect());
  fix_input_shapes(m, options.input_shapes);
  report.before = count_model(m);
  Stopwatch watch;
  report.passes = run_passes(m, options.request);
  report.warnings = report.passes.ill_typed;
  report.optimize_seconds = watch.lap();
  report.after = count_model(m);
  return report;
}

OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read, const WriteOptions& write) {
  check_request(options.request, DialectId::kOnnx);
  Stopwatch watch;
  const auto model = read_onnx(in, read);
  verify(*model);
  const double read_seconds = watch.lap();
  uint64_t file_before = 0;
  for (const auto& f : model->source_files) file_before += f->size();
  OptimizeReport report = optimize_model(*model, options);
  report.read_seconds = read_seconds;
  report.file_before = file_before;
  if (options.declare_types) {
    ValueFacts facts;
    infer_model(*model, facts, /*tolerant=*/true);
  }
  WriteOptions how = write;
  how.inferred_types |= options.declare_types;
  watch.lap();
  report.file_after = write_onnx(*model, out, how);
  report.write_seconds = watch.lap();
  return report;
}

namespace {

uint64_t bytes_at(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return std::filesystem::file_size(path);
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
    bytes += entry.is_regular_file() ? entry.file_size() : 0;
  return bytes;
}

}  // namespace

OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read, const CoremlWriteOptions& write) {
  check_request(options.request, DialectId::kMil);
  Stopwatch watch;
  const auto model = read_coreml(in, read);
  verify(*model);
  const double read_seconds = watch.lap();
  const uint64_t file_before = bytes_at(in);
  OptimizeReport report = optimize_model(*model, options);
  report.read_seconds = read_seconds;
  report.file_before = file_before;
  watch.lap();
  write_coreml(*model, out, write);
  report.write_seconds = watch.lap();
  report.file_after = bytes_at(out);
  return report;
}

}  // namespace sardonyx
