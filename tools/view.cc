// sardonyx view: shows a model as text or as an HTML page.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "commands.h"
#include "driver/model_counts.h"
#include "output.h"
#include "sardonyx/infer.h"
#include "sardonyx/io.h"
#include "support/atomic_file.h"

namespace sardonyx::tools {
namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

constexpr std::string_view kHead = R"(<!doctype html><html lang="en"><meta charset="utf-8"><title>{0}</title><style>
body{{font:14px/1.5 system-ui,sans-serif;margin:1.5rem;color:#1d2330;background:#fff}}
h1{{font-size:1.2rem}}h2{{font-size:1rem;margin-top:1.6rem}}
table{{border-collapse:collapse}}td,th{{padding:.1rem .7rem .1rem 0;text-align:left;vertical-align:top}}
.g td{{font-family:ui-monospace,monospace;font-size:12.5px}}.g tr:hover{{background:#f2f5fb}}.g tr:target{{background:#fff3c4}}
.t{{color:#6a7387}}.o{{font-weight:600}}.c{{color:#8a4b00}}a{{color:#2255bb;text-decoration:none}}
input{{font:inherit;padding:.2rem .5rem;width:24rem}}
@media(prefers-color-scheme:dark){{body{{background:#14171d;color:#dde3ee}}.g tr:hover{{background:#1e2430}}.g tr:target{{background:#4a3f14}}
a{{color:#8ab4ff}}.c{{color:#f0b070}}.t{{color:#98a2b5}}}}
</style><h1>{0}</h1>
)";
constexpr std::string_view kTail = R"(<script>
document.getElementById("find").oninput=e=>{const w=e.target.value.toLowerCase();
for(const r of document.querySelectorAll(".g tr"))r.hidden=!r.textContent.toLowerCase().includes(w)}
</script></html>
)";

class Page {
 public:
  explicit Page(const Model& m) : m_(m) {}

  std::string make(const std::string& title) {
    out_ = fmt::format(kHead, escape(title));
    const ModelCounts c = count_model(m_);
    out_ += "<table>";
    if (m_.specification_version) {
      row("Core ML", fmt::format("specification version {}", *m_.specification_version));
    } else {
      for (const OpsetImport& i : m_.opset_imports)
        row(i.domain.empty() ? "ai.onnx" : i.domain, fmt::format("opset {}", i.version));
    }
    row("nodes", std::to_string(c.nodes));
    row("tensors", fmt::format("{}, {}", c.tensors, human_bytes(c.bytes)));
    out_ += "</table><h2>Operators</h2><table>";
    std::vector<std::pair<size_t, std::string>> ops;
    for (const auto& [op, n] : c.ops) ops.emplace_back(n, op);
    std::ranges::sort(ops,
                      [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
    for (const auto& [n, op] : ops) row(op, std::to_string(n));
    out_ += "</table><p><input id=\"find\" placeholder=\"show rows with ...\"></p>";
    for (const auto& f : m_.functions()) function(*f);
    out_ += kTail;
    return std::move(out_);
  }

 private:
  void row(std::string_view what, std::string_view value) {
    out_ += fmt::format("<tr><th>{}<td>{}", escape(what), escape(value));
  }

  std::string type(const Type* t) const { return t == nullptr ? "?" : m_.types().to_string(t); }

  std::string name(const Value& v) const {
    return v.name().empty() ? fmt::format("%{}", v.id()) : std::string(v.name().view());
  }

  void function(const Function& f) {
    const std::string opset = f.mil_opset.empty() ? "" : fmt::format(" ({})", f.mil_opset);
    out_ += fmt::format("<h2>{}{}</h2><table class=\"g\">", escape(f.name.empty() ? "graph" : f.name), escape(opset));
    block(f.graph(), 0);
    out_ += "</table>";
  }

  void line(int depth, std::string_view id, std::string_view left, std::string_view right) {
    out_ += fmt::format("<tr{}><td style=\"padding-left:{}rem\">{}<td>{}\n", id.empty() ? "" : fmt::format(" id=\"{}\"", id),
                        depth * 1.5, left, right);
  }

  void block(const Graph& g, int depth) {
    for (const Port& p : g.inputs()) {
      line(depth, fmt::format("v{}", p.value->id()), fmt::format("<span class=\"o\">input</span> {}", escape(p.name.view())),
           fmt::format("<span class=\"t\">{}</span>", escape(type(p.value->type()))));
    }
    for (const Node& n : g.nodes()) node(n, depth);
    for (const Port& p : g.outputs())
      line(depth, "", fmt::format("<span class=\"o\">return</span> {}", escape(p.name.view())), reference(p.use->value));
  }

  void node(const Node& n, int depth) {
    if (n.has(Trait::kConstant) && n.result()->is_constant()) return;  // shown where it is used
    std::string left, right;
    for (const Value& v : n.results()) {
      left += fmt::format("{}<b id=\"v{}\">{}</b> <span class=\"t\">{}</span>", left.empty() ? "" : "<br>", v.id(),
                          escape(name(v)), escape(type(v.type())));
    }
    right = fmt::format("<span class=\"o\">{}</span>(", escape(n.op().name));
    bool first = true;
    for (size_t i = 0; i < n.num_inputs(); ++i) {
      const Slot* slot = slot_of(n.op(), i, n.num_inputs());
      if (n.input(i) == nullptr) continue;
      right += first ? "" : ", ";
      first = false;
      if (n.op().dialect == DialectId::kMil && slot != nullptr) right += fmt::format("{}=", escape(slot->name));
      right += reference(n.input(i));
    }
    right += ")";
    for (const NamedAttr& a : n.attrs().items()) right += fmt::format(" <span class=\"t\">{}</span>", escape(attribute(a)));
    if (!n.name().empty()) right += fmt::format(" <span class=\"t\">@{}</span>", escape(n.name().view()));
    line(depth, fmt::format("n{}", n.id()), left, right);
    for (const Body& b : n.bodies()) {
      line(depth + 1, "", fmt::format("<i>{}</i>", escape(b.name.view())), "");
      block(*b.graph, depth + 2);  // recursion over nesting only
    }
  }

  static std::string attribute(const NamedAttr& a) {
    if (const auto* i = a.value.get<int64_t>()) return fmt::format("{}={}", a.name, *i);
    if (const auto* f = a.value.get<double>()) return fmt::format("{}={}", a.name, *f);
    if (const auto* s = a.value.get<std::string>()) return fmt::format("{}=\"{}\"", a.name, *s);
    if (const auto* v = a.value.get<Attr::Ints>()) return fmt::format("{}=[{}]", a.name, fmt::join(*v, ", "));
    return fmt::format("{}=...", a.name);
  }

  std::string reference(const Value* v) const {
    if (!v->is_constant()) return fmt::format("<a href=\"#v{}\">{}</a>", v->id(), escape(name(*v)));
    return fmt::format("<span class=\"c\">{}</span>", escape(constant(*v)));
  }

  std::string constant(const Value& v) const {
    const Tensor& t = *v.constant();
    std::string what = type(v.type());
    if (t.size() > 8 || t.is_promise() || t.is_deferred() || t.size() == 0) return fmt::format("{} {}", name(v), what);
    std::string elements;
    for (int64_t i = 0; i < t.size(); ++i) {
      if (i > 0) elements += ", ";
      if (t.dtype() == DType::kString) {
        elements += fmt::format("\"{}\"", t.string_values()[static_cast<size_t>(i)]);
      } else if (t.dtype() == DType::kBool) {
        elements += t.as_int(i) != 0 ? "true" : "false";
      } else if (is_integer(t.dtype())) {
        elements += std::to_string(t.as_int(i));
      } else if (is_complex(t.dtype())) {
        return what;
      } else {
        elements += fmt::format("{:.6g}", t.as_double(i));
      }
    }
    return t.rank() == 0 ? elements : fmt::format("[{}]", elements);
  }

  const Model& m_;
  std::string out_;
};

}  // namespace

int view(const FileArgs& files, const std::string& output, bool json) {
  const std::string suffix = std::filesystem::path(output).extension().string();
  const bool is_page = suffix == ".html" || suffix == ".htm" || is_standard_output(output);
  const bool is_text = suffix == ".txt" || suffix == ".sx";
  if (!output.empty() && !is_page && !is_text) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' ends in {}, and a model is shown as a page (.html) or as text (.txt, .sx)", output,
                            suffix.empty() ? "no suffix" : suffix),
                {fmt::format("help: name the output '{}.html'", output)});
  }
  const auto model = read_model(opened(files.input), {.map = !files.no_mmap});
  ValueFacts facts;
  infer_model(*model, facts, /*tolerant=*/true);  // what is wrong, `check` says
  if (!output.empty()) {
    AtomicFile file(output == "-" ? "/dev/stdout" : output);
    file.append(is_page ? Page(*model).make(files.input) : print(*model, {.types = true}));
    file.commit();
  }
  if (json) {
    ordered_json j = json_head("view", files.input, true);
    j["output"] = output.empty() ? ordered_json() : ordered_json(output);
    if (output.empty()) j["text"] = print(*model, {.types = true});
    print_one(std::move(j));
  } else if (output.empty()) {
    fmt::print("{}", print(*model, {.types = true}));
  }
  return 0;
}

}  // namespace sardonyx::tools
