#include "model/quantizer/calibrated_quantizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "model/checkpoint/convert_checkpoint.h"
#include "model/quantizer/rounding_quantizer.h"
#include "model/stage_weights.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them
namespace fs = std::filesystem;

constexpr TinyLlama kTiny{.num_layers = 2,
                          .hidden_size = 48,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 12,
                          .intermediate_size = 80,
                          .vocab_size = 24,
                          .tied_head = true};

class Calibrated : public ::testing::Test {
 protected:
  std::vector<TokenId> tokens() const {
    std::vector<TokenId> ids;
    for (int i = 0; i < 300; ++i) ids.push_back((i * i + i / 7) % kTiny.vocab_size);
    return ids;
  }

  // Converts and gives the report.
  std::string convert(const std::string& name, Quantization type, std::optional<double> max_error,
                      int threads = 1) const {
    const auto checkpoint = Checkpoint::open(directory_.path());
    const auto pool = make_thread_pool(threads);
    std::string told;
    const auto quantizer =
        make_calibrated_quantizer(*checkpoint, *pool,
                                  {.wanted = type,
                                   .max_layer_error = max_error,
                                   .tokens = tokens(),
                                   .directory = directory_.path()},
                                  [&](std::string_view lines) { told += lines; });
    EXPECT_EQ(told, quantizer->report());
    convert_to_hdf5(
        *checkpoint, directory_.path() / name,
        {.dtype = {}, .quantizer = quantizer.get(), .source = "tiny", .program = "test"}, {});
    return told;
  }

  std::map<std::string, std::string> types(const std::string& name) const {
    std::map<std::string, std::string> types;
    const auto checkpoint = Checkpoint::open(directory_.path() / name);
    for (const TensorInfo& info : checkpoint->tensors()) {
      types[info.name] = info.stored_type;
    }
    return types;
  }

  // Loads all of it, as one rank does.
  void load(const std::string& name) const {
    const auto checkpoint = Checkpoint::open(directory_.path() / name);
    const auto ops = make_reference_ops(checkpoint->preferred_dtype());
    load_stage_weights(
        *checkpoint, {.begin_layer = 0, .end_layer = 2, .embedding = true, .head = true}, *ops, {});
  }

  ModelDirectory directory_{kTiny};
};

TEST_F(Calibrated, WithoutALimitEveryMatrixHasTheWantedType) {
  const std::string report = convert("a.h5", Quantization::kInt4, {});
  for (const auto& [name, type] : types("a.h5")) {
    const bool vector = name.find("norm") != std::string::npos;
    EXPECT_EQ(type, vector                                ? "BF16"
                    : name == "model.embed_tokens.weight" ? "INT8"
                                                          : "INT4")
        << name;
  }
  EXPECT_NE(report.find("gate_up  int4"), std::string::npos) << report;
  EXPECT_NE(report.find("positions ("), std::string::npos) << report;
  EXPECT_EQ(read_text(directory_.path() / "a.h5" / "quantization.txt", 1 << 20), report);
  load("a.h5");
}

TEST_F(Calibrated, ALimitKeepsWhatExceedsItInWiderTypes) {
  const std::string none = convert("none.h5", Quantization::kInt4, 0.0);
  EXPECT_EQ(types("none.h5").at("model.layers.1.mlp.up_proj.weight"), "BF16");
  EXPECT_EQ(types("none.h5").at("model.embed_tokens.weight"), "BF16");
  EXPECT_NE(none.find("0 kept in int8 and 9 as they were"), std::string::npos) << none;
  load("none.h5");

  // Int8 is about 16 times as fine as int4: 256 times in squares. In between all become int8.
  const std::string wider = convert("wider.h5", Quantization::kInt4, 5e-4);
  EXPECT_EQ(types("wider.h5").at("model.layers.0.self_attn.k_proj.weight"), "INT8");
  EXPECT_NE(wider.find("8 kept in int8 and 0 as they were"), std::string::npos) << wider;
  load("wider.h5");

  const std::string all = convert("all.h5", Quantization::kInt4, 1.0);
  EXPECT_EQ(all.find(" kept in "), std::string::npos) << all;
}

// The errors of the layers' matrices that a report tells, in rising order.
std::vector<double> errors_in(const std::string& report) {
  std::vector<double> errors;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    int layer = 0;
    std::string matrix;
    std::string type;
    double rounded = 0.0;
    double error = 0.0;
    if (words >> layer >> matrix >> type >> rounded >> error && type == "int4") {
      errors.push_back(error);
    }
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

TEST_F(Calibrated, ALimitBetweenTheirErrorsSeparatesTheMatrices) {
  const std::vector<double> errors = errors_in(convert("all.h5", Quantization::kInt4, {}));
  ASSERT_EQ(errors.size(), 8U);
  convert("mixed.h5", Quantization::kInt4, (errors[0] + errors[7]) / 2.0);
  std::map<std::string, int> found;
  for (const auto& [name, type] : types("mixed.h5")) {
    if (name.ends_with("_proj.weight")) ++found[type];
  }
  EXPECT_GT(found["INT4"], 0);
  EXPECT_GT(found["INT8"], 0);
  EXPECT_EQ(found["INT4"] + found["INT8"], 14);
  load("mixed.h5");
}

TEST_F(Calibrated, IsTheSameFileForAnyNumberOfThreads) {
  convert("one.h5", Quantization::kInt8, 1e-3);
  convert("three.h5", Quantization::kInt8, 1e-3, 3);
  EXPECT_EQ(read_file(directory_.path() / "one.h5"), read_file(directory_.path() / "three.h5"));
}

TEST_F(Calibrated, ATextOfOneTokenIsRefused) {
  const auto checkpoint = Checkpoint::open(directory_.path());
  const auto pool = make_thread_pool(1);
  EXPECT_THROW(
      make_calibrated_quantizer(
          *checkpoint, *pool,
          {.max_layer_error = {}, .tokens = {1}, .directory = directory_.path()}, [](auto) {}),
      std::invalid_argument);
}

TEST_F(Calibrated, TensorsOfOneMatrixMustHaveOneType) {
  class Uneven final : public MatrixQuantizer {
   public:
    explicit Uneven(std::unique_ptr<MatrixQuantizer> all) : all_(std::move(all)) {}
    Quantization wanted() const override { return all_->wanted(); }
    Quantization type_of(const TensorInfo& tensor) const override {
      return tensor.name.ends_with("layers.0.self_attn.k_proj.weight") ? Quantization::kNone
                                                                       : all_->type_of(tensor);
    }
    void write(const std::string& tensor, const IntegerLayout& layout,
               const ByteSink& sink) override {
      all_->write(tensor, layout, sink);
    }
    std::string report() const override { return {}; }

   private:
    std::unique_ptr<MatrixQuantizer> all_;
  };
  const auto checkpoint = Checkpoint::open(directory_.path());
  const auto pool = make_thread_pool(1);
  Uneven uneven(make_rounding_quantizer(*checkpoint, *pool,
                                        {.wanted = Quantization::kInt8, .stochastic_seed = {}}));
  convert_to_hdf5(*checkpoint, directory_.path() / "uneven.h5",
                  {.dtype = {}, .quantizer = &uneven, .source = "tiny", .program = "test"}, {});
  EXPECT_THROW(load("uneven.h5"), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
