#include "model/checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

std::vector<float> rows(Checkpoint& checkpoint, const std::string& name, std::int64_t begin,
                        std::int64_t end) {
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (info.name != name) continue;
    std::vector<float> values(static_cast<std::size_t>((end - begin) * info.cols));
    checkpoint.read_rows(name, begin, end, values.data());
    return values;
  }
  throw std::runtime_error("no tensor " + name);
}

// Every value of every tensor, whole and row by row, is the one that the tiny model has there.
void expect_tiny_values(Checkpoint& checkpoint) {
  for (const TensorInfo& info : checkpoint.tensors()) {
    const std::vector<float> whole = rows(checkpoint, info.name, 0, info.rows);
    for (std::int64_t row = 0; row < info.rows; ++row) {
      const std::vector<float> one = rows(checkpoint, info.name, row, row + 1);
      for (std::int64_t col = 0; col < info.cols; ++col) {
        const float want = tiny_value(info.name, row, col);
        ASSERT_EQ(whole[static_cast<std::size_t>(row * info.cols + col)], want)
            << info.name << " [" << row << ", " << col << "]";
        ASSERT_EQ(one[static_cast<std::size_t>(col)], want)
            << info.name << " [" << row << ", " << col << "] alone";
      }
    }
  }
}

std::string refusal(const std::filesystem::path& path) {
  try {
    Checkpoint::open(path);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Checkpoint, HuggingFaceDirectoryIsReadInEveryType) {
  for (const char* type : {"F32", "F16", "BF16"}) {
    const TempDirectory directory;
    write_hugging_face(directory.path(), {}, type);
    const auto checkpoint = Checkpoint::open(directory.path());
    EXPECT_EQ(checkpoint->format(), "safetensors, 1 file");
    EXPECT_EQ(checkpoint->preferred_dtype(),
              type == std::string("F32") ? DType::kFloat32 : DType::kBFloat16);
    EXPECT_EQ(checkpoint->tensors().front().stored_type, type);
    expect_tiny_values(*checkpoint);
  }
}

TEST(Checkpoint, GgufIsReadInHuggingFacesNamesAndRowOrder) {
  for (const char* type : {"F32", "F16", "BF16"}) {
    for (const std::uint32_t version : {2U, 3U}) {
      const TempDirectory directory;
      const auto path = directory.path() / "tiny.gguf";
      write_file(path, tiny_gguf({.head_dim = 8}, type, version).bytes());
      const auto checkpoint = Checkpoint::open(path);
      EXPECT_EQ(checkpoint->format(), "gguf, 1 file");
      EXPECT_EQ(checkpoint->generation_config(), "");
      expect_tiny_values(*checkpoint);
    }
  }
}

TEST(Checkpoint, BothFormatsGiveTheSameModel) {
  for (const bool bias : {false, true}) {
    const TinyLlama tiny{
        .head_dim = 8, .tied_head = !bias, .attention_bias = bias, .mlp_bias = bias};
    const TempDirectory directory;
    write_hugging_face(directory.path(), tiny);
    write_file(directory.path() / "tiny.gguf", tiny_gguf(tiny).bytes());
    const auto hugging_face = Checkpoint::open(directory.path());
    const auto gguf = Checkpoint::open(directory.path() / "tiny.gguf");
    ASSERT_EQ(hugging_face->tensors().size(), gguf->tensors().size());
    EXPECT_EQ(num_parameters(*hugging_face), num_parameters(*gguf));
    for (std::size_t i = 0; i < gguf->tensors().size(); ++i) {
      EXPECT_EQ(hugging_face->tensors()[i].name, gguf->tensors()[i].name);
      EXPECT_EQ(hugging_face->tensors()[i].rows, gguf->tensors()[i].rows);
      EXPECT_EQ(hugging_face->tensors()[i].cols, gguf->tensors()[i].cols);
    }
    expect_tiny_values(*hugging_face);
    expect_tiny_values(*gguf);
    EXPECT_EQ(gguf->config().qkv_bias, bias);
    EXPECT_EQ(gguf->config().output_bias, bias);
    EXPECT_EQ(gguf->config().mlp_bias, bias);
    EXPECT_EQ(gguf->config().tied_head, !bias);
    EXPECT_EQ(gguf->config().num_kv_heads, hugging_face->config().num_kv_heads);
    EXPECT_EQ(gguf->config().norm_eps, hugging_face->config().norm_eps);
  }
}

// The order of rows that transformers' converter makes, from the golden made with it.
TEST(Checkpoint, RowsOfInterleavedHeadsAreThoseOfTheConverter) {
  const auto golden = nlohmann::json::parse(read_file("tests/data/checkpoint/permutation.json"));
  const auto order = golden["rows"].get<std::vector<int>>();
  const int head_dim = golden["head_dim"].get<int>();
  const int num_heads = golden["num_heads"].get<int>();
  const TinyLlama tiny{
      .num_layers = 1, .num_heads = num_heads, .num_kv_heads = num_heads, .head_dim = head_dim};
  GgufWriter writer = tiny_gguf(tiny, "F32");
  for (FileTensor& tensor : writer.tensors()) {
    if (tensor.name != "blk.0.attn_q.weight") continue;
    std::vector<float> values;  // each row holds its number in Hugging Face's order
    for (const int row : order) values.insert(values.end(), 16, static_cast<float>(row));
    tensor.data = to_f32(values);
  }
  const TempDirectory directory;
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.gguf");
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto count = static_cast<std::int64_t>(order.size());
  for (const auto& [begin, end] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {0, count}, {3, 5}, {2, 20}, {8, 16}, {7, 17}}) {
    const std::vector<float> values = rows(*checkpoint, name, begin, end);
    for (std::int64_t row = begin; row < end; ++row) {
      EXPECT_EQ(values[static_cast<std::size_t>((row - begin) * 16)], static_cast<float>(row));
    }
  }
}

TEST(Checkpoint, QuantisedRowsAreReadSingly) {
  TinyLlama tiny{
      .num_layers = 1, .hidden_size = 64, .num_heads = 4, .num_kv_heads = 2, .head_dim = 16};
  GgufWriter writer = tiny_gguf(tiny, "F32");
  for (FileTensor& tensor : writer.tensors()) {
    if (tensor.name != "token_embd.weight") continue;
    tensor.type = "Q8_0";
    tensor.data.clear();
    for (int row = 0; row < tiny.vocab_size; ++row) {
      for (int block = 0; block < 2; ++block) {
        tensor.data += bytes_of(std::uint16_t{0x3800});  // scale 0.5
        for (int i = 0; i < 32; ++i) tensor.data += static_cast<char>(row + block);
      }
    }
  }
  const TempDirectory directory;
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.gguf");
  EXPECT_EQ(checkpoint->preferred_dtype(), DType::kFloat32) << "other matrices are F32";
  const std::vector<float> values = rows(*checkpoint, "model.embed_tokens.weight", 5, 7);
  ASSERT_EQ(values.size(), 128U);
  EXPECT_EQ(values[0], 2.5F);
  EXPECT_EQ(values[32], 3.0F);
  EXPECT_EQ(values[64], 3.0F);
  EXPECT_EQ(values[127], 3.5F);
}

// Larger than the pieces that are read at once, with rows that no piece boundary respects.
TEST(Checkpoint, TensorsLargerThanAPieceAreReadWhole) {
  const TinyLlama tiny{.num_layers = 1,
                       .hidden_size = 112,
                       .num_heads = 4,
                       .num_kv_heads = 1,
                       .head_dim = 28,
                       .vocab_size = 25000};
  const TempDirectory directory;
  write_file(directory.path() / "tiny.gguf", tiny_gguf(tiny, "F32").bytes());
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.gguf");
  const std::string name = "model.embed_tokens.weight";
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 25000}, {9361, 18725}}) {
    const std::vector<float> values = rows(*checkpoint, name, begin, end);
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t col = 0; col < 112; col += 37) {
        ASSERT_EQ(values[static_cast<std::size_t>((row - begin) * 112 + col)],
                  tiny_value(name, row, col));
      }
    }
  }
}

TEST(Checkpoint, ShardsAreFoundThroughTheIndex) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  std::filesystem::remove(directory.path() / "model.safetensors");
  std::vector<FileTensor> first = tiny_tensors({});
  std::vector<FileTensor> second(first.begin() + 7, first.end());
  first.resize(7);
  std::string map;
  const auto add = [&](const std::vector<FileTensor>& tensors, const std::string& file) {
    write_file(directory.path() / file, safetensors_bytes(tensors));
    for (const FileTensor& tensor : tensors) {
      map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + file + "\"";
    }
  };
  add(first, "model-00001-of-00002.safetensors");
  add(second, "model-00002-of-00002.safetensors");
  const auto index = directory.path() / "model.safetensors.index.json";
  write_file(index, R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_EQ(checkpoint->format(), "safetensors, 2 files");
  expect_tiny_values(*checkpoint);

  write_file(index, R"({"weight_map":{)" + map +
                        R"(,"lm_head.weight":"model-00002-of-00002.safetensors"}})");
  EXPECT_NE(refusal(directory.path()).find("lacks the tensor \"lm_head.weight\""),
            std::string::npos);
  std::filesystem::remove(directory.path() / "model-00002-of-00002.safetensors");
  EXPECT_NE(refusal(directory.path()).find("model-00002-of-00002.safetensors: cannot be opened"),
            std::string::npos);
}

// Splits a GGUF file's tensors over several, as llama.cpp's gguf-split does.
void write_split(const std::filesystem::path& directory, int count) {
  const GgufWriter whole = tiny_gguf();
  const std::vector<FileTensor> tensors = GgufWriter(whole).tensors();
  for (int file = 0; file < count; ++file) {
    GgufWriter part = file == 0 ? tiny_gguf() : GgufWriter();
    part.tensors().clear();
    part.set_u16("split.no", static_cast<std::uint16_t>(file));
    part.set_u16("split.count", static_cast<std::uint16_t>(count));
    part.set_i32("split.tensors.count", static_cast<std::int32_t>(tensors.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (static_cast<int>(i) % count == file) part.add(tensors[i]);
    }
    std::string name = "tiny-0000" + std::to_string(file + 1) + "-of-0000" + std::to_string(count);
    write_file(directory / (name + ".gguf"), part.bytes());
  }
}

TEST(Checkpoint, SplitGgufIsOneModel) {
  const TempDirectory directory;
  write_split(directory.path(), 3);
  const auto first = directory.path() / "tiny-00001-of-00003.gguf";
  const auto checkpoint = Checkpoint::open(first);
  EXPECT_EQ(checkpoint->format(), "gguf, 3 files");
  expect_tiny_values(*checkpoint);
  EXPECT_NE(refusal(directory.path() / "tiny-00002-of-00003.gguf")
                .find("name the first one, tiny-00001-of-00003.gguf"),
            std::string::npos);
  std::filesystem::rename(first, directory.path() / "renamed.gguf");
  EXPECT_NE(refusal(directory.path() / "renamed.gguf").find("their names must end in"),
            std::string::npos);
  std::filesystem::rename(directory.path() / "renamed.gguf", first);
  std::filesystem::copy_file(directory.path() / "tiny-00002-of-00003.gguf",
                             directory.path() / "tiny-00003-of-00003.gguf",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(refusal(first).find("does not say that it is file 3 of 3"), std::string::npos);
  std::filesystem::remove(directory.path() / "tiny-00003-of-00003.gguf");
  EXPECT_NE(refusal(first).find("tiny-00003-of-00003.gguf: cannot be opened"), std::string::npos);
}

// tie_word_embeddings says one thing, the tensors in the file another: transformers' rules.
TEST(Checkpoint, HeadIsTiedAsTransformersTiesIt) {
  struct Case {
    const char* tie;    // null: the key is absent
    const char* error;  // null: accepted
    bool has_embedding;
    bool has_head;
    bool tied;
  };
  const Case cases[] = {
      {"true", nullptr, true, false, true},
      {"true", nullptr, true, true, false},
      {"true", nullptr, false, true, true},
      {"true", "tensor \"model.embed_tokens.weight\" is missing", false, false, false},
      {"false", nullptr, true, true, false},
      {"false", "tie_word_embeddings is false or absent", true, false, false},
      {nullptr, nullptr, true, true, false},
      {nullptr, "tie_word_embeddings is false or absent", true, false, false},
  };
  for (const Case& test : cases) {
    const TempDirectory directory;
    std::vector<FileTensor> tensors = tiny_tensors({.tied_head = false});
    std::erase_if(tensors, [&](const FileTensor& tensor) {
      return (tensor.name == "lm_head.weight" && !test.has_head) ||
             (tensor.name == "model.embed_tokens.weight" && !test.has_embedding);
    });
    ConfigFields fields = tiny_config({});
    fields.erase("tie_word_embeddings");
    if (test.tie != nullptr) fields["tie_word_embeddings"] = test.tie;
    write_file(directory.path() / "config.json", config_text(fields));
    write_file(directory.path() / "model.safetensors", safetensors_bytes(tensors));
    if (test.error != nullptr) {
      EXPECT_NE(refusal(directory.path()).find(test.error), std::string::npos)
          << refusal(directory.path());
      continue;
    }
    const auto checkpoint = Checkpoint::open(directory.path());
    EXPECT_EQ(checkpoint->config().tied_head, test.tied);
    EXPECT_EQ(checkpoint->has("lm_head.weight"), !test.tied);
    const char* stored = test.has_embedding ? "model.embed_tokens.weight" : "lm_head.weight";
    EXPECT_EQ(rows(*checkpoint, "model.embed_tokens.weight", 3, 4)[5], tiny_value(stored, 3, 5));
  }
}

TEST(Checkpoint, StoredFrequenciesAreIgnoredAndOtherExtraTensorsRefused) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  std::vector<FileTensor> tensors = tiny_tensors({});
  tensors.push_back(
      make_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {2}, {1, 2}));
  write_file(directory.path() / "model.safetensors", safetensors_bytes(tensors));
  const auto checkpoint = Checkpoint::open(directory.path());
  EXPECT_FALSE(checkpoint->has("model.layers.0.self_attn.rotary_emb.inv_freq"));

  tensors.push_back(
      make_tensor("model.layers.1.self_attn.q_norm.weight", "F32", {4}, {1, 1, 1, 1}));
  write_file(directory.path() / "model.safetensors", safetensors_bytes(tensors));
  EXPECT_NE(
      refusal(directory.path())
          .find(
              "model.safetensors: tensor \"model.layers.1.self_attn.q_norm.weight\" has no place"),
      std::string::npos)
      << refusal(directory.path());
}

TEST(Checkpoint, RopeDivisorsOfAGgufFileReachTheConfiguration) {
  const TempDirectory directory;
  GgufWriter writer = tiny_gguf();
  writer.add(make_tensor("rope_freqs.weight", "F32", {2}, {1.0F, 8.0F}));
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.gguf");
  EXPECT_EQ(checkpoint->config().rope.frequency_divisors, (std::vector<float>{1.0F, 8.0F}));
  EXPECT_FALSE(checkpoint->has("rope_freqs.weight"));

  writer.tensors().back() = make_tensor("rope_freqs.weight", "F32", {2}, {1.0F, 0.0F});
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  EXPECT_NE(refusal(directory.path() / "tiny.gguf").find("holds a number that is not above 0"),
            std::string::npos);
  writer.tensors().back() = make_tensor("rope_freqs.weight", "F32", {3}, {1.0F, 1.0F, 1.0F});
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  EXPECT_NE(refusal(directory.path() / "tiny.gguf").find("must be 2 values of type F32"),
            std::string::npos);
}

TEST(Checkpoint, GenerationConfigIsPassedOnAsItIs) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  EXPECT_EQ(Checkpoint::open(directory.path())->generation_config(), "");
  write_file(directory.path() / "generation_config.json", "{\"temperature\": 0.6}\n");
  EXPECT_EQ(Checkpoint::open(directory.path())->generation_config(), "{\"temperature\": 0.6}\n");
}

TEST(Checkpoint, RowsOutsideATensorAreAProgrammingError) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const auto checkpoint = Checkpoint::open(directory.path());
  std::vector<float> out(64);
  EXPECT_THROW(checkpoint->read_rows("model.norm.weight", 0, 2, out.data()), std::out_of_range);
  EXPECT_THROW(checkpoint->read_rows("model.norm.weight", -1, 1, out.data()), std::out_of_range);
  EXPECT_THROW(checkpoint->read_rows("model.embed_tokens.weight", 2, 1, out.data()),
               std::out_of_range);
  EXPECT_THROW(checkpoint->read_rows("no.such.tensor", 0, 1, out.data()), std::out_of_range);
  checkpoint->read_rows("model.embed_tokens.weight", 24, 24, out.data());
}

TEST(Checkpoint, AFileThatShrinksWhileItIsReadIsAnError) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const auto checkpoint = Checkpoint::open(directory.path());
  std::filesystem::resize_file(directory.path() / "model.safetensors", 4000);
  std::vector<float> out(24 * 16);
  EXPECT_THROW(
      {
        for (const TensorInfo& info : checkpoint->tensors()) {
          out.resize(static_cast<std::size_t>(info.rows * info.cols));
          checkpoint->read_rows(info.name, 0, info.rows, out.data());
        }
      },
      std::runtime_error);
}

}  // namespace
}  // namespace headrace
