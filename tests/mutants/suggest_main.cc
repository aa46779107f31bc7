// sx_suggest --first=ID --last=ID [--own=NAME] [--skip=ID,...] [--seconds=N] [--seed=N] FOLDER...
//
// Looks for cases that tell mutants [first, last) from the pass as it is (scripts/mutate.py --suggest): the cases in the folders, then small changes
// of them (alter.h). NAME is the file that the mutants are in: what is made once, such as a rule, is tried on the cases of that name, and where
// there are none, on all. What it finds is made small and printed, one block each, between lines of dashes:
//
//   kills 20013 20014
//   file src/passes/onnx/fuse_pad.sx
//   from "zeros before a convolution that pads, too": number
//   <the case>
//
// and last `dead` with the mutants that the cases kill already, `left` with those for which nothing was found, and `unreached`.
#include <fmt/format.h>

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "../fuzz/check.h"
#include "../sx_test_cases.h"
#include "alter.h"
#include "mutant.h"
#include "passes/catalog.h"

namespace sardonyx {
namespace {

// Of processor time, of this process and those that it started.
double seconds_spent() {
  double sum = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage u{};
    getrusage(who, &u);
    for (const timeval& t : {u.ru_utime, u.ru_stime})
      sum += static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  }
  return sum;
}

// A pass with its options, and its cases.
struct Lab {
  CaseFile file;
  Transform transform;
  bool mil = false;
};

struct Base {
  size_t lab = 0;
  std::string text, from;
  bool is_case = false;  // as it stands in the file
  bool exactly = false;  // names and what is declared count
  size_t tried = 0;
};

struct Find {
  size_t lab = 0;
  std::string text, from;
  std::vector<int> kills;
};

struct Outcome {
  std::unique_ptr<Model> model;
  std::string error;
};

Outcome run_lab(const Lab& lab, const Model& input) {
  Outcome o;
  try {
    o.model = lab.transform(input);
    verify(*o.model, {.allow_unchecked = false, .shapes = true});
  } catch (const Error& e) {
    o.model = nullptr;
    o.error = (e.code() == ErrorCode::kInternal ? "internal: " : "") + std::string(e.what());
  }
  return o;
}

// As the runner of cases compares.
bool same(const Model& input, const Outcome& expected, const Outcome& got, bool unchanged, bool exactly) {
  if (expected.model == nullptr || got.model == nullptr) return expected.error == got.error;
  if (exactly && print(*expected.model) != print(*got.model)) return false;
  std::string why;
  if (unchanged) return equal_models(input, *got.model, &why);
  return expected.model->functions().size() > 1 ? equal_models(*expected.model, *got.model, &why)
                                                : equal_graphs(expected.model->graph(), got.model->graph(), &why);
}

std::unique_ptr<Model> read(const std::string& text) {
  try {
    auto m = parse(text, "candidate");
    verify(*m, {.allow_unchecked = false});
    for (Graph* g : graphs_in(m->graph())) {
      for (const Value* c : g->constants()) {
        if (!c->has_uses()) return nullptr;  // the runner drops them
      }
    }
    return m;
  } catch (const std::exception&) {
    return nullptr;
  }
}

std::string without_result_types(const std::string& text) {
  // `a: f32[2,3] = conv(...)`, on a line of its own.
  std::string out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line); out += line + "\n") {
    const size_t colon = line.find(": "), equal = line.find(" = ");
    const size_t odd = line.find_first_of("(){<\"");
    if (colon == std::string::npos || equal == std::string::npos || colon > equal || odd < equal) continue;
    if (line.find(',') < colon || line.find("return") < equal) continue;
    line.erase(colon, equal - colon);
  }
  return out;
}

// Ends the process after so many seconds of its own work: the machine may be busy with other things.
void limit(int seconds) {
  const itimerval after{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  setitimer(ITIMER_PROF, &after, nullptr);
}

// What is being tried, for the case that the pass as it is does not come back.
std::string g_trying;
void tell(int signal) {
  std::cerr << "signal " << signal << " at\n" << g_trying << std::endl;
  _exit(3);
}

class Search {
 public:
  Search(int first, int last, std::string own, const std::set<int>& skip, uint64_t seed, double seconds)
      : first_(first), last_(last), own_(std::move(own)), alterer_(seed), seconds_(seconds) {
    for (int id = first; id < last; ++id) {
      if (!skip.contains(id)) alive_.insert(id);
    }
  }

  void add_lab(const std::filesystem::path& path) {
    Lab lab;
    lab.file = read_cases(path);
    if (lab.file.kind != "pass") return;
    lab.transform = transform_for(lab.file.kind, lab.file.name, lab.file.options);
    for (const Case& c : lab.file.cases) {
      Base b{.lab = labs_.size(),
             .text = text_of(lab.file, c.input_begin, c.input_end),
             .from = c.claim,
             .is_case = true,
             .exactly = c.verdict == "exactly"};
      b.text.erase(0, b.text.find_first_not_of('\n'));
      lab.mil |= b.text.find("graph mil") != std::string::npos;
      bases_.push_back(std::move(b));
    }
    labs_.push_back(std::move(lab));
  }

  // Everything that can wake a mutant while the process runs. In a process of its own, so that tables of passes are not made yet in this one.
  int run() {
    scratch("");
    in_child([&] {
      try {
        awake_in_time();
      } catch (const std::exception& e) {
        std::cerr << "while trying\n" << g_trying << e.what() << "\n";
        _exit(4);
      }
    });
    late();
    return 0;
  }

 private:
  static std::string scratch(const std::string& end) {
    static const auto pid = getpid();  // asked first before there are others
    return std::filesystem::temp_directory_path() / fmt::format("sx_suggest_{}_{}", pid, end);
  }

  // Those of `ids` with which the outcome is another: in a process of its own, for they may do anything.
  std::vector<int> told(const Lab& lab, const Model& input, const Outcome& expected, const std::vector<int>& ids,
                        bool exactly = false) {
    std::vector<int> found;
    std::string why;
    const bool unchanged = expected.model != nullptr && equal_models(input, *expected.model, &why);
    for (size_t at = 0; at < ids.size();) {
      int ends[2];
      if (pipe(ends) != 0) throw Error(ErrorCode::kIo, "no pipe");
      const auto pid = fork();
      if (pid == 0) {
        close(ends[0]);
        std::signal(SIGSEGV, SIG_DFL);
        std::signal(SIGABRT, SIG_DFL);
        std::signal(SIGFPE, SIG_DFL);
        for (size_t i = at; i < ids.size(); ++i) {
          limit(4);
          sx_mutant::wake(ids[i]);
          char verdict = '=';
          try {
            const Outcome got = run_lab(lab, input);
            sx_mutant::wake(-1);
            if (!same(input, expected, got, unchanged, exactly)) verdict = '!';
          } catch (...) {
            verdict = '!';
          }
          if (write(ends[1], &verdict, 1) != 1) break;
        }
        _exit(0);
      }
      close(ends[1]);
      char verdict = 0;
      while (at < ids.size() && ::read(ends[0], &verdict, 1) == 1) {
        if (verdict == '!') found.push_back(ids[at]);
        ++at;
      }
      close(ends[0]);
      int status = 0;
      waitpid(pid, &status, 0);
      if (at < ids.size()) found.push_back(ids[at++]);  // it did not come back
    }
    return found;
  }

  // What the pass makes of it, and of which mutants it asks; nothing when it is no graph or the pass itself fails.
  struct Trial {
    std::unique_ptr<Model> input;
    Outcome expected;
    std::vector<int> reached;
  };
  std::optional<Trial> attempt(const Lab& lab, const std::string& text, const std::string& from) {
    Trial t;
    g_trying = fmt::format("{} from {}\n{}", lab.file.path.string(), from, text);
    t.input = read(text);
    if (t.input == nullptr) return std::nullopt;
    sx_mutant::take_reached();
    try {
      t.expected = run_lab(lab, *t.input);
    } catch (const std::exception&) {
      return std::nullopt;
    }
    t.reached = sx_mutant::take_reached();
    if (t.expected.error.starts_with("internal: ") && ++bugs_ <= 5)
      std::cout << fmt::format("----\nbug\nfile {}\nfrom \"{}\"\n{}=> {}\n", lab.file.path.string(), from, text,
                               t.expected.error)
                << std::flush;
    if (t.expected.error.starts_with("internal: ")) return std::nullopt;
    return t;
  }

  std::vector<int> of_those(const std::vector<int>& ids, const std::set<int>& in) {
    std::vector<int> out;
    std::copy_if(ids.begin(), ids.end(), std::back_inserter(out), [&](int id) { return in.contains(id); });
    return out;
  }

  void awake_in_time() {
    std::signal(SIGSEGV, tell);
    std::signal(SIGABRT, tell);
    std::signal(SIGFPE, tell);
    sx_mutant::watch(first_, last_);
    prepare_passes(DialectId::kOnnx);
    prepare_passes(DialectId::kMil);
    for (int id : sx_mutant::take_reached()) built_.insert(id);
    std::set<int> alive;
    for (int id : alive_) {
      if (!built_.contains(id)) alive.insert(id);
    }
    // What is there.
    std::vector<int> dead;
    std::map<size_t, size_t> reaching;  // labs, by how many of their cases reach the file
    std::set<int> ever(built_.begin(), built_.end());
    for (size_t k = 0; k < bases_.size(); ++k) {
      Base& b = bases_[k];
      const auto t = attempt(labs_[b.lab], b.text, b.from);
      if (!t) continue;
      if (!t->reached.empty()) ++reaching[b.lab];
      ever.insert(t->reached.begin(), t->reached.end());
      for (int id : t->reached) reach_[id].push_back(k);
      for (int id : told(labs_[b.lab], *t->input, t->expected, of_those(t->reached, alive), b.exactly)) {
        dead.push_back(id);
        alive.erase(id);
      }
    }
    std::cout << fmt::format("----\ndead {}\n", fmt::join(dead, " ")) << std::flush;
    for (size_t k = 0; k < bases_.size(); ++k) {
      if (labs_[bases_[k].lab].mil) bases_[k].text = without_result_types(bases_[k].text);
    }
    if (!built_.empty()) {
      const bool has_own = std::ranges::any_of(labs_, [&](const Lab& l) { return l.file.path.stem() == own_; });
      for (size_t k = 0; k < labs_.size(); ++k) {
        if (has_own ? labs_[k].file.path.stem() == own_ : reaching.empty()) reaching.try_emplace(k, 0);
      }
    }
    if (reaching.empty()) return;
    const bool mil = labs_[reaching.begin()->first].mil;
    for (const Base& b : bases_) {
      if (labs_[b.lab].mil != mil) continue;
      alterer_.learn(b.text);
      if (const auto m = reaching.contains(b.lab) ? read(b.text) : nullptr) learn_attributes(*m);
    }
    for (const Lab& lab : labs_) {
      if (lab.mil != mil) continue;
      for (const Case& c : lab.file.cases) alterer_.learn(text_of(lab.file, c.expected_begin, c.expected_end));
    }
    std::vector<size_t> pool;  // bases of labs that reach the file, and of others of their dialect
    size_t most = 0;
    for (const auto& [lab, n] : reaching) most = std::max(most, n);
    const size_t main_lab =
        std::find_if(reaching.begin(), reaching.end(), [&](const auto& r) { return r.second == most; })->first;
    for (size_t k = 0; k < bases_.size(); ++k) {
      if (reaching.contains(bases_[k].lab)) pool.push_back(k);
    }

    // Changes of them.
    const double start = seconds_spent();
    std::ofstream kept(scratch("candidates"));
    const auto keep = [&](size_t lab, const std::string& text, const std::string& from) {
      kept << "=" << lab << "\n=" << from << "\n" << text << "\n=end\n";
    };
    for (size_t k : pool) keep(bases_[k].lab, bases_[k].text, bases_[k].from);
    const size_t cases = pool.size();
    std::vector<Find> finds;
    size_t tried = 0, graphs = 0, written = 0;
    // First, the cases of others.
    for (size_t k = 0; k < bases_.size() && seconds_spent() - start < seconds_ / 4; ++k) {
      if (bases_[k].lab == main_lab || labs_[bases_[k].lab].mil != labs_[main_lab].mil) continue;
      consider(main_lab, bases_[k].text, fmt::format("{} ({})", bases_[k].from, labs_[bases_[k].lab].file.name), alive, finds,
               graphs, ever);
    }
    std::vector<int> order;
    while (seconds_spent() - start < seconds_ && (!alive.empty() || !built_.empty())) {
      if (order.empty()) {
        order.assign(alive.begin(), alive.end());
        if (order.empty()) order.push_back(-1);
        std::shuffle(order.begin(), order.end(), std::mt19937_64(tried));
      }
      const int wanted = order.back();
      order.pop_back();
      const auto r = reach_.find(wanted);
      size_t k = pool[alterer_.below(pool.size())];
      if (r != reach_.end() && alterer_.below(5) != 0) k = r->second[alterer_.below(r->second.size())];
      if (!reaching.contains(bases_[k].lab)) continue;
      std::string text = bases_[k].text, from = fmt::format("\"{}\":", bases_[k].from), what;
      const size_t changes = alterer_.below(2) == 0 ? 1 : 2 + alterer_.below(2);
      bool changed = false;
      for (size_t c = 0; c < changes; ++c) {
        const std::string now = alterer_.alter(text, &what);
        if (now.empty()) continue;
        text = now;
        from += " " + what;
        changed = true;
      }
      ++tried;
      if (!changed) continue;
      const size_t before = graphs;
      consider(bases_[k].lab, text, from, alive, finds, graphs, ever);
      if (graphs > before && written++ < 6000) keep(bases_[k].lab, text, from);
    }
    // The fewest that do.
    kept.close();
    std::set<int> wanted;
    for (Find& f : finds) wanted.insert(f.kills.begin(), f.kills.end());
    for (Find& f : finds) {
      const auto t = attempt(labs_[f.lab], f.text, f.from);
      if (t) f.kills = told(labs_[f.lab], *t->input, t->expected, of_those(t->reached, wanted));
    }
    while (!wanted.empty()) {
      const auto gain = [&](const Find& f) { return of_those(f.kills, wanted).size(); };
      const auto best = std::max_element(finds.begin(), finds.end(), [&](const Find& a, const Find& b) {
        return std::pair(gain(a), -static_cast<std::ptrdiff_t>(a.text.size())) <
               std::pair(gain(b), -static_cast<std::ptrdiff_t>(b.text.size()));
      });
      if (best == finds.end() || gain(*best) == 0) break;
      const auto kills = of_those(best->kills, wanted);
      print_find(*best, kills);
      for (int id : kills) wanted.erase(id);
    }
    // Those that were asked of once at most belong to tables.
    std::vector<int> unreached, left, late;
    for (int id : alive) {
      const auto r = reach_.find(id);
      if (r == reach_.end() && !ever.contains(id)) {
        unreached.push_back(id);
      } else if (r == reach_.end() || r->second.size() <= 1) {
        late.push_back(id);
      } else {
        left.push_back(id);
      }
    }
    for (int id : alive_) {
      if (built_.contains(id)) late.push_back(id);
    }
    std::ofstream(scratch("late")) << fmt::format("{} {}", cases, fmt::join(late, " "));
    std::cout << fmt::format("----\nunreached {}\n----\nleft {}\n", fmt::join(unreached, " "), fmt::join(left, " "))
              << std::flush;
    std::cerr << fmt::format("{} changes, {} graphs\n", tried, graphs);
  }

  // Those that its operators may have.
  void learn_attributes(Model& m) {
    for (const auto& f : m.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        for (const Node& n : g->nodes()) {
          for (const AttrSpec& a : n.op().attrs) {
            std::vector<std::string_view> values;
            if (a.kind == AttrKind::kInt) values = {"0", "1", "-1", "2"};
            if (a.kind == AttrKind::kFloat) values = {"0.5", "1.0", "2.0"};
            if (a.kind == AttrKind::kInts) values = {"[0]", "[1]", "[-1]", "[1, 1]", "[2, 2]", "[1, 1, 1, 1]", "[0, 1]"};
            for (const std::string_view v : values)
              alterer_.learn_attribute(std::string(n.op().name), fmt::format("{}={}", a.name, v));
          }
        }
      }
    }
  }

  void consider(size_t lab, const std::string& text, const std::string& from, std::set<int>& alive, std::vector<Find>& finds,
                size_t& graphs, std::set<int>& ever) {
    auto t = attempt(labs_[lab], text, from);
    if (!t) return;
    ++graphs;
    ever.insert(t->reached.begin(), t->reached.end());
    const auto asked = of_those(t->reached, alive);
    if (asked.empty()) return;
    bool fresh = false;
    for (int id : asked) fresh |= reach_[id].size() < 4;
    if (fresh) {
      bases_.push_back({.lab = lab, .text = text, .from = from});
      for (int id : asked) reach_[id].push_back(bases_.size() - 1);
    }
    const auto kills = told(labs_[lab], *t->input, t->expected, asked);
    if (kills.empty()) return;
    // Small, and as good.
    Find f{.lab = lab, .text = text, .from = from, .kills = kills};
    size_t budget = 250;
    const fuzz::Failure failure{.kind = "told", .detail = ""};
    try {
      fuzz::Subject s;
      s.model = clone_model(*t->input);
      const fuzz::Subject small = fuzz::shrink(
          s,
          [&](const fuzz::Subject& x) -> std::optional<fuzz::Failure> {
            if (budget == 0) return std::nullopt;
            --budget;
            const auto again = attempt(labs_[lab], print(*x.model, {.full_constants = true}), from);
            if (!again || told(labs_[lab], *again->input, again->expected, kills).size() < kills.size()) return std::nullopt;
            return failure;
          },
          failure);
      const std::string smaller = print(*small.model, {.full_constants = true});
      const auto again = attempt(labs_[lab], smaller, from);
      if (again && told(labs_[lab], *again->input, again->expected, kills).size() == kills.size()) f.text = smaller;
    } catch (const std::exception&) {}
    for (int id : kills) alive.erase(id);
    finds.push_back(std::move(f));
  }

  void print_find(const Find& f, const std::vector<int>& kills) {
    const auto t = attempt(labs_[f.lab], f.text, f.from);
    if (!t) return;
    std::string text = f.text, verdict, why;
    if (!text.ends_with('\n')) text += '\n';
    if (t->expected.model == nullptr) {
      verdict = fmt::format("=> error \"{}\"\n", t->expected.error.substr(0, t->expected.error.find('\n')));
    } else if (equal_models(*t->input, *t->expected.model, &why)) {
      verdict = "=> same\n";
    } else {
      verdict = "=>\n" + (t->expected.model->functions().size() > 1 || text.starts_with("opset")
                              ? print(*t->expected.model, {.full_constants = true})
                              : print(t->expected.model->graph(), {.full_constants = true}));
    }
    // The runner's own checks, values among them.
    const auto path = scratch("case.sx");
    std::ofstream(path) << labs_[f.lab].file.lines.front() << "\n\ncase \"x\"\n" << text << verdict;
    std::string wrong;
    try {
      CaseFile file = read_cases(path);
      file.kind = labs_[f.lab].file.kind;
      file.name = labs_[f.lab].file.name;
      std::string bless;
      Values values;
      if (const auto w = run_case(file, file.cases.front(), labs_[f.lab].transform, &bless, values)) wrong = *w;
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    std::filesystem::remove(path);
    std::cout << fmt::format("----\n{} {}\nfile {}\nfrom {}\n{}{}{}", wrong.empty() ? "kills" : "wrong", fmt::join(kills, " "),
                             labs_[f.lab].file.path.string(), f.from, text, verdict, wrong.empty() ? "" : "!! " + wrong + "\n")
              << std::flush;
  }

  // Mutants in what is made once: each awake from the beginning of a process, over the candidates.
  void late() {
    std::vector<int> ids;
    std::ifstream in(scratch("late"));
    size_t cases = 0;  // as they stand in the files; they are the first
    in >> cases;
    for (int id = 0; in >> id;) ids.push_back(id);
    if (!ids.empty()) {
      struct Candidate {
        size_t lab;
        std::string from, text;
      };
      std::vector<Candidate> all;
      std::ifstream file(scratch("candidates"));
      for (std::string line; std::getline(file, line);) {
        Candidate c{.lab = std::stoul(line.substr(1))};
        std::getline(file, c.from);
        c.from.erase(0, 1);
        while (std::getline(file, line) && line != "=end") c.text += line + "\n";
        all.push_back(std::move(c));
      }
      // What the pass makes of them, as text.
      const std::string answers = scratch("answers");
      in_child([&] {
        std::ofstream out(answers);
        for (const Candidate& c : all) {
          std::string answer = "none";
          if (const auto t = attempt(labs_[c.lab], c.text, c.from)) answer = print_answer(*t->input, t->expected);
          out << answer << "\n=end\n";
        }
      });
      std::vector<std::string> expected;
      std::ifstream read_answers(answers);
      std::string text;
      for (std::string line; std::getline(read_answers, line);) {
        if (line == "=end") {
          expected.push_back(text);
          text.clear();
        } else {
          text += line + "\n";
        }
      }
      expected.resize(all.size());
      std::vector<size_t> chosen;
      std::vector<int> dead, left;
      std::map<size_t, std::vector<int>> kills;
      for (int id : ids) {
        const std::string result = scratch("result");
        std::filesystem::remove(result);
        std::vector<size_t> order;
        for (size_t i = 0; i < cases; ++i) order.push_back(i);
        for (size_t i : chosen) order.push_back(i);
        for (size_t i = cases; i < all.size(); ++i) order.push_back(i);
        in_child([&] {
          sx_mutant::wake(id);
          std::ofstream out(result);
          for (size_t i : order) {
            if (expected[i] == "none\n" || expected[i].empty()) continue;
            limit(10);
            out.seekp(0);
            out << i << " crash                    " << std::flush;
            const auto input = read(all[i].text);
            if (input == nullptr) continue;
            std::string answer = "fails";
            try {
              answer = print_answer(*input, run_lab(labs_[all[i].lab], *input));
            } catch (...) {}
            if (answer + "\n" == expected[i]) continue;
            out.seekp(0);
            out << i << " told                     " << std::flush;
            _exit(0);
          }
          out.seekp(0);
          out << "0 left                    " << std::flush;
        });
        size_t which = 0;
        std::string how;
        std::ifstream(result) >> which >> how;
        if (how == "left" || how.empty()) {
          left.push_back(id);
        } else if (which < cases) {
          dead.push_back(id);
        } else {
          kills[which].push_back(id);
          if (std::find(chosen.begin(), chosen.end(), which) == chosen.end()) chosen.push_back(which);
        }
      }
      in_child([&] {
        for (const auto& [which, them] : kills)
          print_find({.lab = all[which].lab, .text = all[which].text, .from = all[which].from}, them);
        std::cout << fmt::format("----\ndead {}\n----\nleft {}\n", fmt::join(dead, " "), fmt::join(left, " ")) << std::flush;
      });
    }
    for (const char* end : {"late", "candidates", "answers", "result"}) std::filesystem::remove(scratch(end));
  }

  static std::string print_answer(const Model& input, const Outcome& o) {
    if (o.model == nullptr) return "error: " + o.error;
    std::string why;
    return (equal_models(input, *o.model, &why) ? "same " : "changed ") + print(*o.model, {.full_constants = true});
  }

  template <class F>
  static void in_child(const F& f) {
    std::cout << std::flush;
    const auto pid = fork();
    if (pid == 0) {
      f();
      std::cout << std::flush;
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) std::cerr << "a part of the search ended with status " << status << "\n";
  }

  int first_, last_;
  std::string own_;
  std::set<int> alive_, built_;
  sx_mutant::Alterer alterer_;
  double seconds_;
  std::vector<Lab> labs_;
  std::vector<Base> bases_;
  std::map<int, std::vector<size_t>> reach_;
  size_t bugs_ = 0;
};

int run(const std::vector<std::string>& arguments) {
  int first = 0, last = 0;
  uint64_t seed = 1;
  double seconds = 60;
  std::string own;
  std::set<int> skip;
  std::vector<std::filesystem::path> paths;
  for (const std::string& a : arguments) {
    const std::string value = a.substr(std::min(a.size(), a.find('=') + 1));
    if (a.starts_with("--first=")) {
      first = std::stoi(value);
    } else if (a.starts_with("--last=")) {
      last = std::stoi(value);
    } else if (a.starts_with("--own=")) {
      own = value;
    } else if (a.starts_with("--seed=")) {
      seed = std::stoull(value);
    } else if (a.starts_with("--seconds=")) {
      seconds = std::stod(value);
    } else if (a.starts_with("--skip=")) {
      std::istringstream in(value);
      for (std::string id; std::getline(in, id, ',');) skip.insert(std::stoi(id));
    } else {
      paths.emplace_back(a);
    }
  }
  Search search(first, last, own, skip, seed, seconds);
  for (const auto& f : case_files(paths)) search.add_lab(f);
  return search.run();
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
