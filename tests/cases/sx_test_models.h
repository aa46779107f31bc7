// Writes cases as ONNX models, with inputs and the evaluator's results, so that a runtime can check them
// (tests/python/support/onnxruntime_cases.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "sardonyx/eval.h"
#include "sx_test_cases.h"

namespace sardonyx {

// Writes these files into a folder:
//   0.before.onnx, 0.after.onnx, ...   both sides of a pass that changes something; for a lowering, the result only
//   values.bin                         TensorProto messages, one after another
//   cases.jsonl                        a line of JSON per case: its name, numerics, files, and runs on seeded inputs. A
//                                      tensor is [offset, size] in values.bin, a sequence an object with a list of these
class ModelWriter {
 public:
  explicit ModelWriter(std::filesystem::path folder);

  // Writes nothing where there are no two sides to compare: errors, cases that stay the same, dialects other
  // than onnx.
  void add(const CaseFile& f, const Case& c, const Transform& transform);
  // Throws if something could not be written.
  void finish();

 private:
  std::string json_of(const EvalValue& v);
  std::string json_of(std::span<const EvalValue> values);
  std::string file_of(const Model& m, std::string_view side) const;

  std::filesystem::path folder_;
  std::ofstream cases_, values_;
  size_t offset_ = 0, count_ = 0;
};

}  // namespace sardonyx
