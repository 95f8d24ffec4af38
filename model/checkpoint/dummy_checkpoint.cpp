#include "model/checkpoint/dummy_checkpoint.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "kernels/random_values.h"
#include "model/checkpoint/appearance.h"
#include "model/checkpoint/decoder_tensors.h"
#include "model/checkpoint/embedded_files.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/open_checkpoint.h"
#include "model/families/family.h"

namespace headrace {
namespace {

// A sum of `cols` products keeps the variance of its inputs where weights have the variance 1 /
// cols; a uniform distribution of half width w has w * w / 3.
RandomValues values_of(const DecoderTensor& tensor) {
  RandomValues values;
  values.stream = XXH3_64bits(tensor.name.data(), tensor.name.size());
  if (tensor.shape.size() == 2) {
    values.half_width = std::sqrt(3.0F / static_cast<float>(tensor.shape[1]));
  } else if (!tensor.name.ends_with(".weight")) {  // biases, sinks
    values.half_width = 0.01F;
  } else {
    values.centre = 1.0F;  // the weight of a norm
    values.half_width = 0.01F;
  }
  return values;
}

class DummyCheckpoint : public Checkpoint {
 public:
  DummyCheckpoint(ModelConfig config, std::string generation_config)
      : config_(std::move(config)), generation_config_(std::move(generation_config)) {
    std::vector<DecoderTensor> all = decoder_tensors(config_);
    std::sort(all.begin(), all.end(),
              [](const DecoderTensor& a, const DecoderTensor& b) { return a.name < b.name; });
    for (const DecoderTensor& tensor : all) {
      const std::int64_t rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1;
      const std::int64_t cols = tensor.shape.back();
      infos_.push_back(
          {tensor.name, rows, cols, "BF16", static_cast<std::uint64_t>(rows * cols) * 2});
      values_.push_back(values_of(tensor));
    }
  }

  const ModelConfig& config() const override { return config_; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  bool has(std::string_view name) const override { return find(name) != infos_.end(); }
  DType preferred_dtype() const override { return DType::kBFloat16; }

  void read_block(std::string_view name, const TensorBlock& block, float* out) override {
    const RandomRows rows = rows_of(name, block);
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      const std::uint64_t first = rows.first + static_cast<std::uint64_t>(row) * rows.stride;
      const auto cols = static_cast<std::uint64_t>(block.col_end - block.col_begin);
      for (std::uint64_t col = 0; col < cols; ++col) *out++ = rows.values(first + col);
    }
  }

  std::optional<RandomRows> random_rows(std::string_view name,
                                        const TensorBlock& block) const override {
    return rows_of(name, block);
  }

  std::uint64_t bytes_to_read(std::string_view /*name*/,
                              const TensorBlock& /*block*/) const override {
    return 0;
  }

  /// Shapes decide all values.
  std::string fingerprint() const override {
    std::string shapes;
    for (const TensorInfo& info : infos_) {
      shapes += fmt::format("{} {} {}\n", info.name, info.rows, info.cols);
    }
    return fmt::format("dummy-{:016x}", XXH3_64bits(shapes.data(), shapes.size()));
  }

  std::string format() const override { return "dummy, 0 files"; }
  std::vector<std::string> damaged_tensors() override { return {}; }
  std::vector<ModelFile> companion_files() const override { return {}; }
  std::string generation_config() const override { return generation_config_; }

 private:
  RandomRows rows_of(std::string_view name, const TensorBlock& block) const {
    const auto info = find(name);
    if (info == infos_.end()) {
      throw std::out_of_range(fmt::format("there is no tensor {}", in_quotes(name)));
    }
    const bool inside = block.row_begin >= 0 && block.row_begin <= block.row_end &&
                        block.row_end <= info->rows && block.col_begin >= 0 &&
                        block.col_begin <= block.col_end && block.col_end <= info->cols;
    if (!inside) throw std::out_of_range(fmt::format("no such block of {}", in_quotes(name)));
    return {.values = values_[static_cast<std::size_t>(info - infos_.begin())],
            .first = static_cast<std::uint64_t>(block.row_begin * info->cols + block.col_begin),
            .stride = static_cast<std::uint64_t>(info->cols),
            .rows = block.row_end - block.row_begin};
  }

  std::vector<TensorInfo>::const_iterator find(std::string_view name) const {
    const auto found = std::lower_bound(
        infos_.begin(), infos_.end(), name,
        [](const TensorInfo& info, std::string_view wanted) { return info.name < wanted; });
    return found != infos_.end() && found->name == name ? found : infos_.end();
  }

  ModelConfig config_;
  std::string generation_config_;
  std::vector<TensorInfo> infos_;     // in order of name
  std::vector<RandomValues> values_;  // likewise
};

}  // namespace

std::unique_ptr<Checkpoint> open_dummy(const std::filesystem::path& model) {
  const std::filesystem::path path = resolve_model_path(model.string());
  if (!std::filesystem::is_directory(path)) {
    const std::unique_ptr<Checkpoint> real = Checkpoint::open(path);
    return std::make_unique<DummyCheckpoint>(real->config(), real->generation_config());
  }
  const JsonObject config = JsonObject::read(path / "config.json", kMaxConfigBytes);
  const std::filesystem::path generation = path / "generation_config.json";
  return std::make_unique<DummyCheckpoint>(
      family_of(config).from_config_json(config),
      is_model_file(generation) ? read_text(generation, kMaxConfigBytes) : std::string());
}

}  // namespace headrace
