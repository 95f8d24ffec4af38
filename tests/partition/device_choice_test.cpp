#include "partition/device_choice.h"

#include <gtest/gtest.h>

namespace headrace {
namespace {

using Names = std::vector<std::string>;

void expect_choices(const std::vector<Names>& visible, const std::vector<DeviceChoice>& expected) {
  const std::vector<DeviceChoice> choices = choose_devices(visible);
  ASSERT_EQ(choices.size(), expected.size());
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(choices[rank].device, expected[rank].device) << "rank " << rank;
    EXPECT_EQ(choices[rank].num_ranks, expected[rank].num_ranks) << "rank " << rank;
  }
}

TEST(DeviceChoice, RanksThatSeeTheSameDevicesTakeThemInTurn) {
  expect_choices({{"a", "b", "c"}, {"a", "b", "c"}}, {{0, 1}, {1, 1}});
  expect_choices({{"a", "b"}, {"a", "b"}, {"a", "b"}}, {{0, 2}, {1, 1}, {0, 2}});
}

TEST(DeviceChoice, RanksThatSeeOneDeviceEachTakeIt) {
  expect_choices({{"a"}, {"b"}}, {{0, 1}, {0, 1}});
  expect_choices({{"a"}, {"a"}}, {{0, 2}, {0, 2}});
}

TEST(DeviceChoice, ARankThatSeesNoneHasNone) {
  expect_choices({{}, {"a"}, {}}, {{-1, 0}, {0, 1}, {-1, 0}});
}

TEST(DeviceChoice, TheSameDevicesInAnotherOrderAreTheSame) {
  expect_choices({{"a", "b"}, {"b", "a"}}, {{0, 1}, {0, 1}});
}

}  // namespace
}  // namespace headrace
