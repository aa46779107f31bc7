// Keeps what a file says about where nodes come from, for the nodes that passes make of them.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {

// Files say it in the metadata of nodes (inspect/node_origin.h), which goes with a node that is replaced. So
// replaced nodes get the same as provenance, which rules merge, and the writer writes for nodes without
// metadata of their own. Reading metadata takes longer than most rewrites, so nodes that no rule replaces are
// not read.
class KeptOrigins final : public Observer {
 public:
  // `all`: reads all nodes at once, for walks that replace nodes.
  KeptOrigins(Model& m, bool all);
  void firing(Model& m, const Firing& f) override;
  // Nodes that still have their metadata have nothing else to say: they are written as they were.
  void restore();

 private:
  void read(Node& n);

  Model& m_;
  std::unordered_set<uint32_t> given_;  // provenance
};

}  // namespace sardonyx
