// Huge pages for large tables: fewer page faults, fewer TLB misses.
#pragma once
#if __has_include(<sys/mman.h>)  // not on Windows
#include <sys/mman.h>
#endif
#include <cstddef>
#include <cstdint>

namespace sardonyx {

// A hint for memory that is allocated but untouched; the system may ignore it.
inline void use_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHuge = uintptr_t{1} << 21;
  const auto first = (reinterpret_cast<uintptr_t>(memory) + kHuge - 1) & ~(kHuge - 1);
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) & ~(kHuge - 1);
  if (first < end) (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace sardonyx
