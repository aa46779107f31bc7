// sx_test runs the .sx cases beside the sources:
//   sx_test [--bless] [--filter=TEXT] [--write-models=FOLDER] PATH...
//
// --write-models=FOLDER also writes the cases as ONNX models (sx_test_models.h).
//
// sx_test --fmt [--check] PATH... writes the graphs of Core ML's cases in their shortest form instead
// (sx_test_format.h); with --check, it only names the files that would change.
//
// sx_test --fuzz runs rules on random graphs instead (sx_test_fuzz.h):
//   sx_test --fuzz[=EFFORT] [--seed=N] [--report] [--filter=TEXT] PATH...
//
//   lower cumsum                      the subject of the cases: a kind and a name. A pass may have options:
//                                     pass NAME option=value
//
//   case "the claim"                  pass options may follow: case "the claim" option=value. They replace
//                                     those of the first line
//   graph jax(...) { ... }            the input
//   =>
//   graph(...) { ... }                the expected result; or: => same, => error "part of the message"
//
// "=> exactly" is followed by a model whose names, declared types, descriptions and imports are compared too.
// "=> counts" is followed by the numbers of nodes per operator, bodies included, for graphs that are too long
// to read: Add 5, Loop 1
//
// The result is verified, compared with the expected graph up to names, printed and parsed again. For a pass,
// both graphs are also evaluated (rewrite/values.h). --bless writes the result into the file where it
// differs.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sardonyx/error.h"
#include "sardonyx/ir.h"
#include "sx_test_cases.h"
#include "sx_test_format.h"
#include "sx_test_fuzz.h"
#include "sx_test_models.h"

namespace sardonyx {
namespace {

struct Totals {
  size_t passed = 0, failed = 0, blessed = 0;
  Values values;
};

void write_lines(const std::filesystem::path& path, const std::vector<std::string>& lines) {
  std::ofstream out(path);
  for (const std::string& line : lines) out << line << '\n';
  if (!out.flush()) throw Error(ErrorCode::kIo, fmt::format("cannot write {}", path.string()));
}

void run_file(const std::filesystem::path& path, const std::string& filter, bool bless, ModelWriter* writer, Totals& totals) {
  CaseFile f;
  try {
    f = read_cases(path);
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
      const Transform transform = transform_for(f, c);
      wrong = run_case(f, c, transform, &better, totals.values);
      if (!wrong && writer != nullptr) writer->add(f, c, transform);
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
  for (auto r = rewrites.rbegin(); r != rewrites.rend(); ++r) {  // from the end, so that line numbers stay valid
    auto [c, text] = *r;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    auto at = f.lines.erase(f.lines.begin() + static_cast<std::ptrdiff_t>(c->expected_begin),
                            f.lines.begin() + static_cast<std::ptrdiff_t>(c->expected_end));
    f.lines.insert(at, text);
  }
  write_lines(f.path, f.lines);
}

int format_files(const std::vector<std::filesystem::path>& files, bool check) {
  size_t changed = 0;
  for (const auto& path : files) {
    const CaseFile f = read_cases(path);
    const std::vector<std::string> lines = format_cases(f);
    if (lines == f.lines) continue;
    ++changed;
    std::cout << fmt::format("{}: {} lines{}\n", path.string(), f.lines.size(),
                             check ? ", and not in their shortest form" : fmt::format(" become {}", lines.size()));
    if (!check) write_lines(path, lines);
  }
  if (check && changed > 0) std::cout << "help: build/release/sx_test --fmt src tests\n";
  return check && changed > 0 ? 1 : 0;
}

// The input graphs of the cases of passes, by pass.
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
  bool bless = false, fuzz = false, format = false, check = false;
  FuzzOptions fuzzing;
  std::string filter;
  std::optional<ModelWriter> writer;
  std::vector<std::filesystem::path> paths;
  for (const std::string& a : arguments) {
    if (a == "--bless") {
      bless = true;
    } else if (a == "--fmt") {
      format = true;
    } else if (a == "--check") {
      check = true;
    } else if (a.starts_with("--filter=")) {
      filter = a.substr(9);
    } else if (a.starts_with("--write-models=")) {
      writer.emplace(a.substr(15));
    } else if (a == "--fuzz" || a.starts_with("--fuzz=")) {
      fuzz = true;
      if (a.size() > 7) fuzzing.effort = std::stoul(a.substr(7));
    } else if (a.starts_with("--seed=")) {
      fuzzing.seed = std::stoul(a.substr(7));
    } else if (a == "--report") {
      fuzzing.report = true;
    } else if (std::filesystem::exists(a)) {
      paths.emplace_back(a);
    } else {
      std::cerr << "usage: sx_test [--bless] [--filter=TEXT] [--write-models=FOLDER] PATH...\n"
                   "       sx_test --fmt [--check] PATH...\n"
                   "       sx_test --fuzz[=EFFORT] [--seed=N] [--report] [--filter=TEXT] PATH...\nthere is no '"
                << a << "'\n";
      return 2;
    }
  }
  const auto files = case_files(paths);
  if (format) return format_files(files, check);
  if (fuzz) {
    fuzzing.filter = filter;
    return fuzz_rules(graphs_of_cases(files), fuzzing) > 0 ? 1 : 0;
  }
  Totals totals;
  for (const auto& path : files) run_file(path, filter, bless, writer ? &*writer : nullptr, totals);
  if (writer) writer->finish();
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
