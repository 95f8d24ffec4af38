// A model's weights as files on disk, whatever the format. Opening reads headers only; every shape
// is checked against the configuration and every range against the file before anyone allocates by
// a number that was read. Tensors have the names of a Hugging Face Llama checkpoint
// ("model.layers.3.self_attn.q_proj.weight") and its row order, whatever the family and the format:
// reading undoes what a file has fused, interleaved, transposed or shifted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/random_values.h"
#include "kernels/tensor.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/integer_layout.h"
#include "model/config.h"

namespace headrace {

struct TensorInfo {
  std::string name;
  std::int64_t rows = 0;  // 1 for a vector
  std::int64_t cols = 0;
  std::string stored_type;  // "F32", "BF16", "F16", "Q8_0", "Q4_1", ...; keeps every value
  std::uint64_t stored_bytes = 0;
  bool as_stored = true;  // values are those of the file, not computed from them
  Quantization quantization = Quantization::kNone;  // of a matrix that can be read as integers
};

/// Rows [row_begin, row_end) of columns [col_begin, col_end). A vector is one row.
struct TensorBlock {
  std::int64_t row_begin = 0;
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
};

/// A file of a model, or of a file with weights the parts that are none: header, small tensors that
/// the configuration takes its numbers from.
struct ModelFile {
  std::string name;  // relative to the model
  std::filesystem::path path;
  std::uint64_t bytes = 0;
  std::vector<FileExtent> extents;  // what there is of it
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// A Hugging Face directory, the name org/model of one in the local Hugging Face cache, a .gguf
  /// file (the first of a split one), or a Headrace .h5 file. Throws std::invalid_argument naming
  /// file, key, value and what would be accepted, for anything that is not a sound model of a
  /// supported family.
  static std::unique_ptr<Checkpoint> open(const std::filesystem::path& model);

  virtual const ModelConfig& config() const = 0;

  /// Every tensor that the decoder uses, in order of name.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual bool has(std::string_view name) const = 0;

  /// bfloat16 when all matrices are 16-bit or quantised, float32 otherwise: what --dtype auto
  /// means.
  virtual DType preferred_dtype() const = 0;

  /// Reads a block of a tensor as float32 into out, [rows, cols] of the block without gaps;
  /// quantised values are dequantised. Rows wanted whole cost only their own bytes; of rows wanted
  /// in part the bytes between may be read too, where that is faster than leaving them out. Throws
  /// std::out_of_range for a block that is not in the tensor, std::runtime_error on I/O errors. Not
  /// thread-safe.
  virtual void read_block(std::string_view name, const TensorBlock& block, float* out) = 0;

  /// Bytes that read_block() takes from the files: more than the block has where it reads bytes
  /// between. Throws like it.
  virtual std::uint64_t bytes_to_read(std::string_view name, const TensorBlock& block) const = 0;

  /// How a block's values are drawn, for whoever makes them without reading; nullopt where they are
  /// those of files. Throws std::out_of_range as read_block() does.
  virtual std::optional<RandomRows> random_rows(std::string_view name,
                                                const TensorBlock& block) const;

  /// Reads a block of a quantised matrix as it is stored. bounds: where the reader cuts the block's
  /// columns into slices, from 0 on; the matrix was quantised for the same ones, or
  /// std::invalid_argument names it. Otherwise like read_block().
  virtual void read_integers(std::string_view name, const TensorBlock& block,
                             std::span<const std::int32_t> bounds, IntegerBlock& out);

  /// read_block() of whole rows [begin, end).
  void read_rows(std::string_view name, std::int64_t begin, std::int64_t end, float* out);

  /// A short text that is equal for equal weights: sizes, headers and sampled contents of every
  /// file.
  virtual std::string fingerprint() const = 0;

  /// "safetensors", "gguf" or "hdf5", and the number of files.
  virtual std::string format() const = 0;

  /// Reads all stored bytes and returns the names of the tensors whose bytes do not have the
  /// checksum that the format stores; none where the format stores none.
  virtual std::vector<std::string> damaged_tensors() = 0;

  /// What makes a model besides its decoder's weights, the file that says what it is (config.json,
  /// the GGUF file) first.
  virtual std::vector<ModelFile> companion_files() const = 0;

  /// The JSON text of generation_config.json, empty where there is none.
  virtual std::string generation_config() const = 0;
};

/// The number of values in all tensors; a tied head counts once.
std::int64_t num_parameters(const Checkpoint& checkpoint);

/// The directory or file that a MODEL argument names: an existing path, or org/name in the local
/// Hugging Face cache (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub). Throws
/// std::invalid_argument saying where it looked.
std::filesystem::path resolve_model_path(const std::string& model);

}  // namespace headrace
