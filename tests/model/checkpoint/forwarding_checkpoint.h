// A checkpoint that is another one, for tests that change a part of what it does.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/checkpoint/checkpoint.h"

namespace headrace::model_files {

class ForwardingCheckpoint : public Checkpoint {
 public:
  explicit ForwardingCheckpoint(std::unique_ptr<Checkpoint> model) : model_(std::move(model)) {}

  const ModelConfig& config() const override { return model_->config(); }
  const std::vector<TensorInfo>& tensors() const override { return model_->tensors(); }
  bool has(std::string_view name) const override { return model_->has(name); }
  DType preferred_dtype() const override { return model_->preferred_dtype(); }
  void read_block(std::string_view name, const TensorBlock& block, float* out) override {
    model_->read_block(name, block, out);
  }
  std::uint64_t bytes_to_read(std::string_view name, const TensorBlock& block) const override {
    return model_->bytes_to_read(name, block);
  }
  std::string fingerprint() const override { return model_->fingerprint(); }
  std::string format() const override { return model_->format(); }
  std::vector<std::string> damaged_tensors() override { return model_->damaged_tensors(); }
  std::vector<ModelFile> companion_files() const override { return model_->companion_files(); }
  std::string generation_config() const override { return model_->generation_config(); }

 private:
  std::unique_ptr<Checkpoint> model_;
};

}  // namespace headrace::model_files
