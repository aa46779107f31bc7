// Where a node comes from: the source line, the module, the lowering and the rules that made it. Read from
// the provenance of a model in memory, and from the metadata that Sardonyx, jax2onnx and PyTorch write into
// files.
#pragma once

#include <string>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx {

struct SourceLine {
  std::string file;      // "model.py"; may be empty
  std::string function;  // "forward"; may be empty
  int line = 0;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};
// "model.py:41 (forward)"; "forward:41" without a file.
std::string to_string(const SourceLine& s);

struct NodeOrigin {
  std::vector<SourceLine> lines;       // the first is where the node began; merged nodes have several
  std::string scope;                   // module path: "Model/encoder/layers.3/attn"
  std::vector<std::string> lowerings;  // "lower_dot_general"
  std::vector<std::string> rules;      // passes and rules that made the node or changed it
  Metadata others;                     // metadata that is none of these
  bool empty() const;
  friend bool operator==(const NodeOrigin&, const NodeOrigin&) = default;
};
NodeOrigin origin_of(const Node& n);

}  // namespace sardonyx
