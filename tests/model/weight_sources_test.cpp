// Whatever the model and the layout: the ranks of a pipeline hold every value of every tensor
// once, or as often as the layout says.
#include "model/weight_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/checkpoint/decoder_tensors.h"

namespace headrace {
namespace {

ModelConfig random_model(std::mt19937& random) {
  const auto up_to = [&](int most) { return static_cast<int>(random() % most) + 1; };
  const auto coin = [&] { return random() % 2 == 0; };
  ModelConfig model;
  model.num_layers = up_to(4);
  model.num_kv_heads = up_to(5);
  model.num_heads = model.num_kv_heads * up_to(4);
  model.head_dim = 2 * up_to(6);
  model.hidden_size = up_to(40);
  model.intermediate_size = up_to(3000);
  model.vocab_size = up_to(9000);
  model.max_position_embeddings = up_to(50);
  model.tied_head = coin();
  model.qkv_bias = coin();
  model.output_bias = coin();
  model.mlp_bias = coin();
  model.gated_mlp = coin();
  model.norm_bias = coin();
  model.pre_norms = coin();
  model.post_norms = coin();
  model.parallel_residual = coin();
  model.shared_pre_norm = model.parallel_residual && coin();
  model.learned_positions = coin();
  model.attention_sinks = coin();
  constexpr QkNorm kNorms[] = {QkNorm::kNone, QkNorm::kHead, QkNorm::kOwnHead, QkNorm::kProjection};
  model.qk_norm = kNorms[random() % 4];
  return model;
}

// How often the ranks hold each row and each column of a tensor; a block is rows times columns.
struct Held {
  std::vector<int> rows;
  std::vector<int> cols;
  std::int64_t values = 0;
};

void take(const WeightSource& source, Held& held) {
  const TensorBlock& block = source.block;
  for (std::int64_t r = block.row_begin; r < block.row_end; ++r) {
    ++held.rows[static_cast<std::size_t>(r)];
  }
  for (std::int64_t c = block.col_begin; c < block.col_end; ++c) {
    ++held.cols[static_cast<std::size_t>(c)];
  }
  held.values += source.rows() * source.cols();
}

bool contains(const std::string& name, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

// What the ranks of a stage share, each its part of; all else each has whole.
bool is_cut(const std::string& name, const ModelConfig& model) {
  if (contains(name, {"o_proj.bias", "down_proj.bias", "embed_positions"})) return false;
  if (contains(name, {"q_norm", "k_norm"})) return model.qk_norm == QkNorm::kOwnHead;
  return contains(name, {"_proj.", "embed_tokens", "lm_head", "sinks"});
}

// KV heads are held by each rank that has query heads of theirs.
bool may_repeat(const std::string& name) {
  return contains(name, {"k_proj", "v_proj", "k_norm"});
}

TEST(WeightSources, EveryValueIsHeldOnceOrAsOftenAsTheLayoutSays) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    const ModelConfig model = random_model(random);
    const int most = std::min(max_tensor_parallel_size(sharded_sizes(model)), 6);
    const int tensor = static_cast<int>(random() % static_cast<unsigned>(most)) + 1;
    const int cut = static_cast<int>(random() % static_cast<unsigned>(model.num_layers + 1));
    std::map<std::string, Held> held;
    for (const DecoderTensor& t : decoder_tensors(model)) {
      const bool is_matrix = t.shape.size() == 2;
      held[t.name] = {std::vector<int>(static_cast<std::size_t>(is_matrix ? t.shape.front() : 1)),
                      std::vector<int>(static_cast<std::size_t>(t.shape.back()))};
    }
    const bool one_stage = cut == 0;
    for (int rank = 0; rank < tensor; ++rank) {
      for (const bool first : {true, false}) {
        if (first && one_stage) continue;
        const StagePart part{.begin_layer = first ? 0 : cut,
                             .end_layer = first ? cut : model.num_layers,
                             .embedding = first || one_stage,
                             .head = !first,
                             .tensor_rank = rank,
                             .tensor_size = tensor};
        for (const WeightSource& source : all_sources(part_sources(model, part))) {
          ASSERT_TRUE(held.contains(source.name)) << source.name;
          take(source, held.at(source.name));
        }
      }
    }
    for (const auto& [name, counts] : held) {
      SCOPED_TRACE(name + " over " + std::to_string(tensor));
      // A tied table is the embedding of the first stage and the head of the last.
      const bool at_both_ends = model.tied_head && !one_stage && name == kEmbeddingName;
      const int times = (is_cut(name, model) ? 1 : tensor) * (at_both_ends ? 2 : 1);
      const std::int64_t all = std::ssize(counts.rows) * std::ssize(counts.cols);
      ASSERT_GE(*std::min_element(counts.rows.begin(), counts.rows.end()), 1);
      ASSERT_GE(*std::min_element(counts.cols.begin(), counts.cols.end()), 1);
      if (may_repeat(name)) {
        ASSERT_GE(counts.values, all * times);
      } else {
        ASSERT_EQ(counts.values, all * times);
      }
    }
  }
}

}  // namespace
}  // namespace headrace
