// Uses an installed Sardonyx as any C++ program would: exports a saved program to ONNX, optimizes the model,
// converts it to Core ML, and compares both.
#include <cstdio>
#include <memory>
#include <string>

#include "sardonyx/convert.h"
#include "sardonyx/coreml.h"
#include "sardonyx/error.h"
#include "sardonyx/inspect.h"
#include "sardonyx/io.h"
#include "sardonyx/onnx_builder.h"
#include "sardonyx/version.h"

namespace sx = sardonyx;

namespace {

// Appends Relu to the result `y`.
void append_relu(sx::Model& onnx) {
  sx::ValueFacts facts;
  sx::OnnxBuilder b(onnx.graph(), facts);
  onnx.graph().set_output(0, *b.Relu(onnx.graph().output(0)));  // typed as it is made: f32[B,5]
}

void optimize(sx::Model& onnx) {
  sx::OptimizeOptions options;  // the preset "onnx"
  options.request.verify = sx::Verify::kPass;
  const sx::OptimizeReport report = sx::optimize_model(onnx, options);
  std::printf("optimized: %zu -> %zu nodes\n", report.before.nodes, report.after.nodes);
}

// What is in the file, and how it differs from the model that it was made of.
void show(const char* before, const char* after) {
  std::unique_ptr<sx::Model> a = sx::read_onnx(before), b = sx::read_onnx(after);
  std::printf("arithmetic: %s\n", sx::summarize(*b).all.flops.c_str());
  const auto number = [](const std::string& n) { return n.empty() ? "0" : n.c_str(); };
  for (const sx::ModelDiff::Change& op : sx::diff_models(*a, *b).ops)
    std::printf("%s: %s -> %s\n", op.what.c_str(), number(op.before), number(op.after));
}

void convert(const char* from, const char* to) {
  sx::ToCoremlOptions options{.target = "iOS17", .sizes = {{.name = "B", .max = 64}}};
  std::unique_ptr<sx::Model> onnx = sx::read_onnx(from);
  std::unique_ptr<sx::Model> program = sx::to_coreml(*onnx, options);  // changes `onnx` on the way
  sx::write_coreml(*program, to);
}

void compare(const char* onnx, const char* coreml) {
  std::unique_ptr<sx::Model> before = sx::read_model(onnx), after = sx::read_model(coreml);
  const sx::ModelComparison found = sx::compare_models(*before, *after, sx::Numerics::kRelaxed);
  std::printf("compared: %s\n", found.difference ? found.difference->c_str()
                                : found.runs > 0 ? "equal"
                                                 : found.skipped.c_str());
}

}  // namespace

int main() {
  std::printf("sardonyx %s\n", sx::version());
  try {
    std::unique_ptr<sx::Model> program = sx::read_model("layer.sx");  // by sardonyx.save_program()
    std::unique_ptr<sx::Model> onnx = sx::convert(*program);
    append_relu(*onnx);
    sx::write_onnx(*onnx, "layer.onnx");
    optimize(*onnx);
    sx::write_onnx(*onnx, "small.onnx");
    show("layer.onnx", "small.onnx");
    convert("small.onnx", "small.mlpackage");
    compare("small.onnx", "small.mlpackage");
    sx::read_onnx("none.onnx");
  } catch (const sx::Error& e) {
    std::printf("error (%s): %s\n", std::string(sx::to_string(e.code())).c_str(), e.message().c_str());
  }
  return 0;
}
