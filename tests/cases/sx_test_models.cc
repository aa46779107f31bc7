#include "sx_test_models.h"

#include <fmt/format.h>

#include "passes/catalog.h"
#include "rewrite/values.h"
#include "sardonyx/error.h"
#include "sardonyx/eval.h"
#include "sardonyx/io.h"

namespace sardonyx {
namespace {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < ' ')
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

constexpr size_t kMostBytes = 1 << 20;

size_t bytes_of(const SeededRun& run) {
  size_t sum = 0;
  for (const auto* values : {&run.inputs, &run.results}) {
    for (const EvalValue& v : *values) {
      if (v.array() != nullptr) sum += byte_size(v.array()->dtype(), static_cast<uint64_t>(v.array()->size()));
    }
  }
  return sum;
}

bool is_onnx(const Model& m) { return m.dialect() == DialectId::kOnnx; }

}  // namespace

ModelWriter::ModelWriter(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  cases_.open(folder_ / "cases.jsonl");
  values_.open(folder_ / "values.bin", std::ios::binary);
}

std::string ModelWriter::json_of(const EvalValue& v) {
  if (const EvalOptional* o = v.optional()) return o->value ? json_of(*o->value) : "null";
  if (const auto* items = v.items()) return fmt::format("{{\"items\": {}}}", json_of(*items));
  if (v.array() == nullptr) return "null";
  const std::string bytes = serialize_tensor(*v.array()->to_tensor());
  values_ << bytes;
  offset_ += bytes.size();
  return fmt::format("[{}, {}]", offset_ - bytes.size(), bytes.size());
}

std::string ModelWriter::json_of(std::span<const EvalValue> values) {
  std::string text;
  for (const EvalValue& v : values) text += (text.empty() ? "" : ", ") + json_of(v);
  return "[" + text + "]";
}

std::string ModelWriter::file_of(const Model& m, std::string_view side) const {
  const std::string name = fmt::format("{}.{}.onnx", count_, side);
  write_onnx(m, folder_ / name, {.external = WriteOptions::External::kNever});
  return name;
}

void ModelWriter::add(const CaseFile& f, const Case& c, const Transform& transform) {
  if (c.verdict == "same" || c.verdict.starts_with("error")) return;
  const auto input = parse(text_of(f, c.input_begin, c.input_end), f.path.string());
  const bool is_pass = f.kind == "pass";
  if (is_pass && !is_onnx(*input)) return;
  const auto got = transform(*input);
  if (!is_onnx(*got)) return;
  const Numerics numerics = is_pass ? find_pass(f.name)->pass.numerics() : Numerics::kRounds;
  const Model& judged = is_pass ? *input : *got;
  std::string before = "null", after = "null", skipped, runs, inputs;
  try {
    if (is_pass) before = json_string(file_of(*input, "before"));
    after = json_string(file_of(*got, "after"));
  } catch (const Error& e) {
    skipped = e.message();  // constants whose values are not in the text
  }
  try {
    for (const SeededRun& run : skipped.empty() ? seeded_runs(judged, numerics, skipped) : std::vector<SeededRun>()) {
      if (bytes_of(run) > kMostBytes) {
        skipped = "its tensors are large";
        continue;
      }
      runs += fmt::format("{}{{\"inputs\": {}, \"results\": {}, \"truth\": {}}}", runs.empty() ? "" : ", ", json_of(run.inputs),
                          json_of(run.results), json_of(run.truth));
    }
    for (const Port& p : judged.graph().inputs()) inputs += (inputs.empty() ? "" : ", ") + json_string(p.name);
    cases_ << fmt::format("{{\"case\": {}, \"numerics\": {}, \"before\": {}, \"after\": {}, \"inputs\": [{}], ",
                          json_string(fmt::format("{}: {}", f.path.generic_string(), c.claim)),
                          json_string(to_string(numerics)), before, after, inputs)
           << fmt::format("\"skipped\": {}, \"runs\": [{}]}}\n", json_string(runs.empty() ? skipped : ""), runs);
    ++count_;
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}:{}: {}", f.path.string(), c.line, e.message()));
  }
}

void ModelWriter::finish() {
  if (!cases_.flush() || !values_.flush()) throw Error(ErrorCode::kIo, fmt::format("cannot write below {}", folder_.string()));
}

}  // namespace sardonyx
