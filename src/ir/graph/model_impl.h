// The private state of a Model.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph/file_record.h"
#include "sardonyx/ir.h"
#include "support/arena.h"

namespace sardonyx {

// A value with its own payload: an initializer.
class ConstantValue : public Value {
 public:
  TensorPtr payload;
};

struct Model::Impl {
  Arena arena;
  std::deque<NodeExtra> extras;
  std::deque<std::unique_ptr<Graph>> graphs;
  std::deque<ConstantValue> constants;
  std::deque<Attrs> attr_sets;
  std::unordered_multimap<uint64_t, const Attrs*> attrs_by_hash;
  std::unordered_multimap<uint64_t, const Attrs*> attrs_by_wire;
  std::deque<Op> opaque_ops;
  std::deque<std::vector<Slot>> opaque_slots;
  std::unordered_map<std::string, const Op*> opaque_by_key;
  std::vector<uint32_t> op_counts;  // by Op::id
  std::deque<Provenance> provenance{Provenance{}};
  std::unordered_multimap<uint64_t, uint32_t> provenance_by_hash;
  std::unique_ptr<FileRecord> file_record;  // null: the model was not read from a file
  size_t linked_nodes = 0;
  size_t detached_nodes = 0;
  uint64_t op_set = 0;        // see ir/graph/graph_summary.h
  uint64_t body_changes = 0;  // changes to bodies and to the order of nodes with bodies; 0: there never were any
  std::unordered_map<const Graph*, std::pair<uint64_t, std::vector<Node*>>> with_bodies;  // cached at that number of changes

  void count_op(const Op& op, int by) {
    if (op.id >= op_counts.size()) op_counts.resize(op.id + 1, 0);
    uint32_t& count = op_counts[op.id];
    const uint32_t before = count;
    count += static_cast<uint32_t>(by);
    if ((before == 0) != (count == 0)) ++op_set;
  }
  void note_bodies(const Node& n) {
    if (!n.bodies().empty()) ++body_changes;
  }
};

}  // namespace sardonyx
