// An object that code far below finds while it lives: the innermost of its kind on this thread.
#pragma once

#include <utility>

namespace sardonyx {

//   class ChangeLog : public Current<ChangeLog> { ... };     ChangeLog log;   ... ChangeLog::current() ...
template <class Kind>
class Current {
 public:
  Current& operator=(const Current&) = delete;

  // Of this thread, the innermost; null when there is none.
  static Kind* current() { return current_; }

 private:
  friend Kind;
  Current() : outer_(std::exchange(current_, static_cast<Kind*>(this))) {}
  Current(const Current&) = delete;
  ~Current() { current_ = outer_; }

  Kind* outer_;
  static inline thread_local Kind* current_ = nullptr;
};

}  // namespace sardonyx
