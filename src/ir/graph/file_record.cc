#include "ir/graph/file_record.h"

#include "ir/graph/model_impl.h"

namespace sardonyx {
namespace {

template <class Map, class T>
const typename Map::mapped_type& find_or_empty(const Map& map, const T& what) {
  static const typename Map::mapped_type kEmpty{};
  if (map.empty()) return kEmpty;
  const auto at = map.find(&what);
  return at == map.end() ? kEmpty : at->second;
}

template <class Map, class T>
void keep_in(Map& map, const T& from, const T& to) {
  if (map.empty()) return;
  if (const auto at = map.find(&from); at != map.end()) map[&to] = at->second;
}

}  // namespace

const FileRecord::Entry FileRecord::kNoEntry{};

const FileRecord::OfGraph& FileRecord::of(const Graph& g) const { return find_or_empty(graphs, g); }
const FileRecord::OfTensor& FileRecord::of(const Value& v) const { return find_or_empty(tensors, v); }
std::string_view FileRecord::fields_of(const Node& n) const { return find_or_empty(nodes, n); }

void FileRecord::keep(const Node& from, const Node& to) { keep_in(nodes, from, to); }
void FileRecord::keep(const Value& from, const Value& to) {
  keep_in(tensors, from, to);
  const auto graph = graphs.find(to.graph());
  if (graph == graphs.end()) return;
  for (ListedInput& l : graph->second.listed_inputs) {
    if (l.constant == &from) l.constant = &to;
  }
}

const FileRecord& Model::file_record() const {
  static const FileRecord kNone;
  return impl_->file_record != nullptr ? *impl_->file_record : kNone;
}

FileRecord& Model::edit_file_record() {
  if (impl_->file_record == nullptr) impl_->file_record = std::make_unique<FileRecord>();
  return *impl_->file_record;
}

void Model::keep_file_record(const Node& from, const Node& to) {
  if (impl_->file_record != nullptr) impl_->file_record->keep(from, to);
}

}  // namespace sardonyx
