// The only code that links and unlinks uses.
#pragma once

#include "sardonyx/ir.h"

namespace sardonyx {

struct UseList {
  static void link(Use& u, Value* v) {
    u.value = v;
    if (v == nullptr) return;
    u.next = v->uses_;
    u.link = &v->uses_;
    if (u.next != nullptr) u.next->link = &u.next;
    v->uses_ = &u;
  }
  static void unlink(Use& u) {
    if (u.value == nullptr) return;
    *u.link = u.next;
    if (u.next != nullptr) u.next->link = u.link;
    u.value = nullptr;
    u.next = nullptr;
    u.link = nullptr;
  }
  // Moves all uses of `from` to `to`, in time linear in their number.
  static void move_all(Value& from, Value& to) {
    if (&from == &to || from.uses_ == nullptr) return;
    Use* last = nullptr;
    for (Use* u = from.uses_; u != nullptr; u = u->next) {
      u->value = &to;
      last = u;
    }
    last->next = to.uses_;
    if (to.uses_ != nullptr) to.uses_->link = &last->next;
    to.uses_ = from.uses_;
    to.uses_->link = &to.uses_;
    from.uses_ = nullptr;
  }
};

}  // namespace sardonyx
