// Uses an installed Sardonyx as any C++ program would: builds a graph, writes it as ONNX, optimizes the file and
// prints it.
//
//   x ── MatMul(weights) ── Relu ── Relu ── y        x: f32[B,3]
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sardonyx/error.h"
#include "sardonyx/io.h"
#include "sardonyx/onnx_builder.h"
#include "sardonyx/passes.h"
#include "sardonyx/version.h"

namespace sx = sardonyx;

namespace {

void write(const std::filesystem::path& path) {
  sx::Model model(sx::DialectId::kOnnx);
  sx::Graph& graph = model.add_function("layer").graph();
  model.set_opset_version("", 21);

  const std::array<sx::Dim, 2> shape{model.dims().symbol("B"), sx::Dim::of(3)};
  sx::Value* x = graph.add_input("x", model.types().tensor(sx::DType::kF32, shape));

  sx::ValueFacts facts;
  sx::OnnxBuilder b(graph, facts);
  const std::vector<float> weights{1, 2, 3, 4, 5, 6};
  sx::Value* w = b.constant(sx::Tensor::of<float>(sx::DType::kF32, {3, 2}, weights), "weights");
  graph.add_output(*b.Relu(b.Relu(b.MatMul(x, w))), "y");  // typed as it is made: f32[B,2]

  sx::write_onnx(model, path);
}

void optimize(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::unique_ptr<sx::Model> model = sx::read_onnx(from);
  sx::PassRequest request;  // the preset "onnx"
  request.verify = sx::Verify::kPass;
  const sx::PipelineReport report = sx::run_passes(*model, request);
  for (const sx::PassReport& pass : report.passes) {
    for (const auto& [rule, times] : pass.counts) {
      if (times) std::printf("%s, %s: %zu\n", pass.name.c_str(), rule.c_str(), times);
    }
  }
  sx::write_onnx(*model, to);
}

void show(const std::filesystem::path& path) {
  std::unique_ptr<sx::Model> model = sx::read_onnx(path);
  for (const sx::Node& node : model->graph().nodes()) std::printf("%s\n", std::string(node.op().name).c_str());
  for (const sx::Port& port : model->graph().outputs()) {
    std::printf("%s: %s\n", std::string(port.name.view()).c_str(), model->types().to_string(port.declared).c_str());
  }
}

}  // namespace

int main() {
  std::printf("sardonyx %s\n", sx::version());
  try {
    write("layer.onnx");
    optimize("layer.onnx", "small.onnx");
    show("small.onnx");
    sx::read_onnx("none.onnx");
  } catch (const sx::Error& e) {
    std::printf("error (%s): %s\n", std::string(sx::to_string(e.code())).c_str(), e.message().c_str());
  }
  return 0;
}
