// Einsum, two operands at a time from the left. Axes that only one of them has and the result lacks are
// summed first; the rest is a matrix product between transposes and reshapes, or an elementwise product if no
// axis is summed.
#include <fmt/format.h>

#include <algorithm>

#include "dialects/onnx/infer/einsum_terms.h"
#include "lower/onnx_to_mil/lowering.h"

namespace sardonyx::onnx_to_mil {
namespace {

// A value with a label per axis: a letter, or a character below the letters for an axis of an ellipsis,
// counted from the right.
struct Term {
  Value* v = nullptr;
  std::string labels;
  Dim dim(char label) const { return v->type()->dim(labels.find(label)); }
};

bool has(const std::string& labels, char c) { return labels.find(c) != std::string::npos; }

std::string ellipsis(size_t axes) {
  std::string labels;
  for (size_t i = axes; i > 0; --i) labels += static_cast<char>(i);
  return labels;
}

struct Equation {
  std::vector<Term> terms;
  std::string result;
};

std::string with_ellipsis(std::string text, size_t axes) {
  if (const size_t dots = text.find("..."); dots != std::string::npos) text.replace(dots, 3, ellipsis(axes));
  return text;
}

Equation equation_of(Lowering& ctx) {
  const EinsumTerms terms = split_einsum(ctx.string_attr("equation", ""));
  Equation e;
  size_t widest = 0;
  std::string letters;
  for (size_t i = 0; i < terms.operands.size(); ++i) {
    const std::string& own = terms.operands[i];
    letters += with_ellipsis(own, 0);
    const size_t named = with_ellipsis(own, 0).size(), dots = ctx.rank(i) - std::min(named, ctx.rank(i));
    widest = std::max(widest, dots);
    e.terms.push_back({ctx.in(i), with_ellipsis(own, dots)});
    std::string sorted = e.terms.back().labels;
    std::ranges::sort(sorted);
    if (std::ranges::adjacent_find(sorted) != sorted.end())
      ctx.unsupported(fmt::format("a letter twice in '{}', which takes a diagonal", own));
  }
  if (terms.result) {
    e.result = with_ellipsis(*terms.result, widest);
  } else {
    std::ranges::sort(letters);
    e.result = ellipsis(widest);
    for (char c : letters) {
      if (std::ranges::count(letters, c) == 1) e.result += c;
    }
  }
  return e;
}

// Sums over the axes whose labels are not kept.
void sum_others(Lowering& ctx, Term& x, const std::function<bool(char)>& is_kept) {
  std::vector<int64_t> axes;
  std::string rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (is_kept(x.labels[i])) {
      rest += x.labels[i];
    } else {
      axes.push_back(as_int(i));
    }
  }
  if (axes.empty()) return;
  x = {ctx.b.reduce_sum(x.v, {.axes = axes, .keep_dims = false}), rest};
}

// Drops axes of size 1 that broadcast along an axis of y.
void drop_ones(Lowering& ctx, Term& x, const Term& y) {
  std::vector<int64_t> axes;
  std::string rest;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    const char c = x.labels[i];
    if (has(y.labels, c) && x.dim(c).is(1) && !y.dim(c).is(1)) {
      axes.push_back(as_int(i));
    } else {
      rest += c;
    }
  }
  x = {ctx.squeeze(x.v, axes), rest};
}

Value* ordered(Lowering& ctx, const Term& x, const std::string& labels) {
  std::vector<int64_t> perm;
  for (char c : labels) perm.push_back(as_int(x.labels.find(c)));
  return ctx.transpose(x.v, perm);
}

// x with an axis for each of these labels, of size 1 if x lacks it.
Value* aligned(Lowering& ctx, const Term& x, const std::string& labels) {
  std::string own;
  std::vector<int64_t> missing;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (has(x.labels, labels[i])) {
      own += labels[i];
    } else {
      missing.push_back(as_int(i));
    }
  }
  return ctx.unsqueeze(ordered(ctx, x, own), missing);
}

struct Groups {
  std::string batch, rows, columns, summed;  // in both, only in x, only in y; in both, and summed
};

Term product(Lowering& ctx, const Term& x, const Term& y, const Groups& g) {
  constexpr size_t kMostAxes = 5;
  const std::string labels = g.batch + g.rows + g.columns;
  const auto dims_of = [&](const Term& t, const std::string& group) {
    std::vector<Dim> dims;
    for (char c : group) dims.push_back(t.dim(c));
    return dims;
  };
  const auto whole = [&](const Term& t, const std::string& group) { return ctx.dims().product(dims_of(t, group)); };
  const bool merged_batch = g.batch.size() + 2 > kMostAxes;
  const auto matrix = [&](const Term& t, const std::string& before, const std::string& after) {
    std::vector<Dim> dims = merged_batch ? std::vector<Dim>{whole(t, g.batch)} : dims_of(t, g.batch);
    dims.push_back(whole(t, before));
    dims.push_back(whole(t, after));
    return ctx.reshape(ordered(ctx, t, g.batch + before + after), dims);
  };
  Value* v =
      ctx.b.matmul(matrix(x, g.rows, g.summed), matrix(y, g.summed, g.columns), {.transpose_x = false, .transpose_y = false});
  std::vector<Dim> dims;
  for (char c : labels) dims.push_back((has(x.labels, c) ? x : y).dim(c));
  return {ctx.reshape(v, dims), labels};
}

Term contracted(Lowering& ctx, Term x, Term y, const std::string& kept) {
  const Term before = x;
  drop_ones(ctx, x, y);
  drop_ones(ctx, y, before);
  sum_others(ctx, x, [&](char c) { return has(y.labels, c) || has(kept, c); });
  sum_others(ctx, y, [&](char c) { return has(x.labels, c) || has(kept, c); });
  Groups g;
  for (char c : x.labels) (!has(y.labels, c) ? g.rows : has(kept, c) ? g.batch : g.summed) += c;
  for (char c : y.labels) {
    if (!has(x.labels, c)) g.columns += c;
  }
  if (!g.summed.empty()) return product(ctx, x, y, g);
  const std::string labels = g.batch + g.rows + g.columns;
  return {ctx.b.mul(aligned(ctx, x, labels), aligned(ctx, y, labels)), labels};
}

}  // namespace

std::vector<Value*> lower_Einsum(Lowering& ctx) {
  Equation e = equation_of(ctx);
  if (!ctx.takes("matmul", e.terms[0].v->dtype()))
    ctx.unsupported(fmt::format("Core ML cannot multiply matrices of {}", to_string(e.terms[0].v->dtype())));
  Term all = e.terms[0];
  for (size_t i = 1; i < e.terms.size(); ++i) {
    std::string kept = e.result;
    for (size_t k = i + 1; k < e.terms.size(); ++k) kept += e.terms[k].labels;
    all = contracted(ctx, all, e.terms[i], kept);
  }
  sum_others(ctx, all, [&](char c) { return has(e.result, c); });
  return {ctx.wrapped(ordered(ctx, all, e.result))};
}

}  // namespace sardonyx::onnx_to_mil
