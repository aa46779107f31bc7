// Keeps what a file says about where nodes come from, for the nodes that passes make of them.
#pragma once

#include <cstdint>
#include <unordered_set>

#include "rewrite/origin_reader.h"

namespace sardonyx {

// Files say it in the metadata of nodes (driver/node_origin.h), which goes with a node that is replaced. So replaced nodes get the
// same as provenance, which rules merge, and the writer writes for nodes without metadata of their own.
class KeptOrigins final : public OriginReader {
 public:
  // `all`: reads all nodes at once, for walks that replace nodes.
  KeptOrigins(Model& m, bool all);
  void read(Node& n) override;
  // Nodes that still have their metadata have nothing else to say: they are written as they were.
  void restore();

 private:
  Model& m_;
  std::unordered_set<uint32_t> given_;  // provenance
};

}  // namespace sardonyx
