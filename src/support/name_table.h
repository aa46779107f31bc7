// NameTable: the hash table that resolves names in a file.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "sardonyx/name.h"
#include "support/system/huge_pages.h"

namespace sardonyx {

// Open addressing with 16 bytes per slot: the object, and a pointer to its name with 16 bits of the hash in
// the pointer's unused upper bits. A look-up costs two cache misses, for the slot and for the name; without
// this layout it took nearly half of the time to read a large file. Keys are not copied: their bytes must
// outlive the table.
template <class T>
class NameTable {
 public:
  explicit NameTable(size_t expected = 0) { allocate(expected + expected / 2); }

  // The object with that name, or nullptr.
  T* find(std::string_view name) const { return find(hash(name), name); }
  T* find(uint64_t h, std::string_view name) const {
    for (size_t i = h & mask_;; i = (i + 1) & mask_) {
      const Slot& s = slots_[i];
      if (s.thing == nullptr) return nullptr;
      if (s.tag() == h >> 48 && s.name() == name) return s.thing;
    }
  }

  // Adds (name, thing). If the name exists already, returns its object and changes nothing.
  T* insert(Name name, T* thing) { return insert(hash(name.view()), name, thing); }
  T* insert(uint64_t h, Name name, T* thing) {
    if (size_ * 4 >= (mask_ + 1) * 3) grow();
    const std::string_view text = name.view();
    size_t i = h & mask_;
    for (; slots_[i].thing != nullptr; i = (i + 1) & mask_) {
      if (slots_[i].tag() == h >> 48 && slots_[i].name() == text) return slots_[i].thing;
    }
    slots_[i] = Slot{(h & kTagMask) | reinterpret_cast<uint64_t>(name.data()), thing};
    ++size_;
    return nullptr;
  }

  // For callers that know a name some time before they look it up: its hash, and a prefetch.
  void prefetch(uint64_t h) const { __builtin_prefetch(&slots_[h & mask_], 1); }
  // Seeded per process, so that no file can be crafted to collide.
  static uint64_t hash(std::string_view s) {
    static const uint64_t seed = reinterpret_cast<uint64_t>(std::malloc) ^ reinterpret_cast<uint64_t>(&seed_anchor);
    return XXH3_64bits_withSeed(s.data(), s.size(), seed);
  }

  size_t size() const { return size_; }

 private:
  static constexpr uint64_t kTagMask = ~uint64_t{0} << 48;  // user addresses have 48 bits

  struct Slot {
    uint64_t word = 0;
    T* thing = nullptr;
    uint64_t tag() const { return word >> 48; }
    std::string_view name() const { return Name(reinterpret_cast<const uint8_t*>(word & ~kTagMask)).view(); }
  };
  struct Free {
    void operator()(Slot* p) const { std::free(p); }
  };

  static inline char seed_anchor = 0;

  void allocate(size_t at_least) {
    size_t n = 8;
    while (n < at_least) n *= 2;
    // calloc: pages that are never touched cost nothing.
    slots_.reset(static_cast<Slot*>(std::calloc(n, sizeof(Slot))));
    if (slots_ == nullptr) throw std::bad_alloc();
    use_huge_pages(slots_.get(), n * sizeof(Slot));
    mask_ = n - 1;
  }
  void grow() {
    const std::unique_ptr<Slot[], Free> old = std::move(slots_);
    const size_t n = mask_ + 1;
    allocate(2 * n);
    for (size_t k = 0; k < n; ++k) {
      if (old[k].thing == nullptr) continue;
      size_t i = hash(old[k].name()) & mask_;
      while (slots_[i].thing != nullptr) i = (i + 1) & mask_;
      slots_[i] = old[k];
    }
  }

  std::unique_ptr<Slot[], Free> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

}  // namespace sardonyx
