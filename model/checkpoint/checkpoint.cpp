#include "model/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <stdexcept>
#include <system_error>

#include "model/checkpoint/appearance.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/open_checkpoint.h"

namespace headrace {

std::unique_ptr<Checkpoint> Checkpoint::open(const std::filesystem::path& model) {
  const std::filesystem::path path = resolve_model_path(model.string());
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_hugging_face(path);
  const InputFile file(path);
  if (path.extension() == ".gguf" || file.head(4) == "GGUF") return open_gguf(path);
  const std::string what = appearance(file);
  throw std::invalid_argument(
      fmt::format("{}: is no model{}; a Hugging Face directory, the name org/model of one in the "
                  "local cache or a "
                  ".gguf file is accepted",
                  path.string(), what.empty() ? std::string() : "; it looks like " + what));
}

std::int64_t num_parameters(const Checkpoint& checkpoint) {
  std::int64_t count = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) count += tensor.rows * tensor.cols;
  return count;
}

}  // namespace headrace
