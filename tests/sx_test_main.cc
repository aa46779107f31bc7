// Runs the .sx cases that lie beside the sources: sx_test [--bless] [--filter=TEXT] PATH...
// With --fuzz, rules on random graphs instead (sx_test_fuzz.h): sx_test --fuzz[=EFFORT] [--seed=N] [--report] [--filter=TEXT] PATH...
//
//   lower cumsum                      what the cases are about: a kind and a name (pass NAME option=value)
//
//   case "the claim"
//   graph jax(...) { ... }            the input
//   =>
//   graph(...) { ... }                what must come out; or: => same, => error "part of the message"
//
// Behind "=> counts" stand the nodes of the result by operator, bodies included, for graphs that are too long to be read: Add 5, Loop 1
//
// What comes out is verified, compared with the expected graph up to names, printed and read again; of a pass, both graphs are evaluated
// (rewrite/values.h). --bless writes what came out
// into the file where it differs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "driver/model_counts.h"
#include "passes/catalog.h"
#include "rewrite/values.h"
#include "sardonyx/error.h"
#include "sardonyx/ir.h"
#include "sardonyx/lower.h"
#include "sx_test_fuzz.h"

namespace sardonyx {
namespace {

struct Case {
  std::string claim;
  size_t line = 0;                        // of its "case", from 1
  size_t input_begin = 0, input_end = 0;  // lines, from 0, end excluded
  size_t arrow = 0;                       // the line of "=>"
  size_t expected_begin = 0, expected_end = 0;
  std::string verdict;  // what stands behind "=>"
};

struct CaseFile {
  std::filesystem::path path;
  std::vector<std::string> lines;
  std::string kind, name;
  std::vector<std::string> options;  // "option=value"
  std::vector<Case> cases;
};

// --- kinds of cases: what turns the input into the result. Add a kind here.

using Transform = std::function<std::unique_ptr<Model>(const Model& input)>;

// lower PRIMITIVE: the input, of the jax dialect, has that primitive; the result is its ONNX graph.
std::unique_ptr<Model> lower_case(const std::string& primitive, const Model& input) {
  bool found = false;
  std::vector<const Graph*> todo{&input.graph()};
  for (size_t i = 0; i < todo.size(); ++i) {
    for (const Node& n : todo[i]->nodes()) {
      found |= n.is(primitive);
      for (const Body& b : n.bodies()) todo.push_back(b.graph);
    }
  }
  if (!found) throw Error(ErrorCode::kInvalidArgument, fmt::format("the case has no '{}' to lower", primitive));
  return lower_to_onnx(input, {.model_name = "main", .provenance = LowerOptions::Provenance::kOff});
}

// pass NAME [option=value...]: the pass alone. It must say truly whether it changed something, and, unless it says why not, have
// nothing to do when it runs again.
std::unique_ptr<Model> pass_case(const PassRequest& request, const Model& input) {
  auto model = clone_model(input);
  const PipelineReport report = run_passes(*model, request);
  // Constants that lost their readers are remove_dead_nodes' business.
  for (Graph* g : graphs_in(model->graph())) g->erase_unread_constants();
  std::string why;
  const bool same = equal_models(input, *model, &why);
  // Names and declared types are not what equal models are about, but passes change them too.
  const auto text = [](const Model& m) { return print(m, {.full_constants = true}); };
  if (report.passes.front().changed && same && text(input) == text(*model))
    throw Error(ErrorCode::kInternal, "the pass says that it changed something");
  if (!report.passes.front().changed && !same)
    throw Error(ErrorCode::kInternal, "the pass says that it changed nothing: " + why);
  if (!find_pass(request.passes.front())->pass.no_fixed_point.empty()) return model;
  auto again = clone_model(*model);
  if (run_passes(*again, request).passes.front().changed || !equal_models(*model, *again, &why)) {
    throw Error(ErrorCode::kInternal,
                "the pass does more when it runs again:\n" + print(*model) + "and then\n" + print(*again));
  }
  return model;
}

Transform transform_for(const std::string& kind, const std::string& name, const std::vector<std::string>& options) {
  if (kind == "pass") {
    PassRequest request{.passes = {name}, .strict = true, .verify_graph = true};
    for (const std::string& o : options)
      request.options.emplace_back(name + "." + o.substr(0, o.find('=')), o.substr(o.find('=') + 1));
    return [request](const Model& input) { return pass_case(request, input); };
  }
  if (kind == "lower") return [name](const Model& input) { return lower_case(name, input); };
  throw Error(ErrorCode::kUnsupported, fmt::format("this runner knows no cases of kind '{}'", kind),
              {"help: a file begins with a line like: lower cumsum"});
}

// --- files

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.back() == ' ' || s.back() == '\r' || s.back() == '\t')) s.remove_suffix(1);
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  return s;
}

bool is_blank(std::string_view line) { return trimmed(line).empty() || trimmed(line).starts_with("//"); }

std::string unquoted(std::string_view s, const std::filesystem::path& path, size_t line) {
  s = trimmed(s);
  if (s.size() < 2 || s.front() != '"' || s.back() != '"')
    throw Error(ErrorCode::kParse, fmt::format("{}:{}: expected a text in double quotes", path.string(), line));
  std::string out;
  for (size_t i = 1; i + 1 < s.size(); ++i) {
    if (s[i] == '\\' && i + 2 < s.size()) ++i;
    out += s[i];
  }
  return out;
}

CaseFile read_cases(const std::filesystem::path& path) {
  CaseFile f;
  f.path = path;
  std::ifstream in(path);
  if (!in) throw Error(ErrorCode::kIo, fmt::format("cannot read {}", path.string()));
  for (std::string line; std::getline(in, line);) f.lines.push_back(line);
  auto fail = [&](size_t i, std::string_view what) {
    throw Error(ErrorCode::kParse, fmt::format("{}:{}: {}", path.string(), i + 1, what));
  };
  size_t i = 0;
  while (i < f.lines.size() && is_blank(f.lines[i])) ++i;
  if (i == f.lines.size()) fail(0, "expected a line like: lower cumsum");
  std::istringstream head{f.lines[i]};
  std::string rest;
  if (!(head >> f.kind >> f.name)) fail(i, "expected a line like: lower cumsum");
  while (head >> rest) {
    if (rest.find('=') == std::string::npos) fail(i, "expected a line like: pass fold_constants budget=1000");
    f.options.push_back(rest);
  }
  ++i;
  enum { kBetween, kInput, kExpected } at = kBetween;
  auto finish = [&](size_t end) {
    if (at == kInput) fail(end - 1, "this case has no '=>'");
    if (at == kExpected) {
      while (end > f.cases.back().expected_begin && is_blank(f.lines[end - 1])) --end;
      f.cases.back().expected_end = end;
    }
  };
  for (; i < f.lines.size(); ++i) {
    std::string_view line = f.lines[i];
    if (line.starts_with("case ")) {
      finish(i);
      f.cases.push_back({.claim = unquoted(line.substr(5), path, i + 1), .line = i + 1, .input_begin = i + 1});
      at = kInput;
    } else if (line.starts_with("=>")) {
      if (at != kInput) fail(i, "'=>' without a case before it");
      Case& c = f.cases.back();
      c.input_end = i;
      c.arrow = i;
      c.verdict = trimmed(line.substr(2));
      c.expected_begin = c.expected_end = i + 1;
      at = kExpected;
    } else if (at == kBetween && !is_blank(line)) {
      fail(i, "expected: case \"the claim\"");
    }
  }
  finish(f.lines.size());
  if (f.cases.empty()) fail(f.lines.size(), "this file has no case");
  for (size_t a = 0; a < f.cases.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (f.cases[a].claim == f.cases[b].claim) fail(f.cases[a].line - 1, "this claim stands in the file already");
  return f;
}

// The lines [begin, end) at their place in the file, so that errors tell its lines.
std::string text_of(const CaseFile& f, size_t begin, size_t end) {
  std::string text(begin, '\n');
  for (size_t i = begin; i < end; ++i) text += f.lines[i] + '\n';
  return text;
}

// --- running

// Cases whose graphs were evaluated, and those that could not be.
struct Values {
  size_t compared = 0, skipped = 0;
  std::vector<std::string> reasons;
};

// "Add 5, Loop 1": all operators of the model, in lines.
std::string counts_text(const Model& m) {
  std::string text;
  size_t width = 0;
  for (const auto& [op, n] : count_model(m).ops) {
    const std::string item = fmt::format("{} {}", op, n);
    if (!text.empty()) text += width + item.size() > 120 ? ",\n" : ", ";
    width = text.ends_with('\n') ? item.size() : width + item.size() + 2;
    text += item;
  }
  return text + "\n";
}

std::string without_white_space(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

// Nothing when the case holds; else what went wrong. *bless: the graph to write in place of the expected one.
std::optional<std::string> run_case(const CaseFile& f, const Case& c, const Transform& transform, std::string* bless,
                                    Values& values) {
  std::string file = f.path.string();
  auto input = parse(text_of(f, c.input_begin, c.input_end), file);
  verify(*input);
  std::string before = print(*input, {.full_constants = true});

  std::unique_ptr<Model> got;
  if (c.verdict.starts_with("error")) {
    std::string part = unquoted(std::string_view(c.verdict).substr(5), f.path, c.arrow + 1);
    try {
      got = transform(*input);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kInternal) throw;
      if (std::string_view(e.what()).find(part) != std::string_view::npos) return std::nullopt;
      return fmt::format("expected an error with \"{}\", got:\n{}", part, e.what());
    }
    return fmt::format("expected an error with \"{}\", got:\n{}", part, print(*got));
  }
  got = transform(*input);
  if (print(*input, {.full_constants = true}) != before) return "the input was changed";
  verify(*got, {.allow_unchecked = false, .shapes = true});

  std::string printed = print(*got, {.full_constants = true}), why;
  auto again = parse(printed, file + " (printed)");
  if (!equal_models(*got, *again, &why)) return fmt::format("the result does not survive its text: {}\n{}", why, printed);
  if (std::string twice = print(*again, {.full_constants = true}); twice != printed)
    return fmt::format("the result prints in two ways:\n{}and\n{}", printed, twice);

  // What a pass did may not change what is computed, whatever is expected of its form.
  if (f.kind == "pass" && c.verdict != "same") {
    const ValueCheck check = compare_values(*input, *got, find_pass(f.name)->pass.numerics());
    if (check.difference) return *check.difference + "\ngot:\n" + printed;
    ++(check.runs > 0 ? values.compared : values.skipped);
    if (check.runs == 0) values.reasons.push_back(fmt::format("{}:{}: {}", file, c.line, check.skipped));
  }

  const std::string graph =
      got->functions().size() > 1 ? print(*got, {.full_constants = true}) : print(got->graph(), {.full_constants = true});
  if (c.verdict == "same") {
    if (equal_models(*input, *got, &why)) return std::nullopt;
    return fmt::format("expected no change, but {}:\n{}", why, printed);
  }
  if (c.verdict == "counts") {
    const std::string found = counts_text(*got), wanted = text_of(f, c.expected_begin, c.expected_end);
    if (without_white_space(found) == without_white_space(wanted)) return std::nullopt;
    *bless = found;
    return fmt::format("got:\n{}expected:{}", found, wanted);
  }
  if (!c.verdict.empty())
    return fmt::format("nothing, same, counts or error \"...\" can stand behind '=>', not: {}", c.verdict);
  if (std::all_of(f.lines.begin() + static_cast<std::ptrdiff_t>(c.expected_begin),
                  f.lines.begin() + static_cast<std::ptrdiff_t>(c.expected_end), is_blank)) {
    *bless = graph;
    return fmt::format("no graph is expected; got:\n{}", graph);
  }
  std::unique_ptr<Model> expected;
  try {
    expected = parse(text_of(f, c.expected_begin, c.expected_end), file);
    verify(*expected);
  } catch (const Error&) {
    *bless = graph;
    throw;
  }
  // A model with functions is compared with its imports and functions, others by their graphs.
  const bool same = expected->functions().size() > 1 ? equal_models(*expected, *got, &why)
                                                     : equal_graphs(expected->graph(), got->graph(), &why);
  if (same) return std::nullopt;
  *bless = graph;
  return fmt::format("{}\ngot:\n{}expected:\n{}", why, graph, print(expected->graph(), {.full_constants = true}));
}

struct Totals {
  size_t passed = 0, failed = 0, blessed = 0;
  Values values;
};

void run_file(const std::filesystem::path& path, const std::string& filter, bool bless, Totals& totals) {
  CaseFile f;
  Transform transform;
  try {
    f = read_cases(path);
    transform = transform_for(f.kind, f.name, f.options);
  } catch (const Error& e) {
    std::cout << path.string() << ": " << e.what() << "\n\n";
    ++totals.failed;
    return;
  }
  std::vector<std::pair<const Case*, std::string>> rewrites;
  for (const Case& c : f.cases) {
    if (!filter.empty() && (f.name + " " + c.claim).find(filter) == std::string::npos) continue;
    std::string better;
    std::optional<std::string> wrong;
    try {
      wrong = run_case(f, c, transform, &better, totals.values);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (!wrong) {
      ++totals.passed;
    } else if (bless && !better.empty()) {
      rewrites.emplace_back(&c, better);
      ++totals.blessed;
      std::cout << fmt::format("{}:{}: {} {}: blessed \"{}\"\n", f.path.string(), c.line, f.kind, f.name, c.claim);
    } else {
      ++totals.failed;
      std::cout << fmt::format("{}:{}: {} {}: \"{}\" fails\n{}\n\n", f.path.string(), c.line, f.kind, f.name, c.claim, *wrong);
    }
  }
  if (rewrites.empty()) return;
  for (auto r = rewrites.rbegin(); r != rewrites.rend(); ++r) {  // from the end, so that line numbers stay right
    auto [c, text] = *r;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    auto at = f.lines.erase(f.lines.begin() + static_cast<std::ptrdiff_t>(c->expected_begin),
                            f.lines.begin() + static_cast<std::ptrdiff_t>(c->expected_end));
    f.lines.insert(at, text);
  }
  std::ofstream out(f.path);
  for (const std::string& line : f.lines) out << line << '\n';
  if (!out.flush()) throw Error(ErrorCode::kIo, fmt::format("cannot write {}", f.path.string()));
}

// The graphs of the cases of passes, by pass.
std::map<std::string, std::vector<std::unique_ptr<Model>>> graphs_of_cases(const std::vector<std::filesystem::path>& files) {
  std::map<std::string, std::vector<std::unique_ptr<Model>>> graphs;
  for (const auto& path : files) {
    const CaseFile f = read_cases(path);
    if (f.kind != "pass") continue;
    for (const Case& c : f.cases) graphs[f.name].push_back(parse(text_of(f, c.input_begin, c.input_end), path.string()));
  }
  return graphs;
}

int run(const std::vector<std::string>& arguments) {
  bool bless = false, fuzz = false;
  FuzzOptions fuzzing;
  std::string filter;
  std::vector<std::filesystem::path> files;
  for (const std::string& a : arguments) {
    if (a == "--bless") {
      bless = true;
    } else if (a.starts_with("--filter=")) {
      filter = a.substr(9);
    } else if (a == "--fuzz" || a.starts_with("--fuzz=")) {
      fuzz = true;
      if (a.size() > 7) fuzzing.effort = std::stoul(a.substr(7));
    } else if (a.starts_with("--seed=")) {
      fuzzing.seed = std::stoul(a.substr(7));
    } else if (a == "--report") {
      fuzzing.report = true;
    } else if (std::filesystem::is_directory(a)) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(a))
        if (entry.is_regular_file() && entry.path().extension() == ".sx") files.push_back(entry.path());
    } else if (std::filesystem::exists(a)) {
      files.emplace_back(a);
    } else {
      std::cerr << "usage: sx_test [--bless] [--filter=TEXT] PATH...\n"
                   "       sx_test --fuzz[=EFFORT] [--seed=N] [--report] [--filter=TEXT] PATH...\nthere is no '"
                << a << "'\n";
      return 2;
    }
  }
  std::sort(files.begin(), files.end());
  if (fuzz) {
    fuzzing.filter = filter;
    return fuzz_rules(graphs_of_cases(files), fuzzing) > 0 ? 1 : 0;
  }
  Totals totals;
  for (const auto& path : files) run_file(path, filter, bless, totals);
  std::cout << fmt::format("{} cases in {} files: {} hold, {} fail", totals.passed + totals.failed + totals.blessed,
                           files.size(), totals.passed, totals.failed);
  if (totals.blessed > 0) std::cout << fmt::format(", {} blessed", totals.blessed);
  std::cout << fmt::format("; values compared in {}, not in {}\n", totals.values.compared, totals.values.skipped);
  for (const std::string& r : totals.values.reasons) std::cout << "  not evaluated: " << r << '\n';
  return totals.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sardonyx

int main(int argc, char** argv) {
  try {
    return sardonyx::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
