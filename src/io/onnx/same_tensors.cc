#include "io/onnx/same_tensors.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <vector>

namespace sardonyx {
namespace {

// A hash of some elements at the beginning, in the middle and at the end.
uint64_t sample(const Tensor& t) {
  constexpr int64_t kElements = 16;
  const auto width = static_cast<size_t>(bit_width(t.dtype())) / 8;
  const int64_t count = std::min(t.size(), kElements);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * width * 3);
  size_t at = 0;
  for (const int64_t first : {int64_t{0}, (t.size() - count) / 2, t.size() - count}) {
    t.read(first, std::span(bytes).subspan(at, static_cast<size_t>(count) * width));
    at += static_cast<size_t>(count) * width;
  }
  return XXH3_64bits(bytes.data(), bytes.size());
}

void forget(const Tensor& t, std::span<const std::shared_ptr<const MappedFile>> files) {
  if (!t.file() || t.is_deferred() || t.is_splat()) return;
  const auto bytes = t.stored_bytes();
  for (const auto& f : files) {
    const auto all = f->bytes();
    if (bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size()) return f->forget(bytes);
  }
}

// Groups of two or more tensors with equal keys.
template <class Key, class KeyOf>
std::vector<std::vector<const Tensor*>> groups(std::span<const Tensor* const> tensors, const KeyOf& key_of) {
  std::map<Key, std::vector<const Tensor*>> by_key;
  for (const Tensor* t : tensors) by_key[key_of(*t)].push_back(t);
  std::vector<std::vector<const Tensor*>> shared;
  for (auto& [key, group] : by_key) {
    if (group.size() > 1) shared.push_back(std::move(group));
  }
  return shared;
}

}  // namespace

std::unordered_map<const Tensor*, const Tensor*> find_same(std::span<const Tensor* const> tensors,
                                                           std::span<const std::shared_ptr<const MappedFile>> files) {
  std::unordered_map<const Tensor*, const Tensor*> same;
  const auto type_of = [](const Tensor& t) {
    return std::pair(t.dtype(), std::vector<int64_t>(t.shape().begin(), t.shape().end()));
  };
  const auto whole = [&](const Tensor& t) {
    const uint64_t hash = t.hash();
    forget(t, files);
    return hash;
  };
  for (const auto& of_type : groups<std::pair<DType, std::vector<int64_t>>>(tensors, type_of)) {
    const bool pieces = std::ranges::all_of(of_type, [](const Tensor* t) { return t->reads_in_pieces(); });
    const auto similar = pieces ? groups<uint64_t>(of_type, sample) : std::vector<std::vector<const Tensor*>>{of_type};
    for (const auto& candidates : similar) {
      for (const auto& group : groups<uint64_t>(candidates, whole)) {
        for (size_t i = 1; i < group.size(); ++i) {
          if (!group[i]->equals(*group[0])) continue;
          same.emplace(group[i], group[0]);
          forget(*group[i], files);
          forget(*group[0], files);
        }
      }
    }
  }
  return same;
}

}  // namespace sardonyx
