#include "jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "convert/file_names.h"
#include "sardonyx/error.h"
#include "support/files/inside.h"
#include "support/files/regular_file.h"

namespace sardonyx::cli {
namespace {

namespace fs = std::filesystem;

// Whether the path is a folder of models. A Core ML package is a folder too, but stands for one model.
bool holds_models(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none) && !is_coreml_name(path);
}

// Where an output is a folder: it is there, or its name ends in a slash.
bool is_folder(const fs::path& output) {
  return holds_models(output) || (!output.empty() && !output.has_filename() && !is_coreml_name(output));
}

class Walk {
 public:
  Walk(const std::string& output, std::span<const std::string_view> extensions, std::vector<Job>& jobs)
      : output_(output), extensions_(extensions), jobs_(jobs) {
    std::error_code none;
    real_output_ = fs::canonical(output, none);
  }

  // `name` is the path relative to the input that was named.
  void visit(const fs::path& folder, const fs::path& name) {
    around_.push_back(fs::canonical(folder));
    std::vector<fs::path> entries;
    for (const auto& e : fs::directory_iterator(folder)) entries.push_back(e.path().filename());
    std::ranges::sort(entries);
    for (const fs::path& e : entries) {
      const fs::path at = folder / e;
      if (holds_models(at)) {
        const fs::path real = fs::canonical(at);
        if (real != real_output_ && std::ranges::find(around_, real) == around_.end()) visit(at, name / e);
      } else if (std::ranges::find(extensions_, e.extension().string()) != extensions_.end()) {
        jobs_.push_back({.in = at, .out = output_ / name / e, .below = output_});
      }
    }
    around_.pop_back();
  }

 private:
  fs::path output_, real_output_;
  std::span<const std::string_view> extensions_;
  std::vector<Job>& jobs_;
  std::vector<fs::path> around_;  // the folders being visited, with links resolved
};

}  // namespace

std::vector<Job> jobs_of(std::span<const std::string> inputs, const std::string& output,
                         std::span<const std::string_view> extensions) {
  const bool one_file = inputs.size() == 1 && !holds_models(inputs.front());
  if (one_file && !is_folder(output)) return {{.in = inputs.front(), .out = output, .below = {}}};
  if (std::error_code none; fs::exists(output, none) && !fs::is_directory(output, none)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is a file, and several models need a folder", output),
                {"help: -o names the folder that they are written to, each under its own name"});
  }
  std::vector<Job> jobs;
  for (const std::string& input : inputs) {
    if (holds_models(input)) {
      try {
        Walk(output, extensions, jobs).visit(input, {});
      } catch (const fs::filesystem_error& e) {
        throw Error(ErrorCode::kIo, fmt::format("cannot read '{}': {}", e.path1().string(), e.code().message()));
      }
    } else {
      const fs::path model(input);
      const fs::path name = (model.has_filename() ? model : model.parent_path()).filename();
      jobs.push_back({.in = model, .out = fs::path(output) / name, .below = output});
    }
  }
  std::ranges::sort(jobs, {}, &Job::in);
  std::set<fs::path> targets;
  for (const Job& j : jobs) {
    if (!targets.insert(j.out.lexically_normal()).second)
      throw Error(ErrorCode::kInvalidArgument, fmt::format("two models would be written to {}", j.out.string()));
  }
  if (jobs.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there are no {} files in {}", fmt::join(extensions, " or "), inputs.front()));
  }
  return jobs;
}

void prepare(const Job& job) {
  if (job.below.empty()) return;
  require_regular(job.in);
  require_inside(job.below, job.out);
  const fs::path folder = job.out.parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ErrorCode::kIo, fmt::format("cannot create '{}': {}", folder.string(), error.message()));
}

void require_folders_of_their_own(std::span<const Job> jobs, const std::string& data_file) {
  std::map<fs::path, const Job*> first;
  for (const Job& j : jobs) {
    const auto [at, is_new] = first.try_emplace(j.out.parent_path().lexically_normal(), &j);
    if (is_new) continue;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} and {} would both have their data in '{}'", at->second->out.string(), j.out.string(), data_file),
        {"help: with --external-data alone, each model's data file has the model's name"});
  }
}

}  // namespace sardonyx::cli
