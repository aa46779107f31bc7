// Copies bytes between open files, inside the kernel where that is faster.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "sardonyx/tensor.h"

namespace sardonyx {

// Copies `size` bytes from `from` to descriptor `to`, at byte `to_offset`, or at the descriptor's position
// without one (for pipes). Memory use is bounded. Holes of a sparse file stay holes if nothing was written at
// `to_offset` before. Throws Error (kIo), also if the source is too short. Errors call the destination
// `name`: a file that is written under its name only when it is complete has another one, or none.
void copy_range(FileRange from, uint64_t size, int to, std::optional<uint64_t> to_offset, const std::filesystem::path& name);

// Whether the open file is on ext4, which shares no blocks between files: copying writes every byte.
bool is_on_ext4(int fd);

// Whether the open file has fewer blocks than its size needs, so it may have holes.
bool has_holes(int fd);

// Fills `to`. Throws Error (kIo), also if the source is too short.
void read_range(FileRange from, std::span<std::byte> to);

}  // namespace sardonyx
