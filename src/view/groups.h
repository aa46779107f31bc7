// How a page folds the nodes of a picture: by module path, by repeated structure, and in parts of bounded
// size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/picture.h"

namespace sardonyx::view {

enum class GroupKind : uint8_t {
  kFunction,  // the graph of a function
  kBody,      // a nested graph of a node
  kModule,    // nodes with one module path
  kRepeat,    // copies that follow each other: the same operators and types in the same order
  kCopy,      // one of them
  kPart,      // neighbors, where a group would have too many children
};

struct Group {
  GroupKind kind = GroupKind::kPart;
  std::string label;
  uint32_t first = 0, end = 0;  // rows
  uint32_t copies = 0;          // kRepeat: how many
  uint32_t block = 0;           // kFunction, kBody: which
};

// The rows of a page: each node is followed by the nodes of its bodies, and each group is a range of rows.
// Groups are in preorder, so that a group is followed by those inside it.
struct Rows {
  std::vector<uint32_t> node_of;  // by row
  std::vector<Group> groups;
};

// No group has more children than this.
constexpr size_t kMostChildren = 48;

Rows fold(const Picture& p);

}  // namespace sardonyx::view
