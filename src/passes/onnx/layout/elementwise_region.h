// Connected regions of elementwise nodes and their boundary. Shared by the passes that remove Transposes or
// Reshapes around such a region.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dialects/onnx/readers.h"
#include "rewrite/pass.h"

namespace sardonyx::onnx {

std::vector<int64_t> inverse_of(std::span<const int64_t> perm);

// Elementwise nodes of one graph that are connected through their values. Entries and exits are in no
// particular order.
struct Region {
  std::vector<Node*> members;
  std::vector<Use*> entries;  // operands of members that come from outside
  std::vector<Use*> exits;    // uses of members' results outside, including results of the graph and uses in bodies
};

// Finds each region once, in time linear in the graph.
class RegionFinder {
 public:
  using Admits = bool (*)(const Node&);
  RegionFinder(const Model& m, Admits admits) : admits_(admits), number_(m, 0) {}

  // Whether `n` is admitted and its result has a known rank and possibly more than one element.
  bool is_member(const Node* n) const;
  // The region around a member, valid until the next call; null if it was returned before.
  const Region* around(Node& member);
  // Whether n is one of the region's members.
  bool holds(const Region& region, const Node* n);

 private:
  Admits admits_;
  Region region_;
  NodeMap<uint32_t> number_;  // the number of a member's region, from 1
  uint32_t regions_ = 0;
};

// Whether the node is elementwise with NumPy broadcasting or none. Then any rearrangement of elements may
// pass through.
bool is_elementwise(const Node& n);
// Whether v has one element in at most `rank` dims: it broadcasts to that rank without changing the shape.
bool is_one_element(const Value& v, size_t rank);
// Whether the operand affects the shape of the result. The second operand of CastLike does not.
bool shapes_result(const Use& operand);

// Removes the frame of a region. Entries produced by operator `frame` use its operand instead, and users of
// the frames at the exits use the member. dims_of maps the dims of a member to the new ones.
void unframe(const Region& region, std::string_view frame, PassContext& context,
             const std::function<std::vector<Dim>(const Type&)>& dims_of);

}  // namespace sardonyx::onnx
