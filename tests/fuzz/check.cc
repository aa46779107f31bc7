#include "check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "convert/guards/fixed_point.h"
#include "passes/catalog.h"
#include "rewrite/shuffled_worklist.h"
#include "rewrite/values.h"
#include "sardonyx/io.h"
#include "sardonyx/passes.h"
#include "support/system/system.h"

namespace sardonyx::fuzz {
namespace {

// Passes that change float values on purpose, because coremltools' tests demand it. The rules document it.
constexpr std::string_view kDecided = "noop_elimination/floor_div ";

constexpr EvalOptions kBounded{.memory_cap = 256 << 20, .max_steps = 1 << 18, .max_iterations = 10000, .states_too = true};

constexpr uint64_t kMostBytesInFile = 64 << 20;

std::vector<EvalValue> inputs_for(const Graph& g, const Subject& s, size_t which) {
  std::vector<EvalValue> inputs;
  for (const Port& p : g.inputs()) {
    const auto at = s.inputs.find(std::string(p.name.view()));
    inputs.push_back(at == s.inputs.end() ? EvalValue() : at->second[which]);
  }
  return inputs;
}

// Whether small errors stay small: all floats are f64, and no operator is discontinuous.
bool is_smooth(const Model& m) {
  static constexpr std::string_view kJumps[] = {"Floor",
                                                "Ceil",
                                                "Round",
                                                "Sign",
                                                "ArgMax",
                                                "ArgMin",
                                                "Equal",
                                                "Greater",
                                                "Less",
                                                "GreaterOrEqual",
                                                "LessOrEqual",
                                                "TopK",
                                                "Unique",
                                                "NonZero",
                                                "Hardmax",
                                                "Mod",
                                                "Div",
                                                "Reciprocal",
                                                "Log",
                                                "Pow",
                                                "ReduceLogSum",
                                                "Tan",
                                                "IsInf",
                                                "IsNaN",
                                                "Acosh",
                                                "Atanh",
                                                "Asin",
                                                "Acos",
                                                "LpNormalization",
                                                "Shrink",
                                                "ThresholdedRelu",
                                                "QuantizeLinear",
                                                "DynamicQuantizeLinear",
                                                "NonMaxSuppression",
                                                "Exp",
                                                "ReduceProd",
                                                "CumProd",
                                                "Sinh",
                                                "Cosh",
                                                "Det",
                                                "Compress",
                                                "GridSample",
                                                "RoiAlign",
                                                "Celu",
                                                "Sqrt"};
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Node& n : g->nodes()) {
        if (std::find(std::begin(kJumps), std::end(kJumps), n.op().name) != std::end(kJumps)) return false;
        for (const Value& v : n.results()) {
          if (is_float(v.dtype()) && v.dtype() != DType::kF64) return false;
        }
        if (n.is("Cast") && n.input(0) != nullptr && is_float(n.input(0)->dtype()) && !is_float(n.result()->dtype()))
          return false;
      }
    }
  }
  return true;
}

std::optional<std::string> differ(const Array& a, const Array& b, bool exact, bool smooth) {
  if (a.dtype() != b.dtype()) return fmt::format("{} became {}", to_string(a.dtype()), to_string(b.dtype()));
  if (a.shape() != b.shape())
    return fmt::format("shape [{}] became [{}]", fmt::join(a.shape(), ","), fmt::join(b.shape(), ","));
  if (is_complex(a.dtype()) || (!exact && !smooth)) return std::nullopt;
  if (a.dtype() == DType::kString || !is_float(a.dtype())) {
    for (int64_t i = 0; i < a.size(); ++i) {
      const bool same = a.dtype() == DType::kString ? a.string_at(i) == b.string_at(i) : a.int_at(i) == b.int_at(i);
      if (!same) return fmt::format("element {} of [{}] is another", i, fmt::join(a.shape(), ","));
    }
    return std::nullopt;
  }
  double largest = 1;
  for (int64_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a.double_at(i))) largest = std::max(largest, std::abs(a.double_at(i)));
  }
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.double_at(i), y = b.double_at(i);
    if (std::isnan(x) && std::isnan(y)) continue;
    const bool fine =
        exact ? x == y && std::signbit(x) == std::signbit(y) : x == y || std::abs(x - y) <= 1e-6 * largest || largest > 1e6;
    if (!fine) return fmt::format("element {} of [{}]: {} became {}", i, fmt::join(a.shape(), ","), x, y);
  }
  return std::nullopt;
}

std::optional<std::string> differ(const EvalValue& a, const EvalValue& b, bool exact, bool smooth) {
  if (a.array() != nullptr && b.array() != nullptr) return differ(*a.array(), *b.array(), exact, smooth);
  if (describe(a) != describe(b)) return fmt::format("{} became {}", describe(a), describe(b));
  return std::nullopt;
}

std::string text_of(const Model& m) { return print(m, {.full_constants = true}); }

void count(Statistics& statistics, const PipelineReport& report) {
  for (const PassReport& p : report.passes) {
    ++statistics.tried[p.name];
    if (p.changed) ++statistics.changed[p.name];
    for (const auto& [rule, times] : p.counts) statistics.fired[p.name + "/" + rule] += times;
  }
}

std::string kind_of(const Error& e) {
  std::string kind(e.message().substr(0, 40));
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

// A temporary folder, removed with this object.
class Scratch {
 public:
  explicit Scratch(std::string_view end)
      : path(std::filesystem::temp_directory_path() / fmt::format("sx_fuzz_{}{}", sys::process_id(), end)) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path path;
};

std::string serialize(const Model& m) {
  if (m.dialect() != DialectId::kMil) return serialize_onnx(m);
  const Scratch weights("_weights");
  return serialize_mil_program(m, weights.path);
}

// `package` is where to write a Core ML package. The model that is read from it needs it for its lifetime.
std::unique_ptr<Model> through_file(const Model& m, const Scratch& package) {
  if (m.dialect() == DialectId::kMil) {
    write_coreml(m, package.path);
    auto read = read_coreml(package.path, {.map = false});
    ValueFacts facts;
    infer_model(*read, facts, /*tolerant=*/false);
    return read;
  }
  auto bytes = std::make_shared<const std::string>(serialize_onnx(m));
  auto read = read_onnx_bytes(std::as_bytes(std::span(bytes->data(), bytes->size())), bytes);
  ValueFacts facts;
  infer_model(*read, facts, /*tolerant=*/false);
  return read;
}

// Whether a graph returns a value that a file can return only through an Identity: an input, a constant, a
// captured value, or a value twice.
bool needs_identities(const Model& m) {
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      std::set<const Value*> returned;
      for (const Port& p : g->outputs()) {
        const Value* v = p.use->value;
        if (v->def() == nullptr || v->def()->graph() != g || v->is_constant() || !returned.insert(v).second) return true;
      }
    }
  }
  return false;
}

// The bytes that the constants take in a file. A splat of gigabytes takes four bytes in memory.
uint64_t bytes_in_file(const Model& m) {
  uint64_t bytes = 0;
  for (const auto& f : m.functions()) {
    for (const Graph* g : graphs_in(f->graph())) {
      for (const Value* c : g->constants()) bytes += c->constant()->byte_size();
    }
  }
  return bytes;
}

bool has_dead_nodes(const Model& m) {
  const auto all = clone_model(m);
  size_t dead = 0;
  for (const auto& f : all->functions()) dead += erase_dead_nodes(f->graph());
  return dead > 0;
}

}  // namespace

Subject copy(const Subject& s) { return {clone_model(*s.model), s.inputs, s.order}; }

std::vector<EvalValue> evaluate_subject(const Subject& s, size_t which) {
  return evaluate(s.model->graph(), inputs_for(s.model->graph(), s, which), kBounded);
}

std::optional<Failure> check_passes(const Subject& s, const std::vector<std::string>& passes, Statistics* statistics) {
  PassRequest request{.passes = passes, .strict = true, .verify_graph = true};
  const Pipeline pipeline = make_pipeline(request, s.model->dialect());
  const std::string before = text_of(*s.model);
  auto after = clone_model(*s.model);
  PipelineReport report;
  try {
    std::optional<ShuffledWorklist> order;
    if (s.order != 0) order.emplace(s.order);
    report = run_passes(*after, request);
  } catch (const Error& e) {
    // legalize: no release of onnxruntime runs the operator. convert_opset: no opset is given.
    if (e.code() == ErrorCode::kUnsupported || e.code() == ErrorCode::kInvalidArgument) return std::nullopt;
    return Failure{"throws: " + kind_of(e), e.what()};
  }
  if (!report.not_converged.empty()) return Failure{"does not converge", report.not_converged[0]};
  if (statistics != nullptr) count(*statistics, report);
  const bool said = std::any_of(report.passes.begin(), report.passes.end(), [](const PassReport& p) { return p.changed; });
  const std::string text = text_of(*after);
  if (!said && text == before) return std::nullopt;
  if (std::string why; !said && !equal_models(*s.model, *after, &why))
    return Failure{"says that it changed nothing", why + "\n" + text};
  try {
    verify(*after, {.allow_unchecked = false, .shapes = true});
  } catch (const Error& e) {
    return Failure{"verifier: " + kind_of(e), fmt::format("{}\n{}", e.what(), text)};
  }
  // Passes that compute in half precision or store fewer bits on request change values, and add_int16_cast
  // assumes that integers fit into 16 bits. For these, compare only dtypes and sizes.
  const bool lossy = std::any_of(report.passes.begin(), report.passes.end(), [](const PassReport& p) {
    return p.changed && (find_pass(p.name)->pass.is_after_verification || p.name == "add_fp16_cast" ||
                         p.name == "add_int16_cast" || p.name == "cast_to_half" ||
                         p.name == "fuse_onehot_matmul_to_gather");  // ids beyond the table are not allowed afterwards
  });
  // Check each rewrite alone: together their errors may exceed any bound.
  Numerics loosest = Numerics::kExact;
  for (size_t i = 0; i < pipeline.entries.size(); ++i) {
    if (report.passes[i].changed) loosest = std::max(loosest, pipeline.entries[i].pass->numerics());
  }
  const bool exact = loosest == Numerics::kExact;
  if (!exact && !lossy) {
    auto again = clone_model(*s.model);
    PassRequest checked = request;
    checked.verify = Verify::kPass;
    checked.strict = false;
    std::optional<ShuffledWorklist> order;
    if (s.order != 0) order.emplace(s.order);
    std::vector<std::string> faults;
    try {
      faults = run_passes(*again, checked).faults;
    } catch (const Error& e) {  // what no single rule explains
      return Failure{"changes values", e.what()};
    }
    std::erase_if(faults, [](const std::string& f) { return f.starts_with(kDecided); });
    if (!faults.empty())
      return Failure{"changes values: " + faults.front().substr(0, faults.front().find(' ')), faults.front()};
  } else if (exact) {
    const ValueCheck check = compare_values(*s.model, *after, loosest);
    if (check.difference) return Failure{"changes values", *check.difference + "\n" + text};
  }
  const bool smooth = loosest != Numerics::kRelaxed && is_smooth(*s.model);
  for (size_t which : {0, 1}) {
    std::vector<EvalValue> a, b;
    try {
      a = evaluate_subject(s, which);
    } catch (const Error&) {
      break;  // only while a failure is being shrunk
    }
    try {
      b = evaluate(after->graph(), inputs_for(after->graph(), s, which), kBounded);
    } catch (const Error& e) {
      if (lossy) break;  // indices that do not fit
      return Failure{"the result does not run", fmt::format("{}\n{}", e.what(), text)};
    }
    if (a.size() != b.size()) return Failure{"changes values", "another number of results"};
    for (size_t i = 0; i < a.size(); ++i) {
      if (auto d = differ(a[i], b[i], exact, smooth))
        return Failure{"changes values", fmt::format("result {}: {}\n{}", i, *d, text)};
    }
    if (statistics != nullptr) ++(exact || smooth ? statistics->compared : statistics->compared_loosely);
  }
  // Core ML's passes count dead users, as coremltools' do. Facts about a function's body hold for all its
  // calls, including dead ones.
  const bool settled =
      (s.model->dialect() == DialectId::kOnnx && s.model->functions().size() == 1) || !has_dead_nodes(*s.model);
  const bool repeats = std::ranges::all_of(pipeline.entries, &PipelineEntry::repeats);
  if (s.order == 0 && (settled || repeats)) {
    try {
      if (const auto change = change_by_second_run(*after, request)) return Failure{"does more when it runs again", *change};
    } catch (const Error& e) {
      return Failure{"throws when it runs again: " + kind_of(e), fmt::format("{}\n{}", e.what(), text_of(*after))};
    }
  }
  return std::nullopt;
}

namespace {

// The model after one pass with one option. Null if the pass refuses it or changes nothing.
std::unique_ptr<Model> after_told(const Subject& s, const std::string& pass, const std::string& option,
                                  const std::string& value) {
  auto after = clone_model(*s.model);
  PassRequest request{.passes = {pass}, .options = {{pass + "." + option, value}}, .strict = true, .verify_graph = true};
  try {
    if (!run_passes(*after, request).passes.front().changed) return nullptr;
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kInvalidArgument) return nullptr;
    throw;
  }
  try {
    verify(*after, {.allow_unchecked = false, .shapes = true});
  } catch (const Error& e) {
    // An op with an empty result runs with a size of zero, and is ill-typed once the size is known.
    if (e.message().starts_with("the types of this node were not checked")) return nullptr;
    throw;
  }
  return after;
}

std::optional<Failure> compare(const Subject& s, const Graph& after, std::span<const EvalValue> inputs, size_t which) {
  std::vector<EvalValue> a;
  try {
    a = evaluate_subject(s, which);
  } catch (const Error&) {
    return std::nullopt;  // only while a failure is being shrunk
  }
  const auto b = evaluate(after, inputs, kBounded);
  if (a.size() != b.size()) return Failure{"changes values", "another number of results"};
  for (size_t i = 0; i < a.size(); ++i) {
    if (auto d = differ(a[i], b[i], true, true))
      return Failure{"changes values", fmt::format("result {}: {}\n{}", i, *d, text_of(after.model()))};
  }
  return std::nullopt;
}

// Converts an input from channels last to channels first.
std::optional<Failure> check_image(const Subject& s) {
  for (const Port& p : s.model->graph().inputs()) {
    const Type* t = p.value->type();
    if (t == nullptr || !t->is_tensor() || !t->ranked() || (t->rank() != 3 && t->rank() != 4)) continue;
    const std::string name(p.name.view());
    const auto after = after_told(s, "image_input_preprocess", "inputs", name + ":nhwc");
    if (after == nullptr) continue;
    for (size_t which : {0, 1}) {
      auto inputs = inputs_for(after->graph(), s, which);
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (after->graph().inputs()[i].name.view() != p.name.view() || inputs[i].array() == nullptr) continue;
        const std::vector<int64_t> perm = t->rank() == 4 ? std::vector<int64_t>{0, 3, 1, 2} : std::vector<int64_t>{2, 0, 1};
        inputs[i] = EvalValue(inputs[i].array()->transposed(perm));
      }
      if (auto f = compare(s, after->graph(), inputs, which)) return f;
    }
    return std::nullopt;  // one is enough
  }
  return std::nullopt;
}

// Compares a copy that has fixed sizes, those of the inputs.
std::optional<Failure> check_materialized(const Subject& s) {
  for (size_t which : {0, 1}) {
    std::string sizes;
    for (const Port& p : s.model->graph().inputs()) {
      const auto at = s.inputs.find(std::string(p.name.view()));
      const Type* t = p.value->type();
      if (at == s.inputs.end() || at->second[which].array() == nullptr || t == nullptr || !t->is_tensor()) continue;
      if (!sizes.empty()) sizes += ",";
      sizes += fmt::format("\"{}\":[{}]", p.name.view(), fmt::join(at->second[which].array()->shape(), ","));
    }
    if (sizes.empty()) return std::nullopt;
    const auto after = after_told(s, "materialize_symbolic_shape_program", "function_name_to_materialization_map",
                                  fmt::format("{{\"fixed\":{{{}}}}}", sizes));
    if (after == nullptr) return std::nullopt;
    const Function* fixed = after->find_function("", "fixed");
    if (fixed == nullptr) return Failure{"there is no function 'fixed'", text_of(*after)};
    for (const Port& p : fixed->graph().inputs()) {
      const Type* t = p.value->type();
      for (Dim d : t != nullptr && t->is_tensor() && t->ranked() ? t->dims() : std::span<const Dim>{}) {
        if (!after->dims().symbol_name(d).empty())
          return Failure{"a size is still open", fmt::format("of {}\n{}", p.name.view(), text_of(*after))};
      }
    }
    if (auto f = compare(s, fixed->graph(), inputs_for(fixed->graph(), s, which), which)) return f;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_told_passes(const Subject& s) {
  try {
    if (auto f = check_image(s)) return Failure{"image_input_preprocess: " + f->kind, f->detail};
    if (auto f = check_materialized(s)) return Failure{"materialize_symbolic_shape_program: " + f->kind, f->detail};
  } catch (const Error& e) {
    return Failure{"a pass that is told what to do: " + kind_of(e), fmt::format("{}\n{}", e.what(), text_of(*s.model))};
  }
  return std::nullopt;
}

std::optional<Failure> check_round_trips(const Subject& s) {
  const std::string text = text_of(*s.model);
  std::string why;
  try {
    const auto again = parse(text, "printed");
    if (!equal_models(*s.model, *again, &why)) return Failure{"text", why + "\n" + text};
    if (text_of(*again) != text) return Failure{"text", "it prints in two ways:\n" + text + "and\n" + text_of(*again)};
  } catch (const Error& e) {
    return Failure{"text: " + kind_of(e), fmt::format("{}\n{}", e.what(), text)};
  }
  if (bytes_in_file(*s.model) > kMostBytesInFile) return std::nullopt;  // messages end at 2 GiB; writing would take minutes
  try {
    const Scratch one("_1.mlpackage"), two("_2.mlpackage");
    const auto first = through_file(*s.model, one), second = through_file(*first, two);
    // In a package, constants are ops.
    const bool same_parts = s.model->dialect() == DialectId::kOnnx && !needs_identities(*s.model);
    if (same_parts && !equal_models(*s.model, *first, &why))
      return Failure{"file", why + "\n" + text + "and\n" + text_of(*first)};
    if (!equal_models(*first, *second, &why)) return Failure{"second file", why + "\n" + text};
    if (serialize(*first) != serialize(*second)) return Failure{"file", "what was read is written as other bytes\n" + text};
    for (size_t which : {0, 1}) {
      const auto inputs = inputs_for(s.model->graph(), s, which);
      const auto a = evaluate(s.model->graph(), inputs, kBounded), b = evaluate(first->graph(), inputs, kBounded);
      for (size_t i = 0; i < a.size(); ++i) {
        if (auto d = differ(a[i], b[i], true, true)) return Failure{"the file has other values", *d + "\n" + text};
      }
    }
  } catch (const Error& e) {
    return Failure{"file: " + kind_of(e), fmt::format("{}\n{}", e.what(), text)};
  }
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------------------------
// Shrinking

namespace {

// Drops unneeded parts if `drop`, and infers all types again.
bool tidy(Subject& s, bool drop) {
  for (int round = 0; round < 2 && drop; ++round) {
    for (const auto& f : s.model->functions()) {
      erase_dead_nodes(f->graph());
      for (Graph* g : graphs_in(f->graph())) g->erase_unused_constants();
    }
    Graph& g = s.model->graph();
    for (size_t i = g.inputs().size(); i-- > 0;) {
      if (!g.input(i)->has_uses()) g.remove_input(i);
    }
    std::vector<Function*> unused;
    for (const auto& f : s.model->functions()) {
      bool called = f.get() == &s.model->main();
      for (const auto& other : s.model->functions()) {
        for (Graph* in : graphs_in(other->graph())) {
          for (Node& n : in->nodes()) called |= n.op().domain == f->domain && n.op().name == f->name;
        }
      }
      if (!called) unused.push_back(f.get());
    }
    for (Function* f : unused) s.model->erase_function(*f);
  }
  try {
    s.model = parse(text_of(*s.model), "shrunk");
    verify(*s.model, {.allow_unchecked = false});
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::vector<Node*> all_nodes(Model& m) {
  std::vector<Node*> nodes;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& n : g->nodes()) nodes.push_back(&n);
    }
  }
  return nodes;
}

// The value of v in a run of the main graph.
std::optional<std::array<EvalValue, 2>> values_of(const Subject& s, Value& v) {
  Graph& g = s.model->graph();
  std::array<EvalValue, 2> got;
  g.add_output(v, "probe");
  bool fine = true;
  for (size_t which : {0, 1}) {
    try {
      got[which] = evaluate(g, inputs_for(g, s, which), kBounded)[g.outputs().size() - 1];
    } catch (const Error&) {
      fine = false;
    }
  }
  g.remove_output(g.outputs().size() - 1);
  return fine ? std::optional(got) : std::nullopt;
}

}  // namespace

Subject shrink(const Subject& start, const std::function<std::optional<Failure>(const Subject&)>& check,
               const Failure& failure) {
  Subject best = copy(start);
  size_t budget = 3000;
  bool drop = true;
  const auto still_fails = [&](Subject& s) {
    if (budget == 0 || !tidy(s, drop)) return false;
    --budget;
    try {
      const auto f = check(s);
      return f && f->kind == failure.kind;
    } catch (const std::exception&) {
      return false;
    }
  };
  const auto keep = [&](Subject s) {
    if (!still_fails(s)) return false;
    best = std::move(s);
    return true;
  };
  drop = keep(copy(best));  // else dead code is part of the failure and goes piece by piece
  for (bool smaller = true; smaller && budget > 0;) {
    smaller = false;
    for (size_t i = all_nodes(*best.model).size(); i-- > 0 && !drop;) {
      Subject s = copy(best);
      const auto nodes = all_nodes(*s.model);
      if (i >= nodes.size() || nodes[i]->any_result_used()) continue;
      nodes[i]->graph()->erase(*nodes[i]);
      smaller |= keep(std::move(s));
    }
    for (const Graph* g : graphs_in(best.model->graph())) {
      if (drop) break;
      size_t unread = 0;
      for (const Value* c : g->constants()) unread += c->has_uses() ? 0 : 1;
      if (unread == 0) continue;
      Subject s = copy(best);
      for (Graph* other : graphs_in(s.model->graph())) other->erase_unused_constants();
      for (size_t i = s.model->graph().inputs().size(); i-- > 0;) {
        if (!s.model->graph().input(i)->has_uses()) s.model->graph().remove_input(i);
      }
      smaller |= keep(std::move(s));
      break;
    }
    for (size_t i = best.model->graph().outputs().size(); i-- > 0;) {
      if (best.model->graph().outputs().size() < 2 || i >= best.model->graph().outputs().size()) continue;
      Subject s = copy(best);
      s.model->graph().remove_output(i);
      smaller |= keep(std::move(s));
    }
    // Replace a node by an input, or by one of its operands.
    for (size_t i = all_nodes(*best.model).size(); i-- > 0;) {
      for (int how = 0; how < 3; ++how) {
        Subject s = copy(best);
        const auto nodes = all_nodes(*s.model);
        if (i >= nodes.size()) break;
        Node& n = *nodes[i];
        if (n.has(Trait::kConstant)) continue;
        Graph& g = *n.graph();
        bool edited = false;
        for (Value& r : n.results()) {
          if (!r.has_uses()) continue;
          if (how < 2) {
            Value* operand = n.input(static_cast<size_t>(how));
            if (operand == nullptr || !Types::equal(operand->type(), r.type())) continue;
            g.replace_uses(r, *operand);
            edited = true;
          } else {
            if (!r.ranked() || &g != &s.model->graph()) continue;
            if (std::any_of(r.type()->dims().begin(), r.type()->dims().end(), [](Dim d) { return d.is_unknown(); })) continue;
            const auto values = values_of(s, r);
            if (!values) continue;
            const std::string name = fmt::format("i{}", budget);
            Value* in = g.add_input(name, r.type());
            if (in->type() == nullptr) in->set_type(r.type());
            s.inputs[name] = *values;
            g.replace_uses(r, *in);
            edited = true;
          }
        }
        if (edited && keep(std::move(s))) {
          smaller = true;
          break;
        }
      }
    }
  }
  return best;
}

std::vector<std::string> shrink_passes(const Subject& s, std::vector<std::string> passes, const Failure& failure) {
  for (size_t i = passes.size(); i-- > 0 && passes.size() > 1;) {
    auto fewer = passes;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const auto f = check_passes(s, fewer);
    if (f && f->kind == failure.kind) passes = fewer;
  }
  return passes;
}

}  // namespace sardonyx::fuzz
