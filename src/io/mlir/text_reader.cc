#include "io/mlir/text_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace sardonyx::mlir {

// --- modules and functions

void TextReader::read() {
  while (!in_.at_end()) {
    if (!take_alias_definition()) module_or_function();
  }
}

void TextReader::module_or_function() {
  if (in_.take_word("module") || in_.take_word("builtin.module")) return module_body();
  if (in_.take_word("func.func") || in_.take_word("func")) return function();
  if (in_.take_word("sdy.mesh")) return mesh();
  if (in_.peek() == '"') return generic_module(in_.string("an operation"));
  in_.expected("'module' or 'func.func'");
}

// sdy.mesh @name = <...> {...}: devices, which the model does not know.
void TextReader::mesh() {
  (void)in_.symbol();
  in_.expect("=");
  in_.expect("<");
  (void)in_.skip_balanced('<', '>');
  AttrInit attributes;
  if (in_.peek() == '{') dictionary(attributes);
  (void)optional_location();
}

void TextReader::module_body() {
  const size_t at = in_.at();
  if (region_depth_ > 0) in_.fail_at(at, "a module inside a module is not supported", ErrorCode::kUnsupported);
  std::string name;
  if (in_.peek() == '@') name = in_.symbol();
  AttrInit attributes;
  if (in_.take_word("attributes")) dictionary(attributes);
  in_.expect("{");
  ++region_depth_;
  while (!in_.take("}")) module_or_function();
  --region_depth_;
  (void)optional_location();
  builder_.set_module_name(name);
}

void TextReader::function() {
  const size_t at = in_.at();
  bool is_public = true;
  if (in_.take_word("private") || in_.take_word("nested")) {
    is_public = false;
  } else {
    (void)in_.take_word("public");
  }
  const std::string name = in_.symbol();
  Graph& graph = builder_.model().new_graph();
  std::vector<PortDraft> inputs, results;
  std::vector<const Type*> result_types;
  function_arguments(graph, inputs);
  if (in_.take("->")) function_results(results, result_types);
  AttrInit attributes;
  if (in_.take_word("attributes")) dictionary(attributes);
  if (in_.peek() != '{') {
    in_.fail_at(at, fmt::format("the function '{}' has no body", name), ErrorCode::kUnsupported);
  }
  in_.expect("{");
  if (in_.peek() == '^') block_arguments(graph);
  region_body(graph);
  leave(0);
  (void)optional_location();
  check_results(graph, name, result_types.size(), at);
  builder_.add_function(name, is_public, graph, inputs, results);
}

void TextReader::check_results(const Graph& graph, std::string_view function, size_t declared, size_t at) {
  if (graph.outputs().size() == declared) return;
  in_.fail_at(at,
              fmt::format("the function '{}' declares {} results and returns {}", function, declared, graph.outputs().size()));
}

// (%x: type {attributes} loc(...), ...)
void TextReader::function_arguments(Graph& graph, std::vector<PortDraft>& drafts) {
  in_.expect("(");
  if (in_.take(")")) return;
  do {
    define_argument(graph, argument());
    PortDraft& draft = drafts.emplace_back();
    if (in_.peek() == '{') dictionary(draft.attributes);
    const Location& l = builder_.location(optional_location());
    if (l.is_bare) draft.name = l.name;
  } while (in_.take(","));
  in_.expect(")");
}

// type, or (type {attributes}, ...)
void TextReader::function_results(std::vector<PortDraft>& drafts, std::vector<const Type*>& types) {
  if (!in_.take("(")) {
    types.push_back(type());
    return;
  }
  if (in_.take(")")) return;
  do {
    types.push_back(type());
    PortDraft& draft = drafts.emplace_back();
    if (in_.peek() == '{') dictionary(draft.attributes);
  } while (in_.take(","));
  in_.expect(")");
}

// "builtin.module"() <{properties}> ({ functions }) {attributes} : () -> (), and the same of a function. The
// cursor is behind the name.
void TextReader::generic_module(std::string_view name) {
  const size_t at = in_.at();
  const bool is_module = name == "builtin.module";
  if (!is_module && name != "func.func") in_.expected("a module or a function");
  in_.expect("(");
  in_.expect(")");
  AttrInit attributes;
  if (in_.take("<")) {
    dictionary(attributes);
    in_.expect(">");
  }
  in_.expect("(");
  Graph* body = nullptr;
  if (is_module) {
    if (region_depth_ > 0) in_.fail_at(at, "a module inside a module is not supported", ErrorCode::kUnsupported);
    in_.expect("{");
    if (in_.peek() == '^') {  // ^bb0:
      (void)in_.sigil_name('^', "a block");
      in_.expect(":");
    }
    ++region_depth_;
    while (!in_.take("}")) module_or_function();
    --region_depth_;
  } else {
    body = &region({});
    leave(0);
  }
  in_.expect(")");
  if (in_.peek() == '{') dictionary(attributes);
  in_.expect(":");
  (void)function_type();
  (void)optional_location();
  if (body != nullptr) return generic_function(attributes, *body);
  const auto symbol = std::ranges::find(attributes, "sym_name", &NamedAttr::name);
  if (symbol != attributes.end() && symbol->value.get<std::string>() != nullptr) {
    builder_.set_module_name(*symbol->value.get<std::string>());
  }
}

void TextReader::generic_function(const AttrInit& attributes, Graph& body) {
  std::string name;
  bool is_public = true;
  std::vector<PortDraft> inputs, results;
  for (const NamedAttr& a : attributes) {
    const auto* text = a.value.get<std::string>();
    if (a.name == "sym_name" && text != nullptr) name = *text;
    if (a.name == "sym_visibility" && text != nullptr) is_public = *text == "public";
    if (a.name == "arg_attrs") inputs = port_drafts(a.value);
    if (a.name == "res_attrs") results = port_drafts(a.value);
  }
  builder_.add_function(name, is_public, body, inputs, results);
}

// --- regions

TextReader::Argument TextReader::argument() {
  Argument a;
  a.name = in_.sigil_name('%', "an argument like %arg0");
  in_.expect(":");
  a.type = type();
  return a;
}

void TextReader::define_argument(Graph& graph, const Argument& a) {
  define(a.name, in_.at(), {builder_.add_input(graph, a.type), 1});
}

// ^bb0(%x: type loc(...), ...):
void TextReader::block_arguments(Graph& graph) {
  (void)in_.sigil_name('^', "a block");
  if (in_.take("(") && !in_.take(")")) {
    do {
      define_argument(graph, argument());
      (void)optional_location();
    } while (in_.take(","));
    in_.expect(")");
  }
  in_.expect(":");
}

Graph& TextReader::region(std::span<const Argument> arguments) {
  Graph& graph = builder_.model().new_graph();
  const size_t outer = scope();
  in_.expect("{");
  for (const Argument& a : arguments) define_argument(graph, a);
  if (in_.peek() == '^') block_arguments(graph);
  region_body(graph);
  leave(outer);
  return graph;
}

// Operations up to '}'.
void TextReader::region_body(Graph& graph) {
  if (++region_depth_ > max_depth_)
    in_.fail(fmt::format("regions nest more than {} levels here", max_depth_), ErrorCode::kLimit);
  bool open = true;
  while (!in_.take("}")) {
    if (in_.peek() == '^') in_.fail("regions of several blocks are not supported", ErrorCode::kUnsupported);
    if (!open) in_.expected("'}' behind the end of the region");
    open = operation(graph);
  }
  --region_depth_;
}

// --- names

void TextReader::define(std::string_view name, size_t at, Results results) {
  if (!names_.try_emplace(name, results).second) in_.fail_at(at, fmt::format("'{}' is defined already", name));
  scope_.push_back(name);
}

void TextReader::leave(size_t outer) {
  for (; scope_.size() > outer; scope_.pop_back()) names_.erase(scope_.back());
}

// %x or %x#1
Value* TextReader::operand() {
  const size_t at = in_.at();
  const std::string_view name = in_.sigil_name('%', "an operand like %0");
  const auto found = names_.find(name);
  if (found == names_.end()) in_.fail_at(at, fmt::format("nothing defines '{}' up to here", name));
  int64_t index = 0;
  if (in_.is("#")) {
    (void)in_.take("#");
    index = in_.integer("the number of a result");
  }
  const Results& r = found->second;
  if (index < 0 || static_cast<size_t>(index) >= r.count) {
    in_.fail_at(at, fmt::format("'{}' has {} results and no number {}", name, r.count, index));
  }
  return r.first + index;
}

// --- operations

bool TextReader::operation(Graph& graph) {
  // %a:2, %b = operation
  std::vector<std::pair<std::string_view, size_t>> results;
  const size_t from = in_.at();
  size_t count = 0;
  if (in_.peek() == '%') {
    do {
      const std::string_view name = in_.sigil_name('%', "a result like %0");
      int64_t n = in_.take(":") ? in_.integer("the number of results") : 1;
      if (n < 0 || n > (1 << 24)) in_.fail("no operation has so many results");
      results.emplace_back(name, static_cast<size_t>(n));
      count += static_cast<size_t>(n);
    } while (in_.take(","));
    in_.expect("=");
  }
  Reading op;
  op.at = in_.at();
  const bool generic = in_.peek() == '"';
  std::string name = generic ? in_.string("an operation") : std::string(in_.word("an operation"));
  if (name == "call" || name == "return") name = "func." + name;
  if (name == "stablehlo.cross" && in_.take("-replica-sum")) name = "stablehlo.cross-replica-sum";
  op.draft.name = name;
  op.row = find_operation(name);
  if (generic || op.row == nullptr) {
    if (!generic) {
      in_.fail_at(op.at, fmt::format("'{}' is not supported: its assembly form is not known", name), ErrorCode::kUnsupported);
    }
    generic_form(op);
  } else {
    custom_form(op);
  }
  if (const uint32_t location = optional_location()) op.draft.location = location;
  if (name.ends_with(".return")) {
    if (count != 0) in_.fail_at(from, fmt::format("{} has no results", name));
    terminate(graph, op);
    return false;
  }
  if (!results.empty() && op.draft.results.size() != count) {
    in_.fail_at(from, fmt::format("{} has {} results, named are {}", name, op.draft.results.size(), count));
  }
  check_operands(op);
  Results made;
  try {
    made = builder_.add(graph, op.draft);
  } catch (const Error& e) {
    in_.fail_at(op.at, e.message(), e.code());
  }
  for (const auto& [result, n] : results) {
    define(result, from, {made.first, n});
    made.first += n;
  }
  return true;
}

// Whether the operands have the types that the text declares.
void TextReader::check_operands(const Reading& op) {
  for (size_t i = 0; i < op.operand_types.size() && i < op.draft.operands.size(); ++i) {
    const Type* found = op.draft.operands[i]->type();
    if (fits(found, op.operand_types[i])) continue;
    in_.fail_at(op.at, fmt::format("operand {} of {} is {} and is declared as {}", i, op.draft.name,
                                   types_table().to_string(found), types_table().to_string(op.operand_types[i])));
  }
}

void TextReader::terminate(Graph& graph, const Reading& op) {
  for (Value* v : op.draft.operands) graph.add_output(*v, {}, v->type());
}

// "op"(%x, %y) <{properties}> ({region}, {region}) {attributes} : (types) -> types
void TextReader::generic_form(Reading& op) {
  in_.expect("(");
  while (!in_.take(")")) {
    if (!op.draft.operands.empty()) in_.expect(",");
    op.draft.operands.push_back(operand());
  }
  if (in_.peek() == '[') in_.fail("branches between blocks are not supported", ErrorCode::kUnsupported);
  if (in_.take("<")) {
    dictionary(op.draft.attributes);
    in_.expect(">");
  }
  optional_regions(op);
  optional_dictionary(op);
  in_.expect(":");
  set_function_type(op, function_type());
}

// ({region}, {region}), or nothing
void TextReader::optional_regions(Reading& op) {
  if (!in_.take("(")) return;
  do {
    op.draft.bodies.push_back(&region({}));
  } while (in_.take(","));
  in_.expect(")");
}

void TextReader::optional_dictionary(Reading& op) {
  if (in_.peek() == '{') dictionary(op.draft.attributes);
}

void TextReader::add_attribute(Reading& op, std::string_view name, Attr value) {
  op.draft.attributes.emplace_back(name, std::move(value));
}

void TextReader::custom_form(Reading& op) {
  if (op.row->form.empty()) {
    in_.fail_at(op.at, fmt::format("{0} has no assembly form of its own: write \"{0}\"(...)", op.draft.name));
  }
  for (size_t i = 0; i < op.row->form.size(); ++i) form_item(op, op.row->form[i], i);
}

void TextReader::form_item(Reading& op, const FormItem& item, size_t& index) {
  using Kind = FormItem::Kind;
  switch (item.kind) {
    case Kind::kLiteral: in_.expect(item.text); break;
    case Kind::kOperand: op.draft.operands.push_back(operand()); break;
    case Kind::kOperands:
      if (in_.peek() != '%') break;
      do {
        op.draft.operands.push_back(operand());
      } while (in_.take(","));
      break;
    case Kind::kCommaOperands:
      while (in_.peek() == '%') {
        op.draft.operands.push_back(operand());
        in_.expect(",");
      }
      break;
    case Kind::kAttribute: add_attribute(op, item.text, form_attribute()); break;
    case Kind::kPart: part(op, item.text); break;
    case Kind::kTypes: types(op, item.text); break;
    case Kind::kOptional:
      if (!in_.is(op.row->form[index + 1].text)) {
        while (op.row->form[index].kind != Kind::kEndOptional) ++index;
      }
      break;
    case Kind::kEndOptional: break;
  }
}

void TextReader::part(Reading& op, std::string_view name) {
  if (name == "constant") return constant_form(op);
  if (name == "while") return while_form(op);
  if (name == "reduce") return reduce_form(op);
  if (name == "scan") return scan_form(op);
  if (name == "regions") return optional_regions(op);
  if (name == "slice_ranges") return slice_ranges(op);
  if (name == "window") return window(op);
  if (name == "dot") return dot_numbers(op);
  if (name == "precision") return precision();
  if (name == "exponent_mantissa") return exponent_mantissa(op);
  if (name == "convolution") return add_attribute(op, "dimension_numbers", Attr(convolution_numbers()));
  if (name == "target") return add_attribute(op, "call_target_name", Attr(in_.symbol()));
  if (name == "sharding") {
    in_.expect("<");
    (void)in_.skip_balanced('<', '>');
    return;
  }
  SX_CHECK(name == "callee", "a part of a form that nobody reads");
  add_attribute(op, "callee", Attr(in_.symbol()));
}

// The attribute dictionary and the types at the end of a custom form.
void TextReader::types(Reading& op, std::string_view manner) {
  optional_dictionary(op);
  if (manner == "none") return;
  if (manner == "types" || manner == "pair") {
    if (op.draft.operands.empty() && !in_.is(":")) return;
    in_.expect(":");
    optional_dictionary(op);  // check.expect_close has it here
    op.operand_types = type_list();
    if (manner == "pair") op.draft.results = op.operand_types;
    if (op.operand_types.size() == 1 && op.draft.name.starts_with("check.")) op.operand_types.clear();
    return;
  }
  in_.expect(":");
  if (manner == "same" || manner == "complex") return one_type_or_function(op, manner == "complex");
  if (manner == "func") return set_function_type(op, function_type());
  if (manner == "result") {
    op.draft.results = {type()};
    return;
  }
  if (manner == "arrow") {
    op.operand_types = in_.peek() == '(' ? types_in_parens() : type_list();
    in_.expect("->");
    op.draft.results = result_types();
    return;
  }
  SX_CHECK(manner == "select", "a manner of types that nobody reads");
  if (in_.peek() == '(') return set_function_type(op, function_type());
  const Type* predicate = type();
  in_.expect(",");
  const Type* t = type();
  op.operand_types = {predicate, t, t};
  op.draft.results = {t};
}

// The type of the operands and the result, or a function type. For `complex`, the type of the result.
void TextReader::one_type_or_function(Reading& op, bool complex) {
  if (in_.peek() == '(') return set_function_type(op, function_type());
  const size_t at = in_.at();
  const Type* t = type();
  op.draft.results = {t};
  if (complex) {
    if (!is_complex(t->dtype())) in_.fail_at(at, "expected a tensor of complex elements");
    t = types_table().with_dtype(t, t->dtype() == DType::kC64 ? DType::kF32 : DType::kF64);
  }
  op.operand_types.assign(op.draft.operands.size(), t);
}

void TextReader::set_function_type(Reading& op, FunctionType type) {
  op.operand_types = std::move(type.inputs);
  op.draft.results = std::move(type.results);
  if (op.operand_types.size() != op.draft.operands.size()) {
    in_.fail_at(op.at, fmt::format("{} has {} operands and types for {}", op.draft.name, op.draft.operands.size(),
                                   op.operand_types.size()));
  }
}

}  // namespace sardonyx::mlir
