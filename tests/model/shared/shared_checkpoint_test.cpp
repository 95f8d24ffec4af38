#include "model/shared_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them

constexpr TinyLlama kTiny{.num_layers = 3,
                          .hidden_size = 16,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 8,
                          .intermediate_size = 72,
                          .vocab_size = 41,
                          .tied_head = true,
                          .attention_bias = true};

// So small that each tensor takes several rounds.
const SharingOptions kSizes{.round = 200, .band = 60};
const SharingOptions kByMessages{.round = 200, .band = 60, .messages_only = true};

Communicator everybody() {
  return Communicator::duplicate(MPI_COMM_WORLD);
}

/// A layout over the ranks of this test: data x pipeline x tensor, tensor fastest.
struct Layout {
  int pipeline;
  int tensor;

  StagePart part(int rank, int num_layers) const {
    const int stage = rank / tensor % pipeline;
    return {.begin_layer = num_layers * stage / pipeline,
            .end_layer = num_layers * (stage + 1) / pipeline,
            .embedding = stage == 0,
            .head = stage == pipeline - 1,
            .tensor_rank = rank % tensor,
            .tensor_size = tensor};
  }
};

std::vector<std::vector<WeightSource>> wanted_by_all(const ModelConfig& config,
                                                     const Layout& layout, int num_ranks) {
  std::vector<std::vector<WeightSource>> wanted;
  for (int rank = 0; rank < num_ranks; ++rank) {
    wanted.push_back(all_sources(part_sources(config, layout.part(rank, config.num_layers))));
  }
  return wanted;
}

// Reads a block in pieces of a few rows, and compares each value with the model's.
void expect_block(Checkpoint& checkpoint, const WeightSource& source, int piece) {
  TensorBlock block = source.block;
  const std::int64_t cols = source.cols();
  for (std::int64_t row = source.block.row_begin; row < source.block.row_end; row += piece) {
    block.row_begin = row;
    block.row_end = std::min(row + piece, source.block.row_end);
    std::vector<float> values(static_cast<std::size_t>((block.row_end - row) * cols));
    checkpoint.read_block(source.name, block, values.data());
    std::size_t i = 0;
    for (std::int64_t r = row; r < block.row_end; ++r) {
      for (std::int64_t c = block.col_begin; c < block.col_end; ++c) {
        ASSERT_EQ(values[i++], tiny_value(source.name, r, c)) << source.name << " " << r;
      }
    }
  }
}

constexpr std::int32_t kSlice = 5;

std::vector<std::int32_t> bounds_of(std::int64_t cols) {
  std::vector<std::int32_t> bounds{0};
  while (bounds.back() < cols) {
    bounds.push_back(std::min(bounds.back() + kSlice, static_cast<std::int32_t>(cols)));
  }
  return bounds;
}

/// The model's matrices as integers, in slices of kSlice columns, and everything else as it is.
class IntegerCheckpoint : public Checkpoint {
 public:
  explicit IntegerCheckpoint(Checkpoint& plain) : plain_(plain), infos_(plain.tensors()) {
    for (TensorInfo& info : infos_) {
      if (info.rows > 1) info.quantization = Quantization::kInt4;
    }
  }

  static int integer(std::int64_t row, std::int64_t col) {
    return static_cast<int>((row * 7 + col * 3) % 16) - 8;
  }
  static float scale(std::int64_t row, std::int64_t slice) {
    return static_cast<float>(row) + static_cast<float>(slice) / 64.0F;
  }
  static int zero(std::int64_t row, std::int64_t slice) {
    return static_cast<int>((row + slice) % 200);
  }

  void read_integers(std::string_view /*name*/, const TensorBlock& block,
                     std::span<const std::int32_t> bounds, IntegerBlock& out) override {
    out.resize(block.row_end - block.row_begin, bounds, Quantization::kInt4);
    const std::int64_t units = std::ssize(out.units);
    for (std::int64_t i = 0; i < out.rows * out.cols; ++i) {
      out.integers[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(
          integer(block.row_begin + i / out.cols, block.col_begin + i % out.cols));
    }
    for (std::int64_t i = 0; i < out.rows * units; ++i) {
      const auto at = static_cast<std::size_t>(i);
      out.scales[at] = scale(block.row_begin + i / units, block.col_begin + i % units);
      out.zeros[at] =
          static_cast<std::uint8_t>(zero(block.row_begin + i / units, block.col_begin + i % units));
    }
  }

  void read_block(std::string_view name, const TensorBlock& block, float* out) override {
    plain_.read_block(name, block, out);
  }
  std::uint64_t bytes_to_read(std::string_view name, const TensorBlock& block) const override {
    return plain_.bytes_to_read(name, block);
  }
  const ModelConfig& config() const override { return plain_.config(); }
  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  bool has(std::string_view name) const override { return plain_.has(name); }
  DType preferred_dtype() const override { return plain_.preferred_dtype(); }
  std::string fingerprint() const override { return plain_.fingerprint(); }
  std::string format() const override { return plain_.format(); }
  std::vector<std::string> damaged_tensors() override { return plain_.damaged_tensors(); }
  std::vector<ModelFile> companion_files() const override { return plain_.companion_files(); }
  std::string generation_config() const override { return plain_.generation_config(); }

 private:
  Checkpoint& plain_;
  std::vector<TensorInfo> infos_;
};

// Reads a block of integers in pieces of a few rows, and compares each with what was made.
void expect_integers(Checkpoint& checkpoint, const WeightSource& source, int piece) {
  const std::vector<std::int32_t> bounds = bounds_of(source.cols());
  IntegerBlock found;
  TensorBlock block = source.block;
  for (std::int64_t row = source.block.row_begin; row < source.block.row_end; row += piece) {
    block.row_begin = row;
    block.row_end = std::min(row + piece, source.block.row_end);
    checkpoint.read_integers(source.name, block, bounds, found);
    ASSERT_EQ(found.rows, block.row_end - row);
    const std::int64_t units = std::ssize(found.units);
    for (std::int64_t i = 0; i < found.rows * found.cols; ++i) {
      ASSERT_EQ(found.integers[static_cast<std::size_t>(i)],
                IntegerCheckpoint::integer(row + i / found.cols, block.col_begin + i % found.cols))
          << source.name;
    }
    for (std::int64_t i = 0; i < found.rows * units; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t slice = block.col_begin + i % units;
      ASSERT_EQ(found.scales[at], IntegerCheckpoint::scale(row + i / units, slice));
      ASSERT_EQ(found.zeros[at], IntegerCheckpoint::zero(row + i / units, slice));
    }
  }
}

std::int64_t sum(const Communicator& ranks, std::uint64_t value) {
  const auto all = ranks.all_gather(static_cast<std::int64_t>(value));
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

TEST(SharedCheckpoint, EveryRankGetsItsBlocksWhateverTheLayout) {
  const Communicator ranks = everybody();
  const int n = ranks.size();
  const TempDirectory directory;  // of this rank alone: they need not even share a file system
  for (const char* type : {"BF16", "F32", "F16"}) {
    write_hugging_face(directory.path(), kTiny, type);
    const auto own = Checkpoint::open(directory.path());
    std::vector<Layout> layouts{{1, 1}, {n, 1}};
    if (n % 2 == 0) layouts.insert(layouts.end(), {{1, 2}, {n / 2, 2}, {2, 1}});
    for (const Layout& layout : layouts) {
      const auto wanted = wanted_by_all(own->config(), layout, n);
      for (const SharingOptions& options : {kSizes, kByMessages}) {
        SharedCheckpoint shared(*own, ranks, wanted, options);
        // Ranks may even take different pieces.
        for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
          expect_block(shared, source, 3 + ranks.rank());
        }
      }
    }
  }
}

TEST(SharedCheckpoint, ReplicasReadEachByteOnce) {
  const Communicator ranks = everybody();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  std::uint64_t all = 0;
  for (const TensorInfo& info : own->tensors()) all += info.stored_bytes;
  for (const WeightSource& source : wanted.front()) expect_block(shared, source, 5);
  EXPECT_EQ(sum(ranks, shared.bytes_read()), static_cast<std::int64_t>(all));
  if (ranks.size() > 1) {
    EXPECT_LT(shared.bytes_read(), all) << "the work is shared";
  }
}

TEST(SharedCheckpoint, IntegersAreThoseOfTheFileWhateverTheLayout) {
  const Communicator ranks = everybody();
  const int n = ranks.size();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto plain = Checkpoint::open(directory.path());
  IntegerCheckpoint own(*plain);
  std::vector<Layout> layouts{{1, 1}, {n, 1}};
  if (n % 2 == 0) layouts.insert(layouts.end(), {{1, 2}, {n / 2, 2}, {2, 1}});
  for (const Layout& layout : layouts) {
    const auto wanted = wanted_by_all(own.config(), layout, n);
    for (const SharingOptions& options : {kSizes, kByMessages}) {
      SharedCheckpoint shared(own, ranks, wanted, options);
      for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
        if (source.name.ends_with("proj.weight") || source.name.ends_with("embed_tokens.weight")) {
          expect_integers(shared, source, 3 + ranks.rank());
        } else {
          expect_block(shared, source, 3);
        }
      }
    }
  }
}

TEST(SharedCheckpoint, ReplicasReadIntegersOnce) {
  const Communicator ranks = everybody();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto plain = Checkpoint::open(directory.path());
  IntegerCheckpoint own(*plain);
  const auto wanted = wanted_by_all(own.config(), {1, 1}, ranks.size());
  SharedCheckpoint shared(own, ranks, wanted, kSizes);
  std::int64_t all = 0;
  for (const WeightSource& source : wanted.front()) {
    if (source.rows() == 1) {
      expect_block(shared, source, 1);
    } else {
      expect_integers(shared, source, 4);
    }
    all += static_cast<std::int64_t>(own.bytes_to_read(source.name, source.block));
  }
  EXPECT_EQ(sum(ranks, shared.bytes_read()), all);
}

TEST(SharedCheckpoint, IntegersThatAreReadAsValuesAreAProgrammingError) {
  const Communicator ranks = everybody();
  if (ranks.size() == 1) GTEST_SKIP() << "nothing is shared";
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto plain = Checkpoint::open(directory.path());
  IntegerCheckpoint own(*plain);
  SharedCheckpoint shared(own, ranks, wanted_by_all(own.config(), {1, 1}, ranks.size()), kSizes);
  std::vector<float> out(16);
  EXPECT_THROW(shared.read_block("model.embed_tokens.weight", {0, 1, 0, 16}, out.data()),
               std::logic_error);
}

TEST(SharedCheckpoint, BothEndsOfAPipelineShareATiedTable) {
  const Communicator ranks = everybody();
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {ranks.size(), 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  for (const WeightSource& source : wanted[static_cast<std::size_t>(ranks.rank())]) {
    expect_block(shared, source, 4);
  }
  std::int64_t all = 0;
  for (const TensorInfo& info : own->tensors()) all += static_cast<std::int64_t>(info.stored_bytes);
  EXPECT_EQ(sum(ranks, shared.bytes_read()), all);
}

TEST(SharedCheckpoint, OrdersInWhichRanksWouldWaitForEachOtherAreRefused) {
  const Communicator ranks = everybody();
  if (ranks.size() == 1) GTEST_SKIP() << "nobody to wait for";
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  std::reverse(wanted.back().begin(), wanted.back().end());
  EXPECT_THROW(SharedCheckpoint(*own, ranks, wanted, kSizes), std::logic_error);
}

TEST(SharedCheckpoint, ReadingOutOfOrderIsAProgrammingError) {
  const Communicator ranks = everybody();
  if (ranks.size() == 1) GTEST_SKIP() << "nothing is shared";
  const TempDirectory directory;
  write_hugging_face(directory.path(), kTiny);
  const auto own = Checkpoint::open(directory.path());
  const auto wanted = wanted_by_all(own->config(), {1, 1}, ranks.size());
  SharedCheckpoint shared(*own, ranks, wanted, kSizes);
  std::vector<float> out(16);
  EXPECT_THROW(shared.read_block("model.embed_tokens.weight", {1, 2, 0, 16}, out.data()),
               std::logic_error);
}

}  // namespace
}  // namespace headrace
