// Matrix products.
#include <algorithm>
#include <map>

#include "dialects/onnx/infer/einsum_terms.h"
#include "dialects/onnx/infer/rule_util.h"
#include "dialects/onnx/infer/rules.h"

namespace sardonyx::onnx::rules {

void product(InferContext& c, size_t a, size_t b, DType dtype) {
  const Type *x = c.ranked(a), *y = c.ranked(b);
  need_rank_at_least(c, a, 1);
  need_rank_at_least(c, b, 1);
  if (x == nullptr || y == nullptr || dtype == DType::kUndefined) {
    c.set_unranked(0, dtype);
    return;
  }
  product_of_dims(c, dims_of(x), dims_of(y), dtype);
}

void product_of_dims(InferContext& c, DimVec l, DimVec r, DType dtype) {
  const bool row = l.size() == 1, column = r.size() == 1;
  if (row) l.insert(l.begin(), Dim::of(1));
  if (column) r.push_back(Dim::of(1));
  same_dim(c, l[l.size() - 1], r[r.size() - 2], "the sizes that are summed over");
  const std::span<const Dim> lb(l.data(), l.size() - 2), rb(r.data(), r.size() - 2);
  DimVec dims = broadcast(c, lb, rb);
  if (!row) dims.push_back(l[l.size() - 2]);
  if (!column) dims.push_back(r[r.size() - 1]);
  c.set(0, dtype, dims);
}

void matmul(InferContext& c) { product(c, 0, 1, dtype_of(c, 0)); }

void matmul_integer(InferContext& c) { product(c, 0, 1, DType::kI32); }

void qlinear_matmul(InferContext& c) { product(c, 0, 3, dtype_of(c, 7)); }

void gemm(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type *a = c.ranked(0), *b = c.ranked(1);
  need_rank(c, 0, 2);
  need_rank(c, 1, 2);
  const bool ta = c.attr_int("transA", 0) != 0, tb = c.attr_int("transB", 0) != 0;
  if (dtype == DType::kUndefined) return;
  if (a != nullptr && b != nullptr) same_dim(c, a->dim(ta ? 0 : 1), b->dim(tb ? 1 : 0), "the sizes that are summed over");
  const DimVec dims{a ? a->dim(ta ? 1 : 0) : Dim(), b ? b->dim(tb ? 0 : 1) : Dim()};
  if (const Type* bias = c.ranked(2); bias != nullptr && c.op().since_version >= 7) {
    if (bias->rank() > 2) c.fail(fmt::format("C is {}", c.show(bias)));
    for (size_t i = 0; i < bias->rank(); ++i) {
      const Dim have = bias->dim(bias->rank() - 1 - i), want = dims[1 - i];
      if (have.is_int() && want.is_int() && !have.is(1) && have.value() != want.value()) {
        c.fail(fmt::format("C is {} and does not broadcast to the product", c.show(bias)));
      }
    }
  }
  c.set(0, dtype, dims);
}

// For example "ij,jk->ik", "b...c,b->..." or "ij"; without an arrow, the output is the letters that occur
// once, in alphabetical order.
void einsum(InferContext& c) {
  DType dtype = DType::kUndefined;
  for (size_t i = 0; i < c.num_inputs() && dtype == DType::kUndefined; ++i) dtype = dtype_of(c, i);
  const auto attribute = c.attr_string("equation");
  if (!attribute) return;
  const std::string& equation = *attribute;
  const auto [terms, result] = split_einsum(equation);
  if (terms.size() != c.num_inputs()) c.fail(fmt::format("equation '{}' has {} terms", equation, terms.size()));

  std::map<char, Dim> sizes;
  std::map<char, int> times;
  DimVec ellipsis;
  bool known = true, any_ellipsis = false;
  const auto is_letter = [](char ch) { return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z'); };
  for (size_t i = 0; i < terms.size(); ++i) {
    const std::string& term = terms[i];
    const size_t dots = term.find("...");
    size_t letters = 0;
    for (size_t k = 0; k < term.size(); ++k) {
      if (is_letter(term[k])) {
        ++letters;
        ++times[term[k]];
        sizes.emplace(term[k], Dim());
      } else if (term[k] != '.' || dots == std::string::npos || k < dots || k >= dots + 3) {
        c.fail(fmt::format("equation '{}' is malformed", equation));
      }
    }
    any_ellipsis = any_ellipsis || dots != std::string::npos;
    const Type* t = c.ranked(i);
    if (t == nullptr) {
      known = known && dots == std::string::npos;
      continue;
    }
    if (t->rank() < letters || (dots == std::string::npos && t->rank() != letters)) {
      c.fail(fmt::format("term '{}' does not fit {}", term, c.show(t)));
    }
    size_t axis = 0;
    for (size_t k = 0; k < term.size(); ++k) {
      if (k == dots) {
        const size_t count = t->rank() - letters;
        ellipsis = broadcast(c, ellipsis, t->dims().subspan(axis, count));
        axis += count;
        k += 2;
        continue;
      }
      Dim& size = sizes[term[k]];
      const Dim d = t->dim(axis++);
      size = size.is_anonymous() ? d : broadcast_dim(c, size, d);
    }
  }
  DimVec dims;
  const auto put_ellipsis = [&] { dims.insert(dims.end(), ellipsis.begin(), ellipsis.end()); };
  bool uses_ellipsis = false;
  if (!result) {
    uses_ellipsis = any_ellipsis;
    put_ellipsis();
    for (const auto& [letter, count] : times) {
      if (count == 1) dims.push_back(sizes[letter]);
    }
  } else {
    const std::string& right = *result;
    for (size_t k = 0; k < right.size(); ++k) {
      if (right.compare(k, 3, "...") == 0) {
        uses_ellipsis = true;
        put_ellipsis();
        k += 2;
      } else if (const auto at = sizes.find(right[k]); at != sizes.end()) {
        dims.push_back(at->second);
      } else {
        c.fail(fmt::format("equation '{}': '{}' is in no operand", equation, right[k]));
      }
    }
  }
  if (uses_ellipsis && !known) {
    c.set_unranked(0, dtype);
  } else if (dtype != DType::kUndefined) {
    c.set(0, dtype, dims);
  }
}

void det(InferContext& c) {
  const DType dtype = dtype_of(c, 0);
  const Type* x = c.ranked(0);
  need_rank_at_least(c, 0, 2);
  if (x == nullptr) return c.set_unranked(0, dtype);
  same_dim(c, x->dim(x->rank() - 1), x->dim(x->rank() - 2), "the last two dims");
  c.set(0, dtype, x->dims().first(x->rank() - 2));
}

}  // namespace sardonyx::onnx::rules
