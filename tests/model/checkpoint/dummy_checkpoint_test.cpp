#include "model/checkpoint/dummy_checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/numeric.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

// A directory with nothing but config.json.
std::unique_ptr<Checkpoint> dummy(const TempDirectory& directory, const TinyLlama& model) {
  write_file(directory.path() / "config.json", config_text(tiny_config(model)));
  return open_dummy(directory.path());
}

std::vector<float> block_of(Checkpoint& checkpoint, const std::string& name,
                            const TensorBlock& block) {
  std::vector<float> out(static_cast<std::size_t>((block.row_end - block.row_begin) *
                                                  (block.col_end - block.col_begin)));
  checkpoint.read_block(name, block, out.data());
  return out;
}

constexpr TinyLlama kTiny{.hidden_size = 64,
                          .num_heads = 4,
                          .head_dim = 16,
                          .intermediate_size = 96,
                          .vocab_size = 400,
                          .tied_head = false,
                          .attention_bias = true};

TEST(DummyCheckpoint, NeedsNoWeights) {
  const TempDirectory directory;
  const auto checkpoint = dummy(directory, kTiny);
  EXPECT_EQ(checkpoint->format(), "dummy, 0 files");
  EXPECT_EQ(checkpoint->preferred_dtype(), DType::kBFloat16);
  EXPECT_EQ(checkpoint->config().hidden_size, 64);
  write_hugging_face(directory.path(), kTiny);
  const auto real = Checkpoint::open(directory.path());
  ASSERT_EQ(checkpoint->tensors().size(), real->tensors().size());
  for (std::size_t i = 0; i < real->tensors().size(); ++i) {
    EXPECT_EQ(checkpoint->tensors()[i].name, real->tensors()[i].name);
    EXPECT_EQ(checkpoint->tensors()[i].rows, real->tensors()[i].rows);
    EXPECT_EQ(checkpoint->tensors()[i].cols, real->tensors()[i].cols);
  }
}

TEST(DummyCheckpoint, TakesTheConfigurationOfOtherFormats) {
  const TempDirectory directory;
  write_file(directory.path() / "tiny.gguf", tiny_gguf(kTiny).bytes());
  const auto from_gguf = open_dummy(directory.path() / "tiny.gguf");
  const auto from_config = dummy(directory, kTiny);
  EXPECT_EQ(from_gguf->fingerprint(), from_config->fingerprint());
}

TEST(DummyCheckpoint, BlocksAreThoseOfTheWholeTensorInEveryRun) {
  const TempDirectory directory;
  const auto one = dummy(directory, kTiny);
  const auto two = dummy(directory, kTiny);
  for (const TensorInfo& info : one->tensors()) {
    const std::vector<float> whole = block_of(*one, info.name, {0, info.rows, 0, info.cols});
    const TensorBlock part{info.rows / 2, info.rows, info.cols / 3, info.cols - 1};
    const std::vector<float> values = block_of(*two, info.name, part);
    std::size_t i = 0;
    for (std::int64_t row = part.row_begin; row < part.row_end; ++row) {
      for (std::int64_t col = part.col_begin; col < part.col_end; ++col) {
        ASSERT_EQ(values[i++], whole[static_cast<std::size_t>(row * info.cols + col)]);
      }
    }
  }
}

TEST(DummyCheckpoint, WhoeverDrawsABlockGetsWhatIsReadOfIt) {
  const TempDirectory directory;
  const auto checkpoint = dummy(directory, kTiny);
  const TensorBlock block{3, 9, 5, 21};
  const std::vector<float> read = block_of(*checkpoint, "model.layers.1.mlp.up_proj.weight", block);
  const auto rows = checkpoint->random_rows("model.layers.1.mlp.up_proj.weight", block);
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->rows, 6);
  for (std::uint64_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(rows->values(rows->first + i / 16 * rows->stride + i % 16), read[i]);
  }
}

// Written down once: another run of this program, on another machine, must see the same weights.
TEST(DummyCheckpoint, ValuesAreFixedForEver) {
  const TempDirectory directory;
  const auto checkpoint = dummy(directory, kTiny);
  const std::vector<float> head =
      block_of(*checkpoint, "model.layers.1.mlp.up_proj.weight", {5, 6, 0, 4});
  EXPECT_EQ(head,
            (std::vector<float>{-0.00601196289F, -0.0281982422F, 0.0295410156F, -0.0927734375F}));
}

TEST(DummyCheckpoint, MagnitudesKeepTheVarianceOfWhatPassesThrough) {
  const TempDirectory directory;
  const auto checkpoint = dummy(directory, kTiny);
  for (const TensorInfo& info : checkpoint->tensors()) {
    const std::vector<float> values =
        block_of(*checkpoint, info.name, {0, info.rows, 0, info.cols});
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      ASSERT_EQ(value, round_to_bf16(value));
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const double count = static_cast<double>(values.size());
    if (info.rows > 1) {
      EXPECT_NEAR(squares / count * static_cast<double>(info.cols), 1.0, 0.1) << info.name;
      EXPECT_NEAR(sum / count, 0.0, 0.01) << info.name;
    } else {
      EXPECT_NEAR(sum / count, info.name.ends_with(".bias") ? 0.0 : 1.0, 0.01) << info.name;
    }
  }
}

TEST(DummyCheckpoint, DirectoryWithoutConfigurationIsRefused) {
  const TempDirectory directory;
  EXPECT_THROW(open_dummy(directory.path()), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
