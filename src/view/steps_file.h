// The steps of an optimization as a file, from which `view` makes a page without running the passes again.
#pragma once

#include <filesystem>
#include <string>

namespace sardonyx::view {

// A line `sardonyx steps 1 SIZE HASH` and then the picture as JSON (scene.h): SIZE bytes whose XXH3 is HASH,
// in hexadecimal. Throws kInvalidArgument unless the name ends in .sxt.
void check_steps_name(const std::filesystem::path& path);
void write_steps(const std::filesystem::path& path, const std::string& scene);

// The picture in such a file. Throws kIo; kInvalidModel if it is another file, is cut off or damaged;
// kUnsupported if a newer version of Sardonyx wrote it; kLimit beyond 1 GB.
std::string read_steps(const std::filesystem::path& path);

}  // namespace sardonyx::view
