// ai.onnx.ml: operators that prepare features and labels.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <unordered_map>

#include "eval/elementwise.h"

namespace sardonyx::eval {
namespace {

// Keys of a label table. Floats are keyed by their bits, with all NaN equal. Integers and strings are kept
// apart, since an integer in decimal would clash with a string.
using Key = std::variant<int64_t, std::string>;

int64_t float_key(double d) { return std::isnan(d) ? INT64_MIN : std::bit_cast<int64_t>(d == 0 ? 0.0 : d); }

std::vector<Key> keys_of(const Array& a) {
  std::vector<Key> out;
  if (a.dtype() == DType::kString) {
    for (int64_t i = 0; i < a.size(); ++i) out.emplace_back(a.string_at(i));
  } else if (is_float(a.dtype())) {
    for (double d : load_all<double>(a)) out.emplace_back(float_key(d));
  } else {
    for (int64_t v : load_all<int64_t>(a)) out.emplace_back(v);
  }
  return out;
}

Array texts(std::vector<std::string> v) {
  const auto n = static_cast<int64_t>(v.size());
  return Array::of(Tensor::strings({n}, std::move(v)));
}

// One of several attributes as a vector: name + "_floats", "_int64s", "_strings" or "_tensor". nullopt when
// none is set.
std::optional<Array> list_attr(Call& c, const std::string& name) {
  if (const TensorPtr t = c.tensor_attr(name + "_tensor")) return Array::of(t);
  if (c.attr(name + "_floats") != nullptr) {
    const auto v = *c.floats_attr(name + "_floats");
    return c.of<double>(DType::kF32, {static_cast<int64_t>(v.size())}, v);
  }
  if (c.attr(name + "_int64s") != nullptr) return c.of_ints(*c.ints_attr(name + "_int64s"));
  if (c.attr(name + "_strings") != nullptr) {
    return texts(*c.strings_attr(name + "_strings"));
  }
  return std::nullopt;
}

// Replaces each element of x by values[i] for the last i where keys[i] equals it, else by `otherwise`.
Array mapped(Call& c, const Array& x, const Array& keys, const Array& values, const Array& otherwise) {
  c.require(keys.size() == values.size(), "keys and values differ in number");
  c.require((x.dtype() == DType::kString) == (keys.dtype() == DType::kString), "keys and elements differ in dtype");
  std::map<Key, int64_t> table;
  const std::vector<Key> all = keys_of(keys);
  for (size_t i = 0; i < all.size(); ++i) table[all[i]] = static_cast<int64_t>(i);
  const Array from = c.dense(values);
  Array out = c.make(values.dtype(), x.shape());
  const std::vector<Key> elements = keys_of(is_float(keys.dtype()) && !is_float(x.dtype()) ? cast(c, x, keys.dtype()) : x);
  with_element(values.dtype(), [&]<class E>(E) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const auto at = table.find(elements[i]);
      out.as<E>()[i] = at == table.end() ? otherwise.as<E>()[0] : from.as<E>()[at->second];
    }
  });
  return out;
}

// A matrix as [rows][columns]; a vector is one row.
struct Matrix {
  int64_t rows = 1, columns = 0;
};
Matrix matrix(const Call& c, const Array& x) {
  if (x.rank() == 0 || x.rank() > 2) c.fail(fmt::format("expected a vector or a matrix, found {}", describe(x)));
  return {x.rank() == 2 ? x.dim(0) : 1, x.dim(x.rank() - 1)};
}

// Reads a list of one value per column, or of one value for all.
double per_column(const Call& c, const std::vector<double>& list, int64_t column, int64_t columns) {
  if (list.size() == 1) return list[0];
  if (static_cast<int64_t>(list.size()) != columns)
    c.fail(fmt::format("{} values are given for {} columns", list.size(), columns));
  return list[static_cast<size_t>(column)];
}

}  // namespace

namespace kernels {

void ArrayFeatureExtractor(Call& c) {
  const Array& x = c.in(0);
  c.require(x.rank() > 0, "expected an array with features");
  const std::vector<int64_t> which = c.ints(1);
  const int64_t columns = x.dim(x.rank() - 1), rows = columns == 0 ? 0 : x.size() / columns;
  const Array d = c.dense(x);
  std::vector<int64_t> shape(x.shape());
  if (x.rank() == 1) shape.insert(shape.begin(), 1);
  shape.back() = static_cast<int64_t>(which.size());
  Array out = c.make(x.dtype(), shape);
  with_element(x.dtype(), [&]<class E>(E) {
    E* to = out.as<E>();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k : which) {
        if (k < 0 || k >= columns) c.fail(fmt::format("feature {} is out of range: there are {}", k, columns));
        *to++ = d.as<E>()[r * columns + k];
      }
    }
  });
  c.set(0, out);
}

void Binarizer(Call& c) {
  const double threshold = c.float_attr("threshold", 0);
  c.set(0, map_as<double>(c, c.in(0), c.dtype(), [=](double v) { return v > threshold ? 1 : 0; }));
}

void CategoryMapper(Call& c) {
  const Array ints = c.of_ints(c.ints_attr("cats_int64s").value_or(std::vector<int64_t>{}));
  auto names = c.strings_attr("cats_strings").value_or(std::vector<std::string>{});
  const Array strings = texts(names);
  if (c.dtype() == DType::kString) {
    const int64_t v = c.int_attr("default_int64", -1);
    return c.set(0, mapped(c, c.in(0), strings, ints, c.of<int64_t>(DType::kI64, {1}, {&v, 1})));
  }
  c.set(0, mapped(c, c.in(0), ints, strings, Array::of(Tensor::strings({1}, {c.string_attr("default_string", "_Unused")}))));
}

void LabelEncoder(Call& c) {
  if (c.version() == 1) {
    auto names = c.strings_attr("classes_strings").value_or(std::vector<std::string>{});
    std::vector<int64_t> numbers(names.size());
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int64_t>(i);
    const Array ints = c.of_ints(numbers), strings = texts(names);
    if (c.dtype() == DType::kString) {
      const int64_t v = c.int_attr("default_int64", -1);
      return c.set(0, mapped(c, c.in(0), strings, ints, c.of<int64_t>(DType::kI64, {1}, {&v, 1})));
    }
    return c.set(
        0, mapped(c, c.in(0), ints, strings, Array::of(Tensor::strings({1}, {c.string_attr("default_string", "_Unused")}))));
  }
  const auto keys = list_attr(c, "keys"), values = list_attr(c, "values");
  if (!keys || !values) c.fail("keys or values are missing");
  Array otherwise;
  if (const TensorPtr t = c.tensor_attr("default_tensor")) {
    c.require(t->dtype() == values->dtype() && t->size() == 1, "expected a default of one element in the values' dtype");
    otherwise = Array::of(t);
  } else if (values->dtype() == DType::kString) {
    otherwise = Array::of(Tensor::strings({1}, {c.string_attr("default_string", "_Unused")}));
  } else if (is_float(values->dtype())) {
    otherwise = c.full(values->dtype(), {1}, c.float_attr("default_float", -0.0));
  } else {
    const int64_t v = c.int_attr("default_int64", -1);
    otherwise = c.of<int64_t>(values->dtype(), {1}, {&v, 1});
  }
  c.set(0, mapped(c, c.in(0), *keys, *values, otherwise));
}

void DictVectorizer(Call& c) {
  const auto vocabulary =
      c.attr("int64_vocabulary") != nullptr ? std::optional(c.of_ints(*c.ints_attr("int64_vocabulary"))) : std::nullopt;
  const auto names = c.strings_attr("string_vocabulary");
  if (!vocabulary && !names) c.fail("a vocabulary is missing");
  const int64_t columns = vocabulary ? vocabulary->size() : static_cast<int64_t>(names->size());
  std::vector<const EvalMap*> rows;
  if (const EvalMap* one = c.value(0).map()) {
    rows.push_back(one);
  } else {
    for (const EvalValue& v : c.sequence(0)) {
      if (v.map() == nullptr) c.fail(fmt::format("expected a map, found {}", describe(v)));
      rows.push_back(v.map());
    }
  }
  DType t = DType::kF32;
  for (const EvalMap* m : rows) {
    if (!m->entries.empty() && m->entries[0].second.array() != nullptr) t = m->entries[0].second.array()->dtype();
  }
  Array out = c.make(t, {static_cast<int64_t>(rows.size()), columns});
  with_element(t, [&]<class E>(E) {
    std::fill(out.as<E>(), out.as<E>() + out.size(), E{});
    for (size_t r = 0; r < rows.size(); ++r) {
      for (const auto& [key, value] : rows[r]->entries) {
        const Array* a = value.array();
        if (a == nullptr || a->size() != 1 || a->dtype() != t) c.fail("the maps hold values of several kinds");
        for (int64_t k = 0; k < columns; ++k) {
          const bool here = vocabulary ? key == Key(vocabulary->int_at(k)) : key == Key((*names)[static_cast<size_t>(k)]);
          if (here) out.as<E>()[static_cast<int64_t>(r) * columns + k] = c.dense(*a).template as<E>()[0];
        }
      }
    }
  });
  c.set(0, c.value(0).map() != nullptr ? out.reshaped({columns}) : out);
}

void CastMap(Call& c) {
  const EvalMap* m = c.value(0).map();
  if (m == nullptr || m->key != DType::kI64) c.fail("expected a map with integer keys");
  std::map<int64_t, Array> sorted;
  for (const auto& [key, value] : m->entries) {
    if (value.array() == nullptr || value.array()->size() != 1) c.fail("expected a map of numbers or strings");
    sorted.emplace(std::get<int64_t>(key), *value.array());
  }
  const bool sparse = c.string_attr("map_form", "DENSE") == "SPARSE";
  const int64_t n = sparse ? c.int_attr("max_map", 1) : static_cast<int64_t>(sorted.size());
  const std::string to = c.string_attr("cast_to", "TO_FLOAT");
  const DType t = to == "TO_FLOAT" ? DType::kF32 : to == "TO_INT64" ? DType::kI64 : DType::kString;
  Array out = c.make(t, {1, n});
  with_element(t, [&]<class E>(E) {
    std::fill(out.as<E>(), out.as<E>() + out.size(), E{});
    int64_t next = 0;
    for (const auto& [key, value] : sorted) {
      const int64_t at = sparse ? key : next++;
      if (at < 0 || at >= n) c.fail(fmt::format("key {} is out of range for max_map {}", key, n));
      out.as<E>()[at] = c.dense(cast(c, value, t)).template as<E>()[0];
    }
  });
  c.set(0, out);
}

void ZipMap(Call& c) {
  const Array& x = c.in(0);
  const Matrix m = matrix(c, x);
  const auto names = c.attr("classlabels_strings") != nullptr ? c.strings_attr("classlabels_strings") : std::nullopt;
  const auto numbers = c.attr("classlabels_int64s") != nullptr ? c.ints_attr("classlabels_int64s") : std::nullopt;
  const auto labels = static_cast<int64_t>(names ? names->size() : numbers ? numbers->size() : 0);
  if (labels != m.columns) c.fail(fmt::format("{} labels are given for {} columns", labels, m.columns));
  const Array d = c.dense(x);
  std::vector<EvalValue> rows;
  for (int64_t r = 0; r < m.rows; ++r) {
    auto map = std::make_shared<EvalMap>();
    map->key = names ? DType::kString : DType::kI64;
    for (int64_t k = 0; k < m.columns; ++k) {
      const auto i = static_cast<size_t>(k);
      map->entries.emplace_back(names ? Key((*names)[i]) : Key((*numbers)[i]), d.view({}, {}, r * m.columns + k));
    }
    rows.emplace_back(std::shared_ptr<const EvalMap>(std::move(map)));
  }
  c.set(0, EvalValue::sequence(std::move(rows)));
}

void FeatureVectorizer(Call& c) {
  const std::vector<int64_t> widths = c.ints_attr("inputdimensions").value_or(std::vector<int64_t>{});
  c.require(widths.size() == c.num_inputs() && !widths.empty(), "inputdimensions do not fit the operands");
  const int64_t rows = c.in(0).rank() == 0 ? 1 : c.in(0).dim(0);
  int64_t total = 0;
  for (int64_t w : widths) total += std::max<int64_t>(w, 0);
  Array out = c.make(DType::kF32, {rows, total});
  std::fill(out.as<float>(), out.as<float>() + out.size(), 0.0f);
  int64_t at = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    const Array& x = c.in(i);
    c.require(x.rank() >= 1 && x.dim(0) == rows, "the operands differ in their number of rows");
    const int64_t columns = rows == 0 ? 0 : x.size() / rows;
    const std::vector<double> all = load_all<double>(x);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < std::min(columns, widths[i]); ++k) {
        out.as<float>()[r * total + at + k] = static_cast<float>(all[static_cast<size_t>(r * columns + k)]);
      }
    }
    at += std::max<int64_t>(widths[i], 0);
  }
  c.set(0, out);
}

void Imputer(Call& c) {
  const Array& x = c.in(0);
  const Matrix m = matrix(c, x);
  const bool floats = is_float(x.dtype());
  std::vector<double> values;
  if (floats) {
    values = c.floats_attr("imputed_value_floats").value_or(std::vector<double>{});
  } else {
    for (int64_t v : c.ints_attr("imputed_value_int64s").value_or(std::vector<int64_t>{}))
      values.push_back(static_cast<double>(v));
  }
  const double missing =
      floats ? c.float_attr("replaced_value_float", 0) : static_cast<double>(c.int_attr("replaced_value_int64", 0));
  std::vector<double> all = load_all<double>(x);
  for (size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(missing) ? std::isnan(all[i]) : all[i] == missing) {
      all[i] = per_column(c, values, static_cast<int64_t>(i) % m.columns, m.columns);
    }
  }
  c.set(0, c.of<double>(x.dtype(), x.shape(), all));
}

void Scaler(Call& c) {
  const Array& x = c.in(0);
  const Matrix m = matrix(c, x);
  const auto offset = c.floats_attr("offset").value_or(std::vector<double>{0}),
             scale = c.floats_attr("scale").value_or(std::vector<double>{1});
  std::vector<double> all = load_all<double>(x);
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % m.columns;
    all[i] = (all[i] - per_column(c, offset, column, m.columns)) * per_column(c, scale, column, m.columns);
  }
  c.set(0, c.of<double>(DType::kF32, x.shape(), all));
}

void Normalizer(Call& c) {
  const Array& x = c.in(0);
  const Matrix m = matrix(c, x);
  const std::string norm = c.string_attr("norm", "MAX");
  if (norm != "MAX" && norm != "L1" && norm != "L2") c.fail(fmt::format("unknown norm \"{}\"", norm));
  std::vector<double> all = load_all<double>(x);
  for (int64_t r = 0; r < m.rows; ++r) {
    double* row = all.data() + r * m.columns;
    double divisor = 0;
    for (int64_t k = 0; k < m.columns; ++k) {
      const double a = std::fabs(row[k]);
      divisor = norm == "MAX" ? std::max(divisor, a) : divisor + (norm == "L1" ? a : a * a);
    }
    if (norm == "L2") divisor = std::sqrt(divisor);
    if (divisor == 0) continue;
    for (int64_t k = 0; k < m.columns; ++k) row[k] /= divisor;
  }
  c.set(0, c.of<double>(DType::kF32, x.shape(), all));
}

void OneHotEncoder(Call& c) {
  const Array& x = c.in(0);
  const auto categories = list_attr(c, "cats");
  if (!categories) c.fail("categories are missing");
  c.require((x.dtype() == DType::kString) == (categories->dtype() == DType::kString),
            "categories and elements differ in dtype");
  const std::vector<Key> known = keys_of(*categories);
  const std::vector<Key> elements = keys_of(is_float(x.dtype()) ? cast(c, x, DType::kI64) : x);
  const auto n = static_cast<int64_t>(known.size());
  std::vector<int64_t> shape(x.shape());
  shape.push_back(n);
  Array out = c.make(DType::kF32, shape);
  std::fill(out.as<float>(), out.as<float>() + out.size(), 0.0f);
  const bool zeros = c.int_attr("zeros", 1) != 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    const auto at = std::ranges::find(known, elements[i]);
    if (at != known.end()) {
      out.as<float>()[static_cast<int64_t>(i) * n + (at - known.begin())] = 1;
    } else if (!zeros) {
      c.fail("an element is in no category");
    }
  }
  c.set(0, out);
}

}  // namespace kernels
}  // namespace sardonyx::eval
