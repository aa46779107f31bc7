// NumPy's array files: .npy and uncompressed .npz.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sardonyx/tensor.h"

namespace sardonyx {

// An array file says less than we know: NumPy writes bfloat16, the 8-bit floats and integers below 8 bits as raw bytes ("V2", "V1").
// `expected`, where given, says what such bytes are; other element types stay as the file has them. Arrays refer to the mapped file
// where they can. Throws kIo, kInvalidModel (damaged), kUnsupported (compressed, pickled, big-endian, structured).
TensorPtr read_npy(const std::filesystem::path& path, std::optional<DType> expected = {});

using NamedTensors = std::vector<std::pair<std::string, TensorPtr>>;
// `expected` is asked for each name.
NamedTensors read_npz(const std::filesystem::path& path,
                      const std::function<std::optional<DType>(const std::string& name)>& expected = {});

// Throws kIo, and kUnsupported for elements that NumPy has no bytes for.
void write_npy(const std::filesystem::path& path, const Tensor& t);
void write_npz(const std::filesystem::path& path, const NamedTensors& tensors);

}  // namespace sardonyx
