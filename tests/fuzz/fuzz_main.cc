// sx_fuzz [--dialect=onnx|mil] [--seed=N] [--count=N] [--seconds=N] [--passes=a,b] [--cases=FOLDER]
// [--write=FOLDER]
//         [--order=N] [--half] [--report] [--no-shrink]
//
// Draws models (random/generator.h) and runs each through every pass alone, through presets and random
// pipelines, and through text and file. Shrinks a failure and prints it as a case for the pass's .sx file.
// --report prints at the end how often passes and rules fired. With --order, rules fire in random orders, in
// which values must be preserved too. With --half, models have extreme numbers and are only computed in half
// precision, whose results half.cc judges.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "cases/sx_test_files.h"
#include "check.h"
#include "half.h"
#include "passes/catalog.h"
#include "random/generator.h"
#include "sardonyx/io.h"

namespace sardonyx::fuzz {
namespace {

struct Options {
  uint64_t seed = 1;
  uint64_t count = 100;
  double seconds = 0;
  std::vector<std::string> passes;  // only these
  std::string cases, write;
  bool report = false, shrink = true;
  bool half = false;
  int opset = 0;
  uint64_t order = 0;
  DialectId dialect = DialectId::kOnnx;
  bool mil() const { return dialect == DialectId::kMil; }
  size_t most_failures = 20;
};

// The graphs before "=>" in the cases of the passes.
std::vector<std::string> read_snippets(const std::string& folder, bool mil) {
  std::vector<std::string> snippets;
  if (folder.empty()) return snippets;
  for (const auto& path : case_files({folder})) {
    const CaseFile f = read_cases(path);
    for (const Case& c : f.cases) {
      std::string text = text_of(f, c.input_begin, c.input_end);
      if ((text.find("graph mil") != std::string::npos) == mil) snippets.push_back(std::move(text));
    }
  }
  return snippets;
}

// A copy whose inputs have unknown rank, and whose scalar constants have axes of their own, which
// broadcasting may pass on to other values. Null if the operators refuse that or fail on it.
std::optional<Subject> without_ranks(const Subject& known) {
  Subject s = copy(known);
  Model& m = *s.model;
  for (const auto& f : m.functions()) {
    for (Graph* g : graphs_in(f->graph())) {
      for (Node& n : g->nodes()) {
        for (Value& r : n.results()) r.set_type(nullptr);
      }
      for (size_t i = 0; i < g->outputs().size(); ++i) g->output_port(i).declared = nullptr;
      for (size_t i = 0; i < g->inputs().size(); ++i) {
        const Type* t = g->input(i)->type();
        if (t == nullptr || !t->is_tensor()) continue;
        g->input(i)->set_type(m.types().unranked(t->dtype()));
        g->input_port(i).declared = g->input(i)->type();
      }
      const std::vector<Value*> constants(g->constants().begin(), g->constants().end());
      for (Value* c : constants) {
        const bool is_broadcast = std::all_of(c->uses().begin(), c->uses().end(), [](const Use& u) {
          const Node& n = *u.owner;
          return !n.is_boundary() && n.num_inputs() > 1 && n.has(Trait::kElementwise) && !n.is("Clip");
        });
        if (c->ranked() && c->type()->rank() == 0 && is_broadcast) g->set_constant(*c, c->constant()->reshaped({1, 1, 1, 1}));
      }
    }
  }
  try {
    s.model = parse(print(m, {.full_constants = true}), "without ranks");
    verify(*s.model, {.allow_unchecked = false, .shapes = true});
    for (size_t which : {0, 1}) evaluate_subject(s, which);
  } catch (const Error&) {
    return std::nullopt;
  }
  return s;
}

class Fuzz {
 public:
  explicit Fuzz(Options o) : options_(std::move(o)), snippets_(read_snippets(options_.cases, options_.mil())) {
    for (const CatalogPass& p : catalog()) {
      if (p.name == "materialize_symbolic_shape_program") continue;  // needs names and sizes: check_told_passes()
      if (p.dialect == (options_.mil() ? DialectId::kMil : DialectId::kOnnx)) all_.emplace_back(p.name);
    }
    if (options_.passes.empty()) options_.passes = all_;
  }

  int run() {
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    uint64_t seed = options_.seed;
    for (; options_.seconds > 0 ? elapsed() < options_.seconds : seed < options_.seed + options_.count; ++seed) {
      if (failures_ >= options_.most_failures) break;
      one(seed);
    }
    std::cout << fmt::format(
        "{} graphs ({} nodes; {} draws did not run) in {:.0f} s; {} pipelines; values compared {} times, {} times by shape "
        "only; {} failures\n",
        statistics_.graphs, statistics_.nodes, statistics_.not_drawn, elapsed(), statistics_.pipelines, statistics_.compared,
        statistics_.compared_loosely, failures_);
    if (options_.half)
      std::cout << fmt::format("half precision: {} of {} graphs changed; {} floats within bounds, {} integers equal\n",
                               half_.changed, half_.graphs, half_.elements, half_.integers);
    if (options_.report) report();
    return failures_ > 0 ? 1 : 0;
  }

 private:
  void one(uint64_t seed) {
    std::optional<Generated> drawn;
    const bool with_snippet = seed % 2 == 0;
    const GeneratorOptions g{.dialect = options_.dialect,
                             .opset = options_.opset,
                             .snippets = snippets_,
                             .snippet_first = with_snippet,
                             .only_snippet = with_snippet && !snippets_.empty() ? (seed / 2) % snippets_.size() : SIZE_MAX,
                             .dtype = options_.half ? std::optional(DType::kF32) : std::nullopt,
                             .extreme = options_.half};
    try {
      drawn = generate(seed, g);
    } catch (const Error& e) {
      ++failures_;
      std::cout << fmt::format("seed {}: while it was drawn: {}\n\n", seed, e.what()) << std::flush;
      return;
    }
    if (!drawn) {
      ++statistics_.not_drawn;
      return;
    }
    Subject s;
    s.order = options_.order == 0 ? 0 : options_.order + seed;
    const auto inputs = drawn->model->graph().inputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      s.inputs[std::string(inputs[i].name.view())] = {drawn->inputs[0][i], drawn->inputs[1][i]};
    try {
      s.model = parse(print(*drawn->model, {.full_constants = true}), "drawn");
      verify(*s.model, {.allow_unchecked = false, .shapes = true});
    } catch (const Error& e) {
      ++failures_;
      std::cout << fmt::format("seed {}: what was drawn is no model: {}\n{}\n\n", seed, e.what(),
                               print(*drawn->model, {.full_constants = true}))
                << std::flush;
      return;
    }
    ++statistics_.graphs;
    statistics_.nodes += s.model->num_nodes();
    for (const Node& n : s.model->graph().nodes()) ++statistics_.ops[std::string(n.op().name)];
    if (!options_.write.empty()) {
      const auto path = std::filesystem::path(options_.write) / std::to_string(seed);
      options_.mil() ? write_coreml(*s.model, path.string() + ".mlpackage")
                     : (void)write_onnx(*s.model, path.string() + ".onnx");
    }
    if (options_.half) {
      for (const bool is_calibrated : {false, true})
        fail_if(seed, s,
                [&, is_calibrated](const Subject& x) { return check_half(x, is_calibrated, &x == &s ? &half_ : nullptr); }, {});
      return;
    }
    if (std::mt19937_64(seed)() % 4 == 0 && !options_.mil()) {
      if (auto bare = without_ranks(s)) s = std::move(*bare);
    }

    fail_if(seed, s, [](const Subject& x) { return check_round_trips(x); }, {});
    if (options_.mil()) fail_if(seed, s, [](const Subject& x) { return check_told_passes(x); }, {});
    for (const std::string& p : options_.passes) passes(seed, s, {p});
    if (options_.passes.size() != all_.size()) return;
    passes(seed, s, {options_.mil() ? "default" : "onnx"});
    passes(seed, s, {options_.mil() ? "cleanup" : "onnx-spec"});
    std::mt19937_64 random(seed);
    for (int k = 0; k < 2; ++k) {
      std::vector<std::string> pipeline;
      for (uint64_t n = 2 + random() % 6; n > 0; --n) pipeline.push_back(all_[random() % all_.size()]);
      passes(seed, s, pipeline);
    }
  }

  void passes(uint64_t seed, const Subject& s, const std::vector<std::string>& names) {
    ++statistics_.pipelines;
    fail_if(seed, s, [&](const Subject& x) { return check_passes(x, names, &x == &s ? &statistics_ : nullptr); }, names);
  }

  void fail_if(uint64_t seed, const Subject& s, const std::function<std::optional<Failure>(const Subject&)>& check,
               std::vector<std::string> names) {
    if (failures_ >= options_.most_failures) return;
    const auto failure = check(s);
    if (!failure) return;
    // Report one failure of each kind.
    const std::string kind = (names.size() == 1 ? names[0] : "") + failure->kind;
    ++seen_[kind];
    if (seen_[kind] > 2) return;
    ++failures_;
    if (names.size() > 1) names = shrink_passes(s, names, *failure);
    const Subject small =
        options_.shrink ? shrink(
                              s, [&](const Subject& x) { return names.empty() ? check(x) : check_passes(x, names); }, *failure)
                        : copy(s);
    const auto why = names.empty() ? check(small) : check_passes(small, names);
    std::cout << fmt::format("// seed {}: {}\npass {}\n\ncase \"{}\"\n{}=>\n\n{}\n\n", seed, failure->kind,
                             fmt::join(names, ","), failure->kind, print(*small.model, {.full_constants = true}),
                             why ? why->detail : "(gone)")
              << std::flush;
  }

  void report() {
    std::cout << "\ngraphs tried and changed, by pass; firings, by rule\n";
    for (const std::string& p : all_) {
      std::cout << fmt::format("{:44} {:7} {:7}\n", p, statistics_.tried[p], statistics_.changed[p]);
      const Pass& pass = find_pass(p)->pass;
      std::vector<std::string> rules;
      for (const Rule& r : pass.rules) rules.push_back(r.name.empty() ? p : std::string(r.name));
      for (const auto& [name, times] : statistics_.fired) {
        if (name.starts_with(p + "/") && pass.rules.empty()) rules.push_back(name.substr(p.size() + 1));
      }
      for (const std::string& r : rules) {
        const size_t times = statistics_.fired.contains(p + "/" + r) ? statistics_.fired[p + "/" + r] : 0;
        std::cout << fmt::format("  {:50} {:9}{}\n", r, times, times == 0 ? "   NEVER" : "");
      }
    }
    std::cout << "\noperators drawn:";
    for (const auto& [op, n] : statistics_.ops) std::cout << fmt::format(" {} {},", op, n);
    std::cout << "\n";
  }

  Options options_;
  std::vector<std::string> snippets_, all_;
  Statistics statistics_;
  HalfStatistics half_;
  std::map<std::string, size_t> seen_;
  size_t failures_ = 0;
};

int run(const std::vector<std::string>& arguments) {
  Options o;
  for (const std::string& a : arguments) {
    const auto value = a.find('=') == std::string::npos ? std::string() : a.substr(a.find('=') + 1);
    const std::string name = a.substr(0, a.find('='));
    if (name == "--seed") {
      o.seed = std::stoull(value);
    } else if (name == "--count") {
      o.count = std::stoull(value);
    } else if (name == "--seconds") {
      o.seconds = std::stod(value);
    } else if (name == "--opset") {
      o.opset = std::stoi(value);
    } else if (name == "--order") {
      o.order = std::stoull(value);
    } else if (name == "--dialect" && (value == "mil" || value == "onnx")) {
      o.dialect = value == "mil" ? DialectId::kMil : DialectId::kOnnx;
    } else if (name == "--failures") {
      o.most_failures = std::stoul(value);
    } else if (name == "--passes") {
      std::istringstream all(value);
      for (std::string p; std::getline(all, p, ',');) o.passes.push_back(p);
    } else if (name == "--cases") {
      o.cases = value;
    } else if (name == "--write") {
      o.write = value;
      std::filesystem::create_directories(value);
    } else if (name == "--report") {
      o.report = true;
    } else if (name == "--half") {
      o.half = true;
    } else if (name == "--no-shrink") {
      o.shrink = false;
    } else {
      std::cerr
          << "usage: sx_fuzz [--dialect=onnx|mil] [--seed=N] [--count=N | --seconds=N] [--opset=N] [--passes=A,B]\n"
             "               [--cases=FOLDER] [--write=FOLDER] [--failures=N] [--order=N] [--half] [--report] [--no-shrink]\n";
      return 2;
    }
  }
  return Fuzz(std::move(o)).run();
}

}  // namespace
}  // namespace sardonyx::fuzz

int main(int argc, char** argv) {
  try {
    return sardonyx::fuzz::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}
