// Tensors of one content, found without reading more of them than it takes.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "sardonyx/tensor.h"
#include "support/mapped_file.h"

namespace sardonyx {

// For each of `tensors` that has the dtype, shape and bytes of one before it: the first such. A tensor that no other has the shape of is not
// looked at, others first at three places; only those that agree there are read whole. Pages of `files`, which hold some of the bytes, are
// given back then.
std::unordered_map<const Tensor*, const Tensor*> find_same(std::span<const Tensor* const> tensors,
                                                           std::span<const std::shared_ptr<const MappedFile>> files);

}  // namespace sardonyx
