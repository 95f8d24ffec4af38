// Every golden model, and models of random sizes, into an .h5 file and out of it again: the same
// bits, and in directories the names, layouts and types that the family's files have.
#include "model/checkpoint/convert_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/dummy_checkpoint.h"
#include "model/checkpoint/input_file.h"
#include "model/checkpoint/json_object.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/families/family.h"
#include "tests/model/checkpoint/forwarding_checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using model_files::TempDirectory;
using nlohmann::json;
namespace fs = std::filesystem;

std::vector<fs::path> goldens() {
  std::vector<fs::path> folders;
  for (const fs::path all : {"tests/data/golden", "tests/data/golden_families"}) {
    for (const auto& entry : fs::directory_iterator(all)) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<float> values(Checkpoint& checkpoint, const TensorInfo& info) {
  std::vector<float> all(static_cast<std::size_t>(info.rows * info.cols));
  checkpoint.read_rows(info.name, 0, info.rows, all.data());
  return all;
}

void expect_same_tensors(Checkpoint& model, Checkpoint& expected) {
  ASSERT_EQ(model.tensors().size(), expected.tensors().size());
  for (const TensorInfo& info : expected.tensors()) {
    ASSERT_EQ(values(model, info), values(expected, info)) << info.name;
  }
}

bool is_quantised(const Checkpoint& model) {
  return std::any_of(model.tensors().begin(), model.tensors().end(), [](const TensorInfo& info) {
    return info.stored_type != "F32" && info.stored_type != "BF16" && info.stored_type != "F16";
  });
}

// The tensors of a directory as they are stored, by name without the family's prefix.
std::map<std::string, std::string> stored_tensors(const fs::path& directory,
                                                  std::string_view prefix) {
  std::map<std::string, std::string> tensors;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    const InputFile file(entry.path());
    for (const SafetensorsEntry& tensor : read_safetensors_header(file).tensors) {
      std::string bytes(tensor.bytes, '\0');
      file.read(tensor.offset, std::as_writable_bytes(std::span(bytes)));
      std::string name = tensor.name;
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
      // GPT-NeoX's head, as transformers from 5 on calls it.
      if (prefix == "gpt_neox." && name == "lm_head.weight") name = "embed_out.weight";
      tensors[name] = tensor.dtype + json(tensor.shape).dump() + bytes;
    }
  }
  return tensors;
}

// Gemma's norms are kept as what they count, in float32; all else is stored byte for byte the same.
void expect_same_files(const fs::path& directory, const fs::path& source) {
  const Family& family = family_of(JsonObject::read(source / "config.json", 1 << 20));
  auto written = stored_tensors(directory, family.hugging_face_prefix);
  auto original = stored_tensors(source, family.hugging_face_prefix);
  if (family.architecture.starts_with("Gemma")) {
    const auto is_norm = [](const auto& tensor) {
      return tensor.first.find("norm") != std::string::npos;
    };
    EXPECT_EQ(std::erase_if(written, is_norm), std::erase_if(original, is_norm));
  }
  ASSERT_FALSE(written.empty());
  EXPECT_TRUE(written == original);
  EXPECT_EQ(model_files::read_file(directory / "config.json"),
            model_files::read_file(source / "config.json"));
}

class Convert : public testing::TestWithParam<fs::path> {};

TEST_P(Convert, ThereAndBackGivesTheSameBits) {
  const bool is_gguf = fs::exists(GetParam() / "model.gguf");
  const auto source = Checkpoint::open(is_gguf ? GetParam() / "model.gguf" : GetParam());
  const TempDirectory folder;
  // Of quantised blocks only float32 keeps all bits.
  std::optional<DType> dtype;
  if (is_quantised(*source)) dtype = DType::kFloat32;
  const fs::path path = folder.path() / "model.h5";
  convert_to_hdf5(*source, path, {.dtype = dtype, .source = "golden", .program = "test"}, {});
  const auto converted = Checkpoint::open(path);
  expect_same_tensors(*converted, *source);
  EXPECT_TRUE(converted->damaged_tensors().empty());
  if (is_gguf) {
    // config.json is made from what the metadata said, and has to say the same.
    convert_to_hugging_face(*converted, folder.path() / "back", {});
    expect_same_tensors(*Checkpoint::open(folder.path() / "back"), *source);
    return;
  }
  for (Checkpoint* model : {source.get(), converted.get()}) {
    const fs::path directory = folder.path() / model->format().substr(0, 4);
    convert_to_hugging_face(*model, directory, {});
    expect_same_tensors(*Checkpoint::open(directory), *source);
    expect_same_files(directory, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Convert, testing::ValuesIn(goldens()), [](const auto& folder) {
  return folder.param.parent_path().filename().string() + "_" + folder.param.filename().string();
});

// Random weights, with the config.json that they belong to.
class RandomModel : public model_files::ForwardingCheckpoint {
 public:
  explicit RandomModel(const fs::path& directory)
      : ForwardingCheckpoint(open_dummy(directory)), config_(directory / "config.json") {}

  std::vector<ModelFile> companion_files() const override {
    const std::uint64_t bytes = fs::file_size(config_);
    return {{"config.json", config_, bytes, {{0, bytes}}}};
  }

 private:
  fs::path config_;
};

// A family's golden config.json with other sizes.
json resized(json config, std::mt19937& random) {
  const auto up_to = [&](int most) { return static_cast<int>(random() % most) + 1; };
  const int kv_heads = up_to(3);
  const int heads = kv_heads * up_to(3);
  const auto set = [&](std::initializer_list<const char*> keys, int value) {
    for (const char* key : keys) {
      if (config.contains(key) && config[key].is_number()) config[key] = value;
    }
  };
  const int head_dim = 4 * up_to(4);
  set({"num_attention_heads", "n_head"}, heads);
  set({"num_key_value_heads", "num_kv_heads"}, kv_heads);
  set({"head_dim"}, 2 * up_to(9));
  set({"hidden_size", "n_embd"}, heads * head_dim);
  set({"intermediate_size", "ffn_hidden_size"}, up_to(700));
  set({"vocab_size"}, up_to(300));
  set({"num_hidden_layers", "n_layer"}, up_to(2));
  for (const char* key : {"rotary_pct", "partial_rotary_factor"}) {
    if (config.contains(key)) config[key] = 0.5;
  }
  for (const char* key : {"layer_types", "no_rope_layers", "layer_rope_theta"}) config.erase(key);
  return config;
}

TEST(ConvertRandom, ModelsOfAnySizesComeBackBitForBit) {
  std::mt19937 random(3);
  for (const char* family : {"qwen2", "qwen3", "gemma3", "smollm3", "granite", "granite_swa",
                             "olmo2", "gpt2", "neox", "starcoder2", "stablelm", "stablelm_qk",
                             "falcon", "falcon_new", "falcon_sequential", "mistral"}) {
    for (int trial = 0; trial < 8; ++trial) {
      const TempDirectory folder;
      const json golden = json::parse(
          model_files::read_file(fs::path("tests/data/golden_families") / family / "config.json"));
      const json config = resized(golden, random);
      SCOPED_TRACE(config.dump());
      model_files::write_file(folder.path() / "config.json", config.dump());
      RandomModel source(folder.path());
      convert_to_hdf5(source, folder.path() / "model.h5",
                      {.dtype = {}, .source = "dummy", .program = "test"}, {});
      const auto converted = Checkpoint::open(folder.path() / "model.h5");
      expect_same_tensors(*converted, source);
      convert_to_hugging_face(*converted, folder.path() / "back", {});
      expect_same_tensors(*Checkpoint::open(folder.path() / "back"), source);
    }
  }
}

}  // namespace
}  // namespace headrace
