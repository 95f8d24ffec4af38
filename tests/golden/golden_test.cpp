// The models in tests/data/golden against what Hugging Face transformers computed from them in
// float32 (make_goldens.py): log-probabilities within 1e-3, greedy tokens until the two best are a
// tie.
#include <fstream>

#include "tests/golden/whole_model.h"

namespace headrace {
namespace {

using namespace golden;  // NOLINT(google-build-using-namespace): the helpers of this folder
using nlohmann::json;

const std::filesystem::path kGoldens = "tests/data/golden";

class Golden : public testing::TestWithParam<std::tuple<std::string, Cut>> {};

TEST_P(Golden, LogProbabilitiesAndGreedyTokensAreThoseOfTransformers) {
  const auto& [name, cut] = GetParam();
  const json expected = json::parse(std::ifstream(kGoldens / name / "expected.json"));
  for (const json& prompt : expected.at("prompts")) {
    WholeModel model(model_path(kGoldens / name), cut);
    expect_prompt(model, prompt);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Combine(testing::ValuesIn(golden_names(kGoldens)),
                                          testing::Values(kPlain, kFast)),
                         [](const auto& golden) {
                           return std::get<0>(golden.param) + "_" + std::get<1>(golden.param).name;
                         });

// What is announced is what is read, and the stages read everything once, but for a tied head,
// whose table both ends need.
TEST(StageWeights, ProgressCountsUpToTheStoredBytesOfThePart) {
  for (const std::string name : {"gqa_tied", "gguf_q4_1"}) {
    const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(model_path(kGoldens / name));
    const std::unique_ptr<Ops> ops = make_reference_ops(DType::kFloat32);
    const int layers = checkpoint->config().num_layers;
    for (const StagePart& part :
         {StagePart{0, 2, true, false}, StagePart{2, layers, false, true},
          StagePart{0, layers, true, true}, StagePart{0, layers, true, true, 0, 2},
          StagePart{0, layers, false, true, 1, 2}}) {
      std::uint64_t read = 0;
      load_stage_weights(*checkpoint, part, *ops,
                         {.progress = [&](std::uint64_t bytes) { read = bytes; }});
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
    const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(model_path(kGoldens / name));
    const int most = max_tensor_parallel_size(sharded_sizes(checkpoint->config()));
    const std::vector<std::vector<float>> plain =
        WholeModel(model_path(kGoldens / name), kFast).extend(ids);
    for (const Cut& cut : cuts) {
      if (cut.tensor > most) continue;
      EXPECT_EQ(WholeModel(model_path(kGoldens / name), cut).extend(ids), plain)
          << name << ", " << cut.name;
    }
  }
}

}  // namespace
}  // namespace headrace
