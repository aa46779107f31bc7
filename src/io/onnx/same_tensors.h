// Finds equal tensors while reading as little as possible.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "sardonyx/tensor.h"
#include "support/files/mapped_file.h"

namespace sardonyx {

// Maps each of `tensors` to the first one with equal dtype, shape and bytes, if that is not itself. A tensor
// with a unique shape is not read; others are sampled at three positions, and read whole only if the samples
// agree. Then releases the pages of `files`, which hold some of the bytes.
std::unordered_map<const Tensor*, const Tensor*> find_same(std::span<const Tensor* const> tensors,
                                                           std::span<const std::shared_ptr<const MappedFile>> files);

}  // namespace sardonyx
