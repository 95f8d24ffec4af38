// The leading logits of rows, on the GPU backend in emulation, beside plain loops on the host.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cuda/leaders.h"
#include "kernels/exponential.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kFinestStep = 90.0F / 64.0F;  // between depths, in temperatures
constexpr std::int64_t kMost = kMostLeaders;

using Row = std::vector<float>;

float plain_total(const Row& row, float max, float temperature) {
  float total = 0.0F;
  for (std::size_t begin = 0; begin < row.size(); begin += 1024) {
    float chains[16] = {};
    for (std::size_t i = begin; i < std::min(begin + 1024, row.size()); ++i) {
      chains[i % 16] += exp_nonpositive((row[i] - max) * (1.0F / temperature));
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) chains[j] += chains[j + half];
    }
    total += chains[0];
  }
  return total;
}

std::int64_t count_from(const Row& row, float floor) {
  return std::count_if(row.begin(), row.end(), [&](float logit) { return logit >= floor; });
}

// All ids from the floor on, and no floor further down would have room.
void expect_leaders(const RowLeaders& leaders, const Row& row, float temperature) {
  if (temperature == 0.0F) {
    EXPECT_TRUE(leaders.leading.empty());
    return;
  }
  const float max = *std::max_element(row.begin(), row.end()) + 0.0F;
  if (leaders.leading.empty()) {
    EXPECT_GT(count_from(row, max - kFinestStep * temperature), kMost);
    return;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(leaders.max), std::bit_cast<std::uint32_t>(max));
  EXPECT_EQ(std::bit_cast<std::uint32_t>(leaders.total),
            std::bit_cast<std::uint32_t>(plain_total(row, max, temperature)));
  std::vector<LeadingLogit> found(leaders.leading.begin(), leaders.leading.end());
  std::ranges::sort(found, {}, &LeadingLogit::id);
  std::size_t next = 0;
  for (std::size_t id = 0; id < row.size(); ++id) {
    if (!(row[id] >= leaders.floor)) continue;
    ASSERT_LT(next, found.size()) << "id " << id << " is missing";
    ASSERT_EQ(found[next].id, static_cast<std::int32_t>(id));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(found[next].logit),
              std::bit_cast<std::uint32_t>(row[id]));
    ++next;
  }
  EXPECT_EQ(next, found.size());
  EXPECT_LE(std::ssize(found), kMost);
  const float depth = std::round((max - leaders.floor) / temperature / kFinestStep);
  EXPECT_GE(depth, 1.0F);
  if (depth < 64.0F) {
    EXPECT_GT(count_from(row, max - (depth + 1.0F) * kFinestStep * temperature), kMost)
        << "depth " << depth;
  }
}

class CudaLeaders : public CudaOpsTest {
 protected:
  // The leaders of these rows, each with its temperature.
  void expect_all(const std::vector<Row>& rows, const std::vector<float>& temperatures) {
    const auto vocab = static_cast<std::int64_t>(rows.front().size());
    Tensor logits(std::ssize(rows), vocab);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::copy(rows[r].begin(), rows[r].end(),
                logits.f32() + static_cast<std::int64_t>(r) * vocab);
    }
    cuda_->reserve(static_cast<int>(rows.size()), 16,
                   {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
    under_schedules([&] {
      const std::span<const RowLeaders> leaders =
          cuda_->leading_logits(logits.view(), temperatures);
      ASSERT_EQ(leaders.size(), rows.size());
      for (std::size_t r = 0; r < rows.size(); ++r) {
        SCOPED_TRACE(::testing::Message() << "row " << r << " of " << vocab << " ids");
        expect_leaders(leaders[r], rows[r], temperatures[r]);
      }
    });
  }

  static Row random_row(std::int64_t vocab, float spread, std::uint32_t seed) {
    Tensor values = random_tensor(1, vocab, DType::kFloat32, seed, spread);
    return {values.f32(), values.f32() + vocab};
  }
};
INSTANTIATE_TEST_SUITE_P(Types, CudaLeaders, ::testing::Values(DType::kFloat32), dtype_of);

TEST_P(CudaLeaders, AreThoseOfALoopOverTheRow) {
  for (const std::int64_t vocab : {1, 31, 257, 1023, 2049, 5003}) {
    std::vector<Row> rows;
    for (std::uint32_t seed = 0; seed < 4; ++seed) {
      rows.push_back(random_row(vocab, seed == 3 ? 60.0F : 8.0F, seed + 1));
    }
    expect_all(rows, {1.0F, 0.0F, 0.05F, 2.0F});
  }
}

// As many equal logits as there is room for, one more, and one fewer than before beside a deep one.
TEST_P(CudaLeaders, HaveRoomForSoManyAndNoMore) {
  constexpr std::int64_t kIds = kMost + 300;
  const auto row_of = [&](std::int64_t num_equal) {
    Row row(kIds, -1000.0F);
    std::fill_n(row.begin() + 100, num_equal, 3.0F);
    return row;
  };
  Row full = row_of(kMost - 1);
  full[7] = 2.0F;
  Row one_more = row_of(kMost - 1);
  one_more[7] = 2.0F;
  one_more[8] = -10.0F;
  expect_all({row_of(kMost), row_of(kMost + 1), full, one_more}, {1.0F, 1.0F, 1.0F, 1.0F});
  Tensor logits(1, kIds);
  const Row row = row_of(kMost);
  std::copy(row.begin(), row.end(), logits.f32());
  const std::vector<float> temperatures = {1.0F};
  EXPECT_EQ(std::ssize(cuda_->leading_logits(logits.view(), temperatures)[0].leading), kMost);
}

// An id exactly at a floor is one of the leaders, as is every one with its logit.
TEST_P(CudaLeaders, IncludeTheFloor) {
  Row row(3000, -500.0F);
  for (std::size_t id = 0; id < row.size(); id += 3) row[id] = 8.0F - 11.25F;
  for (std::size_t id = 1; id < row.size(); id += 3) row[id] = 8.0F - 12.0F;
  row[1500] = 8.0F;
  expect_all({row}, {1.0F});
  Tensor logits(1, 3000);
  std::copy(row.begin(), row.end(), logits.f32());
  const std::vector<float> temperatures = {1.0F};
  const RowLeaders leaders = cuda_->leading_logits(logits.view(), temperatures)[0];
  EXPECT_EQ(leaders.floor, 8.0F - 11.25F);
  EXPECT_EQ(leaders.leading.size(), 1000U);
}

TEST_P(CudaLeaders, OfRowsWithZerosAndInfinitiesAreSound) {
  Row zeros(700, -0.0F);
  zeros[3] = 0.0F;
  Row banned(700, -kInfinity);
  banned[400] = -2.5F;
  banned[401] = -3.0F;
  Row flat(700, 4.0F);
  expect_all({zeros, banned, flat, zeros}, {1.0F, 1.0F, 1e30F, 1e-5F});
}

TEST_P(CudaLeaders, MoreRowsThanAreTakenAtATimeComeInTurns) {
  std::vector<Row> rows;
  std::vector<float> temperatures;
  for (std::uint32_t r = 0; r < 67; ++r) {
    rows.push_back(random_row(40, 3.0F, r));
    temperatures.push_back(r % 3 == 0 ? 0.0F : 0.5F);
  }
  expect_all(rows, temperatures);
  EXPECT_TRUE(cuda_->leading_logits(ConstTensorView{nullptr, 0, 40, DType::kFloat32}, {}).empty());
}

TEST_P(CudaLeaders, NeedATemperatureARow) {
  cuda_->reserve(2, 16, {.num_heads = 1, .num_kv_heads = 1, .head_dim = 2});
  Tensor logits(2, 10);
  const std::vector<float> temperatures = {1.0F};
  EXPECT_THROW(cuda_->leading_logits(logits.view(), temperatures), std::invalid_argument);
}

}  // namespace
}  // namespace headrace
