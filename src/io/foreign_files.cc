#include "io/foreign_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support/printable.h"

namespace sardonyx {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kFromTorch = "help: export it with torch.onnx.export";
constexpr std::string_view kFromTensorFlow = "help: convert it with tf2onnx (python -m tf2onnx.convert)";
constexpr std::string_view kUnpack = "help: unpack it first";
constexpr std::string_view kWeightsOnly = "help: it holds weights and no graph; export the program that uses them";

struct Magic {
  size_t at;
  std::string_view bytes, what, help;
};

const Magic kMagics[] = {
    {0, "version https://git-lfs"sv, "a Git LFS pointer, not the file itself", "help: run `git lfs pull`"},
    {0, "GGUF"sv, "a GGUF file (llama.cpp)", kWeightsOnly},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras)", "help: load it with keras and export that model"},
    {0, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, "a PyTorch file", kFromTorch},
    {4, "TFL3"sv, "a TensorFlow Lite model", "help: convert it with tf2onnx (python -m tf2onnx.convert --tflite FILE)"},
    {4, "ORTM"sv, "a model in onnxruntime's own format (.ort)", "help: optimize the ONNX model that it was made from"},
    {0, "\x93NUMPY"sv, "a NumPy array", "help: arrays are inputs: `sardonyx run MODEL -i x=FILE.npy`"},
    {0, "ML\xefR"sv, "MLIR bytecode (StableHLO)", "help: name it .mlirbc, and `sardonyx convert` reads it"},
    {0, "ftrt"sv, "a TensorRT engine", "help: optimize the ONNX model that it was made from"},
    {0, "ptrt"sv, "a TensorRT engine", "help: optimize the ONNX model that it was made from"},
    {0, "\x1f\x8b"sv, "compressed with gzip", kUnpack},
    {0, "\xfd\x37zXZ\0"sv, "compressed with xz", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed with zstd", kUnpack},
    {0, "BZh"sv, "compressed with bzip2", kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {257, "ustar"sv, "a tar archive", kUnpack},
    {0,
     "\x7f"
     "ELF"sv,
     "a program or library", ""},
    {0, "\x89PNG"sv, "a picture", ""},
    {0, "\xff\xd8\xff"sv, "a picture", ""},
    {0, "%PDF"sv, "a PDF document", ""},
    {0, "PAR1"sv, "a Parquet table", ""},
};

// Identifies an archive by the names in it.
ForeignFile archive(std::string_view bytes) {
  constexpr size_t kFront = 1 << 12, kBack = 1 << 16;
  const std::string names =
      std::string(bytes.substr(0, kFront)) + std::string(bytes.substr(bytes.size() - std::min(bytes.size(), kBack)));
  const auto has = [&](std::string_view name) { return names.find(name) != std::string::npos; };
  const auto make = [](std::string_view what, std::string_view help) {
    return ForeignFile{std::string(what), std::string(help)};
  };
  if (has("data.pkl") || has("constants.pkl")) return make("a PyTorch file", kFromTorch);
  if (has("model.weights.h5")) return make("a Keras file", "help: load it with keras and export that model");
  if (has("com.apple.CoreML")) return make("a zip archive with a Core ML package", kUnpack);
  if (has(".npy"))
    return make("an archive of NumPy arrays (.npz)", "help: arrays are inputs: `sardonyx run MODEL -i FILE.npz`");
  if (has(".onnx")) return make("a zip archive with an ONNX model", kUnpack);
  return make("a zip archive", kUnpack);
}

bool is_safetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{') return false;
  uint64_t header = 0;
  for (size_t i = 8; i-- > 0;) header = header << 8 | static_cast<unsigned char>(bytes[i]);
  return header >= 2 && header <= bytes.size() - 8;
}

std::optional<ForeignFile> text(std::string_view bytes) {
  std::string_view head = bytes.substr(0, 4096);
  if (bytes.size() > head.size()) {
    while (!head.empty() && (static_cast<unsigned char>(head.back()) & 0x80) != 0) head.remove_suffix(1);  // perhaps cut off
  }
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
  };
  if (std::ranges::any_of(head, is_control) || !is_utf8(head)) return std::nullopt;
  const size_t start = std::min(head.find_first_not_of(" \t\r\n"), head.size());
  head.remove_prefix(start);
  std::string lower(head.substr(0, 512));
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return c < 128 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c); });
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html"))
    return ForeignFile{"a web page", "help: the download may have failed: open it in a browser"};
  if (lower.starts_with("<?xml") || lower.starts_with("<net "))
    return ForeignFile{"XML", lower.find("<net ") != std::string::npos
                                  ? "help: an OpenVINO model: optimize the one that it was made from"
                                  : ""};
  if (lower.find("ir_version:") != std::string::npos || lower.starts_with("graph {"))
    return ForeignFile{"a model in protobuf's text form",
                       "help: onnx.load(FILE, format='textproto') reads it; onnx.save writes the binary form"};
  if (lower.starts_with("{") || lower.starts_with("[")) return ForeignFile{"JSON", ""};
  if (lower.starts_with("graph(") || lower.starts_with("model"))
    return ForeignFile{"text", "help: Sardonyx's text form is read from files that end in .sx"};
  return ForeignFile{"text", "help: name the .onnx file or the .mlpackage"};
}

}  // namespace

std::optional<ForeignFile> foreign_file(std::span<const std::byte> all) {
  const std::string_view bytes(reinterpret_cast<const char*>(all.data()), all.size());
  if (bytes.empty()) return ForeignFile{"an empty file", ""};
  if (bytes.starts_with("PK\x03\x04"sv)) return archive(bytes);
  for (const Magic& m : kMagics) {
    if (bytes.size() >= m.at + m.bytes.size() && bytes.substr(m.at, m.bytes.size()) == m.bytes)
      return ForeignFile{std::string(m.what), std::string(m.help)};
  }
  if (is_safetensors(bytes)) return ForeignFile{"a safetensors file", std::string(kWeightsOnly)};
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return ForeignFile{"a Python pickle", "help: PyTorch and joblib write such files; export the model from there"};
  const std::string_view head = bytes.substr(0, 1 << 16);
  if (bytes.starts_with("\x08\x01\x12") &&
      (head.find("saved_model") != head.npos || head.find("PartitionedCall") != head.npos || head.find("serve") != head.npos))
    return ForeignFile{"a SavedModel of TensorFlow", std::string(kFromTensorFlow)};
  return text(bytes);
}

Error explained(const Error& e, std::span<const std::byte> bytes, const char* format) {
  if (e.code() != ErrorCode::kInvalidModel && e.code() != ErrorCode::kUnsupported) return e;
  const auto found = foreign_file(bytes);
  if (!found) return e;
  std::vector<std::string> notes;
  if (!found->help.empty()) notes.push_back(found->help);
  return Error(ErrorCode::kInvalidModel, fmt::format("this is {}, not {}", found->what, format), std::move(notes));
}

void refuse_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::exists(folder / "saved_model.pb", none)) {
    throw Error(ErrorCode::kInvalidModel, "this is a SavedModel of TensorFlow, not a model that Sardonyx reads",
                {std::string(kFromTensorFlow)});
  }
  std::vector<std::string> models;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string suffix = entry.path().extension().string();
    if (suffix == ".onnx" || suffix == ".mlpackage" || suffix == ".mlmodel") models.push_back(entry.path().string());
  }
  std::ranges::sort(models);
  std::vector<std::string> notes{"expected an .onnx file, or a Core ML package (.mlpackage)"};
  if (!models.empty()) notes.push_back(fmt::format("help: name a model in it, such as {}", models.front()));
  throw Error(ErrorCode::kInvalidModel, "this is a folder, not a model", std::move(notes));
}

}  // namespace sardonyx
