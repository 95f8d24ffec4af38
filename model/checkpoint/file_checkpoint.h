// The checkpoint that all formats share: a table of where each canonical tensor lies, and
// the reading of blocks from there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/dequantize.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/stored_layout.h"
#include "model/checkpoint/tensor_reader.h"
#include "model/families/family.h"

namespace headrace {

/// Where one of several tensors lies that are a canonical vector, one behind the other.
struct VectorPiece {
  std::size_t file = 0;
  std::uint64_t offset = 0;
};

/// A tensor as a file has it: the whole of it, or under one of the canonical names that it holds.
struct StoredTensor {
  std::string name;                        // canonical
  std::string file_name;                   // its name there, for messages
  std::vector<std::int64_t> stored_shape;  // outermost first
  std::string type_name;                   // as the file spells it
  const StoredType* type = nullptr;        // null where the type cannot be read
  std::size_t file = 0;                    // index of the file
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<std::int64_t> slice_bounds;  // see StoredMatrix; only of types with single values
  std::optional<std::uint64_t> checksum;   // of the stored bytes, where the format has one

  // What add_tensor() fills in; it also reduces bytes to those of the canonical tensor.
  std::vector<std::int64_t> shape;  // canonical
  StoredForm form = StoredForm::kPlain;
  RowRuns runs;                     // where the canonical rows lie
  std::optional<int> piece;         // of a vector: which, from 0 on, until join_pieces()
  std::vector<VectorPiece> pieces;  // of a vector that lies in several, each of stored_shape
};

/// Everything a format's reader has found.
struct FileCheckpointParts {
  std::string format;       // "safetensors", "gguf", "hdf5"
  std::string config_name;  // what the shapes follow from, for messages: "config.json"
  std::string_view types;   // that this format's tensors may have, for messages
  std::string config_text;  // what the fingerprint covers apart from the files: config.json's
  std::string generation_config;
  ModelConfig config;
  std::vector<InputFile> files;
  std::vector<std::uint64_t> header_bytes;  // of each file
  std::vector<StoredTensor> tensors;
  std::vector<ModelFile> companions;  // the main one first
};

/// Adds a tensor of a file under each of the canonical names that it holds. Throws
/// std::invalid_argument where a fused one has not the rows that the configuration implies.
void add_tensor(const StoredTensor& stored, std::span<const CanonicalName> names,
                FileCheckpointParts& parts);

/// Makes one vector of the pieces that add_tensor() has found of it. Throws std::invalid_argument
/// where some are missing or unlike the others.
void join_pieces(FileCheckpointParts& parts);

class FileCheckpoint : public Checkpoint {
 public:
  /// Checks that the tensors are exactly those that the configuration implies, in shape and in a
  /// type that can be read. Throws std::invalid_argument naming file and tensor where they are not.
  explicit FileCheckpoint(FileCheckpointParts parts);

  const ModelConfig& config() const override { return parts_.config; }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  bool has(std::string_view name) const override { return by_name_.contains(name); }
  DType preferred_dtype() const override;
  void read_block(std::string_view name, const TensorBlock& block, float* out) override;
  std::uint64_t bytes_to_read(std::string_view name, const TensorBlock& block) const override;
  std::string fingerprint() const override;
  std::string format() const override;
  std::vector<std::string> damaged_tensors() override;
  std::vector<ModelFile> companion_files() const override { return parts_.companions; }
  std::string generation_config() const override { return parts_.generation_config; }

 private:
  void check_tensors() const;
  const StoredTensor& tensor_with(std::string_view name, const TensorBlock& block) const;
  void check_tensor(const StoredTensor& tensor, const std::vector<std::int64_t>& expected) const;
  void read_transposed(const StoredTensor& tensor, const TensorBlock& block, float* out);
  void read_runs(const StoredTensor& tensor, const TensorBlock& block, float* out);
  void read_pieces(const StoredTensor& tensor, const TensorBlock& block, float* out);
  StoredMatrix stored_matrix(const StoredTensor& tensor) const;

  FileCheckpointParts parts_;
  std::map<std::string, const StoredTensor*, std::less<>> by_name_;
  std::vector<TensorInfo> infos_;
  TensorReader reader_;
  std::vector<float> columns_;  // of a transposed tensor
};

}  // namespace headrace
