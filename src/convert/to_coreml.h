// From an ONNX model to a Core ML program: prepare, lower, optimize, describe, write.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "convert/interface/coreml_classifier.h"
#include "convert/interface/enumerated_shapes.h"
#include "io/coreml/mil_new_description.h"
#include "lower/onnx_to_mil/lower_to_mil.h"
#include "sardonyx/io.h"
#include "sardonyx/passes.h"

namespace sardonyx {

// That floats are computed in, where the op exists in it.
enum class CoremlPrecision : uint8_t { kF32, kF16 };

// coreml_options.def lists the fields that have a keyword or an option.
struct ToCoremlOptions {
  std::string target = "iOS17";
  CoremlPrecision precision = CoremlPrecision::kF32;
  std::vector<std::string> input_shapes;                       // as of OptimizeOptions: sizes of inputs that the user fixes
  std::vector<std::string> sizes;                              // what holds for named sizes of inputs: "T <= 512"
  EnumeratedShapes enumerated_shapes;                          // inputs that take a few shapes
  std::vector<std::pair<std::string, int64_t>> default_sizes;  // of named sizes, within their ranges
  std::vector<CoremlImage> image_inputs, image_outputs;        // of the ONNX model, by name
  std::vector<CoremlFloat> input_types, output_types;          // element types in place of the model's
  std::vector<std::string> passes{"coreml"}, skip;             // what runs after lowering
  std::vector<std::pair<std::string, std::string>> pass_options;
  bool provenance = true;
  std::vector<std::pair<std::string, std::string>> states;  // an input and the result that it holds afterwards, by name
  std::optional<CoremlClassifier> classifier;
  CoremlMetadata metadata;
  // Is told the stages onnx, prepared, lowered and optimized; with several functions, those of each function and
  // then `joined`.
  Observer* observer = nullptr;
};

struct ToCoremlReport {
  size_t nodes = 0;                                          // of the ONNX model
  std::map<std::string, size_t> ops;                         // of the program
  std::vector<std::pair<std::string, std::string>> renamed;  // inputs and results: their names in ONNX and in Core ML
  std::vector<std::string> single;         // ops that stay in single precision since they may overflow, and why
  std::vector<std::string> open_sizes;     // inputs with sizes that have no upper bound
  std::vector<std::string> not_converged;  // of PipelineReport
  double read_seconds = 0, prepare_seconds = 0, lower_seconds = 0, optimize_seconds = 0, write_seconds = 0;
};

// Converts a model of the onnx dialect, which is changed on the way. Throws what lower_to_mil() throws.
std::unique_ptr<Model> to_coreml(Model& onnx, const ToCoremlOptions& options, ToCoremlReport* report = nullptr);

// The same from file to file. `out` is whole or untouched.
ToCoremlReport convert_to_coreml(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const ToCoremlOptions& options, const ReadOptions& read = {});

// Several models as the functions of one package (iOS 18), the first the default. Options for single inputs go to the functions that have
// such an input. Equal weights are written once. A report for each is added to `reports`, which is empty.
struct CoremlFunction {
  std::string name;
  Model* onnx;
};
std::unique_ptr<Model> functions_to_coreml(const std::vector<CoremlFunction>& functions, const ToCoremlOptions& options,
                                           std::vector<ToCoremlReport>& reports);

// Throws kInvalidArgument unless `out` can be the name of what a conversion writes.
void check_coreml_name(const std::filesystem::path& out);
// An ONNX model, or a program in text form.
std::unique_ptr<Model> read_for_coreml(const std::filesystem::path& in, const ReadOptions& read = {});
// `sources`: the models that it was converted from. Throws kIo if a file of theirs changed meanwhile.
void write_converted(const Model& mil, const std::filesystem::path& out, std::span<const Model* const> sources);

}  // namespace sardonyx
