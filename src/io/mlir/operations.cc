#include "io/mlir/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "sardonyx/error.h"

namespace sardonyx::mlir {
namespace {

struct Row {
  std::string_view name, form, attributes, bodies;
};

constexpr Row kRows[] = {
#define OPERATION(name, form, attributes, bodies) {name, form, attributes, bodies},
#include "io/mlir/operations.def"
#undef OPERATION
};

struct FieldRow {
  std::string_view of;
  Field field;
};

constexpr FieldRow kFields[] = {
#define FIELD(structure, name, is_list) {structure, {name, is_list}},
#include "io/mlir/structs.def"
#undef FIELD
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end != 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <class T>
T named(std::string_view name, std::initializer_list<std::pair<std::string_view, T>> values) {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  SX_CHECK(false, fmt::format("operations.def has no '{}'", name));
  return {};
}

FormItem form_item(std::string_view word) {
  using Kind = FormItem::Kind;
  if (word == "%") return {Kind::kOperand, word};
  if (word == "%*") return {Kind::kOperands, word};
  if (word == "%,") return {Kind::kCommaOperands, word};
  if (word == "(?") return {Kind::kOptional, word};
  if (word == ")?") return {Kind::kEndOptional, word};
  if (word.size() > 1 && word[0] == '@') return {Kind::kAttribute, word.substr(1)};
  if (word.size() > 1 && word[0] == ':') return {Kind::kTypes, word.substr(1)};
  if (word.size() > 2 && word[0] == '<') return {Kind::kPart, word.substr(1, word.size() - 2)};
  return {Kind::kLiteral, word};
}

// "padding:tensor=no_pad"
AttrRule rule(std::string_view word) {
  const size_t colon = word.find(':'), equals = std::min(word.find('='), word.size());
  AttrRule r{.name = word.substr(0, colon), .kind = AttrKind::kStruct};
  const std::string_view kind = word.substr(colon + 1, equals - colon - 1);
  const FieldRow* first = std::ranges::find(kFields, kind, &FieldRow::of);
  if (first == std::end(kFields)) {
    r.kind = named<AttrKind>(kind, {{"int", AttrKind::kInt},
                                    {"ints", AttrKind::kInts},
                                    {"bool", AttrKind::kBool},
                                    {"string", AttrKind::kString},
                                    {"strings", AttrKind::kStrings},
                                    {"tensor", AttrKind::kTensor},
                                    {"dict", AttrKind::kDict},
                                    {"any", AttrKind::kAny}});
  } else {
    static const auto fields = [] {
      std::vector<Field> all;
      for (const FieldRow& row : kFields) all.push_back(row.field);
      return all;
    }();
    const auto count = std::ranges::count(kFields, kind, &FieldRow::of);
    r.fields = std::span(fields).subspan(static_cast<size_t>(first - kFields), static_cast<size_t>(count));
  }
  if (equals != word.size()) {
    r.otherwise = named<AttrDefault>(word.substr(equals + 1), {{"absent", AttrDefault::kAbsent},
                                                               {"zero", AttrDefault::kZero},
                                                               {"one", AttrDefault::kOne},
                                                               {"true", AttrDefault::kTrue},
                                                               {"last", AttrDefault::kLast},
                                                               {"ones", AttrDefault::kOnes},
                                                               {"zeros", AttrDefault::kZeros},
                                                               {"no_pad", AttrDefault::kNoPad},
                                                               {"compare", AttrDefault::kCompare}});
  }
  return r;
}

}  // namespace

const Operation* find_operation(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, Operation> all;
    for (const Row& row : kRows) {
      Operation& op = all[row.name];
      op.name = row.name;
      for (std::string_view w : words(row.form)) op.form.push_back(form_item(w));
      for (std::string_view w : words(row.attributes)) op.attributes.push_back(rule(w));
      op.body_list = row.bodies.ends_with('*');
      op.bodies = words(row.bodies.substr(0, row.bodies.size() - (op.body_list ? 1 : 0)));
    }
    return all;
  }();
  const auto at = table.find(name);
  return at == table.end() ? nullptr : &at->second;
}

bool is_dropped_attribute(std::string_view name) {
  static constexpr std::string_view kHints[] = {"precision_config", "algorithm",         "result_accuracy",
                                                "operand_layouts",  "result_layouts",    "output_operand_aliases",
                                                "result_tilings",   "resultSegmentSizes"};
  if (name == "mhlo.backend_config") return false;  // arguments of custom calls
  return name.starts_with("mhlo.") || name.starts_with("sdy.") || std::ranges::find(kHints, name) != std::end(kHints);
}

}  // namespace sardonyx::mlir
