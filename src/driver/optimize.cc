#include "driver/optimize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "driver/fixed_point.h"
#include "driver/half_report.h"
#include "driver/outside_names.h"
#include "io/program_file.h"
#include "ir/call.h"
#include "rewrite/pass.h"
#include "sardonyx/infer.h"
#include "support/atomic_file.h"
#include "support/mapped_file.h"
#include "support/nearest.h"
#include "support/stopwatch.h"

namespace sardonyx {
namespace {

constexpr size_t kShownOperators = 8, kShownText = 200;

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

// What a name stood for.
struct Named {
  TensorPtr payload;           // of a constant
  const Type* type = nullptr;  // of other values
};
using Names = std::unordered_multimap<std::string, Named>;

template <class F>
void for_each_value(Model& m, const F& f) {
  for (const auto& function : m.functions()) {
    std::vector<Graph*> todo{&function->graph()};
    while (!todo.empty()) {
      Graph& g = *todo.back();
      todo.pop_back();
      for (Value* v : g.constants()) f(*v);
      for (Node& n : g.nodes()) {
        for (Value& v : n.results()) f(v);
        for (const Body& b : n.bodies()) todo.push_back(b.graph);
      }
    }
  }
}

Names names_of(Model& m) {
  Names names;
  for_each_value(m, [&](Value& v) {
    if (!v.name().empty()) names.emplace(v.name().view(), Named{v.constant(), v.type()});
  });
  return names;
}

// Takes names away that no longer mean what they did.
void drop_other_meanings(Model& m, const Names& before) {
  const auto is_same = [](const Named& was, const Value& v) {
    constexpr size_t kCompared = 1 << 20;  // larger ones that were made anew are taken for others
    if (was.payload != nullptr && v.is_constant()) {
      const TensorPtr& now = v.constant();
      return was.payload == now || (!now->is_deferred() && now->byte_size() <= kCompared && was.payload->equals(*now));
    }
    if (was.payload != nullptr) return false;
    return was.type == nullptr || v.type() == nullptr || !was.type->is_tensor() || !v.type()->is_tensor() ||
           !was.type->ranked() || !v.type()->ranked() ||
           (was.type->dtype() == v.type()->dtype() && was.type->rank() == v.type()->rank() &&
            std::ranges::equal(was.type->dims(), v.type()->dims(),
                               [](Dim a, Dim b) { return a == b || !(a.is_int() && b.is_int()); }));
  };
  for_each_value(m, [&](Value& v) {
    const auto [first, last] = before.equal_range(std::string(v.name().view()));
    if (first == last) return;
    if (std::none_of(first, last, [&](const auto& named) { return is_same(named.second, v); })) v.set_name({});
  });
}

void append(PipelineReport& report, const PipelineReport& later) {
  const auto add = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(report.passes, later.passes);
  add(report.faults, later.faults);
  report.ill_typed = later.ill_typed;
  report.evaluations += later.evaluations;
  if (report.not_compared.empty()) report.not_compared = later.not_compared;
  report.seconds += later.seconds;
}

// Operators that nothing is known of: their nodes stay as they are, and no rule looks through them.
std::vector<std::string> tell_unknown_operators(Model& m) {
  struct Unknown {
    size_t nodes = 0;
    std::string first;
  };
  if (m.op_id_limit() <= known_op_count()) return {};  // all are in a table
  std::map<std::string, Unknown> unknown;
  size_t newer = 0;
  const int newest = dialect(DialectId::kOnnx).latest_version("");
  const auto has = m.opset_version("");
  for (const auto& function : m.functions()) {
    for (Graph* g : graphs_in(function->graph())) {
      for (const Node& n : g->nodes()) {
        const Op& op = n.op();
        if (op.known || called_function(n) != nullptr) continue;
        if (op.domain.empty() && has && *has > newest) {
          ++newer;
          continue;
        }
        Unknown& u = unknown[op.domain.empty() ? std::string(op.name) : fmt::format("{}::{}", op.domain, op.name)];
        if (u.nodes++ > 0) continue;
        u.first = print(n);
        size_t end = std::min(u.first.find('\n'), kShownText);
        if (end >= u.first.size()) continue;
        while (end > 0 && (u.first[end] & 0xC0) == 0x80) --end;  // not within a character
        u.first = u.first.substr(0, end) + (u.first[end] == '\n' ? "" : " ...");
      }
    }
  }
  std::vector<std::string> told;
  if (newer > 0) {
    told.push_back(fmt::format("opset {} is newer than {}, the last one that is known: {} node{} left as {}", *has, newest,
                               newer, newer == 1 ? " is" : "s are", newer == 1 ? "it is" : "they are"));
  }
  for (const auto& [name, u] : unknown) {
    if (told.size() == kShownOperators && unknown.size() > kShownOperators) {
      told.push_back(fmt::format("and {} other unknown operators", unknown.size() - kShownOperators));
      break;
    }
    told.push_back(fmt::format("{} is no known operator: {} left as {}\n  at {}", name,
                               u.nodes == 1 ? "its node is" : fmt::format("its {} nodes are", u.nodes),
                               u.nodes == 1 ? "it is" : "they are", u.first));
  }
  return told;
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
        if (old.is_int() && !(old == now))
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
    for (const Port& p : at.inputs()) p.value->set_type(substituted(p.value->type()));
    for (Node& n : at.nodes()) {
      for (Value& v : n.results()) v.set_type(substituted(v.type()));
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
  std::vector<std::string> unknown;
  if (m.dialect() == DialectId::kOnnx && options.request.passes != std::vector<std::string>{"none"})
    unknown = tell_unknown_operators(m);
  Stopwatch watch;
  Names names;
  if (options.keep_names) names = names_of(m);
  OutsideNames outside(m);
  if (options.opset != 0) {
    PassRequest conversion{.passes = {"convert_opset"},
                           .options = {{"convert_opset.opset", std::to_string(options.opset)}},
                           .strict = true,
                           .verify = options.request.verify == Verify::kOff ? Verify::kOff : Verify::kModel};
    report.passes = run_passes(m, conversion);
  }
  append(report.passes, run_passes(m, options.request));
  outside.restore();
  if (options.keep_names) drop_other_meanings(m, names);
  check_fixed_point(m, options.request);
  report.warnings = report.passes.ill_typed;
  report.warnings.insert(report.warnings.end(), unknown.begin(), unknown.end());
  if (options.request.verify == Verify::kModel && report.passes.evaluations == 0 && !report.passes.passes.empty())
    report.warnings.push_back("nothing was compared: " + report.passes.not_compared);
  report.optimize_seconds = watch.lap();
  report.after = count_model(m);
  return report;
}

bool is_only_larger(const OptimizeReport& report, const OptimizeOptions& options, uint64_t before, uint64_t after) {
  const PassRequest& r = options.request;
  if (r.passes != std::vector<std::string>{"onnx"} || r.fold_budget != 0 || r.prune_inputs || r.inline_functions ||
      !options.input_shapes.empty() || options.opset != 0 || options.declare_types || options.keep_names)
    return false;
  const ModelCounts &was = report.before, &is = report.after;
  return after > before && is.nodes >= was.nodes && is.ops == was.ops && is.parameters >= was.parameters &&
         is.bytes >= was.bytes;
}

void keep_as_it_was(OptimizeReport& report) {
  report.after = report.before;
  report.file_after = report.file_before;
  for (PassReport& p : report.passes.passes) {
    p.changed = false;
    p.counts.clear();
    p.nodes_after = p.nodes_before = report.before.nodes;
  }
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

OptimizeReport optimize_file(const std::filesystem::path& in, const std::filesystem::path& out, const OptimizeOptions& options,
                             const ReadOptions& read, const WriteOptions& write) {
  check_request(options.request, DialectId::kOnnx);
  Stopwatch watch;
  const bool is_text = in.extension() == ".sx";
  const auto model = is_text ? load_program(in, read.map) : read_onnx(in, read);
  if (model->dialect() != DialectId::kOnnx) {
    const bool mil = model->dialect() == DialectId::kMil;
    throw Error(ErrorCode::kUnsupported, fmt::format("{} is a program of the {} dialect", in.string(), mil ? "mil" : "jax"),
                {mil ? "help: `sardonyx coreml optimize` optimizes it" : "help: `sardonyx lower` makes ONNX of it"});
  }
  verify(*model);
  const double read_seconds = watch.lap();
  uint64_t file_before = is_text ? bytes_at(in) : 0;
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
  if (out.extension() == ".sx") {
    save_program(*model, out);
    report.file_after = bytes_at(out);
  } else {
    report.file_after = write_onnx(*model, out, how);
  }
  if (model->source_files.size() == 1 && write.external == WriteOptions::External::kAuto &&
      is_only_larger(report, options, file_before, report.file_after)) {
    const MappedFile& source = *model->source_files[0];
    AtomicFile file(out, AtomicFile::Options{.sync = write.sync});
    if (const auto range = source.range_of(source.bytes())) {
      file.append(*range, source.size());
    } else {
      file.append(source.bytes());
    }
    source.check_unchanged();
    file.commit();
    keep_as_it_was(report);
  }
  report.write_seconds = watch.lap();
  return report;
}

OptimizeReport optimize_coreml_file(const std::filesystem::path& in, const std::filesystem::path& out,
                                    const OptimizeOptions& options, const ReadOptions& read) {
  check_request(options.request, DialectId::kMil);
  Stopwatch watch;
  const auto model = in.extension() == ".sx" ? load_program(in, read.map) : read_coreml(in, read);
  if (model->dialect() != DialectId::kMil)
    throw Error(ErrorCode::kUnsupported, fmt::format("{} is no program of the mil dialect", in.string()),
                {"help: `sardonyx optimize` is for ONNX"});
  verify(*model);
  const double read_seconds = watch.lap();
  const uint64_t file_before = bytes_at(in);
  OptimizeOptions how = options;
  if (!options.calibrate.empty()) {
    const std::string ranges = half_report(*model, options.calibrate, /*random_runs=*/0, /*seed=*/0).ranges;
    how.request.options.emplace_back("add_fp16_cast.skip_ops", "auto");
    how.request.options.emplace_back("add_fp16_cast.ranges", ranges);
  }
  std::optional<ChangeLog> log;
  if (options.log_changes) log.emplace();
  OptimizeReport report = optimize_model(*model, how);
  if (log) report.changes = std::move(log->entries);
  log.reset();
  if (!report.warnings.empty()) {
    const size_t more = report.warnings.size() - 1;
    std::vector<std::string> notes;
    if (more > 0) notes.push_back(fmt::format("and {} more op{}", more, more == 1 ? "" : "s"));
    notes.push_back("help: `sardonyx check` lists what is wrong with a program");
    throw Error(ErrorCode::kInvalidModel, fmt::format("the program is ill-typed: {}", report.warnings[0]), std::move(notes))
        .with_note(fmt::format("in file {}", in.string()));
  }
  report.read_seconds = read_seconds;
  report.file_before = file_before;
  watch.lap();
  if (out.extension() == ".sx") {
    save_program(*model, out);
  } else {
    write_coreml(*model, out, {.link_weights = options.link_weights});
  }
  report.write_seconds = watch.lap();
  report.file_after = bytes_at(out);
  return report;
}

}  // namespace sardonyx
