// Keeps what a file says about where nodes come from, for the nodes that passes make of them.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "sardonyx/ir.h"
#include "sardonyx/observe.h"

namespace sardonyx {

// A file has it in the metadata of its nodes (inspect/node_origin.h), which is lost when a rule replaces the
// node. So it is copied to the provenance of each node that is about to be replaced: rules merge provenance,
// and the writer writes it for nodes without metadata of their own. Reading metadata takes longer than most
// rewrites, so nodes that no rule replaces are not read.
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
