// What a page shows of one model, or of one model at several steps: the states between passes, or two models
// that are compared. Nodes keep their place from step to step. Names are the models', which must live as
// long.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sardonyx/ir.h"

namespace sardonyx::view {

// Texts, each once.
class Texts {
 public:
  uint32_t operator()(std::string_view text);
  const std::vector<std::string>& all() const { return all_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> index_;
  std::vector<std::string> all_;
};

// An operand: a value (>= 0), none (-1), or the constant -2 - r.
using Ref = int32_t;
constexpr Ref kAbsent = -1;
constexpr Ref ref_of_constant(size_t index) { return -2 - static_cast<Ref>(index); }

constexpr uint32_t kNever = UINT32_MAX;

struct PictureNode {
  // The state at the step that made it; later ones are in Picture::edits.
  uint32_t op = 0, attrs = 0;
  std::vector<Ref> inputs;
  std::string_view name;
  uint32_t origin = 0, path = 0;             // origins, texts
  uint32_t first_value = 0, num_values = 0;  // its results
  std::vector<uint32_t> bodies;              // blocks
  std::optional<uint32_t> calls;             // the block of the function that it calls
  uint32_t block = 0;
  uint32_t born = 0, died = kNever;  // alive at the steps [born, died)
};

struct PictureValue {
  std::string_view name;
  uint32_t type = 0;
  int64_t node = -1;   // the node that makes it, or -1: an input
  uint32_t block = 0;  // of inputs: their block
};

struct PictureConstant {
  std::string_view name;
  uint32_t type = 0;
  uint64_t bytes = 0;
  std::string text;  // the elements of a small one, the range of a large one
  std::vector<uint32_t> histogram;
};

// A function or a nested graph.
struct PictureBlock {
  uint32_t label = 0;
  std::optional<uint32_t> owner;                  // the node whose body it is
  std::vector<uint32_t> nodes;                    // in the order of all steps merged
  std::vector<uint32_t> inputs;                   // values
  std::vector<std::pair<uint32_t, Ref>> outputs;  // of the last step: name, operand
};

// A node's operator, attributes, operands or result types changed at a step.
struct PictureEdit {
  uint32_t step = 0, node = 0;
  uint32_t op = 0, attrs = 0, origin = 0;
  std::vector<Ref> inputs;
  std::vector<uint32_t> types;
  int64_t before = -1;  // the earlier edit of the node
};

struct PictureStep {
  std::string label;
  size_t nodes = 0, added = 0, removed = 0, changed = 0;
  double seconds = 0;
};

class Picture {
 public:
  // The node that stands for `n` in an earlier step.
  using Match = std::function<std::optional<uint32_t>(const Node& n)>;

  Picture();
  // Adds the state of a model as the next step. `match` finds nodes of the step before; it is asked once for
  // each node. Without it, nodes are the same if they are the same objects.
  void add(const Model& m, std::string label, double seconds = 0, const Match& match = {});
  // Takes back the last step, which changed nothing that is shown.
  void drop_last_step();
  // The picture's node of a node of the last step.
  std::optional<uint32_t> find(const Node& n) const;
  template <class Visit>
  void each_of_last_step(const Visit& visit) const {
    for (const auto& [n, at] : last_nodes_) visit(*n, at);
    if (last_nodes_.empty()) {
      for (const auto& [n, at] : node_of_) visit(*n, at);
    }
  }

  std::vector<PictureNode> nodes;
  std::vector<PictureValue> values;
  std::vector<PictureConstant> constants;
  std::vector<PictureBlock> blocks;
  std::vector<PictureEdit> edits;
  std::vector<PictureStep> steps;
  Texts texts, types;
  std::vector<const Op*> ops;
  std::vector<std::vector<std::pair<std::string, std::string>>> attrs;    // names and values as text
  std::vector<std::vector<std::pair<std::string, std::string>>> origins;  // what is known, and the text
  std::vector<uint64_t> type_bytes;                                       // by type: of one value; 0 if sizes are open

 private:
  struct Current {
    int64_t edit = -1;       // the last one; -1: the node is as it was made
    uint32_t seen = 0;       // the last step that has it
    uint32_t next = kNever;  // in its block
  };
  friend class PictureStepReader;

  std::vector<Current> now_;                                          // by node
  std::vector<uint32_t> first_;                                       // by block: the first node
  std::vector<uint32_t> types_now_;                                   // by value
  mutable std::vector<std::pair<const Node*, uint32_t>> last_nodes_;  // of the last step, until they are looked up
  mutable std::unordered_map<const Node*, uint32_t> node_of_;
  std::unordered_map<std::string, uint32_t> constant_of_, op_of_, attrs_of_, origin_of_;
  std::unordered_map<std::string, uint32_t> function_blocks_;
};

}  // namespace sardonyx::view
