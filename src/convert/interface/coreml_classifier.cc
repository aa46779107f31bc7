#include "convert/interface/coreml_classifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dialects/mil/interface_names.h"
#include "sardonyx/mil_builder.h"
#include "support/files/mapped_file.h"
#include "support/files/regular_file.h"
#include "support/printable.h"

namespace sardonyx {
namespace {

// The number of elements with each open size at one; nothing if the rank is unknown.
std::optional<int64_t> elements_of(const Type* t) {
  if (t == nullptr || !t->is_tensor() || !t->ranked()) return std::nullopt;
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t n = 1;
  for (Dim d : t->dims()) {
    if (!d.is_int()) continue;
    if (d.value() > kMost / n) return std::nullopt;
    n *= d.value();
    if (n == 0) break;
  }
  return n;
}

std::string results_of(const Model& mil) {
  std::string list;
  for (const Port& p : mil.graph().outputs())
    list += fmt::format("{}{}: {}", list.empty() ? "" : ", ", p.name.view(), mil.types().to_string(p.use->value->type()));
  return list;
}

Value* labels(Model& mil, const CoremlClassifier& of) {
  const auto n = static_cast<int64_t>(of.size());
  const TensorPtr t = of.texts.empty() ? Tensor::of<int64_t>(DType::kI64, {n}, of.numbers) : Tensor::strings({n}, of.texts);
  Value* v = mil.graph().add_constant(t);
  const Type* element = mil.types().scalar(t->dtype());
  const Dim length = Dim::of(n);
  v->set_type(mil.types().make(TypeKind::kList, DType::kUndefined, {&element, 1}, {&length, 1}, true));
  return v;
}

}  // namespace

std::vector<std::string> read_class_labels(const std::filesystem::path& path) {
  require_regular(path);
  const auto file = MappedFile::open(path, MappedFile::Access::kRead);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  if (!is_utf8(text))
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is not a list of class labels: it is not UTF-8", path.string()));
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    at = end + 1;
  }
  if (lines.empty())
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} lists no class labels", path.string()),
                {"expected one label a line, in the order of the result's elements"});
  return lines;
}

size_t classified_result(const Model& mil, const CoremlClassifier& classifier) {
  const auto fail = [&](std::string what, std::string help) {
    throw Error(ErrorCode::kInvalidArgument, std::move(what), {"the results are " + results_of(mil), std::move(help)});
  };
  const auto wanted = static_cast<int64_t>(classifier.size());
  const auto outputs = mil.graph().outputs();
  std::vector<size_t> fitting;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Type* t = outputs[i].use->value->type();
    const bool fits = elements_of(t) == wanted && is_float(t->dtype());
    if (outputs[i].name.view() == classifier.probabilities && !fits) {
      fail(fmt::format("the result '{}' is {}, and there are {} class labels", outputs[i].name.view(), mil.types().to_string(t),
                       wanted),
           "help: give one label for each element");
    }
    if (fits && (classifier.probabilities.empty() || outputs[i].name.view() == classifier.probabilities)) fitting.push_back(i);
  }
  if (fitting.empty() && !classifier.probabilities.empty())
    fail(fmt::format("the model has no result '{}' to classify", classifier.probabilities), "help: name one of these");
  if (fitting.empty())
    fail(fmt::format("there are {} class labels, and no result of floats has as many elements", wanted),
         "help: give one label for each element of the result that is classified");
  if (fitting.size() > 1)
    fail(fmt::format("{} results have one element for each of the {} class labels", fitting.size(), wanted),
         "help: say which holds the probabilities (predicted_probabilities_output)");
  return fitting[0];
}

void add_classifier(Model& mil, size_t result, const CoremlClassifier& classifier) {
  Graph& g = mil.graph();
  const std::string dictionary = classifier.label + "_probs";
  if (!mil::is_interface_name(classifier.label))
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is not a name for a result of a Core ML model", classifier.label),
                {"expected letters, digits and _, no digit first, and no word of MIL"});
  std::vector<std::pair<Value*, std::string>> others;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    if (i != result) others.emplace_back(g.output(i), g.outputs()[i].name.view());
  }
  const auto taken = [&](std::string_view name) {
    return std::ranges::any_of(g.inputs(), [&](const Port& p) { return p.name.view() == name; }) ||
           std::ranges::any_of(others, [&](const auto& o) { return o.second == name; });
  };
  for (const std::string& name : {classifier.label, dictionary}) {
    if (taken(name))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("the model has an input or result '{}' already", name),
                  {"help: give the label another name (predicted_feature_name)"});
  }
  ValueFacts facts;
  MilBuilder b(g, facts);
  Value* p = g.output(result);
  if (p->dtype() != DType::kF32) p = b.cast(p, {.dtype = DType::kF32});
  Node& classes = b.classify(p, {.classes = labels(mil, classifier)});
  g.clear_outputs();
  g.add_output(*classes.result(0), classifier.label);
  g.add_output(*classes.result(1), dictionary);
  for (const auto& [value, name] : others) g.add_output(*value, name);
}

}  // namespace sardonyx
