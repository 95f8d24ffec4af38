#include "model/checkpoint/directory_tensors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/encode.h"

namespace headrace {
namespace {

// The narrower one holds all values of a tensor whose parts have the same type.
std::string common_type(const std::string& a, const std::string& b) {
  return a.empty() || a == b ? b : "F32";
}

class Collector {
 public:
  Collector(const Checkpoint& model, const Family& family) : model_(model), family_(family) {
    for (const TensorInfo& info : model.tensors()) {
      types_[info.name] = type_to_write(info, model.preferred_dtype());
    }
  }

  void add(const DecoderTensor& tensor) {
    const DirectoryName at = directory_name(family_, model_.config(), tensor.name);
    if (at.name.find('#') != std::string::npos) {
      add_pieces(tensor, at.name);
    } else {
      add_part(tensor, at);
    }
  }

  std::vector<DirectoryTensor> take() {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const DirectoryTensor& a, const DirectoryTensor& b) { return a.name < b.name; });
    return std::move(tensors_);
  }

 private:
  // A tensor a head.
  void add_pieces(const DecoderTensor& tensor, const std::string& pattern) {
    const std::int64_t length = model_.config().head_dim;
    for (std::int64_t piece = 0; piece < tensor.shape.front() / length; ++piece) {
      std::string name = pattern;
      name.replace(name.find('#'), 1, std::to_string(piece));
      tensors_.push_back({.name = std::move(name),
                          .shape = {length},
                          .type = types_.at(tensor.name),
                          .parts = {{.canonical = tensor.name,
                                     .first = piece * length,
                                     .rows = length,
                                     .runs = {.first = 0, .length = length, .stride = length}}}});
    }
  }

  void add_part(const DecoderTensor& tensor, const DirectoryName& at) {
    const bool is_matrix = tensor.shape.size() == 2;
    const std::int64_t rows = tensor.shape.front();
    PartRows part{
        .runs = {.first = 0, .length = rows, .stride = rows}, .rows = rows, .stored_rows = rows};
    if (at.layout.part != FusedPart::kWhole) part = rows_of_part(model_.config(), at.layout);
    const auto [found, is_new] = by_name_.emplace(at.name, tensors_.size());
    if (is_new) {
      const bool transposed = is_matrix && at.layout.form == StoredForm::kTransposed;
      DirectoryTensor stored{.name = at.name,
                             .shape = tensor.shape,
                             .type = {},
                             .form = is_matrix || at.layout.form == StoredForm::kOneLess
                                         ? at.layout.form
                                         : StoredForm::kPlain,
                             .parts = {}};
      stored.shape.front() = part.stored_rows;
      if (transposed) std::swap(stored.shape[0], stored.shape[1]);
      tensors_.push_back(std::move(stored));
    }
    DirectoryTensor& stored = tensors_[found->second];
    stored.type = common_type(stored.type, types_.at(tensor.name));
    stored.parts.push_back(
        {.canonical = tensor.name, .first = 0, .rows = part.rows, .runs = part.runs});
  }

  const Checkpoint& model_;
  const Family& family_;
  std::map<std::string, std::string> types_;
  std::map<std::string, std::size_t> by_name_;
  std::vector<DirectoryTensor> tensors_;
};

}  // namespace

std::vector<DirectoryTensor> directory_tensors(const Checkpoint& model, const Family& family) {
  Collector collector(model, family);
  for (const DecoderTensor& tensor : decoder_tensors(model.config())) collector.add(tensor);
  return collector.take();
}

}  // namespace headrace
