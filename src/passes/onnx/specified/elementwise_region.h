// Elementwise nodes that hang together, and what stands around them: what the passes share that move a Transpose or a Reshape from
// the border of such a region to nowhere.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "rewrite/pass.h"

namespace sardonyx::onnx {

// The permutation of a Transpose: a missing `perm` reverses the axes. Nullopt when it is not known, or does not fit the operand.
std::optional<std::vector<int64_t>> permutation(const Node& transpose);
std::vector<int64_t> inverse_of(std::span<const int64_t> perm);

// Nodes of one graph, joined by the values they hand to each other. Borders are operand slots, in no particular order.
struct Region {
  std::vector<Node*> members;
  std::vector<Use*> entries;  // of members: what comes from outside
  std::vector<Use*> exits;    // of others: what reads a member's result; results of the graph and readers in bodies too
};

// Finds each region once, in time linear in the graph.
class RegionFinder {
 public:
  using Admits = bool (*)(const Node&);
  RegionFinder(const Model& m, Admits admits) : admits_(admits), number_(m, 0) {}

  // An admitted node with one result of known rank that has more than one element, as far as one knows.
  bool is_member(const Node* n) const;
  // The region around a member, valid until the next call; null when it was handed out before.
  const Region* around(Node& member);
  // Whether n is one of the region's members.
  bool holds(const Region& region, const Node* n);

 private:
  Admits admits_;
  Region region_;
  NodeMap<uint32_t> number_;  // of a member's region, from 1
  uint32_t regions_ = 0;
};

// Elementwise nodes that broadcast as NumPy does, or not at all: any rearrangement of elements may pass through them.
bool is_elementwise(const Node& n);
// One element in at most `rank` dims: broadcasts against anything of that rank without changing its shape.
bool is_one_element(const Value& v, size_t rank);
// Whether the operand has a say in the shape of the result: the second of CastLike has not.
bool shapes_result(const Use& operand);

// Takes the frame of a region away: entries that read a node of operator `frame` read its operand instead, readers of the frames
// at the exits read the member. dims_of says what a member's dims are then.
void unframe(const Region& region, std::string_view frame, PassContext& context,
             const std::function<std::vector<Dim>(const Type&)>& dims_of);

}  // namespace sardonyx::onnx
