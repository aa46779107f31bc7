// sardonyx convert: an ONNX model as a Core ML package.
#pragma once

namespace CLI {
class App;
}

namespace sardonyx::tools {

// Adds the subcommand; it sets *status when it ran.
void add_convert(CLI::App& to, int* status);

}  // namespace sardonyx::tools
