// Parts of ONNX files shared by several readers and writers.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/wire.h"
#include "sardonyx/io.h"
#include "support/files/mapped_file.h"

namespace sardonyx::onnx_file {

// The source of a model's bytes; tensors refer to it and keep it alive.
struct ModelBytes {
  const char* origin = nullptr;  // first byte of the file; error positions are relative to it
  std::shared_ptr<const void> keepalive;
  const MappedFile* file = nullptr;           // null for models in memory
  std::deque<std::string>* joined = nullptr;  // bytes that join() made; part of keepalive
};

// Releases pages that were read. A large file is read by jumping between its tensors' headers, and each
// access may map megabytes around it. Pages behind the reader are released some megabytes at a time; the next
// access maps them again.
class Trail {
 public:
  explicit Trail(const MappedFile* file) : file_(file) {}

  // Everything up to `at`, a pointer into the file, was read. Pointers outside the file are ignored.
  void passed(const char* at) {
    if (file_ == nullptr || !file_->is_mapped()) return;
    const char* first = reinterpret_cast<const char*>(file_->bytes().data());
    if (at < first || at > first + file_->size()) return;
    if (from_ == nullptr || at < from_) from_ = first;
    if (static_cast<uint64_t>(at - from_) < kHeldBytes) return;
    file_->forget(std::as_bytes(std::span(from_, at)));
    from_ = at;
  }

 private:
  static constexpr uint64_t kHeldBytes = 16 << 20;
  const MappedFile* file_;
  const char* from_ = nullptr;
};

// Finds and opens external data files, each once, and only inside the model's folder.
class ExternalFiles {
 public:
  // `model` is the model file or empty. `folder` may be empty: then any use throws.
  ExternalFiles(std::filesystem::path model, std::filesystem::path folder, MappedFile::Access access)
      : model_(std::move(model)), folder_(std::move(folder)), access_(access) {}

  std::shared_ptr<const MappedFile> open(const std::string& location);
  std::vector<std::shared_ptr<const MappedFile>> opened() const;

 private:
  std::filesystem::path model_;
  std::filesystem::path folder_;
  MappedFile::Access access_;
  std::vector<std::filesystem::path> roots_;
  std::map<std::string, std::shared_ptr<const MappedFile>> by_location_;
  std::map<std::filesystem::path, std::shared_ptr<const MappedFile>> by_path_;
};

struct TensorRead {
  TensorPtr tensor;
  Name name;
  std::string fields;  // see FileRecord::OfTensor
};

// Throws an Error with the tensor's name in a note.
TensorRead read_tensor(std::string_view wire, const ModelBytes& source, ExternalFiles& external);
// The dense form is computed on access. `name` is that of the values.
TensorRead read_sparse_tensor(std::string_view wire, const ModelBytes& source, ExternalFiles& external);

// Reads TypeProto and caches the results: files repeat few types many times.
class TypeReader {
 public:
  TypeReader(Types& types, const char* origin) : types_(types), origin_(origin) {}
  // Null if the message is empty.
  const Type* read(std::string_view wire);

 private:
  const Type* parse(std::string_view wire, int depth);
  const Type* parse_tensor(std::string_view wire, TypeKind kind);
  Dim parse_dim(std::string_view wire);

  Types& types_;
  const char* origin_;
  std::unordered_map<std::string_view, const Type*> seen_;
};

// Properties of an AttributeProto besides its value; see scan_attribute().
struct AttributeScan {
  bool has_graph = false;
  bool has_external = false;
};
AttributeScan scan_attribute(std::string_view wire, const char* origin);

// Reads an attribute that contains no graph.
NamedAttr read_attribute(std::string_view wire, const ModelBytes& source, ExternalFiles& external, TypeReader& types);

// A bytes field in wire format, including its tag.
std::string bytes_field(wire::Field field, std::string_view bytes);

// Appends one StringStringEntryProto to `to`; one with unknown fields goes to *unknown as a whole, with its
// tag.
void read_metadata(std::string_view entry, std::string_view field, const char* origin, Metadata& to, std::string& unknown);

// The parts of a ValueInfoProto.
struct ValueInfoRead {
  Name name;
  const Type* type = nullptr;
  std::string doc;
  Metadata metadata;
  std::string_view wire;
};
ValueInfoRead read_value_info(std::string_view wire, TypeReader& types, const ModelBytes& source);

// A singular message field may occur several times; protobuf merges the occurrences.
void join(std::string_view& whole, std::string_view part, const ModelBytes& source);

}  // namespace sardonyx::onnx_file
