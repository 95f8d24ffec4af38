#include "model/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <system_error>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/open_checkpoint.h"

namespace headrace {

std::unique_ptr<Checkpoint> Checkpoint::open(const std::filesystem::path& model) {
  const std::filesystem::path path = resolve_model_path(model.string());
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_hugging_face(path);
  const InputFile file(path);
  if (path.extension() == ".gguf" || file.head(4) == "GGUF") return open_gguf(path);
  if (is_hdf5(path)) return open_hdf5(path);
  const std::string what = appearance(file);
  throw std::invalid_argument(
      fmt::format("{}: is no model{}; a Hugging Face directory, the name org/model of one in the "
                  "local cache, a .gguf or a Headrace .h5 file is accepted",
                  path.string(), what.empty() ? std::string() : "; it looks like " + what));
}

std::optional<RandomRows> Checkpoint::random_rows(std::string_view /*name*/,
                                                  const TensorBlock& /*block*/) const {
  return std::nullopt;
}

void Checkpoint::read_integers(std::string_view name, const TensorBlock& /*block*/,
                               std::span<const std::int32_t> /*bounds*/, IntegerBlock& /*out*/) {
  throw std::invalid_argument("tensor " + std::string(name) + " is not quantised");
}

void Checkpoint::read_rows(std::string_view name, std::int64_t begin, std::int64_t end,
                           float* out) {
  const std::vector<TensorInfo>& all = tensors();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const TensorInfo& info, std::string_view wanted) { return info.name < wanted; });
  if (found == all.end() || found->name != name) {
    throw std::out_of_range(fmt::format("there is no tensor {}", in_quotes(name)));
  }
  read_block(name, {begin, end, 0, found->cols}, out);
}

std::int64_t num_parameters(const Checkpoint& checkpoint) {
  std::int64_t count = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) count += tensor.rows * tensor.cols;
  return count;
}

}  // namespace headrace
