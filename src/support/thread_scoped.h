// ThreadScoped: makes an object available to code far below its owner, as the innermost of its kind on this
// thread. For tests: what users ask for is passed down.
#pragma once

#include <utility>

namespace sardonyx {

//   class ShuffledWorklist : public ThreadScoped<ShuffledWorklist> { ... };
//   ShuffledWorklist shuffled(seed);
//   ... ShuffledWorklist::innermost() ...
template <class Kind>
class ThreadScoped {
 public:
  ThreadScoped& operator=(const ThreadScoped&) = delete;

  // Null if there is none.
  static Kind* innermost() { return innermost_; }

 private:
  friend Kind;
  ThreadScoped() : outer_(std::exchange(innermost_, static_cast<Kind*>(this))) {}
  ThreadScoped(const ThreadScoped&) = delete;
  ~ThreadScoped() { innermost_ = outer_; }

  Kind* outer_;
  static inline thread_local Kind* innermost_ = nullptr;
};

}  // namespace sardonyx
