// From an ONNX model to a Core ML program: prepare, lower, optimize, describe, write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/interface.h"
#include "sardonyx/io.h"
#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {

// Deployment targets by name: "iOS15" to "iOS18", "iOS26", and the systems of the same years ("macOS12",
// "watchOS8", "tvOS15", ...). Returns the specification version, 6 to 10; throws kInvalidArgument for other
// names.
int coreml_version_of(std::string_view target);
// 8 is "iOS17".
std::string coreml_target_name(int version);

// The colors of images. gray16 is one channel of half precision, from iOS 16 on. Numbers are the format's.
enum class CoremlColor : uint8_t { kGray = 10, kRgb = 20, kBgr = 30, kGray16 = 40 };
std::string_view to_string(CoremlColor c);                          // "gray", "rgb", "bgr", "gray16"
std::optional<CoremlColor> coreml_color_of(std::string_view name);  // nullopt for other names

// An input or a result that is an image, with numbers from 0 to 255. The model sees scale * number + bias of
// an input.
struct CoremlImage {
  std::string port;
  CoremlColor color = CoremlColor::kRgb;
  double scale = 1;
  std::vector<double> bias;  // one for each channel, or none
  int64_t channels() const { return color == CoremlColor::kRgb || color == CoremlColor::kBgr ? 3 : 1; }
};

// Overrides the element type of a float input or result.
struct CoremlFloat {
  std::string port;  // empty: all that have floats
  DType type = DType::kUndefined;
};

// One label per class, in the order of the result's elements: texts or numbers.
struct CoremlClassifier {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::string label = "classLabel";  // name of the result that is the label; the dictionary's is this and "_probs"
  std::string probabilities;         // name of the result that is classified; empty: the one whose size fits

  size_t size() const { return texts.empty() ? numbers.size() : texts.size(); }
};

// The lines of a text file. Throws for files without lines and those that are not UTF-8.
std::vector<std::string> read_class_labels(const std::filesystem::path& path);

// An input that keeps its value between runs, and the result that it holds after one (iOS 18).
struct CoremlState {
  std::string input, result;
};

// Upper bound assumed for a symbolic size that has none (or twice its lower bound, if that is more): ranges
// of ML programs need one.
inline constexpr int64_t kAssumedUpperBound = 4096;

struct CoremlMetadata {
  std::string author, license, version, description;
  Metadata user_defined;
};

// That floats are computed in, where the op exists in it. kI8: as kF16, and what the pass
// quantize_activations finds in integers of 8 bits.
enum class CoremlPrecision : uint8_t { kF32, kF16, kI8 };

struct ToCoremlOptions {
  std::string target = "iOS17";
  CoremlPrecision precision = CoremlPrecision::kF32;
  std::vector<NamedTensors> calibrate;                   // kI8: inputs of runs of the model, which tell ranges
  std::vector<InputShape> input_shapes;                  // as OptimizeOptions::input_shapes
  std::vector<SizeBounds> sizes;                         // of named sizes
  std::vector<EnumeratedShapes> enumerated_shapes;       // one for each input that has them
  std::vector<DefaultSize> default_sizes;                // of named sizes, within their bounds
  std::vector<CoremlImage> image_inputs, image_outputs;  // of the ONNX model, by name
  std::vector<CoremlFloat> input_types, output_types;    // element types in place of the model's
  std::vector<std::string> passes{"coreml"}, skip;       // what runs after lowering
  std::vector<std::pair<std::string, std::string>> pass_options;
  bool provenance = true;
  std::vector<CoremlState> states;
  std::optional<CoremlClassifier> classifier;
  CoremlMetadata metadata;
  // Gets the stages onnx, prepared, lowered and optimized; with several functions, those of each function
  // and then `joined`.
  Observer* observer = nullptr;
};

struct ToCoremlReport {
  size_t nodes = 0;                                          // of the ONNX model
  std::map<std::string, size_t> ops;                         // of the program
  std::vector<std::pair<std::string, std::string>> renamed;  // inputs and results: names in ONNX and in Core ML
  std::vector<std::string> single;                           // ops that stay in single precision, and why
  std::vector<std::string> open_sizes;                       // inputs with sizes that have no upper bound
  std::vector<std::string> not_converged;                    // of PipelineReport
  std::vector<std::pair<std::string, size_t>> integers;      // kI8: what became integers, and why the rest did not
  double read_seconds = 0, prepare_seconds = 0, lower_seconds = 0, optimize_seconds = 0, write_seconds = 0;
};

// Converts a model of the onnx dialect, which is changed on the way. Throws one Error(kUnsupported) that
// lists every node that cannot be lowered, and kInvalidArgument for options that do not fit the model.
std::unique_ptr<Model> to_coreml(Model& onnx, const ToCoremlOptions& options, ToCoremlReport* report = nullptr);

// The same from file to file. `out` is whole or untouched.
ToCoremlReport convert_to_coreml(const std::filesystem::path& in, const std::filesystem::path& out,
                                 const ToCoremlOptions& options, const ReadOptions& read = {});

// Several models as the functions of one package (iOS 18), the first the default. Options for single inputs
// go to the functions that have such an input. Equal weights are written once. A report for each is added
// to `reports`, which is empty.
struct CoremlFunction {
  std::string name;
  Model* onnx;
};
std::unique_ptr<Model> functions_to_coreml(const std::vector<CoremlFunction>& functions, const ToCoremlOptions& options,
                                           std::vector<ToCoremlReport>& reports);

}  // namespace sardonyx
