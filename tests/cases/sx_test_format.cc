#include "sx_test_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "ir/text/text.h"
#include "rewrite/pass.h"
#include "sardonyx/error.h"
#include "sardonyx/ir.h"
#include "sx_test_cases.h"

namespace sardonyx {
namespace {

constexpr size_t kWidth = 112;
constexpr int kMostNested = 4;

struct Style {
  bool nest = true;  // values whose names say nothing
  bool keep_opset = false;
};

// What formatting needs to know of a value other than an input. While a graph is taken apart, each such value
// is called by a word of its own, "zz7zz", so that its uses are found in the text.
struct Word {
  std::string name;  // in the case
  std::string type;
  bool nests = false;     // has no type and no notes that must be said, and its op may move to its user
  bool is_plain = false;  // the name says nothing
  const Graph* graph = nullptr;
  size_t uses = 0;
  const struct Block* used_in = nullptr;
};
using Words = std::map<std::string, Word, std::less<>>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The end of the word "zz7zz" at `at`, or npos.
size_t word_end(std::string_view text, size_t at) {
  if (text.substr(at, 2) != "zz") return std::string_view::npos;
  size_t end = at + 2;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end > at + 2 && text.substr(end, 2) == "zz" ? end + 2 : std::string_view::npos;
}

// Calls f(word) for each word in the text, and puts what it returns in place of the word.
template <class F>
std::string replace_words(std::string_view text, const F& f) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = word_end(text, at);
    if (end == std::string_view::npos) {
      out += text[at++];
    } else {
      out += f(std::string(text.substr(at, end - at)));
      at = end;
    }
  }
  return out;
}

std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> all;
  replace_words(text, [&](const std::string& word) {
    all.push_back(word);
    return word;
  });
  return all;
}

// "add_1" of an add, "t", "x2".
bool says_nothing(std::string_view name, std::string_view op) {
  while (!name.empty() && (is_digit(name.back()) || name.back() == '_')) name.remove_suffix(1);
  return name.size() <= 2 || op.find(name) != std::string_view::npos;
}

// --- a graph as statements

struct Statement {
  std::string results;            // "zz1zz, zz2zz: f32[3]"; empty if there are none
  std::vector<std::string> text;  // the call; one with bodies is "cond<true_fn=graph() {", "}, false_fn=graph() {", "}>(zz3zz)"
  std::vector<struct Block> bodies;  // between the texts
};
struct Block {
  std::vector<Statement> statements;
  std::string result;  // "return ..."; may be empty
};

// Reads the lines of a printed body, from *at to its closing brace.
Block read_block(const std::vector<std::string>& lines, size_t* at, size_t indent) {
  Block block;
  const auto closes = [&] { return lines[*at].substr(indent - 2).starts_with('}'); };
  for (; !closes(); ++*at) {
    const std::string line = lines[*at].substr(indent);
    if (line.starts_with("return ")) {
      block.result = line;
      continue;
    }
    Statement& s = block.statements.emplace_back();
    const size_t equals = word_end(line, 0) == std::string::npos ? std::string::npos : line.find(" = ");
    if (equals != std::string::npos) s.results = line.substr(0, equals);
    s.text.push_back(equals == std::string::npos ? line : line.substr(equals + 3));
    while (s.text.back().ends_with('{')) {
      ++*at;
      s.bodies.push_back(read_block(lines, at, indent + 2));
      s.text.push_back(lines[*at].substr(indent));
    }
  }
  return block;
}

void count_uses(const Block& block, Words& words) {
  const auto count = [&](const std::string& text) {
    for (const std::string& word : words_in(text)) {
      ++words.at(word).uses;
      words.at(word).used_in = &block;
    }
  };
  for (const Statement& s : block.statements) {
    for (const std::string& text : s.text) count(text);
    for (const Block& body : s.bodies) count_uses(body, words);
  }
  count(block.result);
}

// Writes a block with values nested in their users.
class BlockWriter {
 public:
  BlockWriter(const Words& words, size_t indent) : words_(words), space_(indent, ' ') {}

  std::vector<std::string> write(const Block& block) {
    for (size_t i = 0; i < block.statements.size(); ++i) statement(block, i);
    std::string result = block.result;
    nest("", result);
    for (const auto& [word, n] : open_) done_[n.index] = {space_ + word + " = " + n.text};
    std::vector<std::string> lines;
    for (const auto& [index, own] : done_) lines.insert(lines.end(), own.begin(), own.end());
    if (!result.empty()) lines.push_back(space_ + result);
    return lines;
  }

 private:
  struct Nested {
    std::string text;
    int depth = 0;     // of nested calls
    size_t index = 0;  // of the statement
  };

  void statement(const Block& block, size_t i) {
    const Statement& s = block.statements[i];
    const std::string results = s.results.empty() ? "" : s.results + " = ";
    std::string last = s.text.back();
    const int depth = nest(s.bodies.empty() ? results : "", last);
    if (s.bodies.empty()) {
      if (waits(block, s.results)) {
        open_[s.results] = {std::move(last), depth, i};
      } else {
        done_[i] = {space_ + results + last};
      }
      return;
    }
    std::vector<std::string>& lines = done_[i];
    lines = {space_ + results + s.text.front()};
    for (size_t k = 0; k < s.bodies.size(); ++k) {
      const auto body = BlockWriter(words_, space_.size() + 2).write(s.bodies[k]);
      lines.insert(lines.end(), body.begin(), body.end());
      lines.push_back(space_ + (k + 1 < s.bodies.size() ? s.text[k + 1] : last));
    }
  }

  // Whether the value can be nested in its user, which follows in this block.
  bool waits(const Block& block, const std::string& results) const {
    const auto found = words_.find(results);
    if (found == words_.end()) return false;
    const Word& word = found->second;
    if (!word.nests || word.uses != 1 || word.used_in != &block) return false;
    // A result keeps its name in the interface.
    return word.is_plain || block.result.find(fmt::format(" {} = {}", word.name, results)) != std::string::npos;
  }

  // Nests in `text` what fits behind `before`; the others get lines. Returns the depth of calls in it.
  int nest(std::string_view before, std::string& text) {
    std::vector<std::string> inside;
    for (const std::string& word : words_in(text)) {
      if (open_.contains(word)) inside.push_back(word);
    }
    const auto nested = [&] {
      return replace_words(text, [&](const std::string& word) {
        return std::ranges::find(inside, word) != inside.end() ? open_.at(word).text : word;
      });
    };
    const auto deepest = [&] {
      int depth = 0;
      for (const std::string& word : inside) depth = std::max(depth, open_.at(word).depth);
      return depth;
    };
    while (!inside.empty() && (space_.size() + width(before) + width(nested()) > kWidth || deepest() >= kMostNested)) {
      const bool deep = deepest() >= kMostNested;
      const auto worst = std::ranges::max_element(inside, {}, [&](const std::string& word) {
        const Nested& n = open_.at(word);
        return deep ? std::pair(static_cast<size_t>(n.depth), n.text.size()) : std::pair(n.text.size(), size_t{0});
      });
      const Nested& n = open_.at(*worst);
      done_[n.index] = {space_ + *worst + " = " + n.text};
      open_.erase(*worst);
      inside.erase(worst);
    }
    const int depth = inside.empty() ? 0 : deepest() + 1;
    text = nested();
    for (const std::string& word : inside) open_.erase(word);
    return depth;
  }

  // Columns, with values under their names.
  size_t width(std::string_view text) const {
    return replace_words(text,
                         [&](const std::string& word) {
                           const std::string& name = words_.at(word).name;
                           return name.empty() ? std::string("%0") : name;
                         })
        .size();
  }

  const Words& words_;
  std::string space_;
  std::map<size_t, std::vector<std::string>> done_;  // lines by the index of their statement
  std::map<std::string, Nested> open_;               // values that wait for their user
};

// --- a graph of a case

// Everything that must stay but values' names: ops with their names and types.
std::vector<std::string> facts_of(Model& m) {
  std::vector<std::string> facts;
  const auto port = [&](const Port& p) {
    facts.push_back(fmt::format("port {} {} {}", p.name.view(), m.types().to_string(p.declared), p.doc));
  };
  for (Graph* g : graphs_in(m.graph())) {
    for (const Port& p : g->inputs()) port(p);
    for (const Port& p : g->outputs()) port(p);
    for (const Node& n : g->nodes()) {
      std::string& fact = facts.emplace_back(fmt::format("{} {} @{}", n.op().name, n.op().since_version, n.name().view()));
      for (const Use& u : n.operands()) fact += u.value == nullptr ? " _" : " " + m.types().to_string(u.value->type());
      for (const Value& v : n.results()) fact += " > " + m.types().to_string(v.type());
    }
  }
  std::ranges::sort(facts);
  return facts;
}

bool same_graphs(Model& a, Model& b) { return equal_graphs(a.graph(), b.graph()) && facts_of(a) == facts_of(b); }

class GraphFormatter {
 public:
  GraphFormatter(const std::vector<std::string>& lines, const Style& style) : old_(lines), style_(style) {}

  // Nullopt if the graph stays as it is.
  std::optional<std::vector<std::string>> format() {
    size_t first = 0;
    while (first < old_.size() && !old_[first].starts_with("graph mil")) ++first;
    if (first == old_.size()) return std::nullopt;
    for (const std::string& line : old_) {
      if (line.find("//") != std::string::npos || line.starts_with("function ")) return std::nullopt;
    }
    for (size_t i = 0; i < first; ++i) facts_ += old_[i] + '\n';
    const auto model = parse(joined(old_));
    opset_ = model->main().mil_opset;
    call_by_words(*model);
    std::string text = print(model->graph(), {.full_constants = true});
    if (!say_types(text)) return std::nullopt;
    std::vector<std::string> out = write(split(text));
    if (!give_names(*model, out)) return std::nullopt;
    if (style_.keep_opset && !opset_.empty()) out[0].insert(out[0].rfind(" {"), fmt::format(" mil_opset \"{}\"", opset_));
    const std::vector<std::string> before(old_.begin(), old_.begin() + static_cast<std::ptrdiff_t>(first));
    out.insert(out.begin(), before.begin(), before.end());
    if (!same_graphs(*parse(joined(old_)), *parse(joined(out))))
      throw Error(ErrorCode::kInternal, "the formatted graph is another one:\n" + joined(out));
    return out;
  }

 private:
  static std::string joined(const std::vector<std::string>& lines) { return fmt::format("{}\n", fmt::join(lines, "\n")); }
  static std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      lines.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    return lines;
  }

  template <class F>
  static void each_value(Model& m, const F& f) {
    for (Graph* g : graphs_in(m.graph())) {
      for (Value* v : g->constants()) f(*v, nullptr, *g);
      for (Node& n : g->nodes()) {
        for (Value& v : n.results()) f(v, &n, *g);
      }
    }
  }

  // Constants without a name that the printer writes at their use keep none.
  static bool is_written_at_use(const Value& c, const Graph& g) {
    if (!c.name().empty() || !c.has_one_use()) return false;
    const Node& user = *c.uses().begin()->owner;
    const Tensor& t = *c.constant();
    return user.graph() == &g && !user.is_boundary() && (t.is_splat() || t.size() <= text::kMaxElements);
  }

  void call_by_words(Model& m) {
    each_value(m, [&](Value& v, const Node* n, const Graph& g) {
      if (n == nullptr && is_written_at_use(v, g)) return;
      const std::string text = fmt::format("zz{}zz", words_.size());
      Word& word = words_[text];
      word.graph = &g;
      word.name = v.name().view();
      word.type = m.types().to_string(v.type());
      const std::string_view op = n == nullptr ? std::string_view() : n->op().name;
      const bool has_notes = n != nullptr && n->extra() != nullptr;  // bodies, texts
      // Ops that read or write a state stay in their order.
      word.nests = n == nullptr ||
                   (n->num_results() == 1 && n->name().empty() && !has_notes && op.find("state") == std::string_view::npos);
      word.is_plain = word.name.empty() || (style_.nest && says_nothing(word.name, op));
      v.set_name(m.name(text));
    });
  }

  // Adds the types that inference does not find.
  bool say_types(std::string& text) {
    for (size_t rounds = 0; rounds <= words_.size(); ++rounds) {
      const auto again = parse(facts_ + text);
      const std::string* wrong = nullptr;
      each_value(*again, [&](const Value& v, const Node*, const Graph&) {
        const auto word = words_.find(v.name().view());
        if (wrong == nullptr && word != words_.end() && again->types().to_string(v.type()) != word->second.type)
          wrong = &word->first;
      });
      if (wrong == nullptr) break;
      const size_t end = text.find(*wrong) + wrong->size();
      if (text[end] == ':') return false;
      text.insert(end, ": " + words_.at(*wrong).type);
    }
    for (auto& [word, facts] : words_) facts.nests &= text[text.find(word) + word.size()] != ':';
    return true;
  }

  std::vector<std::string> write(const std::vector<std::string>& lines) {
    std::vector<std::string> out{lines[0]};
    size_t at = 1;
    const Block block = read_block(lines, &at, 2);
    count_uses(block, words_);
    const auto body = BlockWriter(words_, 2).write(block);
    out.insert(out.end(), body.begin(), body.end());
    out.push_back(lines[at]);
    return out;
  }

  // Where a name is visible: in a graph and those inside of it.
  using Scopes = std::multimap<std::string, const Graph*, std::less<>>;
  static bool is_free(const Scopes& used, std::string_view name, const Graph* g) {
    const auto is_inside = [](const Graph* inner, const Graph* outer) {
      while (inner != nullptr && inner != outer) inner = inner->enclosing();
      return inner != nullptr;
    };
    const auto [from, to] = used.equal_range(name);
    return std::none_of(from, to, [&](const auto& u) { return is_inside(g, u.second) || is_inside(u.second, g); });
  }

  // The words of values that have lines become names again; false if names are ambiguous.
  bool give_names(Model& m, std::vector<std::string>& lines) {
    Scopes used;
    for (Graph* g : graphs_in(m.graph())) {
      for (const Port& p : g->inputs()) {
        if (p.value->name().empty()) continue;
        if (!is_free(used, p.value->name().view(), g)) return false;
        used.emplace(p.value->name().view(), g);
      }
    }
    std::map<std::string, std::string> names;
    std::vector<std::string> order;
    for (const std::string& line : lines) {
      for (const std::string& word : words_in(line)) {
        if (names.try_emplace(word, words_.at(word).name).second) order.push_back(word);
      }
    }
    for (const std::string& word : order) {
      const std::string& name = names[word];
      if (name.empty()) continue;
      if (!is_free(used, name, words_.at(word).graph)) return false;
      used.emplace(name, words_.at(word).graph);
    }
    // What is returned and has no name of its own has that of the result.
    for (const Port& p : m.graph().outputs()) {
      if (p.use->value == nullptr || p.name.empty()) continue;
      const auto word = names.find(std::string(p.use->value->name().view()));
      if (word == names.end() || !words_.at(word->first).is_plain || !is_free(used, p.name.view(), &m.graph())) continue;
      used.emplace(p.name.view(), &m.graph());
      word->second = p.name.view();
    }
    size_t unnamed = 0;  // inputs without a name come first
    for (Graph* g : graphs_in(m.graph()))
      unnamed += static_cast<size_t>(std::ranges::count_if(g->inputs(), [](const Port& p) { return p.value->name().empty(); }));
    for (const std::string& word : order) {
      std::string& name = names[word];
      if (name.empty()) {
        name = fmt::format("%{}", unnamed++);
      } else if (!text::is_identifier(name) || text::is_reserved(name)) {
        std::string quoted = "%";
        text::quote(quoted, name);
        name = quoted;
      }
    }
    for (std::string& line : lines) {
      line = replace_words(line, [&](const std::string& word) { return names.at(word); });
      const size_t start = line.find_first_not_of(' ');
      if (start != std::string::npos && line.substr(start).starts_with("return ")) line = short_results(line);
    }
    return true;
  }

  // "return y = y, n: f32[3] = n" without what is said twice.
  static std::string short_results(const std::string& line) {
    std::string out;
    int depth = 0;
    size_t start = line.find("return ") + 7;
    bool quoted = false;
    out = line.substr(0, start);
    for (size_t i = start; i <= line.size(); ++i) {
      const char c = i < line.size() ? line[i] : ',';
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '(' || c == '[' || c == '{' || c == '<') ++depth;
      if (c == ')' || c == ']' || c == '}' || c == '>') --depth;
      if (c != ',' || (depth != 0 && i < line.size())) continue;
      std::string item = line.substr(start, i - start);
      const size_t equals = item.find(" = ");
      const std::string name = item.substr(0, std::min(item.find(':'), equals));
      if (equals != std::string::npos && item.substr(equals + 3) == name) item.resize(equals);
      out += item;
      if (i < line.size()) out += ", ";
      start = i + 2;
    }
    return out;
  }

  const std::vector<std::string>& old_;
  Style style_;
  std::string facts_, opset_;
  Words words_;
};

// --- cases

struct CaseText {
  std::vector<std::string> input, expected;
  bool operator==(const CaseText&) const = default;
};

CaseText text_of_case(const CaseFile& f, const Case& c) {
  const auto at = [&](size_t i) { return f.lines.begin() + static_cast<std::ptrdiff_t>(i); };
  return {{at(c.input_begin), at(c.input_end)}, {at(c.expected_begin), at(c.expected_end)}};
}

// Repeats because names that results get change the length of lines.
std::vector<std::string> shortened(std::vector<std::string> lines, const Style& style) {
  for (int rounds = 0; rounds < 4; ++rounds) {
    auto better = GraphFormatter(lines, style).format();
    if (!better || *better == lines) break;
    lines = std::move(*better);
  }
  return lines;
}

CaseText shortened(const CaseText& old, const Case& c, const Style& style) {
  return {shortened(old.input, style), c.verdict.empty() ? shortened(old.expected, style) : old.expected};
}

// Whether the case holds with that text, and gives the same result as before.
bool holds(const CaseFile& f, const Case& c, const CaseText& text) {
  CaseFile changed = f;
  Case other = c;
  changed.lines = text.input;
  changed.lines.push_back("=> " + c.verdict);
  changed.lines.insert(changed.lines.end(), text.expected.begin(), text.expected.end());
  other.input_begin = 0;
  other.input_end = other.arrow = text.input.size();
  other.expected_begin = text.input.size() + 1;
  other.expected_end = changed.lines.size();
  try {
    const Transform transform = transform_for(f, c);
    std::string bless;
    Values values;
    if (run_case(changed, other, transform, &bless, values)) return false;
    if (c.verdict.starts_with("error")) return true;
    const auto before = transform(*parse(text_of(f, c.input_begin, c.input_end)));
    const auto after = transform(*parse(text_of(changed, 0, other.input_end)));
    return equal_graphs(before->graph(), after->graph());
  } catch (const std::exception&) {
    return false;
  }
}

CaseText shortest(const CaseFile& f, const Case& c) {
  CaseText old = text_of_case(f, c);
  if (c.verdict == "exactly") return old;
  for (const Style style : {Style{true, false}, Style{true, true}, Style{false, false}, Style{false, true}}) {
    try {
      CaseText text = shortened(old, c, style);
      if (text == old || holds(f, c, text)) return text;
    } catch (const Error& e) {
      std::cerr << fmt::format("{}:{}: \"{}\" stays as it is: {}\n", f.path.string(), c.line, c.claim, e.what());
      return old;
    }
  }
  return old;
}

}  // namespace

std::vector<std::string> format_cases(const CaseFile& f) {
  std::vector<std::string> lines;
  size_t next = 0;
  const auto copy_to = [&](size_t end) {
    for (; next < end; ++next) lines.push_back(f.lines[next]);
  };
  for (const Case& c : f.cases) {
    const CaseText text = shortest(f, c);
    copy_to(c.input_begin);
    lines.insert(lines.end(), text.input.begin(), text.input.end());
    next = c.input_end;
    copy_to(c.expected_begin);
    lines.insert(lines.end(), text.expected.begin(), text.expected.end());
    next = c.expected_end;
  }
  copy_to(f.lines.size());
  return lines;
}

}  // namespace sardonyx
