// The models in tests/data/golden_families (make_family_goldens.py): each family, and each trait of
// one, against what Hugging Face transformers computed in float32.
#include <fstream>

#include "tests/golden/whole_model.h"

namespace headrace {
namespace {

using namespace golden;  // NOLINT(google-build-using-namespace): the helpers of this folder
using nlohmann::json;

const std::filesystem::path kGoldens = "tests/data/golden_families";

json expected_of(const std::string& name) {
  return json::parse(std::ifstream(kGoldens / name / "expected.json"));
}

class Family : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path path() const { return model_path(kGoldens / GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Models, Family, testing::ValuesIn(golden_names(kGoldens)),
                         [](const auto& golden) { return golden.param; });

TEST_P(Family, LogProbabilitiesAndGreedyTokensAreThoseOfTransformers) {
  const json expected = expected_of(GetParam());
  for (const json& prompt : expected.at("prompts")) {
    const int continuation = expected.at("continuation").get<int>();
    WholeModel model(path(), kFast, static_cast<int>(prompt.at("ids").size()) + continuation);
    expect_prompt(model, prompt);
  }
}

// The reference's bits, in both compute types, whatever the cut into chunks, stages and shards.
TEST_P(Family, NoCutChangesABit) {
  const json prompt = expected_of(GetParam()).at("prompts").back();
  const auto ids = prompt.at("ids").get<std::vector<TokenId>>();
  const auto max_length = static_cast<int>(ids.size());
  const ModelConfig config = Checkpoint::open(path())->config();
  const int most = max_tensor_parallel_size(sharded_sizes(config));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Cut cuts[] = {{"chunks of 7", false, 2, 7, {}, 1, dtype},
                        {"stages", false, 1, 33, {1, kRest, 0}, 1, dtype},
                        {"shards", false, 1, 50, {}, std::min(most, 2), dtype}};
    const std::vector<std::vector<float>> plain =
        WholeModel(path(), {"reference", true, 1, 128, {}, 1, dtype}, max_length).extend(ids);
    for (const Cut& cut : cuts) {
      EXPECT_EQ(WholeModel(path(), cut, max_length).extend(ids), plain)
          << cut.name << ", " << dtype_name(dtype);
    }
  }
}

// What is announced is what is read.
TEST_P(Family, ProgressCountsUpToTheStoredBytes) {
  const std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(path());
  const std::unique_ptr<Ops> ops = make_reference_ops(DType::kFloat32);
  const StagePart part{.begin_layer = 0,
                       .end_layer = checkpoint->config().num_layers,
                       .embedding = true,
                       .head = true};
  std::uint64_t read = 0;
  load_stage_weights(*checkpoint, part, *ops,
                     {.progress = [&](std::uint64_t bytes) { read = bytes; }});
  EXPECT_EQ(read, stage_stored_bytes(*checkpoint, part));
  std::uint64_t stored = 0;
  for (const TensorInfo& info : checkpoint->tensors()) stored += info.stored_bytes;
  EXPECT_EQ(read, stored);
}

}  // namespace
}  // namespace headrace
