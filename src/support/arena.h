// Arena: a bump allocator that frees everything at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "support/system/huge_pages.h"

namespace sardonyx {

// Allocations are not freed one by one, and destructors do not run. Chunks grow from 16 KiB to 8 MiB.
class Arena {
 public:
  void* allocate(size_t bytes, size_t align) {
    size_t start = (used_ + align - 1) & ~(align - 1);
    if (start + bytes > capacity_) {
      grow(bytes + align);
      start = (used_ + align - 1) & ~(align - 1);
    }
    used_ = start + bytes;
    return current_ + start;
  }

 private:
  void grow(size_t at_least) {
    capacity_ = std::max(at_least, next_chunk_);
    next_chunk_ = std::min<size_t>(next_chunk_ * 2, size_t{1} << 23);
    chunks_.push_back(std::unique_ptr<std::byte[]>(new std::byte[capacity_]));
    current_ = chunks_.back().get();
    use_huge_pages(current_, capacity_);
    // Offsets are aligned relative to the chunk's start, which operator new aligns to 16.
    used_ = 0;
  }

  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::byte* current_ = nullptr;
  size_t used_ = 0;
  size_t capacity_ = 0;
  size_t next_chunk_ = size_t{1} << 14;
};

}  // namespace sardonyx
