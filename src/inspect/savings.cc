#include "inspect/savings.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "dialects/flops.h"
#include "inspect/costs.h"
#include "rewrite/pass.h"

namespace sardonyx {
namespace {

// Sums of nodes, bytes and arithmetic. The latter by distinct expression: most nodes share theirs, and sums
// of expressions are slow.
struct Tally {
  int64_t nodes = 0, bytes = 0, unknown = 0;
  std::unordered_map<uint64_t, std::pair<Dim, int64_t>> flops;  // by Dim::word

  void add(Dim work, int64_t times) {
    auto& [d, count] = flops.try_emplace(work.word(), work, 0).first->second;
    count += times;
  }
  void add(const Tally& other, int64_t times) {
    nodes += times * other.nodes;
    bytes += times * other.bytes;
    unknown += times * other.unknown;
    for (const auto& [word, term] : other.flops) add(term.first, times * term.second);
  }
};

Tally difference(const Tally& before, const Tally& after) {
  Tally d = before;
  d.add(after, -1);
  return d;
}

constexpr size_t kNoEntry = SIZE_MAX;

class Account final : public SavingsAccount {
 public:
  Account(Model& m, const ModelCounts& before) : m_(m), whole_(whole_of(before)), before_(whole_) {}

  void cut() override {
    const Whole part = whole_of(count_model(m_));
    cut_.nodes += whole_.nodes - part.nodes;
    cut_.bytes += whole_.bytes - part.bytes;
    whole_ = part;
  }

  void begin_pipeline(const Model&, size_t num_entries) override {
    if (first_entry_ == kNoEntry) {
      first_entry_ = 0;
      current_ = count();
      first_ = current_;
    } else {
      first_entry_ = by_entry_.size();
      count_again();
    }
    by_entry_.resize(by_entry_.size() + num_entries);
  }

  void before_pass(const Model&, const PassStep& step) override {
    step_.clear();
    freed_by_.clear();
    owners_ = step.owners;
    fired_owner_ = step.first;
  }

  void after_pass(const Model&, const PassStep& step, bool changed) override {
    if (!changed) return;
    Tally after = count();
    Tally rest = difference(current_, after);
    if (!step.owners.empty()) {
      for (const auto& [entry, tally] : step_) {
        by_entry_[first_entry_ + entry].add(tally, 1);
        rest.add(tally, -1);
      }
      beside_.add(rest, 1);
    } else {
      by_entry_[first_entry_ + step.first].add(rest, 1);
    }
    current_ = std::move(after);
  }

  void undone(const Model&, const PassStep&) override { current_ = count(); }

  void typed_anew(const Model&) override { count_again(); }

  void fired(const Firing& f, std::span<Node* const> fresh, uint32_t first_new, std::span<Value* const> made) override {
    fired_owner_ = owners_[f.rule];
    Tally& saved = step_[fired_owner_];
    for (const Node* n : fresh) add(*n, saved, -1, first_new);
    for (const Node* n : fresh) {
      for (const Use& u : n->operands()) follow(u.value, saved);
    }
    for (const Value* v : made) follow(v, saved);
  }

  void erasing(const Node& n) override {
    const auto freed = freed_by_.find(&n);
    owner_ = freed == freed_by_.end() ? fired_owner_ : freed->second;
    inside_.clear();
    add(n, step_[owner_], 1, 0);
    for (const Body& b : n.bodies()) {
      for (const Graph* g : graphs_in(*b.graph)) {
        for (const Node& inner : g->nodes()) {
          for (const Use& u : inner.operands()) inside_.push_back(u.value);
        }
      }
    }
  }

  void erased(std::span<Value* const> operands) override {
    Tally& saved = step_[owner_];
    for (const Value* v : operands) {
      follow(v, saved);
      const Node* def = v->def();
      if (def != nullptr && !def->is_boundary() && !def->any_result_used()) freed_by_.try_emplace(def, owner_);
    }
    for (const Value* v : inside_) follow(v, saved);
  }

  Savings finish(const ModelCounts& counts, size_t nodes_added) override {
    if (first_entry_ == kNoEntry) first_ = current_ = count();  // no pass ran
    const Whole after = whole_of(counts);
    Savings s;
    least_.emplace(m_);
    std::set<std::string> symbols;
    s.before = saved(first_, symbols);
    s.before.nodes = before_.nodes;
    s.before.bytes = before_.bytes;
    s.after = saved(current_, symbols);
    s.after.nodes = after.nodes + static_cast<int64_t>(nodes_added);
    s.after.bytes = after.bytes;
    // Arithmetic that becomes known, or unknown, is neither lost nor saved.
    const auto row_of = [&](const Tally& t) {
      Saved row = saved(t, symbols);
      if (row.unknown != 0) row.flops.clear(), row.at_flops.reset();
      return row;
    };
    for (const Tally& t : by_entry_) s.by_pass.push_back(row_of(t));
    const auto beside = [&](const char* what, const Tally& t) {
      Saved row = row_of(t);
      if (!row.is_nothing()) s.beside.emplace_back(what, std::move(row));
    };
    Tally unused, added;  // what nothing used: gone at last, or still there
    unused.nodes = (whole_.nodes - first_.nodes) - (after.nodes - current_.nodes);
    unused.bytes = (whole_.bytes - first_.bytes) - (after.bytes - current_.bytes);
    added.nodes = -static_cast<int64_t>(nodes_added);
    beside("parts that were cut off", cut_);
    beside("unused from the start", unused);
    beside("types that became known", beside_);
    beside("added by the writer", added);
    for (const std::string& name : symbols) s.at += fmt::format("{}{}={}", s.at.empty() ? "" : ", ", name, least_->of(name));
    return s;
  }

 private:
  struct Whole {
    int64_t nodes = 0, bytes = 0;
  };

  static const void* key_of(const Tensor& t) {
    const bool is_shared = !t.is_deferred() && !t.stored_bytes().empty();
    return is_shared ? static_cast<const void*>(t.stored_bytes().data()) : &t;
  }
  // As count_model() counts.
  static int64_t size_of(const Tensor& t) {
    uint64_t size = t.is_splat() ? t.stored_bytes().size() : t.byte_size();
    for (const std::string& s : t.string_values()) size += s.size();
    return static_cast<int64_t>(size);
  }

  static Whole whole_of(const ModelCounts& counts) {
    return {static_cast<int64_t>(counts.nodes), static_cast<int64_t>(counts.bytes)};
  }

  // Adds a tensor that came into use.
  void hold(const Tensor& t, Tally& to) {
    if (payloads_[key_of(t)]++ == 0) to.bytes += size_of(t);
  }

  std::optional<Dim> work_of(const Node& n, Dim runs) {
    try {
      const auto once = flops_of(n);
      if (!once || runs.is(1)) return once;
      return m_.dims().mul(*once, runs);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      return std::nullopt;
    }
  }

  // flops(), remembered as long as all that it sees stays.
  std::optional<Dim> flops_of(const Node& n) {
    uint64_t seen = 1;
    const auto see = [&](const void* p) {
      seen = (seen ^ reinterpret_cast<uintptr_t>(p)) * 0x9e3779b97f4a7c15, seen ^= seen >> 29;
    };
    see(&n.op());
    see(&n.attrs());
    for (const Value& v : n.results()) see(v.type());
    for (const Use& u : n.operands()) {
      see(u.value == nullptr ? nullptr : u.value->type());
      if (u.value != nullptr && u.value->is_constant()) see(u.value->constant().get());
    }
    if (n.id() >= works_.size()) works_.resize(std::max<size_t>(m_.node_id_limit(), n.id() + 1));
    Work& w = works_[n.id()];
    if (w.seen != seen) w = {.seen = seen, .flops = flops(n)};
    return w.flops;
  }

  Dim runs_of(const Graph& g) const {
    for (const Graph* at = &g; at != nullptr; at = at->parent() != nullptr ? at->parent()->graph() : nullptr) {
      if (const auto known = runs_.find(at); known != runs_.end()) return known->second;
    }
    return Dim::of(0);
  }

  // Adds the node, and those inside it, with ids from `first_id` on.
  void add(const Node& n, Tally& to, int64_t times, uint32_t first_id) {
    if (n.id() >= first_id) {
      to.nodes += times;
      const auto work = work_of(n, runs_of(*n.graph()));
      if (!work) to.unknown += times;
      if (work && !work->is(0)) to.add(*work, times);
      if (n.extra() != nullptr && n.extra()->payload) to.bytes += times * size_of(*n.extra()->payload);
    }
    for (const Body& b : n.bodies()) {
      for (const Node& inner : b.graph->nodes()) add(inner, to, times, first_id);
    }
  }

  // Adds a constant to what was saved if it fell out of use, and takes it away if it came into use.
  void follow(const Value* v, Tally& saved) {
    if (v == nullptr || v->kind() != ValueKind::kConstant) return;
    const bool is_used = v->has_uses();
    if (is_used == live_.contains(v)) return;
    const Tensor& t = *v->constant();
    if (is_used) {
      live_.insert(v);
      if (payloads_[key_of(t)]++ == 0) saved.bytes -= size_of(t);
    } else {
      live_.erase(v);
      if (--payloads_[key_of(t)] == 0) saved.bytes += size_of(t);
    }
  }

  // What changed now is of no pass.
  void count_again() {
    Tally after = count();
    beside_.add(difference(current_, after), 1);
    current_ = std::move(after);
  }

  // What is used, anew.
  Tally count() {
    Tally t;
    live_.clear();
    payloads_.clear();
    used_.assign(m_.node_id_limit(), 0);
    try {
      runs_ = runs_by_graph(m_);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      runs_.clear();
    }
    for (const auto& f : m_.functions()) count(f->graph(), t);
    return t;
  }

  void use(const Value* v, Tally& t) {
    if (v == nullptr) return;
    if (const Node* def = v->def(); def != nullptr) {
      used_[def->id()] = 1;
    } else if (v->kind() == ValueKind::kConstant && live_.insert(v).second) {
      hold(*v->constant(), t);
    }
  }

  void count(const Graph& g, Tally& t) {
    for (const Port& p : g.outputs()) use(p.use->value, t);
    for (const Port& p : g.inputs()) {
      if (p.default_value) hold(*p.default_value, t);
    }
    const Dim runs = runs_of(g);
    for (const Node* n = g.last(); n != nullptr; n = n->prev()) {
      if (used_[n->id()] == 0 && is_removable(*n)) continue;
      ++t.nodes;
      const auto work = work_of(*n, runs);
      if (!work) ++t.unknown;
      if (work && !work->is(0)) t.add(*work, 1);
      if (n->extra() != nullptr && n->extra()->payload) hold(*n->extra()->payload, t);
      for (const Use& u : n->operands()) use(u.value, t);
      for (const Body& b : n->bodies()) count(*b.graph, t);
    }
  }

  Saved saved(const Tally& t, std::set<std::string>& symbols) const {
    Saved s{.nodes = t.nodes, .bytes = t.bytes, .flops = {}, .at_flops = {}, .unknown = t.unknown};
    Dims& dims = m_.dims();
    try {
      std::vector<std::pair<std::string, Dim>> terms;  // in an order that does not depend on addresses
      for (const auto& [word, term] : t.flops) {
        const auto& [d, times] = term;
        if (times != 0) terms.emplace_back(dims.to_string(d), dims.mul(d, Dim::of(times)));
      }
      std::ranges::sort(terms, {}, &std::pair<std::string, Dim>::first);
      Dim sum = Dim::of(0);
      for (const auto& [text, d] : terms) sum = dims.add(sum, d);
      s.flops = dims.to_string(sum);
      for (const std::string& name : dims.symbols(sum)) symbols.insert(name);
      const Dim at = dims.substitute(sum, [&](std::string_view name) { return std::optional(Dim::of(least_->of(name))); });
      if (at.is_int()) s.at_flops = static_cast<double>(at.value());
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kLimit) throw;
      s.flops.clear();
      s.at_flops.reset();
    }
    return s;
  }

  Model& m_;
  std::optional<LeastSizes> least_;  // when the result is asked for
  Whole whole_;                      // all nodes and constants, used or not: when the passes began
  const Whole before_;               // the same of the model as it was given
  Tally cut_;
  Tally first_, current_;                   // what is used: when the passes began, now
  size_t first_entry_ = kNoEntry;           // of this pipeline, in by_entry_
  std::vector<Tally> by_entry_;             // saved
  Tally beside_;                            // saved by none
  std::unordered_map<size_t, Tally> step_;  // saved in this step, by entry of the pipeline
  std::span<const size_t> owners_;          // of the rules of this step
  size_t fired_owner_ = 0;
  size_t owner_ = 0;                                    // of the node that is erased
  std::vector<const Value*> inside_;                    // operands inside the node that is erased
  std::unordered_map<const Node*, size_t> freed_by_;    // nodes without users, not erased yet: the entry
  std::unordered_set<const Value*> live_;               // constants with uses
  std::unordered_map<const void*, uint32_t> payloads_;  // of live constants: how many have it
  std::unordered_map<const Graph*, Dim> runs_;
  struct Work {
    uint64_t seen = 0;
    std::optional<Dim> flops;
  };
  std::vector<Work> works_;    // by Node::id
  std::vector<uint8_t> used_;  // by Node::id, while counting
};

}  // namespace

bool Savings::has_comparable_flops() const {
  const auto changes_nothing = [](const Saved& s) { return s.unknown == 0; };
  return before.at_flops && after.at_flops && before.unknown == after.unknown &&
         std::ranges::all_of(by_pass, changes_nothing) &&
         std::ranges::all_of(beside, changes_nothing, &std::pair<std::string, Saved>::second);
}

std::unique_ptr<SavingsAccount> SavingsAccount::of(Model& m, const ModelCounts& before) {
  return std::make_unique<Account>(m, before);
}

}  // namespace sardonyx
