// Printer of the .sx text form. docs/reference/text_form.md has the grammar; parse.cc reads it back.
//
// One line per node, except that a node whose only result is unnamed and has one use, by the next node, is
// nested in that user: Div(x, Sqrt(y)). The text omits what parsing restores: types that rules infer, and
// names that were never given.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/file_record.h"
#include "ir/text/print_attr.h"
#include "sardonyx/ir.h"

namespace sardonyx {
namespace {

constexpr size_t kMaxNestedText = 100;
constexpr int kMaxNestedDepth = 4;
constexpr size_t kMaxPending = 8;

class Printer : text::AttrPrinter {
 public:
  Printer(const Model& m, const PrintOptions& options)
      : AttrPrinter(m, options), record_(m.file_record()), number_(m.value_id_limit(), 0) {
    bound_.reserve(m.value_id_limit());
  }

  std::string take() { return std::move(out_); }

  void model() {
    header();
    for (size_t i = 0; i < m_.functions().size(); ++i) {
      if (!out_.empty()) out_ += '\n';
      function(*m_.functions()[i], i == 0);
    }
  }

  void graph(const Graph& g) {
    function_ = enclosing_function(g);
    out_ += "graph";
    dialect();
    if (!g.name().empty() && g.name().view() != "main") {
      out_ += ' ';
      text::quote(out_, g.name());
    }
    inputs(g);
    graph_facts(g);
    body(g, 1);
    out_ += '\n';
  }

  void node(const Node& n) {
    if (n.graph() != nullptr) function_ = enclosing_function(*n.graph());
    elide_bodies_ = true;
    line(n, 0);
    while (!out_.empty() && out_.back() == '\n') out_.pop_back();
  }

 private:
  static const Function* enclosing_function(const Graph& g) {
    const Graph* at = &g;
    while (at != nullptr && at->function() == nullptr) at = at->enclosing();
    return at ? at->function() : nullptr;
  }

  void indent(int depth) { out_.append(static_cast<size_t>(depth) * 2, ' '); }

  void dialect() {
    if (m_.dialect() != DialectId::kOnnx) out_ += fmt::format(" {}", sardonyx::dialect(m_.dialect()).name());
  }

  // --- models and functions

  void imports(const std::vector<OpsetImport>& list) {
    std::string_view separator = " ";
    for (const OpsetImport& i : list) {
      out_ += separator;
      if (!i.domain.empty()) {
        text::quote(out_, i.domain);
        out_ += ' ';
      }
      out_ += std::to_string(i.version);
      separator = ", ";
    }
    if (list.empty()) out_ += " none";
  }

  // One line per field that differs from the default.
  void header() {
    auto fact = [&](auto&& print) {
      size_t before = out_.size();
      print();
      if (out_.size() == before) return;
      out_.erase(before, 1);  // the space
      out_ += '\n';
    };
    bool onnx = m_.dialect() == DialectId::kOnnx;
    bool usual = onnx ? m_.opset_imports.size() == 1 && m_.opset_imports[0].domain.empty() && m_.opset_imports[0].version == 23
                      : m_.opset_imports.empty();
    fact([&] {
      if (usual) return;
      out_ += " opset";
      imports(m_.opset_imports);
    });
    fact([&] {
      if (m_.ir_version != 10) fmt::format_to(std::back_inserter(out_), " ir_version {}", m_.ir_version);
    });
    fact([&] {
      if (m_.producer_name.empty() && m_.producer_version.empty()) return;
      out_ += " producer ";
      text::quote(out_, m_.producer_name);
      out_ += ' ';
      text::quote(out_, m_.producer_version);
    });
    fact([&] { quoted("domain", m_.domain); });
    fact([&] {
      if (m_.model_version != 0) fmt::format_to(std::back_inserter(out_), " model_version {}", m_.model_version);
    });
    fact([&] { quoted("doc", m_.doc); });
    fact([&] { meta("meta", m_.metadata); });
    for (std::string_view t : record_.model.training_info) fact([&] { hex("training_info", t); });
    fact([&] { hex("unknown", record_.model.fields); });
    for (const std::string& symbol : ranged_symbols()) {
      fact([&] {
        DimRange r = m_.dims().symbol_range(symbol);
        out_ += " range ";
        word_or_quote(symbol);
        out_ += ' ';
        if (r.min) out_ += std::to_string(*r.min);
        out_ += "..";
        if (r.max) out_ += std::to_string(*r.max);
      });
    }
  }

  // Symbols whose range differs from the default, "at least 1".
  std::vector<std::string> ranged_symbols() const {
    std::vector<std::string> all;
    std::unordered_set<const Type*> seen;
    auto add = [&](const Type* t) {
      if (t == nullptr || !seen.insert(t).second) return;
      for (Dim d : t->dims()) {
        for (std::string& s : m_.dims().symbols(d)) {
          DimRange r = m_.dims().symbol_range(s);
          if (r.min != 1 || r.max) all.push_back(std::move(s));
        }
      }
    };
    std::vector<const Graph*> todo;
    for (const auto& f : m_.functions()) {
      for (const Port& p : f->graph().inputs()) add(p.declared);
      for (const Port& p : f->graph().outputs()) add(p.declared);
      todo.push_back(&f->graph());
    }
    while (!todo.empty()) {
      const Graph& g = *todo.back();
      todo.pop_back();
      for (const Node& n : g.nodes()) {
        for (const Value& v : n.results()) add(v.type());
        for (const Body& b : n.bodies()) todo.push_back(b.graph);
      }
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  void function(const Function& f, bool main) {
    function_ = &f;
    bound_.clear();
    defined_.clear();
    unnamed_ = 0;
    const Graph& g = f.graph();
    if (main) {
      out_ += "graph";
      dialect();
      if (f.name != "main") {
        out_ += ' ';
        text::quote(out_, f.name);
      }
    } else {
      out_ += "function ";
      if (!f.domain.empty()) {
        word_or_quote(f.domain);
        out_ += "::";
      }
      word_or_quote(f.name);
      if (!f.attributes.empty() || !f.default_attributes.empty()) {
        std::string_view separator = "<";
        for (const std::string& a : f.attributes) {
          out_ += separator;
          word_or_quote(a);
          separator = ", ";
        }
        for (const NamedAttr& a : f.default_attributes) {
          out_ += separator;
          named_attr(a);
          separator = ", ";
        }
        out_ += '>';
      }
    }
    inputs(g);
    if (!main) quoted("overload", f.overload);
    if (!f.opset_imports.empty()) {
      out_ += " opset";
      imports(f.opset_imports);
    }
    quoted("mil_opset", f.mil_opset);
    quoted("function_doc", f.doc);
    meta("function_meta", f.metadata);
    hex("function_unknown", record_.of(g).holder_fields);
    if (main ? !f.domain.empty() : false) quoted("function_domain", f.domain);
    if (g.name().view() != f.name) {
      out_ += " named ";
      text::quote(out_, g.name());
    }
    graph_facts(g);
    body(g, 1);
    out_ += '\n';
  }

  // --- graphs

  void graph_facts(const Graph& g) {
    quoted("doc", g.doc);
    meta("meta", g.metadata);
    hex("unknown", record_.of(g).fields);
  }

  void port_facts(const Port& p) {
    quoted("doc", p.doc);
    meta("meta", p.metadata);
  }

  void value_name(std::string_view s) {
    if (text::is_identifier(s) && !text::is_reserved(s)) {
      out_ += s;
    } else {
      out_ += '%';
      text::quote(out_, s);
    }
  }

  // Chooses the word for a value from here on.
  void define(const Value& v) {
    if (number_[v.id()] != 0) return;
    if (v.name().empty()) {
      number_[v.id()] = ++unnamed_;
      return;
    }
    uint32_t& same_name = bound_[v.name().view()];
    number_[v.id()] = ++same_name;
    defined_.push_back(&v);
  }

  void reference(const Value& v) {
    if (number_[v.id()] == 0) define(v);  // defined outside the printed part, or later: print it anyway
    uint32_t n = number_[v.id()];
    if (v.name().empty()) {
      fmt::format_to(std::back_inserter(out_), "%{}", n - 1);
      return;
    }
    value_name(v.name());
    if (n > 1) fmt::format_to(std::back_inserter(out_), "#{}", n - 1);
  }

  void inputs(const Graph& g) {
    out_ += '(';
    bool first = true;
    for (const Port& p : g.inputs()) {
      if (!first) out_ += ", ";
      first = false;
      define(*p.value);
      bool same = p.value->name() == p.name && number_[p.value->id()] == 1 && !p.name.empty();
      value_name(p.name);
      if (p.declared != nullptr) {
        out_ += ": ";
        out_ += m_.types().to_string(p.declared);
      }
      if (!same) {
        out_ += " as ";
        reference(*p.value);
      }
      if (p.default_value != nullptr) {
        out_ += " = ";
        constant(*p.default_value);
      }
      port_facts(p);
    }
    out_ += ')';
  }

  // An unnamed constant with a single user here is nested in that user; others have a line.
  bool is_inlined(const Value& c, const Graph& g) const {
    if (!c.name().empty() || !c.has_one_use() || g.value_info.contains(&c)) return false;
    const Use& u = *c.uses().begin();
    if (u.owner->graph() != &g || u.owner->is_boundary()) return false;
    const Tensor& t = *c.constant();
    return t.is_splat() || t.size() <= text::kMaxElements;
  }

  void body(const Graph& g, int depth) {
    out_ += " {\n";
    if (depth > text::kMaxGraphDepth) {
      indent(depth);
      out_ += "// nested more deeply than the text form goes\n";
      indent(depth - 1);
      out_ += '}';
      return;
    }
    size_t outer_names = defined_.size();
    for (const Value* c : g.constants()) {
      if (is_inlined(*c, g)) continue;
      define(*c);
      indent(depth);
      reference(*c);
      out_ += " = ";
      constant(*c->constant());
      out_ += '\n';
    }
    for (const Node& n : g.nodes()) statement(n, g, depth);
    flush(depth);
    value_info(g, depth);
    auto raw = [&](std::string_view what, const std::vector<std::string_view>& list) {
      for (std::string_view bytes : list) {
        indent(depth);
        fmt::format_to(std::back_inserter(out_), "raw {} \"{}\"\n", what, text::to_hex(bytes));
      }
    };
    raw("quantization_annotation", record_.of(g).quantization_annotations);
    raw("loose_value_info", record_.of(g).loose_value_info);
    results(g, depth);
    indent(depth - 1);
    out_ += '}';
    for (; defined_.size() > outer_names; defined_.pop_back()) --bound_[defined_.back()->name().view()];
  }

  void value_info(const Graph& g, int depth) {
    if (g.value_info.empty()) return;
    auto line = [&](const Value& v) {
      auto it = g.value_info.find(&v);
      if (it == g.value_info.end()) return;
      indent(depth);
      out_ += "info ";
      reference(v);
      if (it->second.declared != nullptr) {
        out_ += ": ";
        out_ += m_.types().to_string(it->second.declared);
      }
      if (const Notes* notes = it->second.notes.get()) {
        quoted("doc", notes->doc);
        meta("meta", notes->metadata);
      }
      out_ += '\n';
    };
    for (const Port& p : g.inputs()) line(*p.value);
    for (const Value* c : g.constants()) line(*c);
    for (const Node& n : g.nodes())
      for (const Value& v : n.results()) line(v);
  }

  void results(const Graph& g, int depth) {
    if (g.outputs().empty()) return;
    indent(depth);
    out_ += "return ";
    bool first = true;
    for (const Port& p : g.outputs()) {
      if (!first) out_ += ", ";
      first = false;
      const Value* v = p.use->value;
      bool same = v != nullptr && v->name() == p.name && !p.name.empty() && number_[v->id()] <= 1;
      value_name(p.name);
      if (p.declared != nullptr) {
        out_ += ": ";
        out_ += m_.types().to_string(p.declared);
      }
      if (!same) {
        out_ += " = ";
        if (v != nullptr) {
          reference(*v);
        } else {
          out_ += '_';
        }
      }
      port_facts(p);
    }
    out_ += '\n';
  }

  // --- nodes

  struct Nested {
    const Node* node;
    std::string text;
    int depth;
  };

  // Whether the text must state the type because no rule infers it.
  bool needs_type(const Node& n, const Value& v) const {
    const Type* t = v.type();
    if (t == nullptr || (n.extra() && n.extra()->payload)) return false;
    if (!n.op().known) return !is_call(n.op());
    return n.op().infer == nullptr && !(t->is_tensor() && !t->ranked());
  }

  // A call of a local function, whose body determines the types.
  bool is_call(const Op& op) const {
    auto [it, fresh] = calls_.try_emplace(&op, false);
    if (fresh) {
      it->second = std::any_of(m_.functions().begin(), m_.functions().end(),
                               [&](const auto& f) { return f->name == op.name && f->domain == op.domain; });
    }
    return it->second;
  }

  bool may_nest(const Node& n, const Graph& g) const {
    if (n.num_results() != 1 || !n.name().empty() || options_.types || options_.provenance) return false;
    const Value& v = *n.result();
    if (!v.name().empty() || !v.has_one_use() || needs_type(n, v)) return false;
    if (n.extra() != nullptr && (!n.bodies().empty() || n.extra()->payload || has_suffix(n))) return false;
    const Node* reader = v.uses().begin()->owner;
    return reader->graph() == &g && !reader->is_boundary() && !g.value_info.contains(&v);
  }

  // Nodes wait here, in graph order, to be nested in their user. A user must take them from the end,
  // otherwise they get their own lines. Parsing makes operands first, so it restores the same order.
  void statement(const Node& n, const Graph& g, int depth) {
    size_t inside = 0, length = 0;
    int nesting = 0;
    if (!pending_.empty()) {
      std::vector<const Node*> wanted;
      for (const Use& u : n.operands()) {
        const Node* def = u.value ? u.value->def() : nullptr;
        if (def != nullptr && is_pending(*def)) wanted.push_back(def);
      }
      inside = wanted.size();
      for (size_t i = 0; i < inside; ++i) {
        const Nested& p = pending_[pending_.size() - inside + i];
        length += p.text.size();
        nesting = std::max(nesting, p.depth);
        if (p.node != wanted[i]) length = kMaxNestedText;
      }
      if (length + 20 > kMaxNestedText || nesting >= kMaxNestedDepth) {
        flush(depth);
        inside = 0;
        nesting = 0;
      }
    }
    if (may_nest(n, g)) {
      std::string before = std::exchange(out_, std::string());
      expression(n, depth);
      pending_.resize(pending_.size() - inside);
      pending_.push_back({&n, std::exchange(out_, std::move(before)), nesting + 1});
      if (pending_.size() > kMaxPending) flush(depth);
      return;
    }
    std::vector<Nested> mine(std::make_move_iterator(pending_.end() - static_cast<std::ptrdiff_t>(inside)),
                             std::make_move_iterator(pending_.end()));
    pending_.resize(pending_.size() - inside);
    flush(depth);
    pending_ = std::move(mine);
    line(n, depth);
    pending_.clear();
  }

  bool is_pending(const Node& n) const {
    return std::any_of(pending_.begin(), pending_.end(), [&](const Nested& p) { return p.node == &n; });
  }

  void flush(int depth) {
    for (const Nested& p : pending_) {
      indent(depth);
      define(*p.node->result());
      reference(*p.node->result());
      out_ += " = ";
      out_ += p.text;
      out_ += '\n';
    }
    pending_.clear();
  }

  void line(const Node& n, int depth) {
    indent(depth);
    std::string whole = std::exchange(out_, std::string());
    expression(n, depth);  // first, because it names outer values before the results
    std::string call = std::exchange(out_, std::move(whole));
    for (size_t i = 0; i < n.num_results(); ++i) {
      const Value& v = *n.result(i);
      if (i > 0) out_ += ", ";
      define(v);
      reference(v);
      if (needs_type(n, v)) {
        out_ += ": ";
        out_ += m_.types().to_string(v.type());
      }
    }
    if (n.num_results() > 0) out_ += " = ";
    out_ += call;
    comments(n);
    out_ += '\n';
  }

  void comments(const Node& n) {
    std::string text;
    if (options_.types) {
      for (const Value& v : n.results()) {
        text += text.empty() ? "" : ", ";
        text += m_.types().to_string(v.type());
      }
    }
    if (options_.provenance && n.provenance() != 0) {
      for (const Source& s : m_.provenance(n.provenance()).sources) {
        text += text.empty() ? "" : "; ";
        text += s.file;
        if (s.line != 0) text += fmt::format(":{}", s.line);
        if (!s.function.empty()) text += fmt::format(" ({})", s.function);
        if (!s.scope.empty()) text += " " + s.scope;
      }
    }
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (!text.empty()) out_ += "  // " + text;
  }

  bool has_suffix(const Node& n) const {
    const NodeExtra* e = n.extra();
    return (e != nullptr && (!e->doc.empty() || !e->overload.empty() || !e->metadata.empty())) || !record_.fields_of(n).empty();
  }

  void op_name(const Op& op) {
    if (!op.domain.empty()) {
      word_or_quote(op.domain);
      out_ += "::";
    }
    word_or_quote(op.name);
    if (op.dialect != DialectId::kOnnx && op.known) return;
    // Print the version if it is not the one that the imports select.
    auto [it, fresh] = usual_version_.try_emplace({function_, &op}, true);
    if (fresh) {
      int version = import_of(op.domain);
      const Op* found = sardonyx::dialect(m_.dialect()).find(op.domain, op.name, version);
      it->second = found != nullptr ? found == &op : !op.known && op.since_version == version;
    }
    if (!it->second) fmt::format_to(std::back_inserter(out_), "!{}", op.since_version);
  }

  int import_of(std::string_view domain) const {
    if (m_.dialect() != DialectId::kOnnx) {
      const int latest = sardonyx::dialect(m_.dialect()).latest_version(domain);
      return m_.dialect() == DialectId::kMil ? static_cast<int>(m_.opset_version(domain).value_or(latest)) : latest;
    }
    if (function_ != nullptr) {
      for (const OpsetImport& i : function_->opset_imports)
        if (i.domain == domain || (domain.empty() && i.domain == "ai.onnx")) return static_cast<int>(i.version);
    }
    return static_cast<int>(m_.opset_version(domain).value_or(0));
  }

  void expression(const Node& n, int depth) {
    op_name(n.op());
    const NodeExtra* extra = n.extra();
    std::string_view separator = "<";
    auto next = [&] {
      out_ += separator;
      separator = ", ";
    };
    const bool is_constant = extra != nullptr && extra->payload != nullptr;
    const bool says_payload =
        is_constant && extra->payload_attrs != nullptr && text::payload_of(*extra->payload_attrs) != nullptr;
    const Attrs& attrs = says_payload ? *extra->payload_attrs : n.attrs();
    for (const NamedAttr& a : attrs.items()) {
      next();
      named_attr(a);
    }
    if (is_constant && !says_payload) {
      next();
      out_ += m_.dialect() == DialectId::kMil ? "val=" : "value=";
      constant(*extra->payload);
    }
    for (const Body& b : n.bodies()) {
      next();
      word_or_quote(b.name);
      if (b.in_list) out_ += "[]";
      out_ += "=graph";
      if (!b.graph->name().empty()) {
        out_ += ' ';
        text::quote(out_, b.graph->name());
      }
      if (elide_bodies_) {
        out_ += fmt::format("(...) {{ {} nodes }}", b.graph->num_nodes());
        continue;
      }
      size_t outer_names = defined_.size();
      auto waiting = std::exchange(pending_, {});
      inputs(*b.graph);
      graph_facts(*b.graph);
      body(*b.graph, depth + 1);
      pending_ = std::move(waiting);
      for (; defined_.size() > outer_names; defined_.pop_back()) --bound_[defined_.back()->name().view()];
    }
    if (separator != "<") out_ += '>';
    out_ += '(';
    if (m_.dialect() == DialectId::kMil && !n.op().inputs.empty()) {
      named_operands(n);
    } else {
      for (size_t i = 0; i < n.num_inputs(); ++i) {
        if (i > 0) out_ += ", ";
        operand(n, n.input(i));
      }
    }
    out_ += ')';
    suffix(n);
  }

  // MIL: data operands by position, the rest by name: "conv(x, w, strides=i32[2]{1,1}, groups=i32 1)",
  // "concat(axis=i32 0, values=(a, b))".
  void named_operands(const Node& n) {
    const Op& op = n.op();
    bool named = false, first = true;
    for (size_t i = 0; i < n.num_inputs();) {
      const Slot* slot = slot_of(op, i, n.num_inputs());
      size_t end = i + 1;
      const bool list = slot->arity == Arity::kVariadic;
      while (end < n.num_inputs()) {
        const Slot* next = slot_of(op, end, n.num_inputs());
        if (list ? next != slot : op.known || next->name != slot->name) break;
        ++end;
      }
      named = named || !op.known || list || slot->parameter || n.input(i) == nullptr;
      if (list || n.input(i) != nullptr) {
        if (!first) out_ += ", ";
        first = false;
        if (named) {
          word_or_quote(slot->name);
          out_ += '=';
        }
        if (list || end - i > 1) out_ += '(';
        for (size_t k = i; k < end; ++k) {
          if (k > i) out_ += ", ";
          operand(n, n.input(k));
        }
        if (list || end - i > 1) out_ += ')';
      }
      i = end;
    }
  }

  void operand(const Node& n, const Value* v) {
    if (v == nullptr) {
      out_ += '_';
      return;
    }
    if (v->kind() == ValueKind::kConstant && n.graph() != nullptr && v->graph() == n.graph() && is_inlined(*v, *n.graph())) {
      constant(*v->constant());
      return;
    }
    if (const Node* def = v->def(); def != nullptr && !pending_.empty()) {
      for (const Nested& p : pending_) {
        if (p.node != def) continue;
        out_ += p.text;
        return;
      }
    }
    reference(*v);
  }

  void suffix(const Node& n) {
    if (!n.name().empty()) {
      out_ += " @";
      word_or_quote(n.name());
    }
    if (n.extra() != nullptr) {
      quoted("overload", n.extra()->overload);
      quoted("doc", n.extra()->doc);
      meta("meta", n.extra()->metadata);
    }
    hex("unknown", record_.fields_of(n));
  }

  struct VersionKey {
    const Function* function;
    const Op* op;
    bool operator==(const VersionKey&) const = default;
  };
  struct VersionHash {
    size_t operator()(const VersionKey& k) const {
      return std::hash<const void*>()(k.function) * 31 + std::hash<const void*>()(k.op);
    }
  };

  const FileRecord& record_;
  const Function* function_ = nullptr;
  std::vector<uint32_t> number_;  // by value id; 0 = no number yet
  uint32_t unnamed_ = 0;
  std::unordered_map<std::string_view, uint32_t> bound_;  // number of visible values with this name
  std::vector<const Value*> defined_;                     // named values in scope, innermost last
  std::vector<Nested> pending_;
  std::unordered_map<VersionKey, bool, VersionHash> usual_version_;
  mutable std::unordered_map<const Op*, bool> calls_;
  bool elide_bodies_ = false;
};

}  // namespace

std::string print(const Model& m, const PrintOptions& options) {
  Printer p(m, options);
  p.model();
  return p.take();
}

std::string print(const Graph& g, const PrintOptions& options) {
  Printer p(g.model(), options);
  p.graph(g);
  return p.take();
}

std::string print(const Node& n) {
  SX_CHECK(n.graph() != nullptr, "a detached node has no text of its own");
  Printer p(n.graph()->model(), {});
  p.node(n);
  return p.take();
}

}  // namespace sardonyx
