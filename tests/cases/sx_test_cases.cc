#include "sx_test_cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "convert/guards/fixed_point.h"
#include "dialects/mil/ops.h"
#include "inspect/across_dialects.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "passes/catalog.h"
#include "rewrite/values.h"
#include "sardonyx/calibration.h"
#include "sardonyx/error.h"
#include "sardonyx/inspect.h"
#include "sardonyx/lower.h"
#include "sardonyx/stablehlo.h"

namespace sardonyx {
namespace {

// --- kinds of cases, each of which transforms the input into the result. Add a kind here.

// lower PRIMITIVE: the input, of the jax dialect, contains that primitive. The result is the ONNX graph it
// lowers to.
std::unique_ptr<Model> lower_case(const std::string& primitive, const Model& input) {
  bool found = false;
  std::vector<const Graph*> todo{&input.graph()};
  for (size_t i = 0; i < todo.size(); ++i) {
    for (const Node& n : todo[i]->nodes()) {
      found |= n.op().name == primitive;
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  if (!found) throw Error(ErrorCode::kInvalidArgument, fmt::format("the case has no '{}' to lower", primitive));
  return lower_to_onnx(input, {.model_name = "main", .provenance = LowerOptions::Provenance::kOff});
}

// lower-stablehlo NAME: the input, of the stablehlo dialect, in JAX's primitives. NAME is that of the file:
// an operation or a family.
std::unique_ptr<Model> lower_stablehlo_case(const Model& input) {
  auto jax = lower_stablehlo_to_jax(input);
  lower_to_onnx(*jax);  // whether it goes on from there
  return jax;
}

// lower-mil NAME [target=iOS15]: the input, of the onnx dialect, in Core ML, for the newest target if none is
// named. NAME is that of the file, an operator or a family.
std::unique_ptr<Model> lower_mil_case(const std::vector<std::string>& options, const Model& input) {
  LowerToMilOptions how{.version = mil::kNewestVersion, .provenance = false};
  for (const std::string& o : options) {
    if (!o.starts_with("target=")) throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no option of lower-mil", o));
    how.version = coreml_version_of(std::string_view(o).substr(o.find('=') + 1));
  }
  return lower_to_mil(*clone_model(input), how);
}

// Compares what the case computes in ONNX and in Core ML. Core ML has no f64 and no bf16: these in f32.
ValueCheck compare_lowered(const Model& onnx, const Model& coreml) {
  bool is_wider = false;
  for (const Port& p : onnx.graph().outputs())
    is_wider |= p.use->value->dtype() == DType::kF64 || p.use->value->dtype() == DType::kBF16;
  return compare_values(onnx, is_wider ? Numerics::kRelaxed : Numerics::kRounds,
                        [&](std::span<const EvalValue> inputs) { return evaluate_lowered(onnx, coreml, inputs); });
}

// Two runs on random inputs, for passes that learn from runs.
Calibration calibration_of(const Model& m) {
  Calibration calibration;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    std::vector<EvalValue>& inputs = calibration.runs.emplace_back(m.graph().inputs().size());
    fill_inputs(m.graph(), inputs, seed);
  }
  return calibration;
}

// pass NAME [option=value...]: runs the pass alone with the case's options. The pass must report correctly
// whether it changed anything, and be a no-op when it runs again, unless it says why not.
std::unique_ptr<Model> pass_case(PassRequest request, const Model& input) {
  auto model = clone_model(input);
  const CatalogPass* pass = find_pass(request.passes.front());
  std::optional<Calibration> calibration;
  if (pass != nullptr && pass->pass.is_after_verification) request.calibration = &calibration.emplace(calibration_of(input));
  const PipelineReport report = run_passes(*model, request);
  if (!report.not_converged.empty()) throw Error(ErrorCode::kInternal, report.not_converged[0]);
  // As remove_dead_nodes does: drop constants that lost their users.
  for (Graph* g : graphs_in(model->graph())) g->erase_unused_constants();
  std::string why;
  const bool same = equal_models(input, *model, &why);
  // equal_models() ignores names and declared types, but passes change these too, so compare the texts.
  const auto text = [](const Model& m) { return print(m, {.full_constants = true}); };
  if (report.passes.front().changed && same && text(input) == text(*model))
    throw Error(ErrorCode::kInternal, "the pass says that it changed something");
  if (!report.passes.front().changed && !same)
    throw Error(ErrorCode::kInternal, "the pass says that it changed nothing: " + why);
  if (!report.passes.front().changed && text(input) != text(*model))
    throw Error(ErrorCode::kInternal, "the pass says that it changed nothing, but names or what is declared");
  if (const auto change = change_by_second_run(*model, request))
    throw Error(ErrorCode::kInternal, fmt::format("the pass does more when it runs again: {}\n{}", *change, print(*model)));
  return model;
}

}  // namespace

Transform transform_for(const CaseFile& f, const Case& c) {
  if (f.kind == "pass") {
    PassRequest request{.passes = {f.name}, .strict = true, .verify_graph = true};
    for (const std::string& o : c.options)
      request.options.emplace_back(f.name + "." + o.substr(0, o.find('=')), o.substr(o.find('=') + 1));
    return [request](const Model& input) { return pass_case(request, input); };
  }
  if (f.kind == "lower-mil") return [options = c.options](const Model& input) { return lower_mil_case(options, input); };
  if (f.kind == "lower-stablehlo") return lower_stablehlo_case;
  if (f.kind == "lower") return [name = f.name](const Model& input) { return lower_case(name, input); };
  throw Error(ErrorCode::kUnsupported, fmt::format("this runner knows no cases of kind '{}'", f.kind),
              {"help: a file begins with a line like: lower cumsum"});
}

namespace {

// --- running

// "Add 5, Loop 1": counts all operators of the model, wrapped into lines.
std::string counts_text(const Model& m) {
  std::string text;
  size_t width = 0;
  for (const auto& [op, n] : count_model(m).ops) {
    const std::string item = fmt::format("{} {}", op, n);
    if (!text.empty()) text += width + item.size() > 120 ? ",\n" : ", ";
    width = text.ends_with('\n') ? item.size() : width + item.size() + 2;
    text += item;
  }
  return text + "\n";
}

// Cases with types that no file keeps: reading the file back yields more precise types.
constexpr std::string_view kContradictory[] = {
    "a list whose declared length is another",
    "values and indices whose declared number is wrong",
};

bool has_ranges(Model& m) {
  for (const Port& p : m.graph().inputs()) {
    if (p.declared == nullptr || !p.declared->is_tensor()) continue;
    for (Dim d : p.declared->dims()) {
      for (const std::string& symbol : m.dims().symbols(d)) {
        const DimRange range = m.dims().symbol_range(symbol);
        if (range.min != 1 || range.max) return true;
      }
    }
  }
  return false;
}

// Checks that a second run of the default preset is a no-op. Skips models that no file can hold: invalid
// ones, constants that are digests, ranges of sizes.
std::optional<std::string> change_by_second_optimization(const Model& m) {
  const auto once = clone_model(m);
  if (has_ranges(*once)) return std::nullopt;
  const PassRequest request{.strict = true};
  try {
    if (const PipelineReport report = run_passes(*once, request); !report.not_converged.empty()) return report.not_converged[0];
    return change_by_second_run(*once, request);
  } catch (const Error& e) {
    constexpr ErrorCode kNoFile[] = {ErrorCode::kInvalidModel, ErrorCode::kInvalidArgument, ErrorCode::kUnsupported};
    if (std::ranges::find(kNoFile, e.code()) != std::end(kNoFile)) return std::nullopt;
    throw;
  }
}

std::string without_white_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

}  // namespace

std::optional<std::string> run_case(const CaseFile& f, const Case& c, const Transform& transform, std::string* bless,
                                    Values& values) {
  std::string file = f.path.string();
  auto input = parse(text_of(f, c.input_begin, c.input_end), file);
  verify(*input);
  std::string before = print(*input, {.full_constants = true});

  std::unique_ptr<Model> got;
  if (c.verdict.starts_with("error")) {
    std::string part = unquoted(std::string_view(c.verdict).substr(5), f.path, c.arrow + 1);
    try {
      got = transform(*input);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      if (std::string_view(e.what()).find(part) != std::string_view::npos) return std::nullopt;
      return fmt::format("expected an error with \"{}\", got:\n{}", part, e.what());
    }
    return fmt::format("expected an error with \"{}\", got:\n{}", part, print(*got));
  }
  got = transform(*input);
  if (print(*input, {.full_constants = true}) != before) return "the input was changed";
  verify(*got, {.allow_unchecked = false, .shapes = true});
  if (got->dialect() == DialectId::kOnnx && (f.kind != "pass" || find_pass(f.name)->dialect == DialectId::kOnnx) &&
      std::ranges::find(kContradictory, c.claim) == std::end(kContradictory)) {
    if (const auto change = change_by_second_optimization(*got)) return "optimized twice, it changes twice: " + *change;
  }

  std::string printed = print(*got, {.full_constants = true}), why;
  auto again = parse(printed, file + " (printed)");
  if (!equal_models(*got, *again, &why)) return fmt::format("the result does not survive its text: {}\n{}", why, printed);
  if (std::string twice = print(*again, {.full_constants = true}); twice != printed)
    return fmt::format("the result prints in two ways:\n{}and\n{}", printed, twice);

  // Values must be preserved, whatever graph is expected.
  const bool is_pass = f.kind == "pass" && c.verdict != "same";
  if (is_pass || f.kind == "lower-mil") {
    const ValueCheck check =
        is_pass ? compare_values(*input, *got, find_pass(f.name)->pass.numerics()) : compare_lowered(*input, *got);
    if (check.difference) return *check.difference + "\ngot:\n" + printed;
    ++(check.runs > 0 ? values.compared : values.skipped);
    if (check.runs == 0) values.reasons.push_back(fmt::format("{}:{}: {}", file, c.line, check.skipped));
  }

  // A model with functions, or for an older target, is compared with its imports and functions, others by
  // their graphs.
  const bool exactly = c.verdict == "exactly", is_older = f.kind == "lower-mil" && !c.options.empty();
  const auto text = [&](const Model& m, bool whole) {
    return whole ? print(m, {.full_constants = true}) : print(m.graph(), {.full_constants = true});
  };
  const std::string graph = text(*got, exactly || is_older || got->functions().size() > 1);
  if (c.verdict == "same") {
    if (equal_models(*input, *got, &why)) return std::nullopt;
    return fmt::format("expected no change, but {}:\n{}", why, printed);
  }
  if (c.verdict == "counts") {
    const std::string found = counts_text(*got), wanted = text_of(f, c.expected_begin, c.expected_end);
    if (without_white_space(found) == without_white_space(wanted)) return std::nullopt;
    *bless = found;
    return fmt::format("got:\n{}expected:{}", found, wanted);
  }
  if (!c.verdict.empty() && !exactly)
    return fmt::format("nothing, exactly, same, counts or error \"...\" can stand behind '=>', not: {}", c.verdict);
  if (std::all_of(f.lines.begin() + static_cast<std::ptrdiff_t>(c.expected_begin),
                  f.lines.begin() + static_cast<std::ptrdiff_t>(c.expected_end), is_blank)) {
    *bless = graph;
    return fmt::format("no graph is expected; got:\n{}", graph);
  }
  std::unique_ptr<Model> expected;
  try {
    expected = parse(text_of(f, c.expected_begin, c.expected_end), file);
    verify(*expected);
  } catch (const Error&) {
    *bless = graph;
    throw;
  }
  const bool whole = exactly || is_older || expected->functions().size() > 1;
  bool same = whole ? equal_models(*expected, *got, &why) : equal_graphs(expected->graph(), got->graph(), &why);
  const std::string wanted = text(*expected, whole);
  if (same && exactly && wanted != graph) {
    same = false;
    why = "names, declared types or descriptions differ";
  }
  if (same) return std::nullopt;
  *bless = graph;
  return fmt::format("{}\ngot:\n{}expected:\n{}", why, graph, wanted);
}

}  // namespace sardonyx
