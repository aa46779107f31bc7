//   select(all true, a, b)           =>    a
//   select(mask, ±inf constant, b)   =>    add(mask ? ±inf : 0, b)
//
// The mask is constant. If it is all false, the result is b. The unselected operand must not enlarge the
// result. The second form also applies if b is the constant, with the mask inverted. It relies on inf + b =
// inf, which fails if b is the opposite infinity or NaN, as in coremltools' pass of this name: relaxed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "passes/mil/constants/weights.h"

namespace sardonyx::mil {
namespace {

constexpr Var mask{"mask"}, a{"a"}, b{"b"};

std::optional<bool> uniform(const Match& found) {
  const TensorPtr& t = found[mask]->constant();
  for (int64_t i = 1; i < t->size(); ++i) {
    if (t->as_int(i) != t->as_int(0)) return std::nullopt;
  }
  return t->size() > 0 ? std::optional(t->as_int(0) != 0) : std::nullopt;
}

bool is_infinite(const Value* v) {
  if (!v->is_constant()) return false;
  const std::vector<double> elements = doubles(*v->constant());
  return std::ranges::none_of(elements, [](double e) { return std::isfinite(e); });
}

// Elements of t, broadcast to `shape`.
std::vector<double> broadcast(const Tensor& t, const std::vector<int64_t>& shape) {
  const std::vector<double> from = doubles(t);
  int64_t size = 1;
  for (int64_t s : shape) size *= s;
  std::vector<double> out(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (size_t axis = shape.size(); axis-- > 0;) {
      const int64_t index = rest % shape[axis];
      rest /= shape[axis];
      const size_t missing = shape.size() - t.rank();
      if (axis < missing) continue;
      const int64_t extent = t.shape()[axis - missing];
      if (extent != 1) place += index * stride;
      stride *= extent;
    }
    out[static_cast<size_t>(i)] = from[static_cast<size_t>(place)];
  }
  return out;
}

}  // namespace

Pass select_optimization() {
  using namespace pattern;
  namespace m = pattern::mil;
  const Pattern select = m::select(constant.as(mask), Pattern(a), Pattern(b));
  const auto is_dynamic = [](const Match& found) { return !found[a]->is_constant() || !found[b]->is_constant(); };
  return std::vector<Rule>{
      {.name = "known_condition",
       .match = select,
       .when = [=](const Match& found) { return is_dynamic(found) && uniform(found).has_value(); },
       .build = [](Rewriter&, const Match& found) { return *uniform(found) ? found[a] : found[b]; }},
      {.name = "infinite_constant",
       .numerics = Numerics::kRelaxed,
       .match = select,
       .when = [=](const Match& found) { return is_dynamic(found) && (is_infinite(found[a]) || is_infinite(found[b])); },
       .build =
           [](Rewriter& builder, const Match& found) {
             const bool first = is_infinite(found[a]);
             const Tensor& infinite = *(first ? found[a] : found[b])->constant();
             const Tensor& condition = *found[mask]->constant();
             std::vector<int64_t> shape;
             const size_t rank = std::max(infinite.rank(), condition.rank());
             for (size_t i = 0; i < rank; ++i) {
               const auto extent = [&](const Tensor& t) { return i + t.rank() < rank ? 1 : t.shape()[i + t.rank() - rank]; };
               shape.push_back(extent(infinite) == 1 ? extent(condition) : extent(infinite));
             }
             std::vector<double> chosen = broadcast(infinite, shape);
             const std::vector<double> where = broadcast(condition, shape);
             for (size_t i = 0; i < chosen.size(); ++i) {
               if ((where[i] != 0) != first) chosen[i] = 0;
             }
             return builder.add(tensor_of(infinite.dtype(), shape, chosen), first ? found[b] : found[a]);
           }},
  };
}

}  // namespace sardonyx::mil
