// Bytes from one open file to another, without passing through this process where that is faster.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sardonyx/tensor.h"

namespace sardonyx {

// Copies `size` bytes from `from` to descriptor `to`, at byte `to_offset` or, without one, at the descriptor's position
// (for pipes). Memory in use is bounded whatever the size. Holes of a sparse file become holes where nothing was written at `to_offset` yet.
// Throws Error (kIo), also when the source is too short.
void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset);

// Whether the open file lies on ext4, which shares no blocks between files: to copy there is to write every byte.
bool is_on_ext4(int fd);

// Whether the open file takes fewer blocks than its size asks for: it may have holes.
bool has_holes(int fd);

// Reads as many bytes as `to` has. Throws Error (kIo), also when the source is too short.
void read_range(FileRange from, std::span<std::byte> to);

}  // namespace sardonyx
