// The one exception type of Sardonyx.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx {

enum class ErrorCode {
  kInvalidArgument,  // an option, a shape or a call that cannot be honored
  kInvalidModel,     // a graph or a file whose content breaks a rule of its format
  kParse,            // text that does not follow the grammar
  kUnsupported,      // legal input that Sardonyx cannot handle yet
  kIo,               // the operating system refused
  kLimit,            // a size, depth or time bound was reached
  kInternal,         // a fault of Sardonyx itself
};

// A one-sentence message that starts in lower case, and notes: where, what was expected, what to do. what()
// is the message followed by the notes, each on its own line, indented by two spaces.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string message, std::vector<std::string> notes = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::vector<std::string>& notes() const { return notes_; }

  // The same error with one more note. The reader, the lowering loop and the pass manager add their context
  // as the error passes them.
  Error with_note(std::string note) const;

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> notes_;
};

// The name without its k: "parse" for kParse, and so on; for --json output and Python's Error.code.
std::string_view to_string(ErrorCode code);

[[noreturn]] void fail_check(const char* condition, const char* file, int line, std::string detail);

}  // namespace sardonyx

// Checks an invariant: a failure is a fault of Sardonyx, reported as kInternal.
#define SX_CHECK(condition, ...) \
  ((condition) ? void(0) : ::sardonyx::fail_check(#condition, __FILE_NAME__, __LINE__, std::string{__VA_ARGS__}))
