// Cases as ONNX models, with inputs and what the evaluator makes of them, for a runtime to judge
// (tests/python/onnxruntime_cases.py).
#pragma once

#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "sardonyx/eval.h"
#include "sx_test_cases.h"

namespace sardonyx {

// Writes into a folder
//   0.before.onnx, 0.after.onnx, ...   both sides of a pass that changes something; of a lowering what it makes only
//   values.bin                         TensorProto messages, one behind the other
//   cases.jsonl                        a line of JSON for each case: its name, numerics, files, and runs on seeded inputs. A tensor is
//                                      [offset, size] in values.bin, a sequence a list of these in an object
class ModelWriter {
 public:
  explicit ModelWriter(std::filesystem::path folder);

  // Nothing where there are no two sides to compare: errors, cases that stay as they are, other dialects than
  // onnx.
  void add(const CaseFile& f, const Case& c, const Transform& transform);
  // Throws where something could not be written.
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
