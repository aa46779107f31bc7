#include "sardonyx/error.h"

#include <fmt/format.h>

#include <utility>

#include "support/printable.h"

namespace sardonyx {
namespace {

// Returns the text of what(). Also makes the message and notes printable, because they contain names from
// files.
std::string render(std::string& message, std::vector<std::string>& notes) {
  message = without_long_lines(printable(std::move(message)));
  std::string text = message;
  for (std::string& note : notes) {
    note = without_long_lines(printable(std::move(note)));
    text += "\n  " + note;
  }
  return text;
}

}  // namespace

Error::Error(ErrorCode code, std::string message, std::vector<std::string> notes)
    : std::runtime_error(render(message, notes)), code_(code), message_(std::move(message)), notes_(std::move(notes)) {}

Error Error::with_note(std::string note) const {
  std::vector<std::string> notes = notes_;
  notes.push_back(std::move(note));
  return Error(code_, message_, std::move(notes));
}

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kInvalidModel: return "invalid_model";
    case ErrorCode::kParse: return "parse";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kLimit: return "limit";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

void fail_check(const char* condition, const char* file, int line, std::string detail) {
  std::vector<std::string> notes{fmt::format("at {}:{}", file, line)};
  if (!detail.empty()) notes.insert(notes.begin(), std::move(detail));
  notes.emplace_back("help: this is a fault of Sardonyx; please report it with the model or program that shows it");
  throw Error(ErrorCode::kInternal, fmt::format("internal error: '{}' does not hold", condition), std::move(notes));
}

}  // namespace sardonyx
