// sardonyx run.
#include "convert/run.h"

#include <fmt/format.h>

#include "cli/print/output.h"
#include "cli/print/say.h"
#include "commands.h"
#include "sardonyx/io.h"

namespace sardonyx::cli {
namespace {

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
  const auto model = read_model(opened(input), read_options(given));
  RunRequest request;
  request.inputs = given.list("input");
  request.input_shapes = given.list("input-shape");
  request.random = given.has("seed");
  if (given.has("memory")) request.memory_cap = static_cast<uint64_t>(bytes_of(given.text("memory")));
  request.eval.seed = given.count("seed", 0);
  request.eval.fast_products = given.text("numerics") == "relaxed";
  const auto results = run_model(*model, request);
  const NamedTensors tensors = tensors_in(results);
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
