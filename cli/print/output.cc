#include "cli/print/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/print/say.h"
#include "support/files/mapped_file.h"
#include "support/system/system.h"

namespace sardonyx::cli {

ordered_json json_head(std::string_view command, const std::string& input, bool ok) {
  ordered_json head{{"schema", kSchema}, {"command", command}};
  if (!input.empty()) head["input"] = input;
  head["ok"] = ok;
  return head;
}

ordered_json json_of(const std::exception& e) {
  if (const auto* error = dynamic_cast<const Error*>(&e))
    return {{"code", to_string(error->code())}, {"message", error->message()}, {"notes", error->notes()}};
  return {{"code", "internal"}, {"message", e.what()}, {"notes", ordered_json::array()}};
}

void print_json(const ordered_json& objects) {
  fmt::print(message_stream(), "{}\n", objects.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

void finish_output() {
  errno = 0;
  const bool failed = std::fflush(stdout) != 0;
  if (!failed && std::ferror(stdout) == 0) return;
  const std::string why = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : std::string();  // of an earlier write: lost
  throw Error(ErrorCode::kIo, "cannot write to standard output" + why);
}

std::string opened(const std::string& input) { return input == "-" ? "/dev/stdin" : input; }

bool is_standard_output(const std::string& output) { return output == "-" || output == "/dev/stdout"; }

StandardOutput::StandardOutput(std::string_view suffix) {
  const auto base = std::filesystem::temp_directory_path();
  std::error_code error;
  for (unsigned attempt = 0; folder_.empty(); ++attempt) {
    const auto name = base / fmt::format("sardonyx-{:x}-{:x}", sys::process_id(), attempt);
    if (std::filesystem::create_directory(name, error)) folder_ = name;
    if (folder_.empty() && (error || attempt == 100))
      throw Error(ErrorCode::kIo, fmt::format("cannot create the folder '{}': {}", name.string(), error.message()));
  }
  std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  path_ = folder_ / fmt::format("model{}", suffix);
}

StandardOutput::~StandardOutput() {
  std::error_code none;
  std::filesystem::remove_all(folder_, none);
}

void StandardOutput::send() const {
  const auto file = MappedFile::open(path_, MappedFile::Access::kRead);
  const std::span<const std::byte> bytes = file->bytes();
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
    throw Error(ErrorCode::kIo, fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

}  // namespace sardonyx::cli
