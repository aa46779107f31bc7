// The order of a graph's nodes: short blocks of pointers in a doubly linked list.
#pragma once

#include <cstdint>

#include "sardonyx/ir.h"

namespace sardonyx {

// Walking reads blocks front to back, which is several times faster than following links from node to node once a graph was
// thinned. Erased nodes keep their slot until Model::compact(), so that a walk can go on from them; detached ones leave at once.
struct OrderBlock {
  static constexpr uint32_t kSlots = 14;  // 136 bytes with the header

  OrderBlock* prev = nullptr;
  OrderBlock* next = nullptr;
  uint32_t count = 0;
  Node* slots[kSlots] = {};

  uint32_t find(const Node* n) const {
    // As it was read, or compacted: nodes of a block have ids one after the other.
    uint32_t i = n->id() - slots[0]->id();
    if (i < kSlots && slots[i] == n) return i;
    i = 0;
    while (slots[i] != n) ++i;
    return i;
  }
};

}  // namespace sardonyx
