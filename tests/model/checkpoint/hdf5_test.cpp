#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/numeric.h"
#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/convert_checkpoint.h"
#include "model/checkpoint/dequantize.h"
#include "model/checkpoint/encode.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/partial_file.h"
#include "model/checkpoint/safetensors_file.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/checkpoint/forwarding_checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them
namespace fs = std::filesystem;

// Large enough that down_proj has 8 slices and o_proj one a head.
constexpr TinyLlama kTiny{.num_layers = 2,
                          .hidden_size = 16,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 8,
                          .intermediate_size = 72,
                          .vocab_size = 24,
                          .tied_head = true,
                          .attention_bias = true,
                          .mlp_bias = true};

void convert(const fs::path& model, const fs::path& path, std::optional<DType> dtype = {}) {
  const auto checkpoint = Checkpoint::open(model);
  convert_to_hdf5(*checkpoint, path,
                  {.dtype = dtype, .source = model.filename().string(), .program = "test"}, {});
}

std::vector<float> values(Checkpoint& checkpoint, const TensorInfo& info) {
  std::vector<float> all(static_cast<std::size_t>(info.rows * info.cols));
  checkpoint.read_rows(info.name, 0, info.rows, all.data());
  return all;
}

std::map<std::string, std::string> safetensors_data(const fs::path& path) {
  const InputFile file(path);
  std::map<std::string, std::string> data;
  for (const SafetensorsEntry& entry : read_safetensors_header(file).tensors) {
    std::string bytes(entry.bytes, '\0');
    file.read(entry.offset, std::as_writable_bytes(std::span(bytes)));
    data[entry.name + " " + entry.dtype] = std::move(bytes);
  }
  return data;
}

TEST(Hdf5, RoundTripGivesTheSameBits) {
  for (const char* type : {"F32", "F16", "BF16"}) {
    for (const bool tied : {true, false}) {
      const TempDirectory directory;
      TinyLlama tiny = kTiny;
      tiny.tied_head = tied;
      const fs::path source = directory.path() / "source";
      fs::create_directories(source / "additional_chat_templates");
      write_hugging_face(source, tiny, type);
      write_file(source / "generation_config.json", "{\"temperature\": 0.5}");
      write_file(source / "vocab.txt", "");
      write_file(source / "additional_chat_templates" / "rag.jinja", "{{ messages }}");
      convert(source, directory.path() / "tiny.h5");
      convert_to_hugging_face(*Checkpoint::open(directory.path() / "tiny.h5"),
                              directory.path() / "back", {});
      EXPECT_EQ(safetensors_data(directory.path() / "back" / "model.safetensors"),
                safetensors_data(source / "model.safetensors"));
      for (const char* name : {"config.json", "generation_config.json", "vocab.txt",
                               "additional_chat_templates/rag.jinja"}) {
        EXPECT_EQ(read_file(directory.path() / "back" / name), read_file(source / name)) << name;
      }
      EXPECT_FALSE(fs::exists(directory.path() / "back.partial"));
      EXPECT_FALSE(fs::exists(directory.path() / "tiny.h5.partial"));
    }
  }
}

TEST(Hdf5, EveryBlockIsTheModels) {
  const ModelDirectory directory(kTiny);
  const fs::path path = directory.path() / "tiny.h5";
  convert(directory.path(), path);
  const auto checkpoint = Checkpoint::open(path);
  EXPECT_EQ(checkpoint->format(), "hdf5, 1 file");
  EXPECT_EQ(checkpoint->preferred_dtype(), DType::kBFloat16);
  for (const TensorInfo& info : checkpoint->tensors()) {
    for (const TensorBlock& block :
         {TensorBlock{0, info.rows, 0, info.cols}, TensorBlock{info.rows / 2, info.rows, 3, 11},
          TensorBlock{0, 1, info.cols - 1, info.cols},
          TensorBlock{info.rows / 3, info.rows / 3 + 1, 0, info.cols}}) {
      std::vector<float> out(static_cast<std::size_t>((block.row_end - block.row_begin) *
                                                      (block.col_end - block.col_begin)));
      checkpoint->read_block(info.name, block, out.data());
      std::size_t i = 0;
      for (std::int64_t row = block.row_begin; row < block.row_end; ++row) {
        for (std::int64_t col = block.col_begin; col < block.col_end; ++col) {
          ASSERT_EQ(out[i++], tiny_value(info.name, row, col)) << info.name;
        }
      }
    }
  }
}

TEST(Hdf5, PartsOfSummedMatricesAreOnePiece) {
  const ModelDirectory directory(kTiny);
  const fs::path path = directory.path() / "tiny.h5";
  convert(directory.path(), path);
  const std::string file = read_file(path);
  std::map<std::string, Hdf5Tensor> tensors;
  for (const Hdf5Tensor& t : read_hdf5_contents(path).tensors) tensors[t.name] = t;
  const Hdf5Tensor& output = tensors.at("model.layers.1.self_attn.o_proj.weight");
  EXPECT_EQ(output.slice_bounds, (std::vector<std::int64_t>{0, 8, 16, 24, 32}));
  EXPECT_EQ(tensors.at("model.layers.1.mlp.down_proj.weight").slice_bounds.size(), 9U);
  EXPECT_TRUE(tensors.at("model.layers.1.mlp.up_proj.weight").slice_bounds.empty());
  // The second of two ranks: heads 2 and 3, all rows.
  std::vector<float> want;
  for (const std::int64_t head : {2, 3}) {
    for (std::int64_t row = 0; row < 16; ++row) {
      for (std::int64_t col = 0; col < 8; ++col) {
        want.push_back(tiny_value(output.name, row, head * 8 + col));
      }
    }
  }
  EXPECT_EQ(file.substr(output.offset + output.bytes / 2, output.bytes / 2), to_bf16(want));
  EXPECT_EQ(Checkpoint::open(path)->bytes_to_read(output.name, {0, 16, 16, 32}), output.bytes / 2);
}

TEST(Hdf5, QuantisedModelHasTheValuesThatAutoComputesWith) {
  const fs::path source = "tests/data/golden/gguf_q4_1/model.gguf";
  const TempDirectory directory;
  const fs::path path = directory.path() / "model.h5";
  convert(source, path);
  const auto gguf = Checkpoint::open(source);
  const auto hdf5 = Checkpoint::open(path);
  ASSERT_EQ(gguf->preferred_dtype(), DType::kBFloat16);
  EXPECT_EQ(hdf5->preferred_dtype(), DType::kBFloat16);
  ASSERT_EQ(hdf5->tensors().size(), gguf->tensors().size());
  for (std::size_t i = 0; i < gguf->tensors().size(); ++i) {
    const TensorInfo& info = gguf->tensors()[i];
    std::vector<float> want = values(*gguf, info);
    if (info.rows > 1) {
      for (float& value : want) value = round_to_bf16(value);
    }
    EXPECT_EQ(values(*hdf5, hdf5->tensors()[i]), want) << info.name;
  }
  EXPECT_EQ(hdf5->config().architecture, gguf->config().architecture);
  EXPECT_EQ(hdf5->config().tied_head, gguf->config().tied_head);
  EXPECT_EQ(hdf5->config().rope.theta, gguf->config().rope.theta);
  EXPECT_EQ(Tokenizer::load(path)->fingerprint(), Tokenizer::load(source)->fingerprint());

  convert(source, directory.path() / "f32.h5", DType::kFloat32);
  const auto exact = Checkpoint::open(directory.path() / "f32.h5");
  EXPECT_EQ(exact->preferred_dtype(), DType::kFloat32);
  for (std::size_t i = 0; i < gguf->tensors().size(); ++i) {
    EXPECT_EQ(values(*exact, exact->tensors()[i]), values(*gguf, gguf->tensors()[i]));
  }
}

TEST(Hdf5, TensorsThatTheConfigurationIsMadeFromAreKept) {
  const TempDirectory directory;
  GgufWriter writer = tiny_gguf({.attention_bias = true});
  writer.add(make_tensor("rope_freqs.weight", "F32", {2}, {1.0F, 8.0F}));
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  convert(directory.path() / "tiny.gguf", directory.path() / "tiny.h5");
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.h5");
  EXPECT_EQ(checkpoint->config().rope.frequency_divisors, (std::vector<float>{1.0F, 8.0F}));
  EXPECT_TRUE(checkpoint->config().qkv_bias);
  EXPECT_FALSE(checkpoint->config().mlp_bias);

  // Once more, from a checkpoint.
  convert(directory.path() / "tiny.h5", directory.path() / "again.h5");
  const auto again = Checkpoint::open(directory.path() / "again.h5");
  EXPECT_EQ(again->config().rope.frequency_divisors, (std::vector<float>{1.0F, 8.0F}));
  // config.json has no such divisors, but a scaling that comes to the same.
  convert_to_hugging_face(*again, directory.path() / "back", {});
  const auto back = Checkpoint::open(directory.path() / "back");
  EXPECT_EQ(back->config().rope.long_divisors, (std::vector<float>{1.0F, 8.0F}));
  EXPECT_EQ(back->config().rope.short_divisors, (std::vector<float>{1.0F, 8.0F}));
  EXPECT_EQ(back->config().rope.attention_factor, 1.0);
}

TEST(Hdf5, WhatNoConfigJsonCanSayIsNotWritten) {
  const TempDirectory directory;
  TinyLlama plain = kTiny;
  plain.attention_bias = false;
  GgufWriter writer = tiny_gguf(plain);
  // Biases of one product alone.
  for (int layer = 0; layer < kTiny.num_layers; ++layer) {
    writer.add(make_tensor("blk." + std::to_string(layer) + ".attn_output.bias", "F32",
                           {kTiny.hidden_size},
                           std::vector<float>(static_cast<std::size_t>(kTiny.hidden_size), 1.0F)));
  }
  write_file(directory.path() / "tiny.gguf", writer.bytes());
  const auto model = Checkpoint::open(directory.path() / "tiny.gguf");
  try {
    convert_to_hugging_face(*model, directory.path() / "back", {});
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("cannot say"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(fs::exists(directory.path() / "back"));
  EXPECT_FALSE(fs::exists(directory.path() / "back.partial"));
}

TEST(Hdf5, SplitGgufBecomesOneFile) {
  const TempDirectory directory;
  const std::vector<FileTensor> tensors = tiny_gguf(kTiny).tensors();
  for (int file = 0; file < 2; ++file) {
    GgufWriter part = file == 0 ? tiny_gguf(kTiny) : GgufWriter();
    part.tensors().clear();
    part.set_u16("split.no", static_cast<std::uint16_t>(file)).set_u16("split.count", 2);
    part.set_i32("split.tensors.count", static_cast<std::int32_t>(tensors.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (static_cast<int>(i % 2) == file) part.add(tensors[i]);
    }
    write_file(directory.path() / ("tiny-0000" + std::to_string(file + 1) + "-of-00002.gguf"),
               part.bytes());
  }
  convert(directory.path() / "tiny-00001-of-00002.gguf", directory.path() / "tiny.h5");
  const auto checkpoint = Checkpoint::open(directory.path() / "tiny.h5");
  EXPECT_EQ(checkpoint->companion_files().size(), 2U);
  for (const TensorInfo& info : checkpoint->tensors()) {
    EXPECT_EQ(values(*checkpoint, info).back(),
              tiny_value(info.name, info.rows - 1, info.cols - 1));
  }
}

TEST(Hdf5, TokenizerAndTemplatesAreReadFromTheCheckpoint) {
  const fs::path source = "tests/data/golden/rope_linear";
  const TempDirectory directory;
  const fs::path path = directory.path() / "model.h5";
  convert(source, path);
  const auto inside = Tokenizer::load(path);
  const auto outside = Tokenizer::load(source);
  EXPECT_EQ(inside->fingerprint(), outside->fingerprint());
  EXPECT_EQ(inside->chat_templates().size(), outside->chat_templates().size());
  EXPECT_EQ(Checkpoint::open(path)->generation_config(),
            Checkpoint::open(source)->generation_config());
}

TEST(Hdf5, SameModelGivesTheSameFile) {
  const ModelDirectory directory(kTiny);
  convert(directory.path(), directory.path() / "one.h5");
  convert(directory.path(), directory.path() / "two.h5");
  EXPECT_EQ(read_file(directory.path() / "one.h5"), read_file(directory.path() / "two.h5"));
  const auto checkpoint = Checkpoint::open(directory.path() / "one.h5");
  EXPECT_EQ(checkpoint->fingerprint(),
            Checkpoint::open(directory.path() / "two.h5")->fingerprint());
  EXPECT_TRUE(checkpoint->damaged_tensors().empty());
}

TEST(Hdf5, EveryValueOf16BitsKeepsItsBits) {
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (const GgmlType type : {GgmlType::kF16, GgmlType::kBF16}) {
    std::vector<float> wide(all.size());
    stored_type(type)->to_float(reinterpret_cast<const std::byte*>(all.data()), 65536, wide.data());
    std::vector<std::uint16_t> back(all.size());
    encode(stored_type(type)->name, wide.data(), 65536, reinterpret_cast<std::byte*>(back.data()));
    EXPECT_EQ(back, all) << stored_type(type)->name;
  }
}

/// A model whose n-th read ends the process as a kill does.
class DyingCheckpoint : public ForwardingCheckpoint {
 public:
  DyingCheckpoint(std::unique_ptr<Checkpoint> model, int reads)
      : ForwardingCheckpoint(std::move(model)), reads_(reads) {}

  void read_block(std::string_view name, const TensorBlock& block, float* out) override {
    if (reads_-- == 0) _exit(9);
    ForwardingCheckpoint::read_block(name, block, out);
  }

 private:
  int reads_;
};

TEST(Hdf5, KilledConversionLeavesNothingThatLoads) {
  const ModelDirectory directory(kTiny);
  const fs::path path = directory.path() / "tiny.h5";
  int killed = 0;
  for (int reads = 0;; reads += 3) {
    const pid_t child = fork();
    if (child == 0) {
      DyingCheckpoint dying(Checkpoint::open(directory.path()), reads);
      convert_to_hdf5(dying, path, {.dtype = {}, .source = "tiny", .program = "test"}, {});
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), 9);
    ++killed;
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(fs::exists(path.string() + ".partial"));
    EXPECT_THROW(Checkpoint::open(path.string() + ".partial"), std::invalid_argument);
  }
  EXPECT_GT(killed, 5);
  EXPECT_FALSE(fs::exists(path.string() + ".partial")) << "the run that came through took it over";
  EXPECT_TRUE(Checkpoint::open(path)->damaged_tensors().empty());
}

// The way back, too: until all is there, nothing has the directory's name, and what has another one
// is no model.
TEST(Hdf5, KilledConversionToADirectoryLeavesNothingThatLoads) {
  const TempDirectory directory;
  const fs::path source = directory.path() / "source";
  fs::create_directories(source);
  write_hugging_face(source, kTiny);
  const fs::path path = directory.path() / "back";
  int killed = 0;
  for (int reads = 0;; reads += 3) {
    const pid_t child = fork();
    if (child == 0) {
      DyingCheckpoint dying(Checkpoint::open(source), reads);
      convert_to_hugging_face(dying, path, {});
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), 9);
    ++killed;
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(fs::exists(path.string() + ".partial"));
    EXPECT_THROW(Checkpoint::open(path.string() + ".partial"), std::invalid_argument);
  }
  EXPECT_GT(killed, 5);
  EXPECT_FALSE(fs::exists(path.string() + ".partial")) << "the run that came through took it over";
  EXPECT_EQ(Checkpoint::open(path)->tensors().size(), Checkpoint::open(source)->tensors().size());
}

TEST(Hdf5, TwoProgramsDoNotWriteTheSameFile) {
  const ModelDirectory directory(kTiny);
  const PartialFile other(directory.path() / "tiny.h5");
  try {
    convert(directory.path(), directory.path() / "tiny.h5");
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("another program is writing it"), std::string::npos);
  }
}

}  // namespace
}  // namespace headrace
