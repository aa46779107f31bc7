// Reads and writes NumPy's array files: .npy and uncompressed .npz.
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

// NumPy stores bfloat16, the 8-bit floats and integers below 8 bits as raw bytes ("V2", "V1"). `expected`, if
// given, is the dtype of such bytes; other dtypes come from the file. Arrays refer to the mapped file if
// possible. Throws kIo, kInvalidModel (damaged), kUnsupported (compressed, pickled, big-endian, structured).
TensorPtr read_npy(const std::filesystem::path& path, std::optional<DType> expected = {});

// `expected` is called with each name.
NamedTensors read_npz(const std::filesystem::path& path,
                      const std::function<std::optional<DType>(const std::string& name)>& expected = {});

// Throws kIo, and kUnsupported for dtypes without a NumPy representation.
void write_npy(const std::filesystem::path& path, const Tensor& t);
void write_npz(const std::filesystem::path& path, const NamedTensors& tensors);

}  // namespace sardonyx
