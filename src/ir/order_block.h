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

  void put(uint32_t slot, Node* n) {
    slots[slot] = n;
    n->block_ = this;
    n->slot_ = static_cast<uint16_t>(slot);
  }
};

}  // namespace sardonyx
