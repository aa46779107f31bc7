// sardonyx run.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/options/shape_texts.h"
#include "cli/options/value_texts.h"
#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "convert/interface/input_shapes.h"
#include "convert/read_source.h"
#include "convert/run_inputs.h"
#include "io/array_file.h"
#include "sardonyx/eval.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {
namespace {

// The results with their names in the model, and then the states after the run.
std::vector<std::pair<std::string, EvalValue>> results_of(Model& m, const Given& given) {
  fix_input_shapes(m, input_shapes_of(given.list("input-shape")));
  EvalOptions options{.states_too = true};
  if (given.has("memory")) options.memory_cap = static_cast<uint64_t>(bytes_of(given.text("memory")));
  options.seed = given.count("seed", 0);
  options.fast_products = given.text("numerics") == "relaxed";
  const Graph& g = m.graph();
  std::vector<EvalValue> inputs = inputs_by_name(g, input_values(g, given.list("input")));
  if (given.has("seed")) fill_inputs(g, inputs, options.seed);
  check_inputs(g, inputs);
  std::vector<EvalValue> values = evaluate(g, inputs, options);
  std::vector<std::pair<std::string, EvalValue>> out;
  for (size_t i = 0; i < g.outputs().size(); ++i) out.emplace_back(g.outputs()[i].name.view(), std::move(values[i]));
  size_t next = g.outputs().size();
  for (const Port& p : g.inputs()) {
    const Type* t = p.declared != nullptr ? p.declared : p.value->type();
    if (t != nullptr && t->kind() == TypeKind::kState && next < values.size())
      out.emplace_back(p.name.view(), std::move(values[next++]));
  }
  return out;
}

// A map of numbers, such as the probabilities of a classifier, as two tensors: NAME.keys and NAME.values.
void add_map(const std::string& name, const EvalMap& map, NamedTensors& out) {
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  std::vector<double> values;
  std::optional<DType> dtype;
  for (const auto& [key, value] : map.entries) {
    const Array* a = value.array();
    if (a == nullptr || a->size() != 1 || !is_float(a->dtype()) || (dtype && *dtype != a->dtype()))
      throw Error(ErrorCode::kUnsupported, fmt::format("result '{}' is a map of other things than floats", name));
    dtype = a->dtype();
    values.push_back(a->double_at(0));
    if (const int64_t* number = std::get_if<int64_t>(&key)) numbers.push_back(*number);
    if (const std::string* text = std::get_if<std::string>(&key)) texts.push_back(*text);
  }
  const auto n = static_cast<int64_t>(values.size());
  out.emplace_back(name + ".keys",
                   texts.empty() ? Tensor::of<int64_t>(DType::kI64, {n}, numbers) : Tensor::strings({n}, texts));
  const DType kind = dtype.value_or(DType::kF64);
  std::vector<std::byte> bytes(byte_size(kind, values.size()));
  for (size_t i = 0; i < values.size(); ++i) encode_element(kind, bytes.data(), static_cast<int64_t>(i), values[i]);
  out.emplace_back(name + ".values", Tensor::own(kind, {n}, std::move(bytes)));
}

// Flattens a sequence `y` into y.0, y.1, ... Omits empty optionals and refuses maps of anything but floats.
NamedTensors tensors_in(const std::vector<std::pair<std::string, EvalValue>>& results) {
  NamedTensors out;
  std::vector<std::pair<std::string, const EvalValue*>> todo;
  for (auto r = results.rbegin(); r != results.rend(); ++r) todo.emplace_back(r->first, &r->second);
  while (!todo.empty()) {
    const auto [name, v] = todo.back();
    todo.pop_back();
    if (const Array* a = v->array()) {
      out.emplace_back(name, a->to_tensor());
    } else if (const auto* items = v->items()) {
      for (size_t i = items->size(); i-- > 0;) todo.emplace_back(fmt::format("{}.{}", name, i), &(*items)[i]);
    } else if (const EvalOptional* o = v->optional()) {
      if (o->value) todo.emplace_back(name, o->value.get());
    } else if (v->map() != nullptr) {
      add_map(name, *v->map(), out);
    }
  }
  return out;
}

// Formats the first elements for people to read.
std::string preview(const Tensor& t) {
  constexpr int64_t kShown = 12;
  std::string out;
  for (int64_t i = 0; i < std::min(t.size(), kShown); ++i) {
    if (i > 0) out += ", ";
    if (t.dtype() == DType::kString) {
      out += fmt::format("\"{}\"", t.string_values()[static_cast<size_t>(i)]);
    } else if (is_complex(t.dtype())) {
      return "...";
    } else if (is_float(t.dtype())) {
      const double v = t.as_double(i);
      out += t.dtype() == DType::kF64 ? fmt::format("{}", v) : fmt::format("{}", static_cast<float>(v));
    } else if (t.dtype() == DType::kBool) {
      out += t.as_int(i) != 0 ? "true" : "false";
    } else if (t.dtype() == DType::kU64) {
      out += fmt::format("{}", static_cast<uint64_t>(t.as_int(i)));
    } else {
      out += fmt::format("{}", t.as_int(i));
    }
  }
  if (t.size() > kShown) out += ", ...";
  return out;
}

// Of results with more elements, --json has no values: -o writes them all.
constexpr int64_t kMostValues = 1000;

ordered_json json_of(const std::string& input, const std::string& output, const NamedTensors& tensors) {
  ordered_json j = json_head("run", input, true);
  j["output"] = output.empty() ? ordered_json() : ordered_json(output);
  j["results"] = ordered_json::array();
  for (const auto& [name, t] : tensors) {
    ordered_json one{{"name", name}, {"dtype", to_string(t->dtype())}, {"shape", t->shape()}};
    if (t->size() <= kMostValues && !is_complex(t->dtype())) {
      one["values"] = ordered_json::array();  // in order; what JSON has no number for is null
      for (int64_t i = 0; i < t->size(); ++i) {
        if (t->dtype() == DType::kString) {
          one["values"].push_back(t->string_values()[static_cast<size_t>(i)]);
        } else if (is_float(t->dtype())) {
          one["values"].push_back(t->as_double(i));
        } else if (t->dtype() == DType::kBool) {
          one["values"].push_back(t->as_int(i) != 0);
        } else if (t->dtype() == DType::kU64) {
          one["values"].push_back(static_cast<uint64_t>(t->as_int(i)));
        } else {
          one["values"].push_back(t->as_int(i));
        }
      }
    }
    j["results"].push_back(std::move(one));
  }
  return j;
}

}  // namespace

int run(const Given& given) {
  const std::string input = given.text("model"), output = given.text("output");
  const bool json = given.has("json");
  if (!output.empty() && !output.ends_with(".npy") && !output.ends_with(".npz")) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' ends in neither .npz nor .npy, and results are arrays", output),
                {fmt::format("help: name the output '{}.npz'", output)});
  }
  const auto model = read_source(opened(input), read_options(given));
  const NamedTensors tensors = tensors_in(results_of(*model, given));
  if (json) print_one(json_of(input, output, tensors));
  if (output.empty()) {
    if (json) return 0;
    for (const auto& [name, t] : tensors) {
      say("{}: {}[{}] = {}\n", name, to_string(t->dtype()), fmt::join(t->shape(), ","), preview(*t));
    }
    return 0;
  }
  if (output.ends_with(".npy")) {
    if (tensors.size() != 1) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("there are {} results, and one .npy file", tensors.size()),
                  {"help: write an .npz file"});
    }
    write_npy(output, *tensors[0].second);
  } else {
    write_npz(output, tensors);
  }
  return 0;
}

}  // namespace sardonyx::cli
