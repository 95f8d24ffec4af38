#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint/checkpoint.h"
#include "model/checkpoint/convert_checkpoint.h"
#include "model/checkpoint/hdf5_contents.h"
#include "model/checkpoint/hdf5_handle.h"
#include "model/quantizer/rounding_quantizer.h"
#include "model/stage_weights.h"
#include "tests/model/checkpoint/model_files.h"

namespace headrace {
namespace {

using namespace model_files;  // NOLINT(google-build-using-namespace): the whole file is about them
namespace fs = std::filesystem;

// Slices of 8 and 9 columns, rows of 76: odd ends everywhere.
constexpr TinyLlama kTiny{.num_layers = 2,
                          .hidden_size = 76,
                          .num_heads = 4,
                          .num_kv_heads = 2,
                          .head_dim = 18,
                          .intermediate_size = 75,
                          .vocab_size = 24,
                          .tied_head = false};

void quantize(const fs::path& model, const fs::path& path, Quantization type, int threads = 1) {
  const auto checkpoint = Checkpoint::open(model);
  const auto pool = make_thread_pool(threads);
  const auto quantizer =
      make_rounding_quantizer(*checkpoint, *pool, {.wanted = type, .stochastic_seed = {}});
  convert_to_hdf5(*checkpoint, path,
                  {.dtype = {}, .quantizer = quantizer.get(), .source = "tiny", .program = "test"},
                  {});
}

class QuantizedHdf5 : public ::testing::TestWithParam<Quantization> {
 protected:
  QuantizedHdf5() : path_(directory_.path() / "tiny.h5") {
    quantize(directory_.path(), path_, GetParam());
  }

  std::string refusal() const {
    try {
      Checkpoint::open(path_);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }

  void change(const char* object, const std::function<void(hid_t)>& with) const {
    const Hdf5Id file(HR_HDF5(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)));
    const Hdf5Id opened(HR_HDF5(H5Oopen(file.get(), object, H5P_DEFAULT)));
    with(opened.get());
  }

  ModelDirectory directory_{kTiny};
  fs::path path_;
};
INSTANTIATE_TEST_SUITE_P(Types, QuantizedHdf5,
                         ::testing::Values(Quantization::kInt8, Quantization::kInt4),
                         [](const auto& type) {
                           return std::string(quantization_name(type.param));
                         });

TEST_P(QuantizedHdf5, HoldsWhatQuantisingWhileLoadingGives) {
  const auto source = Checkpoint::open(directory_.path());
  const auto quantized = Checkpoint::open(path_);
  EXPECT_EQ(quantized->preferred_dtype(), source->preferred_dtype());
  EXPECT_TRUE(quantized->damaged_tensors().empty());
  const auto ops = make_reference_ops(DType::kFloat32);
  for (const int ranks : {1, 2}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const StagePart part{.begin_layer = 0,
                           .end_layer = 2,
                           .embedding = true,
                           .head = true,
                           .tensor_rank = rank,
                           .tensor_size = ranks};
      const StageWeights expected =
          load_stage_weights(*source, part, *ops, {.quantization = GetParam(), .progress = {}});
      const StageWeights actual = load_stage_weights(*quantized, part, *ops, {});
      EXPECT_EQ(stage_weight_bytes(*quantized, part, {}),
                stage_weight_bytes(*source, part, {DType::kFloat32, GetParam()}));
      // Every row of the matrices, by the rows that embedding gives.
      const auto same = [&](const Matrix& a, const Matrix& b) {
        for (std::int32_t row = 0; row < a.n(); ++row) {
          std::vector<float> rows[2] = {std::vector<float>(static_cast<std::size_t>(a.k())),
                                        std::vector<float>(static_cast<std::size_t>(a.k()))};
          const Matrix* matrices[2] = {&a, &b};
          for (int i = 0; i < 2; ++i) {
            ops->embed({reinterpret_cast<std::byte*>(rows[i].data()), 1, a.k(), DType::kFloat32},
                       *matrices[i], std::span(&row, 1));
          }
          if (rows[0] != rows[1]) return false;
        }
        return true;
      };
      if (rank == 0) {  // which has all ids of so few
        EXPECT_TRUE(same(*actual.embedding, *expected.embedding));
        EXPECT_TRUE(same(*actual.own_head, *expected.own_head));
      }
      for (std::size_t layer = 0; layer < 2; ++layer) {
        const LayerWeights& a = actual.layers[layer];
        const LayerWeights& e = expected.layers[layer];
        EXPECT_TRUE(std::equal(a.attention_norm.weight, a.attention_norm.weight + a.qkv.weight->k(),
                               e.attention_norm.weight));
        EXPECT_TRUE(same(*a.qkv.weight, *e.qkv.weight));
        EXPECT_TRUE(same(*a.output.weight, *e.output.weight));
        EXPECT_TRUE(same(*a.gate_up.weight, *e.gate_up.weight));
        EXPECT_TRUE(same(*a.down.weight, *e.down.weight));
      }
    }
  }
}

TEST_P(QuantizedHdf5, IsTheSameFileForAnyNumberOfThreads) {
  quantize(directory_.path(), directory_.path() / "other.h5", GetParam(), 3);
  EXPECT_EQ(read_file(directory_.path() / "other.h5"), read_file(path_));
}

TEST_P(QuantizedHdf5, BlocksThatCutSlicesAreThoseOfTheWhole) {
  const auto checkpoint = Checkpoint::open(path_);
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  std::vector<float> all(76 * 75);
  checkpoint->read_rows(name, 0, 76, all.data());
  for (const TensorBlock& block : {TensorBlock{3, 70, 1, 74}, TensorBlock{75, 76, 10, 11}}) {
    const std::int64_t cols = block.col_end - block.col_begin;
    std::vector<float> out(static_cast<std::size_t>((block.row_end - block.row_begin) * cols));
    checkpoint->read_block(name, block, out.data());
    for (std::int64_t r = block.row_begin; r < block.row_end; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        ASSERT_EQ(out[static_cast<std::size_t>((r - block.row_begin) * cols + c)],
                  all[static_cast<std::size_t>(r * 75 + block.col_begin + c)]);
      }
    }
  }
  IntegerBlock integers;
  EXPECT_THROW(
      checkpoint->read_integers(name, {0, 76, 0, 75}, std::vector<std::int32_t>{0, 75}, integers),
      std::invalid_argument);
  EXPECT_THROW(checkpoint->read_integers("model.norm.weight", {0, 1, 0, 76},
                                         std::vector<std::int32_t>{0, 76}, integers),
               std::invalid_argument);
}

TEST_P(QuantizedHdf5, ChangedIntegersAreFoundByTheirChecksum) {
  std::string bytes = read_file(path_);
  const Hdf5Tensor tensor = read_hdf5_contents(path_).tensors.front();
  bytes[tensor.offset + tensor.bytes - 1] ^= 1;
  write_file(path_, bytes);
  EXPECT_EQ(Checkpoint::open(path_)->damaged_tensors().size(), 1U);
}

TEST_P(QuantizedHdf5, IsNotConvertedAgain) {
  EXPECT_THROW(quantize(path_, directory_.path() / "again.h5", GetParam()), std::invalid_argument);
  EXPECT_THROW(convert_to_hugging_face(*Checkpoint::open(path_), directory_.path() / "back", {}),
               std::invalid_argument);
}

TEST_P(QuantizedHdf5, DamagedDescriptionsAreRefused) {
  const char* name = "tensors/model.layers.0.mlp.down_proj.weight";
  const std::string sound = read_file(path_);
  const auto with_numbers = [&](const char* attribute, std::vector<std::int64_t> numbers) {
    write_file(path_, sound);
    change(name, [&](hid_t dataset) {
      const Hdf5Id opened(HR_HDF5(H5Aopen(dataset, attribute, H5P_DEFAULT)));
      HR_HDF5(H5Awrite(opened.get(), H5T_NATIVE_INT64, numbers.data()));
    });
    return refusal();
  };
  EXPECT_NE(with_numbers("shape", {76, 74}).find("slice_bounds"), std::string::npos);
  EXPECT_NE(with_numbers("shape", {77, 75}).find("quantization imply"), std::string::npos);
  EXPECT_NE(with_numbers("shape", {std::int64_t{1} << 60, 75}).find("has the shape"),
            std::string::npos);
  write_file(path_, sound);
  change(name, [](hid_t dataset) { HR_HDF5(H5Adelete(dataset, "slice_bounds")); });
  EXPECT_NE(refusal().find("slice_bounds"), std::string::npos);
  write_file(path_, sound);
  change("/", [](hid_t root) { HR_HDF5(H5Adelete(root, "compute_dtype")); });
  EXPECT_NE(refusal().find("compute_dtype is missing"), std::string::npos);
}

}  // namespace
}  // namespace headrace
