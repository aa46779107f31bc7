// Which models a command line means, and where the result of each goes.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::tools {

struct Job {
  std::filesystem::path in, out;
  std::filesystem::path below;  // the folder that `out` must not leave; empty where the command line names `out` itself
};

// `inputs` are models and folders, `output` is where one model goes or the folder of several. A model in a folder keeps the name that it has
// there, also where that is a link: in/a/m.onnx becomes output/a/m.onnx. Links to folders are followed; `output`, and a folder that leads
// back to one that it lies in, are left out. Throws kInvalidArgument where there are no models, or two have one name.
std::vector<Job> jobs_of(std::span<const std::string> inputs, const std::string& output,
                         std::span<const std::string_view> extensions);

// Makes the folder of a job's result. Throws where a link would take it elsewhere, or the input is a pipe that nobody named.
void prepare(const Job& job);

// Throws kInvalidArgument where two results would share the data file of that name.
void require_folders_of_their_own(std::span<const Job> jobs, const std::string& data_file);

}  // namespace sardonyx::tools
