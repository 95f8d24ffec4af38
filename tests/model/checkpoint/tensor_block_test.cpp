#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

// Bits, so that a block that holds a NaN is compared too.
std::vector<std::uint32_t> bits(Checkpoint& checkpoint, const std::string& name,
                                const TensorBlock& block) {
  const std::int64_t count = (block.row_end - block.row_begin) * (block.col_end - block.col_begin);
  std::vector<std::uint32_t> values(static_cast<std::size_t>(count) + 1, 0xdeadbeefU);
  checkpoint.read_block(name, block, reinterpret_cast<float*>(values.data()));
  EXPECT_EQ(values.back(), 0xdeadbeefU) << name << ": wrote behind the block";
  values.pop_back();
  return values;
}

// Cuts of [0, length): whole, first, last, and places that no block or head respects.
std::vector<std::pair<std::int64_t, std::int64_t>> cuts(std::int64_t length) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all{
      {0, length}, {0, 1}, {length - 1, length}, {length / 2, length / 2}};
  if (length > 4) all.insert(all.end(), {{1, length - 1}, {length / 3, length / 2 + 1}});
  if (length > 64) all.insert(all.end(), {{31, 33}, {32, 64}, {40, length - 7}});
  return all;
}

// Every block of every tensor is what the whole tensor has there.
void expect_blocks_of_the_whole(Checkpoint& checkpoint) {
  for (const TensorInfo& info : checkpoint.tensors()) {
    const auto whole = bits(checkpoint, info.name, {0, info.rows, 0, info.cols});
    for (const auto& [row_begin, row_end] : cuts(info.rows)) {
      for (const auto& [col_begin, col_end] : cuts(info.cols)) {
        if (row_begin > row_end || col_begin > col_end) continue;
        const TensorBlock block{row_begin, row_end, col_begin, col_end};
        std::vector<std::uint32_t> want;
        for (std::int64_t row = row_begin; row < row_end; ++row) {
          const auto at = whole.begin() + row * info.cols;
          want.insert(want.end(), at + col_begin, at + col_end);
        }
        ASSERT_EQ(bits(checkpoint, info.name, block), want)
            << info.name << " [" << row_begin << ", " << row_end << ") x [" << col_begin << ", "
            << col_end << ")";
      }
    }
  }
}

TEST(TensorBlock, IsWhatTheWholeTensorHasThere) {
  const TinyLlama tiny{.head_dim = 8, .tied_head = false, .attention_bias = true, .mlp_bias = true};
  const TempDirectory directory;
  for (const char* type : {"F32", "F16", "BF16"}) {
    write_hugging_face(directory.path(), tiny, type);
    expect_blocks_of_the_whole(*Checkpoint::open(directory.path()));
    write_file(directory.path() / "tiny.gguf", tiny_gguf(tiny, type).bytes());
    expect_blocks_of_the_whole(*Checkpoint::open(directory.path() / "tiny.gguf"));
  }
}

struct BlockType {
  const char* number;  // ggml's
  std::int64_t values;
  std::int64_t bytes;
};

// Gives every matrix random blocks of the type.
void quantise(const BlockType& type, GgufWriter& writer) {
  std::mt19937 random(7);
  for (FileTensor& tensor : writer.tensors()) {
    if (tensor.shape.size() != 2) continue;
    tensor.type = type.number;
    tensor.data.resize(
        static_cast<std::size_t>(tensor.shape[0] * tensor.shape[1] / type.values * type.bytes));
    for (char& byte : tensor.data) byte = static_cast<char>(random());
  }
}

TEST(TensorBlock, MayCutQuantisedBlocksAndInterleavedHeads) {
  const TinyLlama tiny{.num_layers = 1,
                       .hidden_size = 512,
                       .num_heads = 4,
                       .num_kv_heads = 2,
                       .head_dim = 64,
                       .intermediate_size = 256,
                       .vocab_size = 24};
  for (const BlockType& type : {BlockType{"3", 32, 20},      // Q4_1
                                BlockType{"8", 32, 34},      // Q8_0
                                BlockType{"14", 256, 210},   // Q6_K
                                BlockType{"12", 256, 144}})  // Q4_K
  {
    GgufWriter writer = tiny_gguf(tiny, "F32");
    quantise(type, writer);
    const TempDirectory directory;
    write_file(directory.path() / "tiny.gguf", writer.bytes());
    expect_blocks_of_the_whole(*Checkpoint::open(directory.path() / "tiny.gguf"));
  }
}

// Gaps of 12 to 16 KiB between the wanted parts of rows of 16 KiB, and rows of more than one read.
TEST(TensorBlock, IsFoundWhereRowsAreLong) {
  const TinyLlama tiny{.num_layers = 1,
                       .hidden_size = 300,
                       .num_heads = 4,
                       .head_dim = 4,
                       .intermediate_size = 4096};
  const TempDirectory directory;
  write_hugging_face(directory.path(), tiny, "F32");
  const auto checkpoint = Checkpoint::open(directory.path());
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  for (const TensorBlock& block :
       {TensorBlock{0, 300, 1001, 2003}, TensorBlock{17, 290, 4095, 4096},
        TensorBlock{0, 300, 1, 4095}, TensorBlock{299, 300, 0, 7}}) {
    std::vector<float> values(static_cast<std::size_t>((block.row_end - block.row_begin) *
                                                       (block.col_end - block.col_begin)));
    checkpoint->read_block(name, block, values.data());
    std::size_t i = 0;
    for (std::int64_t row = block.row_begin; row < block.row_end; ++row) {
      for (std::int64_t col = block.col_begin; col < block.col_end; ++col) {
        ASSERT_EQ(values[i++], tiny_value(name, row, col)) << row << ", " << col;
      }
    }
  }
}

// The last tensor of the file loses the second half of its last row after it was opened.
TEST(TensorBlock, DoesNotNeedBytesBehindItsLastColumn) {
  const TempDirectory directory;
  write_hugging_face(directory.path(), {.tied_head = false}, "F32");
  const auto checkpoint = Checkpoint::open(directory.path());
  const auto path = directory.path() / "model.safetensors";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 8 * sizeof(float));
  std::vector<float> values(24 * 16);
  checkpoint->read_block("lm_head.weight", {0, 24, 2, 8}, values.data());
  EXPECT_EQ(values[23 * 6], tiny_value("lm_head.weight", 23, 2));
  EXPECT_THROW(checkpoint->read_block("lm_head.weight", {0, 24, 2, 9}, values.data()),
               std::runtime_error);
}

// Columns of short rows are read with what lies between; of long rows the gap is left out.
TEST(TensorBlock, SaysHowManyBytesItTakes) {
  const TinyLlama tiny{.num_layers = 1, .num_heads = 4, .head_dim = 4, .intermediate_size = 4096};
  const TempDirectory directory;
  write_hugging_face(directory.path(), tiny, "F32");
  const auto checkpoint = Checkpoint::open(directory.path());
  const std::string down = "model.layers.0.mlp.down_proj.weight";  // [16, 4096]
  EXPECT_EQ(checkpoint->bytes_to_read(down, {2, 5, 0, 4096}), 3U * 4096 * 4);
  EXPECT_EQ(checkpoint->bytes_to_read(down, {0, 16, 0, 2048}), 16U * 2048 * 4);
  EXPECT_EQ(checkpoint->bytes_to_read(down, {0, 16, 0, 2049}), 15U * 4096 * 4 + 2049 * 4);
  const std::string embedding = "model.embed_tokens.weight";  // [24, 16]
  EXPECT_EQ(checkpoint->bytes_to_read(embedding, {0, 24, 4, 8}), 23U * 16 * 4 + 4 * 4);
  EXPECT_EQ(checkpoint->bytes_to_read(embedding, {7, 7, 0, 16}), 0U);
}

TEST(TensorBlock, OutsideATensorIsAProgrammingError) {
  const TempDirectory directory;
  write_hugging_face(directory.path());
  const auto checkpoint = Checkpoint::open(directory.path());
  float out = 0;
  for (const TensorBlock& block :
       {TensorBlock{0, 25, 0, 1}, TensorBlock{-1, 0, 0, 1}, TensorBlock{0, 1, 0, 17},
        TensorBlock{0, 1, -1, 0}, TensorBlock{0, 1, 2, 1}, TensorBlock{2, 1, 0, 1}}) {
    EXPECT_THROW(checkpoint->read_block("model.embed_tokens.weight", block, &out),
                 std::out_of_range);
  }
  EXPECT_THROW(checkpoint->read_block("no.such.tensor", {0, 0, 0, 0}, &out), std::out_of_range);
}

}  // namespace
}  // namespace headrace
