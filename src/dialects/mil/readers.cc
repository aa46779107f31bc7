#include "dialects/mil/readers.h"

#include "ir/infer/known.h"

namespace sardonyx::mil {

using Ints = std::vector<int64_t>;

OpReader::OpReader(Node& n, ValueFacts& facts, Family family) : OpReader(n, facts) {
  SX_CHECK(is(n.op(), family), "the reader is for another op");
}

Value* OpReader::value_in(std::string_view slot) const {
  const size_t i = rules::operand(context_, slot);
  return i == rules::kNoSlot ? nullptr : node().input(i);
}

std::vector<Value*> OpReader::list_in(std::string_view slot) const {
  const rules::Range r = rules::list(context_, slot);
  std::vector<Value*> values;
  for (size_t i = r.first; i < r.last; ++i) values.push_back(node().input(i));
  return values;
}

std::optional<size_t> OpReader::axis_in(std::string_view slot, std::optional<size_t> rank) const {
  const auto axis = int_in(slot);
  const auto at = axis ? from_front(*axis, rank) : std::nullopt;
  return at ? std::optional(static_cast<size_t>(*at)) : std::nullopt;
}

std::optional<Ints> OpReader::axes_in(std::string_view slot, std::optional<size_t> rank) const {
  return from_front(ints_in(slot), rank);
}

std::optional<size_t> OpReader::rank_in(std::string_view slot) const {
  const Value* v = value_in(slot);
  return v != nullptr && v->ranked() ? std::optional(v->type()->rank()) : std::nullopt;
}

std::optional<size_t> OpReader::rank_of_list(std::string_view slot) const {
  const rules::Range r = rules::list(context_, slot);
  const Type* t = r.first < r.last ? context_.ranked(r.first) : nullptr;
  return t != nullptr ? std::optional(t->rank()) : std::nullopt;
}

std::optional<Ints> OpReader::perm_in(std::string_view slot) const {
  auto perm = ints_in(slot);
  const auto rank = perm ? std::optional(perm->size()) : std::nullopt;
  perm = from_front(std::move(perm), rank);
  if (perm && !is_permutation(*perm)) return std::nullopt;
  return perm;
}

std::optional<Ints> OpReader::added_axes_in(std::string_view slot, std::string_view of) const {
  auto axes = ints_in(slot);
  const auto rank = rank_in(of);
  const auto added = axes && rank ? std::optional(*rank + axes->size()) : std::nullopt;
  return from_front(std::move(axes), added);
}

std::optional<Ints> OpReader::ints_in(std::string_view slot, std::optional<size_t> count, int64_t otherwise) const {
  auto list = rules::given(context_, slot) ? ints_in(slot) : count ? std::optional(Ints(*count, otherwise)) : std::nullopt;
  return list && (!count || list->size() == *count) ? list : std::nullopt;
}

std::optional<std::vector<bool>> OpReader::flags_in(std::string_view slot, std::optional<size_t> count) const {
  const auto list = ints_in(slot, count, 0);
  return list ? std::optional(std::vector<bool>(list->begin(), list->end())) : std::nullopt;
}

std::optional<size_t> OpReader::spatial(size_t each) const {
  auto rank = rank_in("x");
  if (!rank) rank = rank_in("weight");
  return rank && *rank >= 2 ? std::optional((*rank - 2) * each) : std::nullopt;
}

}  // namespace sardonyx::mil
