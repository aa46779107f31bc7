// Parser of the .sx text form, hand-written with one token of look-ahead. docs/reference/text_form.md has the
// grammar.
//
// Nodes are made as they are read, operands first. Types that the text omits are inferred at the end.
// Recursion follows the nesting of graphs and expressions in the text, and both are bounded.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <unordered_map>

#include "ir/graph/file_record.h"
#include "ir/text/parse_attr.h"
#include "sardonyx/infer.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

using text::Token;

class Parser : private text::AttrParser {
 public:
  Parser(std::string_view source, std::string_view file, const PayloadSource& payloads) : AttrParser(source, file, payloads) {
    names_.reserve(source.size() / 24);
  }

  std::unique_ptr<Model> run() {
    dialect_ahead();
    m_ = std::make_unique<Model>(dialect_);
    header();
    bool main = false;
    while (lex_.kind() != Token::kEnd) {
      if (lex_.is("graph")) {
        if (main) lex_.fail("this text has a main graph already: others are called function");
        main = true;
        main_graph();
      } else if (lex_.is("function")) {
        if (!main) {  // the main function comes first in the model, wherever it is in the text
          m_->add_function("main");
          main_made_ = true;
        }
        function();
      } else {
        lex_.expected(main ? "'function' or the end" : "'graph', 'function' or a fact like 'opset 23'");
      }
    }
    if (!main) lex_.expected("a graph");
    finish();
    return std::move(m_);
  }

 private:
  // Looks ahead for the main graph, which names the model's dialect: nodes cannot be made without it.
  void dialect_ahead() {
    size_t begin = lex_.start();
    int depth = 0;
    while (lex_.kind() != Token::kEnd) {
      if (depth == 0 && lex_.is("graph")) {
        lex_.next();
        for (DialectId d : kDialects) {
          if (lex_.is(sardonyx::dialect(d).name())) dialect_ = d;
        }
        break;
      }
      if (lex_.is("{") || lex_.is("(") || lex_.is("<")) ++depth;
      if (lex_.is("}") || lex_.is(")") || lex_.is(">")) --depth;
      lex_.next();
    }
    lex_.seek(begin);
  }

  // --- facts

  // Whether the current word is `key` and a string follows; if so, skips the word. So values may be called
  // "doc".
  bool take_key(std::string_view key) {
    if (!lex_.is(key)) return false;
    size_t back = lex_.start();
    lex_.next();
    if (lex_.kind() == Token::kString) return true;
    lex_.seek(back);
    return false;
  }

  bool take_meta(std::string_view key, Metadata& into) {
    if (!lex_.is(key)) return false;
    size_t back = lex_.start();
    lex_.next();
    if (!lex_.take("{")) {
      lex_.seek(back);
      return false;
    }
    while (!lex_.take("}")) {
      if (!into.empty()) lex_.expect(",");
      std::string name = lex_.string("a quoted key");
      lex_.expect(":");
      into.emplace_back(std::move(name), lex_.string("a quoted value"));
    }
    return true;
  }

  std::string hex(std::string_view what) {
    size_t at = lex_.start();
    std::string digits = lex_.string(what), bytes;
    if (digits.size() % 2 != 0) lex_.fail_at(at, "bytes are written as pairs of hexadecimal digits");
    for (size_t i = 0; i < digits.size(); i += 2) {
      unsigned v = 0;
      auto [end, code] = std::from_chars(digits.data() + i, digits.data() + i + 2, v, 16);
      if (end != digits.data() + i + 2 || code != std::errc())
        lex_.fail_at(at, "bytes are written as pairs of hexadecimal digits");
      bytes += static_cast<char>(v);
    }
    return bytes;
  }

  std::string_view keep(const std::string& bytes) { return m_->name(bytes).view(); }

  std::vector<OpsetImport> imports() {
    std::vector<OpsetImport> list;
    if (lex_.take("none")) return list;
    do {
      OpsetImport i;
      if (lex_.kind() != Token::kNumber) i.domain = word_or_string("an opset version or a domain");
      i.version = lex_.integer("an opset version");
      list.push_back(std::move(i));
    } while (lex_.take(","));
    return list;
  }

  void header() {
    bool opset = false;
    for (;;) {
      if (lex_.take("opset")) {
        opset = true;
        for (OpsetImport& i : imports()) m_->opset_imports.push_back(std::move(i));
      } else if (lex_.take("ir_version")) {
        m_->ir_version = lex_.integer("a version");
      } else if (lex_.take("producer")) {
        m_->producer_name = lex_.string("the producer's name");
        if (lex_.kind() == Token::kString) m_->producer_version = lex_.string("a version");
      } else if (lex_.take("domain")) {
        m_->domain = lex_.string("a domain");
      } else if (lex_.take("model_version")) {
        m_->model_version = lex_.integer("a version");
      } else if (lex_.take("doc")) {
        m_->doc = lex_.string("a text");
      } else if (lex_.is("meta")) {
        if (!take_meta("meta", m_->metadata)) lex_.expected("meta {\"key\": \"value\"}");
      } else if (lex_.take("training_info")) {
        m_->edit_file_record().model.training_info.push_back(keep(hex("bytes")));
      } else if (lex_.take("unknown")) {
        m_->edit_file_record().model.fields = hex("bytes");
      } else if (lex_.take("range")) {
        range();
      } else {
        break;
      }
    }
    if (!opset && dialect_ == DialectId::kOnnx) m_->set_opset_version("", 23);
  }

  // range N 0..8; either bound may be missing
  void range() {
    std::string symbol = word_or_string("a dimension's name");
    size_t at = lex_.start(), end = std::min(lex_.text().find('\n', at), lex_.text().size());
    std::string_view line = lex_.text().substr(at, end - at);
    size_t dots = line.find("..");
    if (dots == std::string_view::npos) lex_.expected("a range like 0..8");
    DimRange r;
    auto bound = [&](std::string_view s, std::optional<int64_t>& into) {
      while (!s.empty() && (s.back() == ' ' || s.back() == '\r')) s.remove_suffix(1);
      if (s.empty()) return;
      int64_t v = 0;
      auto [stop, code] = std::from_chars(s.data(), s.data() + s.size(), v);
      if (stop != s.data() + s.size() || code != std::errc()) lex_.expected("a range like 0..8");
      into = v;
    };
    bound(line.substr(0, dots), r.min);
    bound(line.substr(dots + 2), r.max);
    try {
      m_->dims().set_range(symbol, r);
    } catch (const Error& e) {
      lex_.fail(e.message());
    }
    lex_.seek(end);
  }

  // --- functions

  void main_graph() {
    lex_.expect("graph");
    if (dialect_ == DialectId::kOnnx) {
      take_onnx();
    } else {
      lex_.next();
    }
    std::string name = lex_.kind() == Token::kString ? lex_.string("a name") : "main";
    Function* f = nullptr;
    if (main_made_) {
      f = &m_->main();
      f->name = name;
      f->graph().set_name(m_->name(name));
    } else {
      f = &m_->add_function(name);
      main_made_ = true;
    }
    rest_of_function(*f);
  }

  void take_onnx() {
    if (lex_.is("onnx")) lex_.next();
  }

  void function() {
    lex_.expect("function");
    std::string domain, name;
    if (lex_.kind() == Token::kString) {
      name = lex_.string("a name");
      if (!lex_.is("::"))
        if (size_t colons = name.rfind("::"); colons != std::string::npos) {
          domain = name.substr(0, colons);
          name = name.substr(colons + 2);
        }
    } else {
      name = word_or_string("a function's name");
    }
    if (lex_.take("::")) {
      domain = name;
      name = word_or_string("a function's name");
    }
    Function& f = m_->add_function(name);
    f.domain = domain;
    if (lex_.take("<")) {
      while (!lex_.take(">")) {
        if (!f.attributes.empty() || !f.default_attributes.empty()) lex_.expect(",");
        std::string attribute_name = word_or_string("an attribute's name");
        if (lex_.take("=")) {
          f.default_attributes.push_back({attribute_name, attribute(0)});
          if (take_key("doc")) f.default_attributes.back().doc = lex_.string("a text");
        } else {
          f.attributes.push_back(attribute_name);
        }
      }
    }
    rest_of_function(f);
  }

  void rest_of_function(Function& f) {
    function_ = &f;
    ops_.clear();
    names_.clear();
    Graph& g = f.graph();
    inputs(g);
    for (;;) {
      if (take_key("overload")) {
        f.overload = lex_.string("an overload");
      } else if (lex_.take("opset")) {
        f.opset_imports = imports();
      } else if (take_key("mil_opset")) {
        f.mil_opset = lex_.string("an opset");
      } else if (take_key("function_doc")) {
        f.doc = lex_.string("a text");
      } else if (take_key("function_domain")) {
        f.domain = lex_.string("a domain");
      } else if (take_meta("function_meta", f.metadata)) {
      } else if (take_key("function_unknown")) {
        m_->edit_file_record().graphs[&g].holder_fields = hex("bytes");
      } else if (take_key("named")) {
        g.set_name(m_->name(lex_.string("a name")));
      } else if (!graph_fact(g)) {
        break;
      }
    }
    body(g, 1);
    names_.clear();
    scope_.clear();
  }

  // --- graphs

  bool graph_fact(Graph& g) {
    if (take_key("doc")) {
      g.doc = lex_.string("a text");
    } else if (take_key("unknown")) {
      m_->edit_file_record().graphs[&g].fields = hex("bytes");
    } else {
      return take_meta("meta", g.metadata);
    }
    return true;
  }

  void port_facts(Port& p) {
    if (take_key("doc")) p.doc = lex_.string("a text");
    take_meta("meta", p.metadata);
  }

  struct ValueWord {
    std::string_view key;   // the key that identifies the value
    std::string_view name;  // empty: an unnamed value
    size_t at;
    bool quoted = false;
  };

  bool at_value() const { return lex_.kind() == Token::kWord || lex_.kind() == Token::kValue; }

  // x, %12 or %"any text", followed by #2 and so on if the name is not unique
  ValueWord value_word(bool port = false) {
    ValueWord w{lex_.raw(), lex_.raw(), lex_.start()};
    if (lex_.kind() == Token::kValue) {
      if (w.key.starts_with("%\"")) {
        w.quoted = true;
        w.name = owned_.emplace_back(lex_.unquoted());
        const bool other = w.name.empty() || w.name[0] == '%' || w.name[0] == '\x01' || w.name[0] == '\x02';  // starts a key
        w.key = other ? std::string_view(owned_.emplace_back("\x02" + std::string(w.name))) : w.name;
      } else {
        w.name = {};
      }
    } else if (lex_.kind() != Token::kWord || (text::is_reserved(w.key) && !port)) {
      lex_.expected("a value's name");
    }
    size_t end = lex_.end();
    if (end < lex_.text().size() && lex_.text()[end] == '#') {
      size_t stop = end + 1;
      while (stop < lex_.text().size() && text::is_digit(lex_.text()[stop])) ++stop;
      if (stop == end + 1) lex_.fail_at(end, "'#' behind a name takes a number: x#2");
      w.key =
          owned_.emplace_back('\x01' + std::string(lex_.text().substr(end + 1, stop - end - 1)) + '\x01' + std::string(w.name));
      lex_.seek(stop);
    } else {
      lex_.next();
    }
    return w;
  }

  void define(const ValueWord& w, Value& v) {
    auto [it, fresh] = names_.try_emplace(w.key, &v);
    if (!fresh) lex_.fail_at(w.at, fmt::format("'{}' is defined already", shown(w)));
    scope_.push_back(w.key);
    if (!w.name.empty() && v.name().view() != w.name) v.set_name(m_->name(w.name));
  }

  static std::string shown(const ValueWord& w) { return w.name.empty() ? std::string(w.key) : std::string(w.name); }

  Value& find(const ValueWord& w) {
    auto it = names_.find(w.key);
    if (it == names_.end()) lex_.fail_at(w.at, fmt::format("no value is called '{}' up to here", shown(w)));
    return *it->second;
  }

  void inputs(Graph& g) {
    lex_.expect("(", "and the graph's inputs");
    while (!lex_.take(")")) {
      if (!g.inputs().empty()) lex_.expect(",", "or ')'");
      if (!at_value()) lex_.expected("an input's name");
      ValueWord port = value_word();
      const Type* t = lex_.take(":") ? type() : nullptr;
      Value* v = g.add_input(port.name, t);
      ValueWord word = port;
      if (lex_.take("as")) {
        if (!at_value()) lex_.expected("a value's name");
        word = value_word();
        v->set_name(Name());
      }
      define(word, *v);
      Port& p = g.input_port(g.inputs().size() - 1);
      if (lex_.take("=")) p.default_value = constant();
      port_facts(p);
    }
  }

  void body(Graph& g, int depth) {
    if (depth > text::kMaxGraphDepth)
      lex_.fail(fmt::format("graphs nest more than {} levels here", text::kMaxGraphDepth), ErrorCode::kLimit);
    lex_.expect("{", "and the graph's nodes");
    size_t outer = scope_.size();
    for (bool returned = false; !lex_.take("}");) {
      if (returned) lex_.expected("'}' after return");
      if (lex_.is("return")) {
        returned = true;
        results(g);
      } else if (!lex_.is("info") || !info(g)) {
        if (!lex_.is("raw") || !raw(g)) statement(g, depth);
      }
    }
    leave(outer);
  }

  void leave(size_t outer) {
    for (; scope_.size() > outer; scope_.pop_back()) names_.erase(scope_.back());
  }

  // info x: f32[3] doc "..." meta {...}; returns false and reads nothing if "info" is a value's name
  bool info(Graph& g) {
    size_t back = lex_.start();
    lex_.next();
    if (!at_value()) {
      lex_.seek(back);
      return false;
    }
    ValueWord w = value_word();
    ValueInfo& i = g.value_info[&find(w)];
    if (lex_.take(":")) i.declared = type();
    Notes notes;
    if (take_key("doc")) notes.doc = lex_.string("a text");
    take_meta("meta", notes.metadata);
    if (!notes.doc.empty() || !notes.metadata.empty()) i.notes = std::make_shared<const Notes>(std::move(notes));
    return true;
  }

  bool raw(Graph& g) {
    size_t back = lex_.start();
    lex_.next();
    using OfGraph = FileRecord::OfGraph;
    for (auto [key, list] : {std::pair{"quantization_annotation", &OfGraph::quantization_annotations},
                             {"loose_value_info", &OfGraph::loose_value_info}}) {
      if (!take_key(key)) continue;
      (m_->edit_file_record().graphs[&g].*list).push_back(keep(hex("bytes")));
      return true;
    }
    lex_.seek(back);
    return false;
  }

  // return z, y: f32[3] = %2, Add(x, y)
  void results(Graph& g) {
    lex_.expect("return");
    do {
      size_t begin = lex_.start();
      std::string name = fmt::format("out_{}", g.outputs().size());
      Value* v = nullptr;
      const Type* declared = nullptr;
      if (at_value() && !lex_.is("_")) {
        ValueWord w = value_word(/*port=*/true);
        bool plain =
            !lex_.is("(") && !lex_.is("<") && !lex_.is("::") && !lex_.is("!") && lex_.kind() != Token::kNumber && !lex_.is("[");
        if (!plain) {
          lex_.seek(begin);
        } else {
          if (lex_.take(":")) declared = type();
          if (lex_.take("=")) {
            name = w.name;
            v = operand(g, 0);
          } else {
            v = &find(w);
            if (!w.name.empty()) name = w.name;
          }
        }
      }
      if (lex_.start() == begin) v = operand(g, 0);
      if (v == nullptr) lex_.fail_at(begin, "a graph cannot return an absent value");
      g.add_output(*v, name, declared);
      port_facts(g.output_port(g.outputs().size() - 1));
    } while (lex_.take(","));
  }

  // --- nodes

  void statement(Graph& g, int depth) {
    if (!at_value() && lex_.kind() != Token::kString) lex_.expected("a node like z = Add(x, y), 'return' or '}'");
    size_t begin = lex_.start();
    struct Left {
      ValueWord word;
      const Type* type;
    };
    std::vector<Left> left;
    if (at_value()) {  // results come first if ',', ':' or '=' follows the first name
      ValueWord w = value_word(/*port=*/true);
      if (lex_.is(",") || lex_.is(":") || lex_.is("=")) {
        left.push_back({w, lex_.take(":") ? type() : nullptr});
        while (lex_.take(",")) {
          if (!at_value()) lex_.expected("a value's name");
          w = value_word();
          left.push_back({w, lex_.take(":") ? type() : nullptr});
        }
        for (const Left& l : left)
          if (!l.word.quoted && text::is_reserved(l.word.name))
            lex_.fail_at(l.word.at, fmt::format("'{}' is a word of the text form: write %\"{}\" for a value of that name",
                                                l.word.name, l.word.name));
        lex_.expect("=");
      } else {
        lex_.seek(begin);
      }
    }
    if (left.size() == 1 && at_constant()) {
      Value* v = g.add_constant(constant());
      define(left[0].word, *v);
      return;
    }
    Node& n = node(g, left.size(), depth, 0);
    for (size_t i = 0; i < left.size(); ++i) {
      define(left[i].word, *n.result(i));
      if (left[i].type != nullptr) n.result(i)->set_type(left[i].type);
    }
  }

  const Op& op(std::string_view spelled, std::string_view domain, std::string_view name, std::optional<int> version) {
    auto [it, fresh] = ops_.try_emplace(spelled, nullptr);
    if (!fresh) return *it->second;
    if (!version && dialect_ == DialectId::kOnnx) {
      for (const OpsetImport& i : function_->opset_imports)
        if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) version = static_cast<int>(i.version);
    }
    it->second = &m_->op(domain, name, version);
    return *it->second;
  }

  // Op<attributes, bodies>(operands) @name doc "..."
  Node& node(Graph& g, size_t num_results, int depth, int nesting) {
    if (nesting > text::kMaxExpressionDepth)
      lex_.fail(
          fmt::format("expressions nest more than {} levels here: name some on lines of their own", text::kMaxExpressionDepth),
          ErrorCode::kLimit);
    size_t begin = lex_.start();
    std::string domain, name = word_or_string("an operator");
    if (lex_.take("::")) {
      domain = std::move(name);
      name = word_or_string("an operator");
    }
    std::optional<int> version;
    if (lex_.take("!")) version = static_cast<int>(lex_.integer("a version"));
    size_t name_end = lex_.start();
    while (name_end > begin && (lex_.text()[name_end - 1] == ' ' || lex_.text()[name_end - 1] == '\n')) --name_end;
    const Op& found = op(lex_.text().substr(begin, name_end - begin), domain, name, version);

    AttrInit attrs;
    std::vector<Body> bodies;
    if (lex_.take("<")) {
      while (!lex_.take(">")) {
        if (!attrs.empty() || !bodies.empty()) lex_.expect(",", "or '>'");
        size_t at = lex_.start();
        std::string key = word_or_string("an attribute's name");
        bool in_list = lex_.take("[");
        if (in_list) lex_.expect("]");
        lex_.expect("=");
        if (lex_.is("graph")) {
          lex_.next();
          for (DialectId d : kDialects) {
            if (lex_.is(sardonyx::dialect(d).name())) lex_.fail("a nested graph has the dialect of its model");
          }
          Graph& inner = m_->new_graph(lex_.kind() == Token::kString ? lex_.string("a name") : std::string());
          size_t outer = scope_.size();
          inputs(inner);
          while (graph_fact(inner)) {}
          body(inner, depth + 1);
          leave(outer);
          bodies.push_back({m_->name(key), &inner, in_list});
          continue;
        }
        for (const NamedAttr& a : attrs)
          if (a.name == key) lex_.fail_at(at, fmt::format("attribute '{}' is given twice", key));
        attrs.push_back({std::move(key), attribute(0)});
        if (take_key("doc")) attrs.back().doc = lex_.string("a text");
      }
    }
    lex_.expect("(", "and the operands");
    std::vector<Value*> operands;
    std::vector<NamedOperands> named;
    for (bool first = true; !lex_.take(")"); first = false) {
      if (!first) lex_.expect(",", "or ')'");
      if (dialect_ == DialectId::kMil && at_operand_name()) {
        named.push_back(named_operands(g, nesting));
      } else {
        operands.push_back(operand(g, nesting));
      }
    }
    const Op& what = dialect_ == DialectId::kMil ? place_operands(&found, begin, operands, named) : found;
    const Attrs* set = m_->attrs(attrs);
    bool payload = what.has(Trait::kConstant) && attrs.size() == 1 && num_results <= 1;
    TensorPtr value = payload ? text::payload_of(*set) : nullptr;
    Node& n = m_->new_node(what, operands, num_results, value ? nullptr : set);
    for (const Body& b : bodies) {
      n.add_body(b.name, *b.graph);
      m_->edit_extra(n).bodies.back().in_list = b.in_list;
    }
    g.append(n);
    if (value != nullptr && num_results == 1) {
      bool tensor = attrs[0].name == "value" || attrs[0].name == "val";
      g.set_constant(*n.result(), std::move(value));
      if (!tensor) n.edit_extra().payload_attrs = set;
      n.set_unchecked(false);
    }
    suffix(n);
    return n;
  }

  // --- named operands (MIL)

  struct NamedOperands {
    std::string name;
    std::vector<Value*> values;
  };

  // "name=", but not a comparison.
  bool at_operand_name() const {
    return (lex_.kind() == Token::kWord || lex_.kind() == Token::kString) && lex_.end() < lex_.text().size() &&
           lex_.text()[lex_.end()] == '=';
  }

  NamedOperands named_operands(Graph& g, int nesting) {
    NamedOperands one{word_or_string("an operand's name"), {}};
    lex_.expect("=");
    if (!lex_.take("(")) {
      one.values.push_back(operand(g, nesting));
      return one;
    }
    while (!lex_.take(")")) {
      if (!one.values.empty()) lex_.expect(",", "or ')'");
      one.values.push_back(operand(g, nesting));
    }
    return one;
  }

  // Puts operands into the op's slots. Unnamed ones fill the other slots in order; if the op takes a list,
  // data first, then the list. An unknown op has the slots that the text names.
  const Op& place_operands(const Op* found, size_t begin, std::vector<Value*>& operands,
                           const std::vector<NamedOperands>& named) {
    const Op& op = *found;
    if (!op.known) {
      if (named.empty()) return op;
      if (!operands.empty()) lex_.fail_at(begin, fmt::format("{} is not known: all its operands need names, or none", op.name));
      std::vector<std::string_view> names;
      for (const NamedOperands& o : named) {
        for (Value* v : o.values) {
          names.push_back(o.name);
          operands.push_back(v);
        }
      }
      return m_->opaque_op(op.name, op.since_version, names);
    }
    std::vector<std::vector<Value*>> slots(op.inputs.size());
    std::vector<bool> given(op.inputs.size());
    for (const NamedOperands& o : named) {
      size_t i = 0;
      while (i < op.inputs.size() && op.inputs[i].name != o.name) ++i;
      if (i == op.inputs.size()) lex_.fail_at(begin, fmt::format("{} has no operand '{}'", op.name, o.name));
      if (given[i]) lex_.fail_at(begin, fmt::format("operand '{}' of {} is given twice", o.name, op.name));
      if (o.values.size() != 1 && op.inputs[i].arity != Arity::kVariadic)
        lex_.fail_at(begin, fmt::format("operand '{}' of {} is not a list", o.name, op.name));
      given[i] = true;
      slots[i] = o.values;
    }
    size_t at = 0;
    const bool has_list = !op.inputs.empty() && op.inputs.back().arity == Arity::kVariadic;
    for (Value* v : operands) {
      while (at < slots.size() && op.inputs[at].arity != Arity::kVariadic &&
             (given[at] || (has_list && op.inputs[at].parameter)))
        ++at;
      if (at == slots.size()) lex_.fail_at(begin, fmt::format("{} has fewer operands without a name", op.name));
      slots[at].push_back(v);
      if (op.inputs[at].arity != Arity::kVariadic) given[at] = true;
    }
    operands.clear();
    size_t length = SIZE_MAX;
    for (size_t i = 0; i < slots.size(); ++i) {
      if (op.inputs[i].arity != Arity::kVariadic) {
        operands.push_back(slots[i].empty() ? nullptr : slots[i][0]);
        continue;
      }
      if (length != SIZE_MAX && length != slots[i].size())
        lex_.fail_at(begin, fmt::format("the lists of {} must have the same length", op.name));
      length = slots[i].size();
      operands.insert(operands.end(), slots[i].begin(), slots[i].end());
    }
    if (op.max_inputs >= 0) {
      while (!operands.empty() && operands.back() == nullptr) operands.pop_back();
    }
    return op;
  }

  void suffix(Node& n) {
    if (lex_.take("@")) n.set_name(m_->name(word_or_string("the node's name")));
    for (;;) {
      if (take_key("overload")) {
        n.edit_extra().overload = lex_.string("an overload");
      } else if (take_key("doc")) {
        n.edit_extra().doc = lex_.string("a text");
      } else if (take_key("unknown")) {
        m_->edit_file_record().nodes[&n] = hex("bytes");
      } else {
        Metadata data;
        if (!take_meta("meta", data)) return;
        n.edit_extra().metadata = std::move(data);
      }
    }
  }

  // A name, a constant, a nested node with one result, or "_" for an absent operand.
  Value* operand(Graph& g, int nesting) {
    if (lex_.take("_")) return nullptr;
    if (at_constant()) return g.add_constant(constant());
    if (lex_.kind() == Token::kValue) return &find(value_word());
    if (lex_.kind() == Token::kWord) {
      char c = lex_.end() < lex_.text().size() ? lex_.text()[lex_.end()] : '\0';
      if (c == '(' || c == '<' || c == '!' || lex_.text().substr(lex_.end(), 2) == "::")
        return node(g, 1, 1, nesting + 1).result();
      return &find(value_word());
    }
    if (lex_.kind() == Token::kString) return node(g, 1, 1, nesting + 1).result();  // "domain"::"op"(...)
    lex_.expected("a value, a constant, an operator or '_'");
  }

  void finish() {
    ValueFacts facts;
    infer_model(*m_, facts, /*tolerant=*/true);
  }

  DialectId dialect_ = DialectId::kOnnx;
  Function* function_ = nullptr;
  bool main_made_ = false;
  std::unordered_map<std::string_view, const Op*> ops_;  // by spelling, in the current function
  std::unordered_map<std::string_view, Value*> names_;   // visible names
  std::vector<std::string_view> scope_;                  // keys of names_ in order of definition
  std::deque<std::string> owned_;
};

}  // namespace

std::unique_ptr<Model> parse(std::string_view text, std::string_view file_name, const PayloadSource& payloads) {
  return Parser(text, file_name, payloads).run();
}

}  // namespace sardonyx
