// Weights and their configuration.
#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/convert_checkpoint.h"
#include "model/quantizer/rounding_quantizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

constexpr TinyLlama kSmallest{.num_layers = 1,
                              .hidden_size = 8,
                              .num_heads = 2,
                              .num_kv_heads = 1,
                              .intermediate_size = 8,
                              .vocab_size = 8};

// Opens, and where that succeeds reads everything.
bool open_and_read(const std::filesystem::path& model) {
  try {
    const auto checkpoint = Checkpoint::open(model);
    rope_inverse_frequencies(checkpoint->config().rope);
    std::vector<float> out;
    for (const TensorInfo& info : checkpoint->tensors()) {
      out.resize(static_cast<std::size_t>(info.rows * info.cols));
      checkpoint->read_rows(info.name, 0, info.rows, out.data());
    }
    return true;
  } catch (const std::invalid_argument& error) {
    check_message(error.what());
    return false;
  }
}

// The model in a directory with one file damaged.
FuzzTarget damaged_file(std::shared_ptr<const TempDirectory> directory,
                        const std::filesystem::path& model, const std::filesystem::path& file) {
  FuzzTarget target;
  target.material.sound = {read_file(file)};
  target.accepts = [directory = std::move(directory), model, file](const std::string& input) {
    write_file(file, input);
    return open_and_read(model);
  };
  return target;
}

}  // namespace

FuzzTarget safetensors_target() {
  const auto directory = std::make_shared<const TempDirectory>();
  write_hugging_face(directory->path(), kSmallest);
  FuzzTarget target =
      damaged_file(directory, directory->path(), directory->path() / "model.safetensors");
  target.material.range = 8 + safetensors_header(tiny_tensors(kSmallest)).size();
  target.material.words = {"\"dtype\"", "F64", "\"data_offsets\":[0,", "\"shape\":[",
                           "__metadata__"};
  return target;
}

FuzzTarget safetensors_index_target() {
  const auto directory = std::make_shared<const TempDirectory>();
  write_hugging_face(directory->path(), kSmallest);
  std::filesystem::rename(directory->path() / "model.safetensors",
                          directory->path() / "all.safetensors");
  std::string map;
  for (const FileTensor& tensor : tiny_tensors(kSmallest)) {
    map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"all.safetensors\"";
  }
  const auto index = directory->path() / "model.safetensors.index.json";
  write_file(index, "{\"weight_map\":{" + map + "}}");
  return damaged_file(directory, directory->path(), index);
}

FuzzTarget gguf_target() {
  const auto directory = std::make_shared<const TempDirectory>();
  const auto path = directory->path() / "tiny.gguf";
  GgufWriter writer = tiny_gguf(kSmallest);
  writer.set_strings("tokenizer.ggml.tokens", {"a", "b", "c"})
      .set_i32s("tokenizer.ggml.token_type", {1, 2, 3});
  writer.set_f32s("tokenizer.ggml.scores", {0.0F, 1.0F})
      .set_bool("tokenizer.ggml.add_bos_token", true);
  write_file(path, writer.bytes());
  std::size_t data = 0;
  for (const FileTensor& tensor : writer.tensors()) data += (tensor.data.size() + 31) / 32 * 32;
  FuzzTarget target = damaged_file(directory, path, path);
  target.material.range = std::filesystem::file_size(path) - data;
  target.material.words = {"llama.", "general.alignment", "blk.0.", ".weight"};
  return target;
}

// Values and integers, both versions of the format. The library's metadata has checksums; what
// stands behind them damages tensors and files, where it damages anything.
FuzzTarget hdf5_target() {
  const auto directory = std::make_shared<const TempDirectory>();
  write_hugging_face(directory->path(), kSmallest);
  const auto source = Checkpoint::open(directory->path());
  const auto path = directory->path() / "tiny.h5";
  const auto write = [&](MatrixQuantizer* quantizer) {
    std::filesystem::remove(path);
    convert_to_hdf5(*source, path,
                    {.dtype = {}, .quantizer = quantizer, .source = "tiny", .program = "test"}, {});
    return read_file(path);
  };
  const std::string plain = write(nullptr);
  const auto pool = make_thread_pool(1);
  FuzzTarget target = damaged_file(directory, path, path);
  target.material.sound = {plain};
  for (const Quantization type : {Quantization::kInt8, Quantization::kInt4}) {
    target.material.sound.push_back(write(
        make_rounding_quantizer(*source, *pool, {.wanted = type, .stochastic_seed = {}}).get()));
  }
  target.material.words = {"slice_bounds", "quantization", "int4", "checksum", "tensors", "OHDR"};
  return target;
}

FuzzTarget config_json_target() {
  const auto directory = std::make_shared<const TempDirectory>();
  write_hugging_face(directory->path(), kSmallest);
  ConfigFields fields = tiny_config(kSmallest);
  fields["rope_scaling"] =
      R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})";
  fields["eos_token_id"] = "[2, 3]";
  const auto path = directory->path() / "config.json";
  write_file(path, config_text(fields));
  FuzzTarget target = damaged_file(directory, directory->path(), path);
  target.material.words = {"null",       "true",          "1e308", "-1", "\"rope_type\":\"yarn\"",
                           "\"linear\"", "\"head_dim\":", "[",     "{}"};
  return target;
}

}  // namespace headrace
