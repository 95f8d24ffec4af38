// What the host queues on the GPU for a step: the count that ARCHITECTURE.md's choice of plain
// launches over captured graphs rests on.
#include <gtest/gtest.h>

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
    const Queued after = now();
    return {after.kernels - before.kernels, after.copies - before.copies};
  }

 private:
  static Queued now() {
    return {emulator::num_launches() + fake_cuda::num_calls("cublasLtMatmul"),
            fake_cuda::num_calls("cudaMemcpyAsync")};
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

}  // namespace
}  // namespace headrace
