#include "view/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "sardonyx/ir.h"
#include "view/model_page.h"

namespace sardonyx::view {
namespace {

bool is_typed(const Model& m) {
  return std::ranges::all_of(m.graph().nodes(), [](const Node& n) {
    return std::ranges::all_of(n.results(), [](const Value& v) { return v.type() != nullptr; });
  });
}

}  // namespace

Steps::Steps(std::filesystem::path file, std::string title)
    : file_(std::move(file)), title_(!title.empty() ? std::move(title) : title_of(file_)) {}

void Steps::function(std::string_view name) {
  function_ = name;
  is_from_program_ = false;
}

void Steps::stage(std::string_view name, const Model& m) {
  current_ = &m;
  if (name == "read" || name == "whole") {
    first_ = &m;
    facts_ = page_facts(m);
    // Types are inferred when the pipeline begins, which shows more than the model without them.
    if (name == "whole" || is_typed(m)) add(m, "as it was");
  } else if (name == "program") {
    is_from_program_ = true;
    add(m, "traced");
  } else if (name == "onnx") {
    add(m, is_from_program_ ? "lowered to ONNX" : "as it was");
  } else if (name == "lowered") {
    add(m, m.dialect() == DialectId::kMil ? "lowered to Core ML" : "lowered");
  } else {
    add(m, std::string(name));
  }
}

void Steps::begin_pipeline(const Model& m, size_t) {
  if (&m == current_) add(m, picture_.steps.empty() ? "as it was" : "between passes");
}

void Steps::fired(const Firing& f, std::span<Node* const>, uint32_t, std::span<Value* const>) {
  const auto known = std::ranges::find(fired_, f.pass, &std::pair<size_t, std::string>::second);
  if (known == fired_.end()) {
    fired_.emplace_back(1, f.pass);
  } else {
    ++known->first;
  }
}

void Steps::after_pass(const Model& m, const PassStep& step, bool changed) {
  if (changed && &m == current_) add(m, label_of(step.pass));
  fired_.clear();
}

void Steps::done(const Model& m) {
  add(m, picture_.steps.empty() ? "as it was" : "finished");
  if (&m != first_) facts_ = page_facts(m);
  scene_ = scene_of(m, picture_, {.title = title_, .facts = facts_}, file_);
}

// Adds the state of a model unless it shows no difference (constants in another place, types that say the
// same).
void Steps::add(const Model& m, std::string label) {
  const double seconds = picture_.steps.empty() ? 0 : watch_.lap();
  picture_.add(m, function_.empty() ? std::move(label) : fmt::format("{}: {}", function_, label), seconds);
  const PictureStep& last = picture_.steps.back();
  if (picture_.steps.size() > 1 && last.added + last.removed + last.changed == 0) picture_.drop_last_step();
  watch_.lap();
}

// "fuse_gelu × 12, remove_no_ops × 3": the passes whose rules fired, the busiest first.
std::string Steps::label_of(std::string_view pass) const {
  constexpr size_t kMost = 4;
  if (fired_.empty()) return std::string(pass);
  auto counts = fired_;
  std::ranges::stable_sort(counts, std::greater(), &std::pair<size_t, std::string>::first);
  std::string label;
  for (const auto& [times, name] : counts | std::views::take(kMost))
    label += fmt::format("{}{}{}", label.empty() ? "" : ", ", name, times > 1 ? fmt::format(" × {}", times) : std::string());
  if (counts.size() > kMost) label += fmt::format(" and {} more passes", counts.size() - kMost);
  return label;
}

}  // namespace sardonyx::view
