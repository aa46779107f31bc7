// Sequences and optionals.
#include <fmt/format.h>

#include <algorithm>

#include "eval/kernel.h"

namespace sardonyx::eval {
namespace {

using Items = std::vector<EvalValue>;

// Checks a position in a sequence. `end` also allows the position after the last item.
size_t position(const Call& c, int64_t at, size_t size, bool end) {
  const auto n = static_cast<int64_t>(size);
  if (at < -n || at > (end ? n : n - 1)) c.fail(fmt::format("position {} is out of range for a sequence of {}", at, n));
  return static_cast<size_t>(at < 0 ? at + n : at);
}

// The items of operand i, to be changed in place when nobody else holds them, else copied.
std::shared_ptr<Items> items_to_change(Call& c, size_t i) {
  c.sequence(i);
  EvalValue v = c.take(i);
  if (const EvalOptional* o = v.optional()) v = EvalValue(*o->value);
  EvalSequence* s = v.sequence();
  if (s->items.use_count() == 1) return std::const_pointer_cast<Items>(s->items);
  return std::make_shared<Items>(*s->items);
}

}  // namespace

namespace kernels {

void SequenceEmpty(Call& c) { c.set(0, EvalValue::sequence({})); }

void SequenceConstruct(Call& c) {
  Items items;
  for (size_t i = 0; i < c.num_inputs(); ++i) items.push_back(c.take(i));
  c.set(0, EvalValue::sequence(std::move(items)));
}

void SequenceLength(Call& c) {
  const auto n = static_cast<int64_t>(c.sequence(0).size());
  c.set(0, c.of<int64_t>(DType::kI64, {}, {&n, 1}));
}

void SequenceAt(Call& c) {
  const Items& items = c.sequence(0);
  c.set(0, items[position(c, c.int_scalar(1), items.size(), false)]);
}

void SequenceInsert(Call& c) {
  std::optional<int64_t> at;
  if (c.has(2)) at = c.int_scalar(2);
  EvalValue item = c.value(1);
  const std::shared_ptr<Items> items = items_to_change(c, 0);
  const size_t place = at ? position(c, *at, items->size(), true) : items->size();
  items->insert(items->begin() + static_cast<std::ptrdiff_t>(place), std::move(item));
  c.set(0, EvalSequence{items});
}

void SequenceErase(Call& c) {
  std::optional<int64_t> at;
  if (c.has(1)) at = c.int_scalar(1);
  const std::shared_ptr<Items> items = items_to_change(c, 0);
  const size_t place = position(c, at.value_or(-1), items->size(), false);
  items->erase(items->begin() + static_cast<std::ptrdiff_t>(place));
  c.set(0, EvalSequence{items});
}

void SplitToSequence(Call& c) {
  const Array& x = c.in(0);
  const size_t axis = c.axis(c.int_attr("axis", 0), x.rank());
  const int64_t n = x.dim(axis);
  std::vector<int64_t> sizes;
  bool drop_axis = false;
  if (!c.has(1)) {
    sizes.assign(static_cast<size_t>(n), 1);
    drop_axis = c.int_attr("keepdims", 1) == 0;
  } else if (c.in(1).rank() == 0) {  // chunks of that size, the last one perhaps smaller
    const int64_t each = c.int_scalar(1);
    c.require(each > 0, "the size of a chunk must be positive");
    drop_axis = each == 1 && c.int_attr("keepdims", 1) == 0;  // as onnxruntime: the standard ignores keepdims here
    for (int64_t left = n; left > 0; left -= each) sizes.push_back(std::min(each, left));
  } else {
    sizes = c.ints(1);
    int64_t left = n;
    for (int64_t s : sizes) left = s < 0 || s > left ? -1 : left - s;
    if (left != 0) c.fail(fmt::format("an axis of size {} cannot be split into {}", n, show(sizes)));
  }
  Items items;
  int64_t at = 0;
  for (int64_t s : sizes) {
    std::vector<int64_t> shape(x.shape()), strides(x.strides());
    shape[axis] = s;
    const int64_t offset = at * strides[axis];
    if (drop_axis) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
      strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    items.emplace_back(x.view(std::move(shape), std::move(strides), offset));
    at += s;
  }
  c.set(0, EvalValue::sequence(std::move(items)));
}

void ConcatFromSequence(Call& c) {
  const Items& items = c.sequence(0);
  c.require(!items.empty(), "there is nothing to concatenate");
  const bool new_axis = c.int_attr("new_axis", 0) != 0;
  std::vector<Array> parts;
  for (const EvalValue& v : items) {
    if (v.array() == nullptr) c.fail(fmt::format("{} cannot be concatenated", describe(v)));
    parts.push_back(*v.array());
  }
  const size_t axis = c.axis(c.int_attr("axis"), parts[0].rank() + (new_axis ? 1 : 0));
  if (new_axis) {
    for (Array& p : parts) {
      std::vector<int64_t> shape(p.shape()), strides(p.strides());
      shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(std::min(axis, shape.size())), 1);
      strides.insert(strides.begin() + static_cast<std::ptrdiff_t>(std::min(axis, strides.size())), 0);
      p = p.view(std::move(shape), std::move(strides));
    }
  }
  c.set(0, joined(c, parts, axis));
}

// Runs the body for each item of the first sequence. Further operands are sequences of the same length, or
// tensors.
void SequenceMap(Call& c) {
  const size_t body = c.body("body");
  const size_t n = c.sequence(0).size();
  std::vector<Items> collected(c.results.size());
  for (size_t i = 0; i < n; ++i) {
    c.count_iteration();
    Items inputs;
    for (size_t k = 0; k < c.num_inputs(); ++k) {
      if (const Items* items = c.value(k).items()) {
        if (items->size() != n) c.fail("the sequences differ in length");
        inputs.push_back((*items)[i]);
      } else {
        inputs.push_back(c.value(k));
      }
    }
    Items results = c.run_body(body, std::move(inputs));
    if (results.size() < collected.size()) c.fail("the body has too few results");
    for (size_t k = 0; k < collected.size(); ++k) collected[k].push_back(std::move(results[k]));
  }
  for (size_t k = 0; k < collected.size(); ++k) c.set(k, EvalValue::sequence(std::move(collected[k])));
}

void Optional(Call& c) {
  if (!c.has(0)) return c.set(0, EvalOptional{});
  c.set(0, EvalOptional{std::make_shared<const EvalValue>(c.take(0))});
}

void OptionalHasElement(Call& c) {
  bool there = c.has(0);
  if (there && c.value(0).optional() != nullptr) there = c.value(0).optional()->value != nullptr;
  const int64_t v = there ? 1 : 0;
  c.set(0, c.of<int64_t>(DType::kBool, {}, {&v, 1}));
}

void OptionalGetElement(Call& c) {
  const EvalOptional* o = c.value(0).optional();
  if (o == nullptr) return c.set(0, c.value(0));
  if (o->value == nullptr) c.fail("the optional is empty");
  c.set(0, *o->value);
}

}  // namespace kernels
}  // namespace sardonyx::eval
