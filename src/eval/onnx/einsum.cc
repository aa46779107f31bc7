// Einsum. Operands are contracted pair by pair from the left; each pair is one batched matrix product.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "eval/elementwise.h"
#include "eval/onnx/reduce.h"
#include "eval/products.h"

namespace sardonyx::eval {
namespace {

// A letter, or a dimension of the ellipsis: -1 is its last dimension, -2 the one before.
using Label = int;
using Labels = std::vector<Label>;

struct Term {
  Array a;
  Labels labels;  // one per axis, without duplicates
};

struct Equation {
  std::vector<std::string> operands;  // with '.' for the ellipsis
  std::optional<std::string> result;
};

Equation split_equation(const Call& c, const std::string& text) {
  Equation e;
  std::string current;
  bool arrow = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char ch = text[i];
    if (ch == ' ') continue;
    if (ch == ',' && !arrow) {
      e.operands.push_back(current);
      current.clear();
    } else if (ch == '-' && i + 1 < text.size() && text[i + 1] == '>' && !arrow) {
      e.operands.push_back(current);
      current.clear();
      arrow = true;
      ++i;
    } else if (ch == '.' && text.compare(i, 3, "...") == 0) {
      current += '.';
      i += 2;
    } else if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z')) {
      current += ch;
    } else {
      c.fail(fmt::format("the equation \"{}\" has a '{}' at {}", text, ch, i));
    }
  }
  if (arrow) {
    e.result = current;
  } else {
    e.operands.push_back(current);
  }
  return e;
}

Labels labels_of(const Call& c, const std::string& term, int ellipsis_rank) {
  Labels out;
  bool seen = false;
  for (char ch : term) {
    if (ch != '.') {
      out.push_back(ch);
      continue;
    }
    if (seen) c.fail("a term has two ellipses");
    seen = true;
    for (int i = ellipsis_rank; i > 0; --i) out.push_back(-i);
  }
  return out;
}

bool contains(const Labels& l, Label x) { return std::ranges::find(l, x) != l.end(); }

// Sums over the axes whose label is not in `keep`.
Term without(Call& c, const Term& t, const Labels& keep) {
  std::vector<bool> reduced(t.a.rank(), false);
  Labels left;
  for (size_t d = 0; d < t.labels.size(); ++d) {
    reduced[d] = !contains(keep, t.labels[d]);
    if (!reduced[d]) left.push_back(t.labels[d]);
  }
  if (left.size() == t.labels.size()) return t;
  const Grouped g = group(c, t.a, reduced);
  Array out = c.make(t.a.dtype(), g.shape);
  auto go = [&]<class T>(T) {
    using Sum = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;
    std::vector<T> buffer(static_cast<size_t>(g.width));
    for (int64_t i = 0; i < g.count; ++i) {
      const T* row = load<T>(g.rows, i * g.width, 1, g.width, buffer.data());
      Sum sum = 0;
      for (int64_t k = 0; k < g.width; ++k) sum += static_cast<Sum>(row[k]);
      const T v = static_cast<T>(sum);
      store<T>(out, i, 1, &v);
    }
  };
  switch (compute_class(t.a.dtype())) {
    case Compute::kI64: go(int64_t{}); break;
    case Compute::kU64: go(uint64_t{}); break;
    default: go(double{});
  }
  return {out, left};
}

Array ordered(const Term& t, const Labels& order) {
  std::vector<int64_t> perm;
  for (Label l : order) perm.push_back(std::ranges::find(t.labels, l) - t.labels.begin());
  return t.a.transposed(perm);
}

Labels joined_labels(std::initializer_list<const Labels*> parts) {
  Labels out;
  for (const Labels* p : parts) out.insert(out.end(), p->begin(), p->end());
  return out;
}

// The product of left and right, summed over the labels that are not in `keep`.
Term contract(Call& c, const Term& left, const Term& right, const Labels& keep) {
  const Term a = without(c, left, joined_labels({&keep, &right.labels}));
  const Term b = without(c, right, joined_labels({&keep, &left.labels}));
  Labels batch, rows, columns, summed;
  for (Label l : a.labels) {
    if (!contains(b.labels, l)) {
      rows.push_back(l);
    } else if (contains(keep, l)) {
      batch.push_back(l);
    } else {
      summed.push_back(l);
    }
  }
  for (Label l : b.labels) {
    if (!contains(a.labels, l)) columns.push_back(l);
  }
  auto sizes = [](const Term& t, const Labels& which) {
    std::vector<int64_t> out;
    for (Label l : which) out.push_back(t.a.dim(static_cast<size_t>(std::ranges::find(t.labels, l) - t.labels.begin())));
    return out;
  };
  const int64_t n_batch = product(sizes(a, batch)), m = product(sizes(a, rows)), k = product(sizes(a, summed)),
                n = product(sizes(b, columns));
  const Array p = c.reshaped(ordered(a, joined_labels({&batch, &rows, &summed})), {n_batch, m, k});
  const Array q = c.reshaped(ordered(b, joined_labels({&batch, &summed, &columns})), {n_batch, k, n});
  const Labels labels = joined_labels({&batch, &rows, &columns});
  std::vector<int64_t> shape = sizes(a, batch);
  for (int64_t s : sizes(a, rows)) shape.push_back(s);
  for (int64_t s : sizes(b, columns)) shape.push_back(s);
  return {matmul(c, p, q, a.a.dtype()).reshaped(std::move(shape)), labels};
}

}  // namespace

namespace kernels {

void Einsum(Call& c) {
  const std::string text = c.string_attr("equation", "");
  const Equation e = split_equation(c, text);
  if (e.operands.size() != c.num_inputs()) {
    c.fail(fmt::format("the equation \"{}\" has {} terms for {} operands", text, e.operands.size(), c.num_inputs()));
  }
  int ellipsis = 0;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    require_same_dtype(c, 0, i);
    if (e.operands[i].find('.') == std::string::npos) continue;
    const int rank = static_cast<int>(c.in(i).rank()) - static_cast<int>(e.operands[i].size()) + 1;
    if (rank < 0) c.fail(fmt::format("operand {} has fewer axes than its term \"{}\"", i, e.operands[i]));
    ellipsis = std::max(ellipsis, rank);
  }
  std::map<Label, int64_t> sizes;
  std::map<Label, int> occurrences;
  std::vector<Term> terms;
  for (size_t i = 0; i < e.operands.size(); ++i) {
    const Array& x = c.in(i);
    const bool dots = e.operands[i].find('.') != std::string::npos;
    const int rank = dots ? static_cast<int>(x.rank()) - static_cast<int>(e.operands[i].size()) + 1 : 0;
    const Labels all = labels_of(c, e.operands[i], rank);
    if (all.size() != x.rank()) c.fail(fmt::format("the term \"{}\" does not fit {}", e.operands[i], describe(x)));
    // A label that occurs twice in one term takes a diagonal: the two axes become one whose stride is the sum
    // of theirs.
    Term t;
    std::vector<int64_t> shape, strides;
    for (size_t d = 0; d < all.size(); ++d) {
      int64_t& size = sizes.try_emplace(all[d], x.dim(d)).first->second;
      if (size == 1) size = x.dim(d);
      if (x.dim(d) != size && x.dim(d) != 1) {
        c.fail(fmt::format("in \"{}\" an axis has sizes {} and {}", text, size, x.dim(d)));
      }
      const auto at = std::ranges::find(t.labels, all[d]);
      if (at == t.labels.end()) {
        ++occurrences[all[d]];
        t.labels.push_back(all[d]);
        shape.push_back(x.dim(d));
        strides.push_back(x.dim(d) == 1 ? 0 : x.strides()[d]);
      } else {
        const auto k = static_cast<size_t>(at - t.labels.begin());
        if (shape[k] != x.dim(d)) c.fail(fmt::format("axes of sizes {} and {} have no diagonal", shape[k], x.dim(d)));
        strides[k] += x.strides()[d];
      }
    }
    t.a = x.view(std::move(shape), std::move(strides));
    terms.push_back(std::move(t));
  }
  // Sizes of 1 broadcast to the label's size.
  for (Term& t : terms) {
    std::vector<int64_t> shape;
    for (Label l : t.labels) shape.push_back(sizes[l]);
    t.a = t.a.broadcast_to(shape);
  }
  Labels result;
  if (e.result) {
    result = labels_of(c, *e.result, ellipsis);
  } else {  // the ellipsis, then the labels that occur once, in alphabetical order
    for (int i = ellipsis; i > 0; --i) result.push_back(-i);
    for (const auto& [label, count] : occurrences) {
      size_t in_text = 0;
      for (const std::string& term : e.operands) {
        in_text += label > 0 ? static_cast<size_t>(std::ranges::count(term, static_cast<char>(label))) : 0;
      }
      if (label > 0 && count == 1 && in_text == 1) result.push_back(label);
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    if (!sizes.contains(result[i]) || std::ranges::count(result, result[i]) > 1) {
      c.fail(fmt::format("the result of \"{}\" has a label that is unknown or occurs twice", text));
    }
  }
  const DType dtype = c.dtype();
  // 16-bit floats are multiplied and summed as f32 and rounded at the end.
  if (is_float(dtype) && dtype != DType::kF64 && dtype != DType::kF32) {
    for (Term& t : terms) t.a = cast(c, t.a, DType::kF32);
  }
  Term sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    Labels keep = result;
    for (size_t j = i + 1; j < terms.size(); ++j) keep = joined_labels({&keep, &terms[j].labels});
    sum = contract(c, sum, terms[i], keep);
  }
  sum = without(c, sum, result);
  c.set(0, cast(c, ordered(sum, result), dtype));
}

}  // namespace kernels
}  // namespace sardonyx::eval
