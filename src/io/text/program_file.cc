// The sidecar: "SXW1", u32 count, then per constant {u64 digest, u64 offset, u64 size, u32 dtype, u32 rank,
// i64 dims[rank]}, then the bytes, each constant at a multiple of 64. Little-endian. A digest is
// Tensor::hash().
#include "io/text/program_file.h"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <unordered_map>

#include "ir/text/text.h"
#include "support/files/atomic_file.h"
#include "support/files/mapped_file.h"
#include "support/files/regular_file.h"

namespace sardonyx {
namespace {

constexpr std::string_view kMagic = "SXW1";
constexpr uint64_t kAlignment = 64;

std::filesystem::path sidecar_of(std::filesystem::path path) { return path.replace_extension(".sxw"); }

// Whether print() writes a digest for the tensor.
bool is_digested(const Tensor& t) {
  return !t.is_splat() && !t.is_promise() && t.size() > text::kMaxElements && t.dtype() != DType::kString;
}

class Collector {
 public:
  explicit Collector(const Model& m) {
    std::vector<const Graph*> todo;
    for (const auto& f : m.functions()) {
      for (const NamedAttr& a : f->default_attributes) add(a.value);
      todo.push_back(&f->graph());
    }
    while (!todo.empty()) {
      const Graph* g = todo.back();
      todo.pop_back();
      for (const Value* v : g->constants()) add(v->constant());
      for (const Node& n : g->nodes()) {
        if (n.extra() != nullptr && n.extra()->payload != nullptr) add(n.extra()->payload);
        for (const NamedAttr& a : n.attrs().items()) add(a.value);
        for (const Body& b : n.bodies()) todo.push_back(b.graph);
      }
    }
  }

  const std::map<uint64_t, TensorPtr>& tensors() const { return tensors_; }  // ordered by digest, so that runs are reproducible

 private:
  void add(const TensorPtr& t) {
    if (t != nullptr && seen_.emplace(t.get(), true).second && is_digested(*t)) tensors_.emplace(t->hash(), t);
  }
  void add(const Attr& a) {
    if (const auto* t = a.get<TensorPtr>()) add(*t);
    if (const auto* list = a.get<Attr::Tensors>()) {
      for (const TensorPtr& t : *list) add(t);
    }
    if (const auto* list = a.get<AttrList>()) {
      for (const Attr& item : *list) add(item);
    }
    if (const auto* dict = a.get<AttrDict>()) {
      for (const auto& [name, item] : *dict) add(item);
    }
  }

  std::unordered_map<const Tensor*, bool> seen_;
  std::map<uint64_t, TensorPtr> tensors_;
};

template <class T>
void put(std::string& out, T v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

void write_sidecar(AtomicFile& file, const std::map<uint64_t, TensorPtr>& tensors) {
  uint64_t table = kMagic.size() + 4;
  for (const auto& [digest, t] : tensors) table += 32 + 8 * t->rank();
  std::string head(kMagic);
  put(head, static_cast<uint32_t>(tensors.size()));
  uint64_t offset = table;
  for (const auto& [digest, t] : tensors) {
    offset = (offset + kAlignment - 1) / kAlignment * kAlignment;
    put(head, digest);
    put(head, offset);
    put(head, static_cast<uint64_t>(t->byte_size()));
    put(head, static_cast<uint32_t>(t->dtype()));
    put(head, static_cast<uint32_t>(t->rank()));
    for (int64_t d : t->shape()) put(head, d);
    offset += t->byte_size();
  }
  file.append(head);
  std::vector<std::byte> scratch;
  for (const auto& [digest, t] : tensors) {
    file.pad_to(kAlignment);
    if (t->file()) {
      file.append(*t->file(), t->byte_size());
    } else {
      file.append(t->bytes(scratch));
    }
  }
}

class Sidecar {
 public:
  Sidecar(const std::filesystem::path& path, bool map)
      : file_(MappedFile::open(path, map ? MappedFile::Access::kMap : MappedFile::Access::kRead)), left_(file_->bytes()) {
    if (left_.size() < kMagic.size() || std::memcmp(left_.data(), kMagic.data(), kMagic.size()) != 0) {
      damaged("it does not begin with \"SXW1\"");
    }
    left_ = left_.subspan(kMagic.size());
    const auto count = take<uint32_t>();
    for (uint32_t i = 0; i < count; ++i) {
      const auto digest = take<uint64_t>();
      const auto offset = take<uint64_t>(), size = take<uint64_t>();
      const auto dtype = take<uint32_t>(), rank = take<uint32_t>();
      if (dtype >= 64 || rank > 64) damaged("its table names no type");
      std::vector<int64_t> shape;
      for (uint32_t d = 0; d < rank; ++d) shape.push_back(take<int64_t>());
      if (offset > file_->size() || size > file_->size() - offset) damaged("it is cut short");
      const auto bytes = file_->bytes().subspan(offset, size);
      tensors_[digest] = Tensor::borrow(static_cast<DType>(dtype), std::move(shape), bytes, file_, file_->range_of(bytes));
    }
  }

  TensorPtr find(uint64_t digest) const {
    auto at = tensors_.find(digest);
    return at == tensors_.end() ? nullptr : at->second;
  }

 private:
  template <class T>
  T take() {
    if (left_.size() < sizeof(T)) damaged("it is cut short");
    T v;
    std::memcpy(&v, left_.data(), sizeof v);
    left_ = left_.subspan(sizeof v);
    return v;
  }
  [[noreturn]] void damaged(std::string_view why) const {
    throw Error(ErrorCode::kInvalidModel, fmt::format("{} is not a sidecar of constants: {}", file_->path().string(), why));
  }

  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> left_;
  std::unordered_map<uint64_t, TensorPtr> tensors_;
};

}  // namespace

void save_program(const Model& model, const std::filesystem::path& path) {
  const Collector constants(model);
  AtomicFile text(path);
  text.append(print(model));
  if (!constants.tensors().empty()) {
    AtomicFile sidecar(sidecar_of(path));
    write_sidecar(sidecar, constants.tensors());
    sidecar.commit();
  }
  text.commit();
}

std::unique_ptr<Model> load_program(const std::filesystem::path& path, bool map) {
  const auto file = MappedFile::open(path, map ? MappedFile::Access::kMap : MappedFile::Access::kRead);
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const auto beside = sidecar_of(path);
  if (beside == path || !FileStamp::of(beside)) return parse(text, path.string());
  require_regular(beside);
  const Sidecar sidecar(beside, map);
  return parse(text, path.string(), [&](uint64_t digest) { return sidecar.find(digest); });
}

}  // namespace sardonyx
