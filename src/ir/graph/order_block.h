// OrderBlock: graphs keep the order of their nodes in short blocks of pointers, linked as a doubly linked
// list.
#pragma once

#include <cstdint>

#include "sardonyx/ir.h"

namespace sardonyx {

// Walking blocks front to back is several times faster than following links between nodes once many nodes
// were erased. Erased nodes keep their slot until Model::compact(), so that a walk can continue from them;
// detached nodes leave at once.
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
