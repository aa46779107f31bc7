#include "commands.h"

#include <fmt/format.h>

#include <cstdio>

#include "sardonyx/infer.h"
#include "sardonyx/io.h"

namespace sardonyx::tools {

void show_error(const Error& e) { fmt::print(stderr, "error: {}\n", e.what()); }
void show_error(const std::exception& e) { fmt::print(stderr, "error: {}\n", e.what()); }

int check(const FileArgs& files) {
  const auto model = read_onnx(files.input, {.map = !files.no_mmap});
  ValueFacts facts;
  const auto found = infer_model(*model, facts, /*tolerant=*/true);
  for (const std::string& message : found) fmt::print("warning: {}\n", message);
  if (found.empty()) {
    fmt::print("{}: {} nodes, no faults\n", files.input, model->num_nodes());
    return 0;
  }
  fmt::print("{}: {} of {} nodes are ill-typed\n", files.input, found.size(), model->num_nodes());
  return 1;
}

int optimize(const FileArgs& files, const OptimizeArgs& args) {
  if (args.passes != "none") {
    throw Error(ErrorCode::kUnsupported, fmt::format("there is no pass or preset '{}' yet", args.passes),
                {"help: --passes none reads and writes the model as it is"});
  }
  const auto model = read_onnx(files.input, {.map = !files.no_mmap});
  WriteOptions options;
  if (args.external) options.external = WriteOptions::External::kAlways;
  options.data_file = args.data_file;
  options.external_threshold = args.threshold;
  options.max_data_file_bytes = args.max_data_file;
  options.inferred_types = args.declare_types;
  if (args.declare_types) {
    ValueFacts facts;
    for (const std::string& message : infer_model(*model, facts, /*tolerant=*/true)) fmt::print(stderr, "warning: {}\n", message);
  }
  write_onnx(*model, args.output, options);
  return 0;
}

}  // namespace sardonyx::tools
