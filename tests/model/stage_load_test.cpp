#include "model/stage_load.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

ModelConfig smollm2_135m() {
  ModelConfig config;
  config.num_layers = 30;
  config.hidden_size = 576;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.intermediate_size = 1536;
  config.vocab_size = 49152;
  return config;
}

std::vector<int> split_of(const ModelConfig& config, QuantizedInputs inputs) {
  std::vector<int> counts;
  for (const IndexRange& range : split_layers(config.num_layers, 2, end_loads(config, inputs))) {
    counts.push_back(range.size());
  }
  return counts;
}

// The fastest splits of this model as measured with `generate --layers`, on two cores.
TEST(StageLoad, HeadIsWeighedAgainstAllThatALayerDoes) {
  EXPECT_EQ(split_of(smollm2_135m(), QuantizedInputs::kCompute), (std::vector<int>{17, 13}));
  EXPECT_EQ(split_of(smollm2_135m(), QuantizedInputs::kInt8), (std::vector<int>{16, 14}));
}

TEST(StageLoad, HeadsOfWideLayersWeighLittle) {
  ModelConfig config = smollm2_135m();
  config.hidden_size = 8192;
  config.num_heads = 64;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = 28672;
  config.vocab_size = 128256;
  for (const auto inputs : {QuantizedInputs::kCompute, QuantizedInputs::kInt8}) {
    const double head = end_loads(config, inputs).head;
    EXPECT_GT(head, 0.5);
    EXPECT_LT(head, 0.62);
  }
}

TEST(StageLoad, PlainMlpMakesTheHeadHeavier) {
  ModelConfig config = smollm2_135m();
  const double gated = end_loads(config, QuantizedInputs::kCompute).head;
  config.gated_mlp = false;
  EXPECT_GT(end_loads(config, QuantizedInputs::kCompute).head, 1.2 * gated);
}

}  // namespace
}  // namespace headrace
