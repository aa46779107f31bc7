// Finds the models that a command line names, and where the result of each goes.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::cli {

struct Job {
  std::filesystem::path in, out;
  std::filesystem::path below;  // the folder that `out` must stay inside; empty where the command line names `out` itself
  bool is_coreml = false;       // set by the command
};

// `inputs` are models and folders. `output` is a file for one model or a folder for several. A model in a
// folder keeps its relative name, also through links: in/a/m.onnx becomes output/a/m.onnx. Links to folders
// are followed, except to `output` and to a folder that encloses the link. Throws kInvalidArgument if there
// are no models or two have the same name.
std::vector<Job> jobs_of(std::span<const std::string> inputs, const std::string& output,
                         std::span<const std::string_view> extensions);

// Creates the folder of a job's result. Throws where a link would lead outside `below`, or the input is an
// unnamed pipe.
void prepare(const Job& job);

// Throws kInvalidArgument if two results would share a data file of that name.
void require_folders_of_their_own(std::span<const Job> jobs, const std::string& data_file);

}  // namespace sardonyx::cli
