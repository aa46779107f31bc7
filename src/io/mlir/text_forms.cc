// Assembly forms of single operations, which no row of operations.def can say.
#include <fmt/format.h>

#include <algorithm>

#include "io/mlir/text_reader.h"

namespace sardonyx::mlir {

// stablehlo.constant {attributes} dense<...> : type, or the rest of a generic form.
void TextReader::constant_form(Reading& op) {
  if (in_.peek() == '(') return generic_form(op);
  optional_dictionary(op);
  const size_t at = in_.at();
  Attr value = attribute();
  const auto* payload = value.get<TensorPtr>();
  if (payload == nullptr) in_.fail_at(at, "expected elements, dense<...> : tensor<...>");
  op.draft.results = {types_table().tensor((*payload)->dtype(), (*payload)->shape())};
  add_attribute(op, "value", std::move(value));
}

// stablehlo.while(%arg = %init, ...) : types attributes {...} cond {...} do {...}
void TextReader::while_form(Reading& op) {
  std::vector<Argument> arguments;
  in_.expect("(");
  while (!in_.take(")")) {
    if (!arguments.empty()) in_.expect(",");
    arguments.push_back({in_.sigil_name('%', "an argument like %iterArg")});
    in_.expect("=");
    op.draft.operands.push_back(operand());
  }
  if (!arguments.empty()) {
    in_.expect(":");
    op.operand_types = type_list();
    if (op.operand_types.size() != arguments.size()) {
      in_.fail_at(op.at,
                  fmt::format("stablehlo.while has {} operands and types for {}", arguments.size(), op.operand_types.size()));
    }
  }
  op.draft.results = op.operand_types;
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i].type = op.operand_types[i];
  if (in_.take_word("attributes")) dictionary(op.draft.attributes);
  in_.expect_word("cond");
  op.draft.bodies.push_back(&region(arguments));
  in_.expect_word("do");
  op.draft.bodies.push_back(&region(arguments));
}

// A body of two arguments that one operation combines.
Graph& TextReader::combining_region(Reading& op, std::string_view inner) {
  const Op& known = builder_.model().op("", inner.substr(inner.find('.') + 1));
  if (!inner.starts_with("stablehlo.") || !known.known || known.max_inputs != 2 || known.max_outputs != 1) {
    in_.fail_at(op.at, fmt::format("'{}' combines no two elements", inner));
  }
  if (op.operand_types.empty()) in_.fail_at(op.at, "a reduction has no operands");
  const Type* element = types_table().scalar(op.operand_types[0]->dtype());
  Graph& graph = builder_.model().new_graph();
  Draft draft{.name = inner, .results = {element}, .location = op.draft.location};
  for (int i = 0; i < 2; ++i) draft.operands.push_back(builder_.add_input(graph, element));
  const Results result = builder_.add(graph, draft);
  graph.add_output(*result.first, {}, result.first->type());
  return graph;
}

// stablehlo.reduce(%x init: %init), ... applies stablehlo.add across dimensions = [0] : function type
// stablehlo.reduce(%x init: %init), ... across dimensions = [0] : function type
//  reducer(%x: type, %accumulator: type) ... {...}
void TextReader::reduce_form(Reading& op) {
  std::vector<Value*> inits;
  do {
    in_.expect("(");
    op.draft.operands.push_back(operand());
    in_.expect_word("init");
    in_.expect(":");
    inits.push_back(operand());
    in_.expect(")");
  } while (in_.take(","));
  op.draft.operands.insert(op.draft.operands.end(), inits.begin(), inits.end());
  std::string_view inner;
  if (in_.take_word("applies")) inner = in_.word("an operation");
  in_.expect_word("across");
  in_.expect_word("dimensions");
  in_.expect("=");
  add_attribute(op, "dimensions", Attr(integers('[', ']')));
  optional_dictionary(op);
  in_.expect(":");
  set_function_type(op, function_type());
  op.draft.location = optional_location();
  if (!inner.empty()) {
    op.draft.bodies.push_back(&combining_region(op, inner));
    return;
  }
  in_.expect_word("reducer");
  std::vector<Argument> elements, accumulators;
  while (in_.take("(")) {
    for (auto* list : {&elements, &accumulators}) {
      if (list == &accumulators) in_.expect(",");
      list->push_back(argument());
      (void)optional_location();
    }
    in_.expect(")");
  }
  elements.insert(elements.end(), accumulators.begin(), accumulators.end());
  op.draft.bodies.push_back(&region(elements));
}

// chlo.scan(%x) inits(%init) dimension=0 attributes {...} {^bb0(...): ...} : function type
void TextReader::scan_form(Reading& op) {
  int64_t counts[2] = {};
  for (int64_t& count : counts) {
    if (&count == &counts[1]) in_.expect_word("inits");
    in_.expect("(");
    while (!in_.take(")")) {
      if (count != 0) in_.expect(",");
      op.draft.operands.push_back(operand());
      ++count;
    }
  }
  in_.expect_word("dimension");
  in_.expect("=");
  add_attribute(op, "dimension", Attr(in_.integer("an axis")));
  add_attribute(op, "operandSegmentSizes", Attr(Attr::Ints{counts[0], counts[1]}));
  if (in_.take_word("attributes")) dictionary(op.draft.attributes);
  op.draft.bodies.push_back(&region({}));
  in_.expect(":");
  set_function_type(op, function_type());
}

// [start:limit, start:limit:stride]
void TextReader::slice_ranges(Reading& op) {
  Attr::Ints starts, limits, strides;
  in_.expect("[");
  while (!in_.take("]")) {
    if (!starts.empty()) in_.expect(",");
    starts.push_back(in_.integer("the start of a slice"));
    in_.expect(":");
    limits.push_back(in_.integer("the limit of a slice"));
    strides.push_back(in_.take(":") ? in_.integer("the stride of a slice") : 1);
  }
  add_attribute(op, "start_indices", Attr(std::move(starts)));
  add_attribute(op, "limit_indices", Attr(std::move(limits)));
  add_attribute(op, "strides", Attr(std::move(strides)));
}

// {stride = [1, 1], pad = [[0, 0], [1, 1]], lhs_dilate = [..], rhs_dilate = [..], reverse = [false, false]}
void TextReader::window(Reading& op) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"stride", "window_strides"},
                                                                             {"lhs_dilate", "lhs_dilation"},
                                                                             {"rhs_dilate", "rhs_dilation"},
                                                                             {"reverse", "window_reversal"}};
  in_.expect("{");
  for (bool first = true; !in_.take("}"); first = false) {
    if (!first) in_.expect(",");
    const size_t at = in_.at();
    const std::string_view word = in_.word("a part of the window");
    in_.expect("=");
    if (word == "pad") {
      std::vector<int64_t> pads;
      in_.expect("[");
      while (!in_.take("]")) {
        if (!pads.empty()) in_.expect(",");
        const Attr::Ints pair = integers('[', ']');
        if (pair.size() != 2) in_.fail_at(at, "each axis is padded by a pair");
        pads.insert(pads.end(), pair.begin(), pair.end());
      }
      const auto axes = static_cast<int64_t>(pads.size() / 2);
      add_attribute(op, "padding", Attr(Tensor::of<int64_t>(DType::kI64, {axes, 2}, pads)));
      continue;
    }
    const auto* known = std::ranges::find(kNames, word, [](const auto& n) { return n.first; });
    if (known == std::end(kNames)) in_.fail_at(at, fmt::format("a window has no '{}'", word));
    add_attribute(op, known->second, Attr(integers('[', ']')));
  }
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
void TextReader::dot_numbers(Reading& op) {
  AttrDict numbers;
  const auto pair = [&](std::string_view kind) {
    in_.expect("=");
    numbers.emplace_back(fmt::format("lhs_{}_dimensions", kind), Attr(integers('[', ']')));
    in_.expect_word("x");
    numbers.emplace_back(fmt::format("rhs_{}_dimensions", kind), Attr(integers('[', ']')));
  };
  if (in_.take_word("batching_dims")) {
    pair("batching");
    in_.expect(",");
  }
  in_.expect_word("contracting_dims");
  pair("contracting");
  add_attribute(op, "dot_dimension_numbers", Attr(std::move(numbers)));
}

// , precision = [HIGH, DEFAULT], algorithm = <...>: hints, which the model does not keep
void TextReader::precision() {
  while (in_.take(",")) {
    if (in_.take_word("algorithm")) {
      in_.expect("=");
      in_.expect("<");
      (void)in_.skip_balanced('<', '>');
      continue;
    }
    in_.expect_word("precision");
    in_.expect("=");
    in_.expect("[");
    (void)in_.skip_balanced('[', ']');
  }
}

// e5m10
void TextReader::exponent_mantissa(Reading& op) {
  const size_t at = in_.at();
  const std::string_view word = in_.word("a format like e5m10");
  const size_t m = word.find('m');
  int64_t exponent = 0, mantissa = 0;
  if (word[0] != 'e' || m == std::string_view::npos || !parse_integer(word.substr(1, m - 1), exponent) ||
      !parse_integer(word.substr(m + 1), mantissa)) {
    in_.fail_at(at, fmt::format("expected a format like e5m10, found '{}'", word));
  }
  add_attribute(op, "exponent_bits", Attr(exponent));
  add_attribute(op, "mantissa_bits", Attr(mantissa));
}

}  // namespace sardonyx::mlir
