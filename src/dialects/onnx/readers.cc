#include "dialects/onnx/readers.h"

#include <algorithm>
#include <numeric>

namespace sardonyx::onnx::read {
namespace {

std::optional<Ints> in_order(std::optional<Ints> axes) {
  if (!axes) return std::nullopt;
  std::ranges::sort(*axes);
  return std::ranges::adjacent_find(*axes) == axes->end() ? axes : std::nullopt;
}

Ints all_axes(size_t rank) {
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

std::optional<size_t> OpReader::axis_in(std::string_view name, std::optional<size_t> rank) const {
  const auto axis = int_in(name);
  const auto at = axis ? from_front(*axis, rank) : std::nullopt;
  return at ? std::optional(static_cast<size_t>(*at)) : std::nullopt;
}

std::optional<Ints> OpReader::axes_at(size_t operand, std::optional<size_t> rank) const {
  return from_front(known_ints(node_->input(operand), facts_), rank);
}

std::optional<Ints> OpReader::given_axes(std::optional<size_t> rank) const {
  // Versions with an axes operand ignore an axes attribute.
  auto axes = node_->op().max_inputs == 1 ? from_front(ints_in("axes"), rank) : axes_at(1, rank);
  return axes && !axes->empty() ? in_order(std::move(axes)) : std::nullopt;
}

std::optional<bool> OpReader::flag_in(std::string_view name) const {
  const auto v = int_in(name);
  return v ? std::optional(*v != 0) : std::nullopt;
}

std::optional<size_t> OpReader::rank_at(size_t operand) const {
  const Value* v = node_->input(operand);
  return v != nullptr && v->ranked() ? std::optional(v->type()->rank()) : std::nullopt;
}

std::optional<size_t> OpReader::rank_of_result() const {
  const Value* v = node_->num_results() > 0 ? node_->result(0) : nullptr;
  return v != nullptr && v->ranked() ? std::optional(v->type()->rank()) : std::nullopt;
}

std::optional<Ints> OpReader::perm() const {
  const auto rank = rank_at(0);
  const Attr* given = node_->attr("perm");
  if (given == nullptr) {
    if (!rank) return std::nullopt;
    Ints reversed = all_axes(*rank);
    std::ranges::reverse(reversed);
    return reversed;
  }
  const auto* perm = given->get<Attr::Ints>();
  if (perm == nullptr || (rank && *rank != perm->size()) || !is_permutation(*perm)) return std::nullopt;
  return *perm;
}

std::optional<Ints> OpReader::reduced_axes() const {
  const auto rank = rank_at(0);
  const bool is_attribute = node_->op().max_inputs == 1;
  if (!rank) return std::nullopt;
  if (is_attribute ? node_->attr("axes") != nullptr : node_->input(1) != nullptr) {
    auto axes = is_attribute ? from_front(ints_in("axes"), rank) : axes_at(1, rank);
    if (!axes || !axes->empty()) return in_order(std::move(axes));
  }
  const bool may_reduce_none = node_->attr("noop_with_empty_axes") != nullptr && flag_in("noop_with_empty_axes") != false;
  return may_reduce_none ? std::nullopt : std::optional(all_axes(*rank));
}

}  // namespace sardonyx::onnx::read
