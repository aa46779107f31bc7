#include "rewrite/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "ir/graph/arrange.h"
#include "ir/graph/graph_summary.h"
#include "ir/graph/journal.h"
#include "ir/infer/infer_anew.h"
#include "rewrite/values.h"
#include "sardonyx/observe.h"
#include "support/system/interrupt.h"
#include "support/system/stopwatch.h"

namespace sardonyx {
namespace {

// The entries [first, last), run together: one walk, or the rules of several passes in one sweep.
struct Step {
  size_t first = 0, last = 0;
  size_t changes_seen = SIZE_MAX;   // the number of changes when it last ended
  const ReadyPass* pass = nullptr;  // of the first entry
  std::vector<AppliedRule> rules;
  std::vector<size_t> owners;  // the entry of each rule
};

// `made` owns what the entries do not.
std::vector<Step> steps_of(const Pipeline& p, DialectId dialect, std::deque<ReadyPass>& made) {
  std::vector<Step> steps;
  for (size_t i = 0; i < p.entries.size(); ++i) {
    const auto shares = [&](size_t k) { return p.entries[k].repeats && !p.entries[k].pass->rules.empty(); };
    if (i > 0 && shares(i) && shares(i - 1) && p.entries[i].bodies == p.entries[i - 1].bodies) {
      steps.back().last = i + 1;
    } else {
      steps.push_back({.first = i, .last = i + 1, .pass = nullptr, .rules = {}, .owners = {}});
    }
  }
  for (Step& step : steps) {
    for (size_t i = step.first; i < step.last; ++i) {
      const PipelineEntry& e = p.entries[i];
      const ReadyPass* ready = e.ready != nullptr ? e.ready : &made.emplace_back(ready_pass(*e.pass, dialect));
      if (i == step.first) step.pass = ready;
      for (const ReadyRule& r : ready->rules) {
        if (std::ranges::any_of(e.skipped_rules, [&](const std::string& s) { return s == r.rule().name; })) continue;
        step.rules.push_back({&r, e.name, &e.options});
        step.owners.push_back(i);
      }
    }
  }
  return steps;
}

class Run {
 public:
  Run(PassContext& context, const Pipeline& pipeline, const PipelineSettings& settings)
      : context_(context), model_(context.model), pipeline_(pipeline), settings_(settings) {
    report_.passes.resize(pipeline.entries.size());
    for (size_t i = 0; i < pipeline.entries.size(); ++i) report_.passes[i].name = pipeline.entries[i].name;
  }

  PipelineReport run() {
    Stopwatch watch;
    if (observer_ != nullptr) observer_->begin_pipeline(model_, pipeline_.entries.size());
    std::vector<Step> steps = steps_of(pipeline_, model_.dialect(), made_ready_);
    for (size_t first = 0, last; first < steps.size(); first = last) {
      const auto repeats = [&](size_t i) { return pipeline_.entries[steps[i].first].repeats; };
      last = first + 1;
      while (last < steps.size() && repeats(first) && repeats(last)) ++last;
      if (repeats(first)) {
        run_until_stable(steps, first, last);
      } else {
        run_once(steps, first, last);
      }
    }
    if (observer_ != nullptr) observer_->progress({}, steps.size(), steps.size());
    arrange_new_constants();
    report_.faults = std::move(check_.faults);
    report_.evaluations = check_.evaluations;
    report_.seconds = watch.lap();
    return std::move(report_);
  }

 private:
  // Returns whether a step changed something. Skips steps that already ran on the current state of the model.
  bool run_once(std::vector<Step>& steps, size_t first, size_t last) {
    const size_t before = changes_;
    for (size_t i = first; i < last; ++i) {
      Step& step = steps[i];
      if (observer_ != nullptr) observer_->progress(pipeline_.entries[step.first].name, i, steps.size());
      if (step.changes_seen == changes_) continue;
      if (run_step(step)) ++changes_;
      step.changes_seen = changes_;
    }
    return changes_ != before;
  }

  // Passes that undo each other would loop forever: the number of rounds without a new minimum of nodes is
  // bounded. Each round leaves a right model, so the last one stays.
  void run_until_stable(std::vector<Step>& steps, size_t first, size_t last) {
    constexpr int kMostIdleRounds = 16, kWatchedRounds = 4;
    size_t fewest = model_.num_nodes(), typed = changes_;
    for (int idle = 0;;) {
      if (!run_once(steps, first, last)) {
        // Infer types from scratch, as if the model were written to a file and read again.
        if (typed == changes_ || model_.dialect() != DialectId::kOnnx || !may_tell_more(model_)) return;
        if (!infer_anew(model_, context_.facts)) return;
        if (observer_ != nullptr) observer_->typed_anew(model_);
        typed = ++changes_;
        continue;
      }
      if (model_.num_nodes() < fewest) {
        fewest = model_.num_nodes();
        idle = 0;
      } else if (++idle == kMostIdleRounds) {
        report_.not_converged.push_back(
            fmt::format("the passes did not converge and were stopped; the last {} rounds: {}", kWatchedRounds, recent_text()));
        return;
      }
      if (idle == kMostIdleRounds - kWatchedRounds) recent_.clear();
    }
  }

  std::string recent_text() const {
    std::string text;
    for (const auto& [what, times] : recent_)
      text += fmt::format("{}{} {} time{}", text.empty() ? "" : ", ", what, times, times == 1 ? "" : "s");
    return text;
  }

  // Removes the rules that did not converge from the step, so that the next rounds do without them.
  void drop_endless_rules(Step& step) {
    if (endless_.empty()) return;
    std::string names;
    for (size_t i : endless_) {
      const AppliedRule& r = step.rules[i];
      const std::string_view rule = r.ready->rule().name;
      names += fmt::format("{}{}{}{}", names.empty() ? "" : ", ", r.pass_name, rule.empty() ? "" : "/", rule);
    }
    report_.not_converged.push_back(fmt::format("rules did not converge and were switched off: {}", names));
    std::ranges::sort(endless_, std::greater());
    for (size_t i : endless_) {
      step.rules.erase(step.rules.begin() + static_cast<ptrdiff_t>(i));
      step.owners.erase(step.owners.begin() + static_cast<ptrdiff_t>(i));
    }
  }

  std::vector<Graph*> tops(const PipelineEntry& e) const {
    std::vector<Graph*> graphs;
    for (const auto& f : model_.functions()) {
      if (f.get() == &model_.main() || model_.dialect() == DialectId::kMil || (e.bodies && has_opset_of_model(*f)))
        graphs.push_back(&f->graph());
    }
    return graphs;
  }

  // Passes make nodes for the model's opset, so a function that imports another one is left alone.
  bool has_opset_of_model(const Function& f) const {
    for (const OpsetImport& i : f.opset_imports) {
      if (i.domain.empty() || i.domain == "ai.onnx") return i.version == model_.opset_version("");
    }
    return f.opset_imports.empty();
  }

  bool run_step(Step& step) {
    const PipelineEntry& entry = pipeline_.entries[step.first];
    Stopwatch watch;
    const size_t nodes_before = model_.num_nodes();
    context_.begin(entry.name, entry.options);
    context_.log.clear_counts();
    const bool is_walk = entry.pass->rules.empty();
    const std::unique_ptr<Model> before = settings_.verify_rewrites && is_walk ? clone_model(model_) : nullptr;
    const auto refused = is_walk ? refused_nodes() : std::vector<const Node*>();
    bool changed = false;
    fired_.clear();
    endless_.clear();
    std::string error;
    check_interrupt();
    const uint32_t first_new = model_.node_id_limit();
    const PassStep event{.first = step.first, .pass = entry.name, .owners = step.owners};
    if (observer_ != nullptr) observer_->before_pass(model_, event);
    {
      Journal journal(model_);
      try {
        changed = apply(step);
        if (settings_.verify_graph) verify(model_);
        if (before != nullptr && changed) compare(entry, *before);
        if (is_walk && changed) check_loading(entry, refused);
      } catch (const Interrupted&) {
        journal.rollback();
        throw;
      } catch (const Error& e) {
        journal.rollback();
        const Error failure = e.with_note(fmt::format("in pass '{}'", entry.name));
        // The request is wrong, not a pass: stop.
        if (settings_.strict || e.code() == ErrorCode::kInvalidArgument) throw failure;
        error = failure.what();
        changed = false;
      }
    }
    if (error.empty()) {
      if (observer_ != nullptr) observer_->after_pass(model_, event, changed);
      report_step(step, changed);
      drop_endless_rules(step);
    } else {
      // Facts about values may refer to erased nodes.
      context_.facts = ValueFacts();
      infer_model(model_, context_.facts, /*tolerant=*/true);
      if (observer_ != nullptr) observer_->undone(model_, event);
    }
    if (changed && is_walk && arranges_) arrange(model_, {&first_new, 1});

    PassReport& first = report_.passes[step.first];
    const size_t nodes_after = model_.num_nodes();
    if (first.nodes_before == 0) first.nodes_before = nodes_before;
    first.nodes_after = nodes_after;
    first.seconds += watch.lap();
    first.changed |= changed;
    if (!error.empty()) first.error = error;
    // Erased nodes keep their place in the order. Compact when there are many, or later walks would mostly
    // skip them.
    if (nodes_after < nodes_before - nodes_before / 4) {
      arrange_new_constants();
      model_.compact();
      first_new_value_ = model_.value_id_limit();
    }
    return changed;
  }

  void arrange_new_constants() {
    if (arranges_) arrange_constants(model_, first_new_value_);
  }

  // Verifies a walk by evaluating the whole model before and after.
  void compare(const PipelineEntry& entry, const Model& before) {
    const ValueCheck check = compare_whole(before, model_, entry.pass->numerics());
    check_.evaluations += check.runs;
    if (!check.difference) return;
    check_.faults.push_back(fmt::format("{} changed results: {}", entry.name, *check.difference));
    throw Error(ErrorCode::kInternal, fmt::format("it changed results: {}", *check.difference));
  }

  // The nodes that the target runtime refuses; empty if there is no target.
  std::vector<const Node*> refused_nodes() const {
    std::vector<const Node*> refused;
    if (!settings_.refusal) return refused;
    for (const auto& f : model_.functions()) {
      for (Graph* g : graphs_in(f->graph())) {
        for (const Node& n : g->nodes()) {
          if (settings_.refusal(n)) refused.push_back(&n);
        }
      }
    }
    return refused;
  }

  // Checks that a walk made no node that the runtime refuses, beyond those refused `before`.
  void check_loading(const PipelineEntry& entry, const std::vector<const Node*>& before) {
    for (const Node* n : refused_nodes()) {
      if (std::ranges::find(before, n) != before.end()) continue;
      const std::string what = fmt::format("made what {}", *settings_.refusal(*n));
      check_.faults.push_back(fmt::format("{} {}\n  at {}", entry.name, what, print(*n)));
      throw Error(ErrorCode::kInternal, fmt::format("it {}", what));
    }
  }

  bool apply(const Step& step) {
    const PipelineEntry& entry = pipeline_.entries[step.first];
    const std::vector<Graph*> graphs = tops(entry);
    bool changed = false;
    if (may_walk(step)) {
      if (entry.pass->graph_walk) {
        for (Graph* g : graphs) changed |= entry.pass->graph_walk(*g, context_);
      }
      if (entry.pass->model_walk) changed |= entry.pass->model_walk(context_);
    }
    if (!step.rules.empty()) {
      const bool is_checked = settings_.verify_rewrites || settings_.refusal;
      changed |= apply_rules(step.rules, graphs, context_, &fired_, is_checked ? &check_ : nullptr, &endless_);
    }
    return changed;
  }

  // A walk with options always runs, since it may refuse them.
  bool may_walk(const Step& step) {
    if (step.pass->needs.empty() || !pipeline_.entries[step.first].options.empty()) return true;
    if (seen_ops_ != op_set(model_)) {
      seen_ops_ = op_set(model_);
      ops_ = op_bits(model_);
    }
    return step.pass->may_walk(ops_);
  }

  // Adds what the step did to the report.
  void report_step(const Step& step, bool changed) {
    if (changed && step.rules.empty()) ++recent_[report_.passes[step.first].name];
    for (const auto& [what, times] : context_.log.counts()) add_count(report_.passes[step.first], what, times);
    for (size_t i = 0; i < fired_.size(); ++i) {
      if (fired_[i] == 0) continue;
      PassReport& report = report_.passes[step.owners[i]];
      report.changed = true;
      const std::string_view rule = step.rules[i].ready->rule().name;
      add_count(report, rule.empty() ? std::string_view(report.name) : rule, fired_[i]);
      recent_[rule.empty() ? report.name : fmt::format("{}/{}", report.name, rule)] += fired_[i];
    }
  }

  static void add_count(PassReport& report, std::string_view what, size_t times) {
    auto known = std::find_if(report.counts.begin(), report.counts.end(), [&](const auto& c) { return c.first == what; });
    if (known == report.counts.end()) {
      report.counts.emplace_back(what, times);
    } else {
      known->second += times;
    }
  }

  PassContext& context_;
  Model& model_;
  const Pipeline& pipeline_;
  const PipelineSettings& settings_;
  Observer* const observer_ = context_.observer();
  std::deque<ReadyPass> made_ready_;
  PipelineReport report_;
  RewriteCheck check_{.evaluates = settings_.verify_rewrites, .refusal = settings_.refusal};
  uint64_t seen_ops_ = UINT64_MAX;  // the model's set of operators when ops_ was computed
  OpBits ops_;
  std::vector<size_t> fired_;             // by rule of the current step
  std::vector<size_t> endless_;           // rules of the current step
  std::map<std::string, size_t> recent_;  // walks and rules that changed something of late, and how often
  size_t changes_ = 0;
  const bool arranges_ = model_.dialect() != DialectId::kMil;  // see ir/graph/arrange.h
  uint32_t first_new_value_ = model_.value_id_limit();         // values with smaller ids are old, or already arranged
};

}  // namespace

PipelineReport run_pipeline(PassContext& context, const Pipeline& pipeline, const PipelineSettings& settings) {
  return Run(context, pipeline, settings).run();
}

}  // namespace sardonyx
