// Det of small matrices, by expansion along the first row:
//
//   det(a) = a[0,0] det(a without row 0 and column 0) - a[0,1] det(a without row 0 and column 1) + ...
#include <fmt/format.h>

#include <map>

#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

// Without sharing minors, the expansion has n! terms; with it, 2^n.
constexpr int64_t kMostRows = 4;

class Minors {
 public:
  Minors(Lowering& ctx, int64_t n) : b_(ctx.b), x_(ctx.in(0)), rank_(ctx.rank(0)), n_(n) {}

  // The determinant of the rows from `row` on and of equally many columns, a bit set: [..., 1, 1].
  Value* minor(int64_t row, unsigned columns) {
    Value*& known = minors_[columns];
    if (known != nullptr) return known;
    Value* sum = nullptr;
    bool is_added = true;
    for (int64_t j = 0; j < n_; ++j) {
      const unsigned bit = 1U << static_cast<unsigned>(j);
      if ((columns & bit) == 0) continue;
      Value* term = element(row, j);
      if (row + 1 < n_) term = b_.mul(term, minor(row + 1, columns & ~bit));
      sum = sum == nullptr ? term : is_added ? b_.add(sum, term) : b_.sub(sum, term);
      is_added = !is_added;
    }
    return known = sum;
  }

 private:
  Value* element(int64_t i, int64_t j) {
    std::vector<int64_t> begin(rank_), end(rank_);
    std::vector<bool> whole(rank_, true);
    for (const auto& [axis, at] : {std::pair(rank_ - 2, i), std::pair(rank_ - 1, j)}) {
      begin[axis] = at;
      end[axis] = at + 1;
      whole[axis] = false;
    }
    return b_.slice_by_index(x_, begin, end, {.begin_mask = whole, .end_mask = whole});
  }

  MilBuilder& b_;
  Value* x_;
  size_t rank_;
  int64_t n_;
  std::map<unsigned, Value*> minors_;  // by their columns
};

}  // namespace

std::vector<Value*> lower_Det(Lowering& ctx) {
  const size_t rank = ctx.rank(0);
  const Dim n = ctx.in_dims(0)[rank - 1];
  if (!n.is_int() || n.value() < 1 || n.value() > kMostRows)
    ctx.unsupported(fmt::format("matrices of more than {} rows, or of open size", kMostRows));
  Value* det = Minors(ctx, n.value()).minor(0, (1U << static_cast<unsigned>(n.value())) - 1);
  return {ctx.squeeze(det, std::vector<int64_t>{as_int(rank) - 2, as_int(rank) - 1})};
}

}  // namespace sardonyx::onnx_to_mil
