// What the golden tests share: a whole model in one process, cut as a run would cut it, and the
// comparison with what transformers computed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "comm/shard_exchange.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/stage_model.h"

namespace headrace::golden {

inline constexpr float kTolerance = 1e-3F;
inline constexpr int kBlockTokens = 16;

/// The goldens in a folder.
inline std::vector<std::string> golden_names(const std::filesystem::path& goldens) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(goldens)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What to open: a directory, or the GGUF file in it.
inline std::filesystem::path model_path(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "model.gguf") ? folder / "model.gguf" : folder;
}

inline constexpr int kRest = -1;

// How the work is cut; no cut may change a bit.
struct Cut {
  const char* name;
  bool reference;
  int threads;
  int chunk;                // rows of a prompt at a time
  std::vector<int> layers;  // of each stage, kRest for one that has the rest; empty: one stage
  int tensor = 1;           // ranks that share a stage, each a thread here
  DType dtype = DType::kFloat32;
};

// One rank's share of every stage.
struct Shard {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<ShardExchange> exchange;  // null where one rank has it all
  std::vector<std::unique_ptr<StageModel>> stages;
};

inline constexpr int kNumBlocks = 32;

inline Shard load_shard(const std::filesystem::path& path, const Cut& cut, int rank,
                        std::unique_ptr<ShardExchange> exchange) {
  Shard shard;
  shard.checkpoint = Checkpoint::open(path);
  shard.pool = make_thread_pool(cut.threads);
  shard.ops = cut.reference ? make_reference_ops(cut.dtype, cpu_sum_order(cut.dtype, "auto"))
                            : make_cpu_ops(cut.dtype, *shard.pool);
  shard.exchange = std::move(exchange);
  const ModelConfig& config = shard.checkpoint->config();
  std::vector<int> layers = cut.layers;
  if (layers.empty()) layers = {kRest};
  const int others = std::accumulate(layers.begin(), layers.end(), 0) - kRest;
  std::replace(layers.begin(), layers.end(), kRest, config.num_layers - others);
  int begin = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const StagePart part{.begin_layer = begin,
                         .end_layer = begin + layers[s],
                         .embedding = s == 0,
                         .head = s + 1 == layers.size(),
                         .tensor_rank = rank,
                         .tensor_size = cut.tensor};
    begin = part.end_layer;
    shard.stages.push_back(std::make_unique<StageModel>(
        config, part, load_stage_weights(*shard.checkpoint, part, *shard.ops, {}), *shard.ops,
        StageSize{.max_rows = cut.chunk,
                  .max_logit_rows = cut.chunk,
                  .max_context = kNumBlocks * kBlockTokens,
                  .num_blocks = kNumBlocks,
                  .block_tokens = kBlockTokens},
        shard.exchange.get()));
  }
  return shard;
}

// All stages and shards of a model in one process, for one sequence.
class WholeModel {
 public:
  /// max_length: tokens that prompt and completion may come to.
  WholeModel(const std::filesystem::path& path, const Cut& cut, int max_length = 0)
      : chunk_(cut.chunk), max_length_(max_length) {
    if (cut.tensor == 1) {
      shards_.push_back(load_shard(path, cut, 0, nullptr));
    } else {
      auto ends = make_thread_exchange(cut.tensor, std::size_t{1} << 20);
      for (int rank = 0; rank < cut.tensor; ++rank) {
        shards_.push_back(
            load_shard(path, cut, rank, std::move(ends[static_cast<std::size_t>(rank)])));
      }
    }
    // Blocks in an order that is not their own.
    for (int b = 0; b < kNumBlocks; ++b) blocks_.push_back((b * 7 + 3) % kNumBlocks);
  }

  /// Log-probabilities of all ids after each of these tokens, which follow those of earlier calls.
  std::vector<std::vector<float>> extend(const std::vector<TokenId>& tokens) {
    std::vector<std::vector<float>> rows;
    for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(chunk_)) {
      const std::size_t end = std::min(tokens.size(), at + static_cast<std::size_t>(chunk_));
      step(std::span(tokens).subspan(at, end - at), rows);
    }
    return rows;
  }

 private:
  void step(std::span<const TokenId> tokens, std::vector<std::vector<float>>& rows) {
    const std::size_t first = rows.size();
    rows.resize(first + tokens.size());
    const std::span<std::vector<float>> step_rows = std::span(rows).subspan(first);
    std::vector<std::jthread> others;
    for (std::size_t rank = 1; rank < shards_.size(); ++rank) {
      others.emplace_back([&, rank] { run_shard(shards_[rank], tokens, step_rows); });
    }
    run_shard(shards_[0], tokens, step_rows);
    others.clear();
    position_ += static_cast<std::int32_t>(tokens.size());
  }

  void run_shard(Shard& shard, std::span<const TokenId> tokens,
                 std::span<std::vector<float>> rows) const {
    const ModelConfig& config = shard.checkpoint->config();
    const auto num_rows = static_cast<std::int32_t>(tokens.size());
    std::vector<float> hidden(tokens.size() * static_cast<std::size_t>(config.hidden_size));
    const TensorView view{.data = reinterpret_cast<std::byte*>(hidden.data()),
                          .rows = num_rows,
                          .cols = config.hidden_size,
                          .dtype = DType::kFloat32};
    const SequenceRows sequence{.first_row = 0,
                                .num_rows = num_rows,
                                .first_position = position_,
                                .blocks = blocks_.data(),
                                .max_length = max_length_};
    const std::span<const SequenceRows> step(&sequence, 1);
    for (auto& stage : shard.stages) stage->forward(view, tokens, std::span(&step, 1));
    std::vector<std::int32_t> all(tokens.size());
    std::iota(all.begin(), all.end(), 0);
    StageModel& last = *shard.stages.back();
    const StageModel::Logits logits = last.logits(view, all);
    const IndexRange own = last.own_rows(num_rows, last.part().tensor_rank);
    for (int r = 0; r < own.size(); ++r) {
      std::vector<float> row(static_cast<std::size_t>(config.vocab_size));
      for (std::size_t id = 0; id < row.size(); ++id) {
        row[id] = logits.values.f32()[static_cast<std::size_t>(r) * row.size() + id] -
                  logits.statistics[static_cast<std::size_t>(r)].log_sum_exp;
      }
      rows[static_cast<std::size_t>(own.begin + r)] = std::move(row);
    }
  }

  std::vector<Shard> shards_;
  std::vector<std::int32_t> blocks_;
  int chunk_;
  int max_length_;
  std::int32_t position_ = 0;
};

inline TokenId best(const std::vector<float>& log_probs) {
  return static_cast<TokenId>(std::max_element(log_probs.begin(), log_probs.end()) -
                              log_probs.begin());
}

inline const Cut kPlain{"reference", true, 1, 128, {}};
inline const Cut kFast{"cpu", false, 2, 128, {}};

// Log-probabilities of the prompt and of the greedy continuation, and the continuation itself.
inline void expect_prompt(WholeModel& model, const nlohmann::json& prompt) {
  const auto ids = prompt.at("ids").get<std::vector<TokenId>>();
  const std::vector<std::vector<float>> rows = model.extend(ids);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    ASSERT_NEAR(rows[i - 1][static_cast<std::size_t>(ids[i])],
                prompt.at("log_probs")[i].get<float>(), kTolerance)
        << "prompt of " << ids.size() << " tokens, position " << i;
  }
  for (std::size_t i = 0; prompt.contains("top5_ids") && i < ids.size(); ++i) {
    for (std::size_t k = 0; k < 5; ++k) {
      const auto id = prompt.at("top5_ids")[i][k].get<std::size_t>();
      ASSERT_NEAR(rows[i][id], prompt.at("top5_log_probs")[i][k].get<float>(), kTolerance);
    }
  }
  const nlohmann::json& greedy = prompt.at("greedy");
  std::vector<float> last = rows.back();
  for (std::size_t step = 0; step < greedy.at("ids").size(); ++step) {
    if (!greedy.at("tie_at").is_null() && step >= greedy.at("tie_at").get<std::size_t>()) break;
    const TokenId token = best(last);
    ASSERT_EQ(token, greedy.at("ids")[step].get<TokenId>()) << "step " << step;
    ASSERT_NEAR(last[static_cast<std::size_t>(token)], greedy.at("log_probs")[step].get<float>(),
                kTolerance);
    last = model.extend({token})[0];
  }
}

}  // namespace headrace::golden
