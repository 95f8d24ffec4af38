// What the host queues on the GPU for a step: the count that ARCHITECTURE.md's choice of plain
// launches over captured graphs rests on; and what of the logits comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/cuda_backend.h"
#include "model/checkpoint/dummy_checkpoint.h"
#include "model/stage_model.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace headrace {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kMostRows = 64;

/// A whole Llama with drawn weights on the fake GPU.
class Model {
 public:
  Model() {
    ops_ = make_cuda_ops({.compute_dtype = DType::kBFloat16});
    const auto checkpoint = open_dummy("tests/data/golden/gqa_tied");
    config_ = checkpoint->config();
    const StagePart part{
        .begin_layer = 0, .end_layer = config_.num_layers, .embedding = true, .head = true};
    model_ = std::make_unique<StageModel>(config_, part,
                                          load_stage_weights(*checkpoint, part, *ops_, {}), *ops_,
                                          StageSize{.max_rows = kMostRows,
                                                    .max_logit_rows = kMostRows,
                                                    .max_context = 8 * kBlockTokens,
                                                    .num_blocks = 8,
                                                    .num_swap_blocks = 6,
                                                    .block_tokens = kBlockTokens});
    const auto hidden = static_cast<std::size_t>(config_.hidden_size);
    hidden_ = ops_->arena().take(kMostRows * hidden * sizeof(float));
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  int num_layers() const { return config_.num_layers; }

  /// Calls that queue a kernel or a copy, for one step of a sequence's rows, without its logits.
  struct Queued {
    std::int64_t kernels = 0;
    std::int64_t copies = 0;
  };
  Queued step(int first_position, int num_rows) {
    const std::vector<TokenId> tokens(static_cast<std::size_t>(num_rows), 5);
    const SequenceRows sequence{
        .num_rows = num_rows, .first_position = first_position, .blocks = blocks_.data()};
    const std::span<const SequenceRows> rows(&sequence, 1);
    const Queued before = now();
    model_->forward({hidden_, num_rows, config_.hidden_size, DType::kFloat32}, tokens, {&rows, 1});
    return since(before);
  }

  /// Likewise for blocks that go to host memory, or come back.
  Queued save(std::span<const BlockSwap> blocks) {
    const Queued before = now();
    model_->save_blocks(blocks);
    return since(before);
  }
  Queued restore(std::span<const BlockSwap> blocks) {
    const Queued before = now();
    model_->restore_blocks(blocks);
    return since(before);
  }

  /// Of rows of the last step.
  StageModel::Logits logits(std::span<const std::int32_t> rows,
                            std::span<const float> temperatures) {
    return model_->logits({hidden_, kMostRows, config_.hidden_size, DType::kFloat32}, rows,
                          temperatures);
  }
  void bring_logits(IndexRange rows) { model_->bring_logits(rows); }

 private:
  static Queued now() {
    return {emulator::num_launches() + fake_cuda::num_calls("cublasLtMatmul"),
            fake_cuda::num_calls("cudaMemcpyAsync")};
  }
  static Queued since(const Queued& before) {
    const Queued after = now();
    return {after.kernels - before.kernels, after.copies - before.copies};
  }

  std::unique_ptr<Ops> ops_;
  ModelConfig config_;
  std::unique_ptr<StageModel> model_;
  std::byte* hidden_ = nullptr;
  std::array<std::int32_t, 8> blocks_{};
};

// Norm, queries with keys and values, rotation, attention, output; norm, gates with ups,
// activation, down. Then one for the embedding.
TEST(StepOnAGpu, OfALlamaIsNineLaunchesALayer) {
  Model model;
  EXPECT_EQ(model.step(0, 40).kernels, 9 * model.num_layers() + 1);
  EXPECT_EQ(model.step(40, 1).kernels, 9 * model.num_layers() + 1);
}

// Ids, and the step's image with the work of attention and without: whatever the number of layers.
TEST(StepOnAGpu, NeedsThreeSmallCopiesToIt) {
  Model model;
  EXPECT_EQ(model.step(0, 40).copies, 3);
  EXPECT_EQ(model.step(40, 1).copies, 3);
}

// One kernel whatever the number of layers, and a copy for swap blocks in a row. Nothing waits, and
// nothing is taken of the device or the host.
TEST(SwapOnAGpu, IsALaunchAndACopyThatNothingWaitsFor) {
  Model model;
  model.step(0, 40);
  const auto waits = [] {
    return fake_cuda::num_calls("cudaEventQuery") + fake_cuda::num_calls("cudaEventSynchronize") +
           fake_cuda::num_calls("cudaStreamSynchronize");
  };
  const int waited = waits();
  const int allocations = fake_cuda::num_allocations();
  const std::array<BlockSwap, 3> in_a_row{{{2, 1}, {0, 2}, {7, 3}}};
  EXPECT_EQ(model.save(in_a_row).kernels, 1);
  EXPECT_EQ(model.save(in_a_row).copies, 1);
  EXPECT_EQ(model.restore(in_a_row).kernels, 1);
  EXPECT_EQ(model.restore(in_a_row).copies, 1);
  const std::array<BlockSwap, 3> apart{{{2, 5}, {0, 2}, {7, 4}}};
  EXPECT_EQ(model.save(apart).copies, 3);
  EXPECT_EQ(waits(), waited);
  EXPECT_EQ(fake_cuda::num_allocations(), allocations);
}

std::vector<float> values_of(const StageModel::Logits& logits) {
  const float* values = logits.values.f32();
  return {values, values + logits.values.rows * logits.values.cols};
}

// Where every row has its leaders, none comes to the host but those that are asked for.
TEST(LogitsOnAGpu, StayThereWhereLeadersAreWanted) {
  Model model;
  model.step(0, 40);
  const std::array<std::int32_t, 5> rows{3, 4, 17, 20, 39};
  const StageModel::Logits whole = model.logits(rows, {});
  EXPECT_TRUE(whole.leaders.empty());
  const std::vector<float> expected = values_of(whole);
  const auto cols = static_cast<std::size_t>(whole.values.cols);

  constexpr float kUntouched = 12345.0F;
  std::fill_n(whole.values.f32(), expected.size(), kUntouched);
  const std::array<float, 5> temperatures{1.0F, 0.0F, 0.5F, 0.0F, 2.0F};
  const StageModel::Logits logits = model.logits(rows, temperatures);
  ASSERT_EQ(logits.leaders.size(), rows.size());
  EXPECT_EQ(values_of(logits), std::vector<float>(expected.size(), kUntouched));
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(logits.leaders[row].leading.empty(), temperatures[row] == 0.0F) << row;
    for (const LeadingLogit& leader : logits.leaders[row].leading) {
      EXPECT_EQ(leader.logit, expected[row * cols + static_cast<std::size_t>(leader.id)]);
    }
  }

  model.bring_logits({1, 3});
  std::vector<float> some(expected.size(), kUntouched);
  std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(cols), 2 * cols,
              some.begin() + static_cast<std::ptrdiff_t>(cols));
  EXPECT_EQ(values_of(logits), some);

  const std::array<float, 5> none{};
  EXPECT_TRUE(model.logits(rows, none).leaders.empty());
  EXPECT_EQ(values_of(logits), expected);
}

}  // namespace
}  // namespace headrace
