#include "convert/to_coreml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <ranges>
#include <set>

#include "convert/file_names.h"
#include "convert/interface/coreml_classifier.h"
#include "convert/interface/enumerated_shapes.h"
#include "convert/interface/input_shapes.h"
#include "convert/interface/op_names.h"
#include "convert/optimize.h"
#include "convert/read_source.h"
#include "convert/run_inputs.h"
#include "inspect/across_dialects.h"
#include "io/coreml/mil_new_description.h"
#include "io/text/program_file.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "lower/onnx_to_mil/taken_apart.h"
#include "passes/catalog.h"
#include "passes/mil/quantize/compress_weights.h"
#include "passes/mil/quantize/quantize_activations.h"
#include "rewrite/fired_rules.h"
#include "rewrite/pass.h"
#include "sardonyx/calibration.h"
#include "sardonyx/inspect.h"
#include "sardonyx/mil_builder.h"
#include "sardonyx/version.h"
#include "support/files/mapped_file.h"
#include "support/nearest.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

// Models are converted to this opset first: lowerings handle operators of this opset and later ones.
constexpr int kLoweredOpset = 23;

// The names of sizes of the inputs.
std::set<std::string> size_names(Model& m) {
  std::set<std::string> names;
  for (const Port& p : m.graph().inputs()) {
    const Type* t = p.declared != nullptr ? p.declared : p.value->type();
    if (t == nullptr || !t->is_tensor() || !t->ranked()) continue;
    for (Dim d : t->dims()) {
      for (std::string& name : m.dims().symbols(d)) names.insert(std::move(name));
    }
  }
  return names;
}

// Forgets the names of sizes that no input has. Exporters' and quantizers' own inference gives one size
// several such names. Inference then expresses inner sizes in the sizes of the inputs.
void forget_names_of_inner_sizes(Model& m) {
  const std::set<std::string> known = size_names(m);
  const auto without = [&](const Type* t) {
    if (t == nullptr || !t->is_tensor() || !t->ranked()) return t;
    std::vector<Dim> dims(t->dims().begin(), t->dims().end());
    for (Dim& d : dims) {
      const std::vector<std::string> names = m.dims().symbols(d);
      if (!std::ranges::all_of(names, [&](const std::string& name) { return known.contains(name); }))
        d = m.dims().fresh_unknown();
    }
    return m.types().with_dims(t, dims);
  };
  for (Graph* g : graphs_in(m.graph())) {
    for (auto& [value, info] : g->value_info) info.declared = without(info.declared);
    for (Node& n : g->nodes()) {
      for (Value& v : n.results()) v.set_type(without(v.type()));
    }
  }
}

void check_size_name(const std::set<std::string>& names, const std::string& name) {
  if (names.contains(name)) return;
  throw Error(ErrorCode::kInvalidArgument, fmt::format("no input has a size '{}'", name),
              {fmt::format("the named sizes are: {}", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))});
}

// Narrows the ranges of named sizes. Throws for a name that no input has.
void bound_sizes(Model& m, const std::vector<SizeBounds>& bounds) {
  const std::set<std::string> names = size_names(m);
  for (const SizeBounds& b : bounds) {
    check_size_name(names, b.name);
    DimRange range = m.dims().symbol_range(b.name);
    if (b.min) range.min = std::max(*b.min, range.min.value_or(*b.min));
    if (b.max) range.max = std::min(*b.max, range.max.value_or(*b.max));
    if (range.min && range.max && *range.min > *range.max)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("no size '{}' is at least {} and at most {}", b.name, *range.min, *range.max));
    m.dims().set_range(b.name, range);
  }
}

// Keeps the given sizes within their ranges. Throws for names that no input has.
std::map<std::string, int64_t, std::less<>> default_sizes(Model& m, const ToCoremlOptions& options) {
  std::map<std::string, int64_t, std::less<>> found;
  const std::set<std::string> names = size_names(m);
  for (const auto& [name, size] : options.default_sizes) {
    check_size_name(names, name);
    const DimRange range = m.dims().symbol_range(name);
    const int64_t low = std::max<int64_t>(range.min.value_or(1), 1),
                  high = range.max.value_or(std::max(kAssumedUpperBound, 2 * low));
    if (size < low || size > high)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is no default for the size '{}', which is from {} to {}", size, name, low, high));
    found[name] = size;
  }
  if (!found.empty() && !options.enumerated_shapes.empty())
    throw Error(ErrorCode::kInvalidArgument, "default sizes are for ranges, and the first enumerated shape is the default one");
  return found;
}

constexpr int kIos18 = 9;  // which has states and several functions

// Adds what the interface has of sizes to `features`. Returns which passes did not converge.
std::vector<std::string> prepare(Model& onnx, const ToCoremlOptions& options, int version, CoremlFeatures& features) {
  open_input_sizes(onnx, options.input_shapes);
  fix_input_shapes(onnx, options.input_shapes);
  bound_sizes(onnx, options.sizes);
  forget_names_of_inner_sizes(onnx);
  features.default_sizes = default_sizes(onnx, options);
  features.shapes = enumerate_shapes(onnx, options.enumerated_shapes, version);
  if (onnx.opset_version("").value_or(kLoweredOpset) < kLoweredOpset)
    run_passes(onnx, conversion_to(onnx, kLoweredOpset, options.observer));
  PassRequest request{.passes = {"coreml-prepare"}, .strict = true, .observer = options.observer};
  for (std::string_view op : taken_apart_for_mil(version)) {
    if (const CatalogPass* fusion = pass_that_makes(op)) request.skip.emplace_back(fusion->name);
  }
  return run_passes(onnx, request).not_converged;
}

// Keeps what the user gave.
void add_metadata(CoremlMetadata& to, std::string_view key, std::string value) {
  std::string full = fmt::format("com.github.sardonyx.{}", key);
  if (value.empty() || std::ranges::any_of(to.user_defined, [&](const auto& e) { return e.first == full; })) return;
  to.user_defined.emplace_back(std::move(full), std::move(value));
}

// What wrote the model, and in which file it is.
Metadata source_of(const Model& onnx) {
  Metadata found{{"source", onnx.producer_name + (onnx.producer_version.empty() ? "" : "==" + onnx.producer_version)}};
  if (const auto opset = onnx.opset_version("")) found.emplace_back("source_dialect", fmt::format("ONNX opset {}", *opset));
  const auto files = source_files(onnx);
  if (!files.empty()) found.emplace_back("source_file", files[0]->path().filename().string());
  return found;
}

std::vector<std::string> port_names(const Graph& g) {
  std::vector<std::string> names;
  for (const Port& p : g.inputs()) names.emplace_back(p.name.view());
  for (const Port& p : g.outputs()) names.emplace_back(p.name.view());
  return names;
}

// The ops that stay in single precision: one line for each operator and reason, which names the line of the
// source.
class SingleReport final : public Observer {
 public:
  // node: as it is printed, "y = exp(x)".
  void near_miss(std::string_view, std::string_view node, std::string_view why) override {
    const size_t made = node.find(" = ");
    const std::string_view op = made == std::string_view::npos ? node : node.substr(made + 3, node.find('(', made) - made - 3);
    const auto same = std::ranges::find_if(groups_, [&](const Group& g) { return g.why == why && g.op == op; });
    if (same != groups_.end()) {
      ++same->more;
    } else {
      groups_.push_back({std::string(op), std::string(why), std::string(node)});
    }
  }

  std::vector<std::string> lines() const {
    constexpr size_t kMost = 10;
    std::vector<std::string> all;
    for (const Group& g : groups_ | std::views::take(kMost))
      all.push_back(fmt::format("{}{}: {}", g.node, g.more > 0 ? " and others" : "", g.why));
    size_t rest = 0;
    for (const Group& g : groups_ | std::views::drop(kMost)) rest += g.more + 1;
    if (rest > 0) all.push_back(fmt::format("and {} more ops", rest));
    return all;
  }

 private:
  struct Group {
    std::string op, why, node;
    size_t more = 0;
  };
  std::vector<Group> groups_;
};

// In files, an update of a state is a write_state, and a read_state if the result is used.
void write_states(Model& mil) {
  ValueFacts facts;
  Graph& g = mil.graph();
  for (Node* n = g.first(); n != nullptr;) {
    Node* next = n->next();
    if (n->is("coreml_update_state")) {
      MilBuilder b(g, facts);
      b.set_insertion_point(n);
      b.set_provenance(n->provenance());
      Value *state = n->input(0), *updated = n->result();
      b.write_state(state, n->input(1));
      if (updated->has_uses()) {
        Value* read = b.read_state(state);
        const std::string name(updated->name().view());
        updated->set_name({});
        read->set_name(mil.name(name));
        g.replace_uses(*updated, *read);
      }
      g.erase(*n);
    }
    n = next;
  }
}

// The names in keep_f32 that no op of the program has. Throws nothing: of several functions, one may have the
// op.
std::vector<std::string> unknown_skipped(const Model& mil, const ToCoremlOptions& options) {
  std::string listed;
  for (const auto& [key, value] : options.pass_options) {
    if (key == "add_fp16_cast.skip_ops") listed = value;
  }
  Names unknown = names_not_in(mil, listed);
  unknown.erase("auto");
  return {unknown.begin(), unknown.end()};
}

// `lowered` are the names of the ops before the passes: half precision changes them.
[[noreturn]] void refuse_skipped(const std::string& name, const std::vector<std::string>& lowered) {
  const std::vector<std::string_view> known(lowered.begin(), lowered.end());
  std::vector<std::string> notes;
  if (const std::string_view meant = nearest(name, known); !meant.empty())
    notes.push_back(fmt::format("did you mean '{}'?", meant));
  notes.emplace_back("help: `sardonyx view` shows the names in a package of --precision f32; auto finds ops that overflow");
  throw Error(ErrorCode::kInvalidArgument, fmt::format("keep_f32 has '{}', and no op of the program is called so", name),
              std::move(notes));
}

// Core ML's tensors have at most five axes. Passes reduce higher ranks around some transposes.
void check_ranks(Model& mil) {
  constexpr size_t kMost = 5;
  std::vector<std::string> notes;
  size_t count = 0;
  const auto check = [&](std::span<const Port> ports, std::string_view what, std::string_view help) {
    for (const Port& p : ports) {
      const Type* t = p.use != nullptr ? p.use->value->type() : p.value->type();
      if (!t->is_tensor() || !t->ranked() || t->rank() <= kMost) continue;
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the {} '{}' is {}, and Core ML's tensors have five axes at most", what, p.name.view(),
                              mil.types().to_string(t)),
                  {std::string(help)});
    }
  };
  check(mil.graph().inputs(), "input", "help: take it with merged axes, and reshape it in the model");
  check(mil.graph().outputs(), "result", "help: return it with merged axes");
  for (const Graph* g : graphs_in(mil.graph())) {
    for (const Node& n : g->nodes()) {
      const bool high = std::ranges::any_of(n.results(), [](const Value& v) { return v.ranked() && v.type()->rank() > kMost; });
      if (!high || ++count > 10) continue;
      const Provenance& p = mil.provenance(n.provenance());
      const bool known = !p.sources.empty() && !p.sources[0].file.empty();
      notes.push_back(fmt::format("{} of {}{}", n.op().name, mil.types().to_string(n.result()->type()),
                                  known ? fmt::format(", at {}:{}", p.sources[0].file, p.sources[0].line) : std::string()));
    }
  }
  if (count == 0) return;
  if (count > 10) notes.push_back(fmt::format("and {} more", count - 10));
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} op{} of this model {} more than five axes, and Core ML's tensors have five at most", count,
                          count == 1 ? "" : "s", count == 1 ? "has" : "have"),
              std::move(notes));
}

// Throws if the target cannot store weights as the passes would.
void check_weights(int version, const PassRequest& request) {
  constexpr std::string_view kPass = "compress_weights";
  if (std::ranges::find(request.passes, kPass) == request.passes.end()) return;
  PassOptions given;
  for (const auto& [name, value] : request.options) {
    if (name.starts_with(kPass)) given.set(name.substr(name.find('.') + 1), value);
  }
  mil::check_compression(version, given);
}

// Throws unless there are runs where, and only where, they are learned from.
void check_calibration(int version, const ToCoremlOptions& options) {
  const auto refuse = [](std::string why, std::string help) {
    throw Error(ErrorCode::kInvalidArgument, std::move(why), {std::move(help)});
  };
  if (options.precision != CoremlPrecision::kI8) {
    if (!options.calibrate.empty())
      refuse("calibration is for precision int8", "help: --precision int8; or convert, and then optimize the package");
    return;
  }
  mil::check_activations(version);
  if (options.calibrate.empty())
    refuse("precision int8 learns ranges from runs of the model",
           "help: --calibrate run.npz; in Python calibration=[{\"x\": array}]");
  if (!options.image_inputs.empty())
    refuse("inputs that are images cannot be calibrated in a conversion",
           "help: convert first, and optimize the package with --precision int8 and runs of images");
}

// The runs of the model for the program that was made of it.
Calibration runs_of(const Model& mil, const std::vector<NamedTensors>& given) {
  Calibration calibration;
  for (const NamedTensors& run : given) {
    calibration.runs.push_back(inputs_of_lowered(mil, inputs_by_name(mil.graph(), run)));
    check_inputs(mil.graph(), calibration.runs.back());
  }
  return calibration;
}

void check_image(const CoremlImage& image) {
  const bool is_finite =
      std::isfinite(image.scale) && std::ranges::all_of(image.bias, [](double b) { return std::isfinite(b); });
  if (!is_finite || image.port.empty() || (!image.bias.empty() && std::ssize(image.bias) != image.channels()))
    refuse_image(fmt::format("{}:{}", image.port, to_string(image.color)));
}

// As to_coreml(); names in keep_f32 are not checked. `names` gets the names of ops after lowering.
std::unique_ptr<Model> one_to_coreml(Model& onnx, const ToCoremlOptions& options, ToCoremlReport* report,
                                     std::vector<std::string>& names) {
  const int version = coreml_version_of(options.target);
  PassRequest request{.passes = options.passes, .skip = options.skip, .options = options.pass_options, .strict = true};
  const bool half = options.precision != CoremlPrecision::kF32;
  if (half) request.options.emplace_back("precision", "f16");
  SingleReport single;
  Observers observers;
  observers.add(options.observer);
  if (report != nullptr && half) {
    request.explain = {"add_fp16_cast"};
    observers.add(&single);
  }
  request.observer = observers.get();
  if (options.precision == CoremlPrecision::kI8) request.passes.emplace_back("quantize_activations");
  check_request(request, DialectId::kMil);  // before the work, not after it
  check_weights(version, request);
  check_calibration(version, options);
  for (const auto* images : {&options.image_inputs, &options.image_outputs}) std::ranges::for_each(*images, check_image);
  const LowerToMilOptions lowering{.version = version,
                                   .provenance = options.provenance,
                                   .states = options.states,
                                   .image_inputs = options.image_inputs,
                                   .image_outputs = options.image_outputs,
                                   .input_types = options.input_types,
                                   .output_types = options.output_types};
  Stopwatch watch;
  const size_t nodes = onnx.num_nodes();
  const Metadata source = source_of(onnx);
  observers.stage("onnx", onnx);
  CoremlFeatures features;
  std::vector<std::string> not_converged = prepare(onnx, options, version, features);
  observers.stage("prepared", onnx);
  const double prepare_seconds = watch.lap();
  auto mil = lower_to_mil(onnx, lowering);
  observers.stage("lowered", *mil);
  for (const Node& n : mil->graph().nodes()) {
    if (n.num_results() > 0) names.emplace_back(n.result()->name().view());
  }
  verify(*mil, {.allow_unchecked = false});  // so that a faulty lowering is reported here and not when the file is loaded
  const double lower_seconds = watch.lap();
  const std::vector<std::string> before = port_names(mil->graph());
  const size_t classified = options.classifier ? classified_result(*mil, *options.classifier) : 0;
  const Calibration calibration = runs_of(*mil, options.calibrate);
  if (!calibration.runs.empty()) request.calibration = &calibration;
  PipelineReport passes = run_passes(*mil, request);
  std::ranges::move(passes.not_converged, std::back_inserter(not_converged));
  write_states(*mil);
  observers.stage("optimized", *mil);
  check_ranks(*mil);
  CoremlMetadata metadata = options.metadata;
  for (const auto& [key, value] : source) add_metadata(metadata, key, value);
  add_metadata(metadata, "version", sardonyx::version());
  const std::vector<std::string> after = port_names(mil->graph());
  std::vector<std::pair<std::string, std::string>> renamed;
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (before[i] == after[i]) continue;
    renamed.emplace_back(before[i], after[i]);
    metadata.user_defined.emplace_back(fmt::format("com.github.sardonyx.name.{}", after[i]), before[i]);
  }
  const size_t inputs = mil->graph().inputs().size();
  for (size_t i = 0; i < after.size(); ++i) {
    for (const CoremlImage& image : i < inputs ? lowering.image_inputs : lowering.image_outputs) {
      if (before[i] == image.port)
        (i < inputs ? features.image_inputs : features.image_outputs).emplace_back(after[i], image.color);
    }
  }
  if (options.classifier) {
    add_classifier(*mil, classified, *options.classifier);
    features.label = options.classifier->label;
    features.probabilities = mil->graph().outputs()[1].name.view();
  }
  describe_coreml(*mil, metadata, features);
  if (report == nullptr) return mil;
  report->nodes = nodes;
  report->single = single.lines();
  report->not_converged = std::move(not_converged);
  for (const PassReport& pass : passes.passes) {
    if (pass.name != "quantize_activations") continue;
    std::ranges::copy_if(pass.counts, std::back_inserter(report->integers),
                         [](const auto& count) { return count.first.starts_with("in "); });
  }
  for (const auto& [op, count] : count_model(*mil).ops) report->ops.emplace(op, count);
  report->renamed = std::move(renamed);
  for (const Port& p : mil->graph().inputs()) {
    const Type* t = p.value->type();
    const bool open =
        t->is_tensor() && std::ranges::any_of(t->dims(), [&](Dim d) { return !d.is_int() && !mil->dims().range(d).max; });
    if (open) report->open_sizes.push_back(fmt::format("{}: {}", p.name.view(), mil->types().to_string(t)));
  }
  report->prepare_seconds = prepare_seconds;
  report->lower_seconds = lower_seconds;
  report->optimize_seconds = watch.lap();
  return mil;
}

}  // namespace

std::unique_ptr<Model> to_coreml(Model& onnx, const ToCoremlOptions& options, ToCoremlReport* report) {
  std::vector<std::string> names;
  auto mil = one_to_coreml(onnx, options, report, names);
  for (const std::string& name : unknown_skipped(*mil, options)) refuse_skipped(name, names);
  end_run(options.observer, *mil);
  return mil;
}

void refuse_image(std::string_view text) {
  throw Error(
      ErrorCode::kInvalidArgument, fmt::format("'{}' describes no image", text),
      {"expected a name and colors (rgb, bgr, gray, gray16), for an input also a scale and a number to add for each channel: "
       "x:rgb, x:gray:0.0039 or x:bgr:0.0078125:-1,-1,-1"});
}

void check_coreml_name(const std::filesystem::path& out) {
  if (out.extension() != ".mlpackage" && out.extension() != ".mlmodel" && out.extension() != ".sx")
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a valid name for a Core ML model", out.string()),
                {"help: a package ends in .mlpackage, a model file (with its weights beside it) in .mlmodel"});
}

std::unique_ptr<Model> read_for_coreml(const std::filesystem::path& in, const ReadOptions& read) {
  if (is_stablehlo_name(in)) return read_source(in, read);
  auto onnx = in.extension() == ".sx" ? load_program(in, read.map) : read_onnx(in, read);
  if (onnx->dialect() != DialectId::kOnnx)
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is not an ONNX model", in.string()));
  verify(*onnx);
  return onnx;
}

void write_converted(const Model& mil, const std::filesystem::path& out, std::span<const Model* const> sources) {
  for (const Model* onnx : sources) {
    for (const auto& file : source_files(*onnx)) file->check_unchanged();
  }
  if (out.extension() == ".sx") {
    save_program(mil, out);
  } else {
    write_coreml(mil, out);
  }
}

ToCoremlReport convert_to_coreml(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const ToCoremlOptions& options, const ReadOptions& read) {
  check_coreml_name(out);
  Stopwatch watch;
  const auto onnx = read_for_coreml(in, read);
  ToCoremlReport report;
  const double read_seconds = watch.lap();
  const auto mil = to_coreml(*onnx, options, &report);
  watch.lap();
  const Model* source = onnx.get();
  write_converted(*mil, out, {&source, 1});
  report.read_seconds = read_seconds;
  report.write_seconds = watch.lap();
  return report;
}

namespace {

bool has_port(std::span<const Port> ports, std::string_view name) {
  return std::ranges::any_of(ports, [&](const Port& p) { return p.name.view() == name; });
}

// Keeps what is for this function, and notes in `taken` what that was.
template <class List, class Fits>
void keep_for(List& list, std::vector<bool>& taken, const Fits& fits) {
  List kept;
  taken.resize(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if (!fits(list[i])) continue;
    taken[i] = true;
    kept.push_back(list[i]);
  }
  list = std::move(kept);
}

}  // namespace

std::unique_ptr<Model> functions_to_coreml(const std::vector<CoremlFunction>& functions, const ToCoremlOptions& options,
                                           std::vector<ToCoremlReport>& reports) {
  const auto refuse = [](std::string what, std::vector<std::string> notes = {}) {
    throw Error(ErrorCode::kInvalidArgument, std::move(what), std::move(notes));
  };
  if (functions.empty()) refuse("a package of several functions needs at least one");
  if (coreml_version_of(options.target) < kIos18)
    refuse(fmt::format("several functions need iOS18, and the target is {}", options.target));
  if (options.classifier) refuse("a package of several functions cannot have class labels");
  if (options.precision == CoremlPrecision::kI8) refuse("a package of several functions cannot be calibrated");
  std::vector<std::unique_ptr<Model>> parts;
  std::vector<std::string> op_names;
  std::vector<std::pair<std::string, const Model*>> named;
  std::vector<bool> states, images, image_results, shapes, sizes, defaults, input_types, output_types;
  for (const CoremlFunction& f : functions) {
    ToCoremlOptions own = options;
    own.metadata = {};
    if (own.observer != nullptr) own.observer->function(f.name);
    const Graph& g = f.onnx->graph();
    keep_for(own.states, states,
             [&](const CoremlState& s) { return has_port(g.inputs(), s.input) && has_port(g.outputs(), s.result); });
    keep_for(own.enumerated_shapes, shapes, [&](const EnumeratedShapes& s) { return has_port(g.inputs(), s.input); });
    const std::set<std::string> names = size_names(*f.onnx);
    keep_for(own.sizes, sizes, [&](const SizeBounds& b) { return names.contains(b.name); });
    keep_for(own.default_sizes, defaults, [&](const DefaultSize& d) { return names.contains(d.name); });
    keep_for(own.image_inputs, images, [&](const CoremlImage& image) { return has_port(g.inputs(), image.port); });
    keep_for(own.image_outputs, image_results, [&](const CoremlImage& image) { return has_port(g.outputs(), image.port); });
    const auto typed = [&](std::span<const Port> ports) {
      return [ports](const CoremlFloat& type) { return type.port.empty() || has_port(ports, type.port); };
    };
    keep_for(own.input_types, input_types, typed(g.inputs()));
    keep_for(own.output_types, output_types, typed(g.outputs()));
    ToCoremlReport report;
    try {
      parts.push_back(one_to_coreml(*f.onnx, own, &report, op_names));
    } catch (const Error& e) {
      throw e.with_note(fmt::format("in the function '{}'", f.name));
    }
    named.emplace_back(f.name, parts.back().get());
    reports.push_back(std::move(report));
  }
  const auto all_taken = [&](const std::vector<bool>& taken, const auto& list, const auto& name_of, std::string_view port,
                             std::string_view what) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (!taken[i])
        refuse(fmt::format("no function has {} '{}', which is to be {}", port, std::invoke(name_of, list[i]), what));
    }
  };
  for (size_t i = 0; i < options.states.size(); ++i) {
    if (!states[i])
      refuse(fmt::format("no function has an input '{}' and a result '{}', which are to be a state", options.states[i].input,
                         options.states[i].result));
  }
  all_taken(sizes, options.sizes, &SizeBounds::name, "a size", "bounded");
  all_taken(shapes, options.enumerated_shapes, &EnumeratedShapes::input, "an input", "of enumerated shapes");
  all_taken(images, options.image_inputs, &CoremlImage::port, "an input", "an image");
  all_taken(image_results, options.image_outputs, &CoremlImage::port, "a result", "an image");
  all_taken(input_types, options.input_types, &CoremlFloat::port, "an input", "fp16 or fp32");
  all_taken(output_types, options.output_types, &CoremlFloat::port, "a result", "fp16 or fp32");
  all_taken(defaults, options.default_sizes, &DefaultSize::name, "a size", "a number by default");
  std::vector<std::string> unknown = unknown_skipped(*parts[0], options);
  for (const auto& part : parts) {
    const std::vector<std::string> here = unknown_skipped(*part, options);
    std::erase_if(unknown, [&](const std::string& name) { return std::ranges::find(here, name) == here.end(); });
  }
  for (const std::string& name : unknown) refuse_skipped(name, op_names);
  CoremlMetadata metadata = options.metadata;
  add_metadata(metadata, "version", sardonyx::version());
  for (size_t i = 0; i < named.size(); ++i) {
    for (const auto& [before, after] : reports[i].renamed)
      metadata.user_defined.emplace_back(fmt::format("com.github.sardonyx.name.{}.{}", named[i].first, after), before);
  }
  auto joined = join_coreml(named, metadata);
  if (options.observer != nullptr) {
    options.observer->function({});
    options.observer->stage("joined", *joined);
  }
  end_run(options.observer, *joined);
  return joined;
}

}  // namespace sardonyx
