// The models in tests/data/golden against what Hugging Face transformers computed from them in
// float32 (make_goldens.py): log-probabilities within 1e-3, greedy tokens until the two best are a
// tie.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include <nlohmann/json.hpp>

#include "kernels/ops.h"
#include "kernels/thread_pool.h"
#include "model/checkpoint/checkpoint.h"
#include "model/stage_model.h"
#include "tests/golden/golden_models.h"

namespace headrace {
namespace {

using nlohmann::json;

constexpr float kTolerance = 1e-3F;
constexpr int kBlockTokens = 16;

constexpr int kRest = -1;

// How the work is cut; no cut may change a bit.
struct Cut {
  const char* name;
  bool reference;
  int threads;
  int chunk;                // rows of a prompt at a time
  std::vector<int> layers;  // of each stage, kRest for one that has the rest; empty: one stage
  int tensor = 1;           // ranks that share a stage, each a thread here
};

// One rank's share of every stage.
struct Shard {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<ShardExchange> exchange;  // null where one rank has it all
  std::vector<std::unique_ptr<StageModel>> stages;
};

constexpr int kNumBlocks = 32;

Shard load_shard(const std::filesystem::path& path, const Cut& cut, int rank,
                 std::unique_ptr<ShardExchange> exchange) {
  Shard shard;
  shard.checkpoint = Checkpoint::open(path);
  shard.pool = make_thread_pool(cut.threads);
  shard.ops = cut.reference ? make_reference_ops(DType::kFloat32)
                            : make_cpu_ops(DType::kFloat32, *shard.pool);
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
  WholeModel(const std::filesystem::path& path, const Cut& cut) : chunk_(cut.chunk) {
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
                                .blocks = blocks_.data()};
    for (auto& stage : shard.stages) stage->forward(view, tokens, std::span(&sequence, 1));
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
  std::int32_t position_ = 0;
};

TokenId best(const std::vector<float>& log_probs) {
  return static_cast<TokenId>(std::max_element(log_probs.begin(), log_probs.end()) -
                              log_probs.begin());
}

const Cut kPlain{"reference", true, 1, 128, {}};
const Cut kFast{"cpu", false, 2, 128, {}};

class Golden : public testing::TestWithParam<std::tuple<std::string, Cut>> {};

TEST_P(Golden, LogProbabilitiesAndGreedyTokensAreThoseOfTransformers) {
  const auto& [name, cut] = GetParam();
  const json expected = json::parse(std::ifstream(kGoldens / name / "expected.json"));
  for (const json& prompt : expected.at("prompts")) {
    const auto ids = prompt.at("ids").get<std::vector<TokenId>>();
    WholeModel model(model_path(name), cut);
    const std::vector<std::vector<float>> rows = model.extend(ids);
    for (std::size_t i = 1; i < ids.size(); ++i) {
      ASSERT_NEAR(rows[i - 1][static_cast<std::size_t>(ids[i])],
                  prompt.at("log_probs")[i].get<float>(), kTolerance)
          << name << ", prompt of " << ids.size() << " tokens, position " << i;
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      for (std::size_t k = 0; k < 5; ++k) {
        const auto id = prompt.at("top5_ids")[i][k].get<std::size_t>();
        ASSERT_NEAR(rows[i][id], prompt.at("top5_log_probs")[i][k].get<float>(), kTolerance);
      }
    }
    const json& greedy = prompt.at("greedy");
    std::vector<float> last = rows.back();
    for (std::size_t step = 0; step < greedy.at("ids").size(); ++step) {
      if (!greedy.at("tie_at").is_null() && step >= greedy.at("tie_at").get<std::size_t>()) break;
      const TokenId token = best(last);
      ASSERT_EQ(token, greedy.at("ids")[step].get<TokenId>()) << name << ", step " << step;
      ASSERT_NEAR(last[static_cast<std::size_t>(token)], greedy.at("log_probs")[step].get<float>(),
                  kTolerance);
      last = model.extend({token})[0];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Combine(testing::ValuesIn(golden_names()),
                                          testing::Values(kPlain, kFast)),
                         [](const auto& golden) {
                           return std::get<0>(golden.param) + "_" + std::get<1>(golden.param).name;
                         });

// What is announced is what is read, and the stages read everything once, but for a tied head,
// whose table both ends need.
TEST(StageWeights, ProgressCountsUpToTheStoredBytesOfThePart) {
  for (const std::string name : {"gqa_tied", "gguf_q4_1"}) {
    const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(model_path(name));
    const std::unique_ptr<Ops> ops = make_reference_ops(DType::kFloat32);
    const int layers = checkpoint->config().num_layers;
    for (const StagePart& part :
         {StagePart{0, 2, true, false}, StagePart{2, layers, false, true},
          StagePart{0, layers, true, true}, StagePart{0, layers, true, true, 0, 2},
          StagePart{0, layers, false, true, 1, 2}}) {
      std::uint64_t read = 0;
      load_stage_weights(*checkpoint, part, *ops, [&](std::uint64_t bytes) { read = bytes; });
      EXPECT_EQ(read, stage_stored_bytes(*checkpoint, part)) << name << " " << part.begin_layer;
    }
  }
}

TEST(Cuts, NoCutChangesABit) {
  const std::vector<Cut> cuts{
      {"chunks of 1", false, 1, 1, {}},
      {"chunks of 7", false, 2, 7, {}},
      {"chunks of 64", false, 1, 64, {}},
      {"stages", false, 2, 33, {1, 1, kRest}},
      {"head alone", false, 1, 128, {1, kRest, 0}},
      {"reference", true, 1, 50, {}},
      {"two shards", false, 1, 33, {}, 2},
      {"three shards", false, 1, 128, {kRest, 1}, 3},
      {"reference, two shards", true, 1, 50, {}, 2},
  };
  for (const std::string name : {"gqa_tied", "mha_biases", "gguf_q4_1"}) {
    const json expected = json::parse(std::ifstream(kGoldens / name / "expected.json"));
    const auto ids = expected.at("prompts").back().at("ids").get<std::vector<TokenId>>();
    ASSERT_GT(ids.size(), 64U);
    const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(model_path(name));
    const int most = max_tensor_parallel_size(sharded_sizes(checkpoint->config()));
    const std::vector<std::vector<float>> plain = WholeModel(model_path(name), kFast).extend(ids);
    for (const Cut& cut : cuts) {
      if (cut.tensor > most) continue;
      EXPECT_EQ(WholeModel(model_path(name), cut).extend(ids), plain) << name << ", " << cut.name;
    }
  }
}

}  // namespace
}  // namespace headrace
