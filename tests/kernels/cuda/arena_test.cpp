// The memory of a GPU as the rest of the program uses it, and the host's behind the same interface.
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/cuda_arena.h"
#include "kernels/cuda_backend.h"

namespace headrace {
namespace {

const CudaOptions kOptions{.compute_dtype = DType::kFloat32,
                           .workspace_bytes = std::size_t{1} << 20};

// [rows, cols] that count up.
std::vector<float> counting(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::byte* uploaded(DeviceArena& arena, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  std::byte* place = arena.take(bytes.size());
  arena.upload(place, bytes);
  return place;
}

std::vector<float> downloaded(DeviceArena& arena, const std::byte* place, std::size_t count) {
  std::vector<float> values(count);
  arena.download(std::as_writable_bytes(std::span(values)), place);
  return values;
}

void expect_copies(DeviceArena& arena) {
  const std::vector<float> from = counting(std::size_t{5} * 7, 1.0F);
  const std::vector<float> before = counting(std::size_t{5} * 4, -100.0F);
  std::byte* source = uploaded(arena, from);
  std::byte* target = uploaded(arena, before);
  // Columns 2 to 4 of [5, 7] become columns 1 to 3 of [5, 4].
  constexpr std::size_t kFloat = sizeof(float);
  arena.copy_rows({.to = target + kFloat,
                   .to_stride = 4 * kFloat,
                   .from = source + 2 * kFloat,
                   .from_stride = 7 * kFloat,
                   .row_bytes = 3 * kFloat,
                   .rows = 5});
  std::vector<float> expected = before;
  for (std::size_t row = 0; row < 5; ++row) {
    for (std::size_t c = 0; c < 3; ++c) expected[row * 4 + 1 + c] = from[row * 7 + 2 + c];
  }
  EXPECT_EQ(downloaded(arena, target, before.size()), expected);
  // Four columns at a time, from where rows are aligned.
  std::byte* aligned = arena.take(8 * kFloat);
  arena.copy_rows({.to = aligned,
                   .to_stride = 4 * kFloat,
                   .from = target,
                   .from_stride = 8 * kFloat,
                   .row_bytes = 4 * kFloat,
                   .rows = 2});
  std::vector<float> rows(expected.begin(), expected.begin() + 4);
  rows.insert(rows.end(), expected.begin() + 8, expected.begin() + 12);
  EXPECT_EQ(downloaded(arena, aligned, 8), rows);
  arena.zero(target + 3 * kFloat, 2 * kFloat);
  expected[3] = expected[4] = 0.0F;
  EXPECT_EQ(downloaded(arena, target, before.size()), expected);
}

TEST(DeviceArena, CopiesRowsWithStridesOnTheHost) {
  expect_copies(*make_host_arena());
}

TEST(DeviceArena, CopiesRowsWithStridesOnTheGpu) {
  const auto ops = make_cuda_ops(kOptions);
  expect_copies(ops->arena());
}

TEST(DeviceArena, WhatIsLargerThanAPinnedBufferGoesInPieces) {
  const auto ops = make_cuda_ops(kOptions);
  const std::vector<float> values =
      counting(2 * CudaArena::kStagingBytes / sizeof(float) + 321, 0.0F);
  const std::byte* place = uploaded(ops->arena(), values);
  EXPECT_EQ(downloaded(ops->arena(), place, values.size()), values);
}

TEST(DeviceArena, MirroredMemoryIsTheSameOnTheHostAndTwoCopiesOnTheGpu) {
  const auto host = make_host_arena();
  const MirroredMemory same(*host, 64);
  EXPECT_EQ(same.host(), same.device());
  const auto ops = make_cuda_ops(kOptions);
  const MirroredMemory two(ops->arena(), 8);
  EXPECT_NE(two.host(), two.device());
  two.host()[5] = std::byte{17};
  two.to_device(8);
  two.host()[5] = std::byte{0};
  two.to_host(8);
  EXPECT_EQ(two.host()[5], std::byte{17});
}

TEST(DeviceArena, PartsOfWhatIsReservedDoNotOverlapAndEndWithIt) {
  const auto ops = make_cuda_ops(kOptions);
  DeviceArena& arena = ops->arena();
  arena.reserve(3 * kArenaAlignment);
  std::byte* first = arena.take(1);
  std::byte* second = arena.take(kArenaAlignment + 1);
  EXPECT_EQ(second - first, static_cast<std::ptrdiff_t>(kArenaAlignment));
  EXPECT_EQ(arena.take(0), nullptr);
  EXPECT_THROW(arena.take(1), std::logic_error);
  EXPECT_THROW(arena.reserve(1), std::logic_error);
}

TEST(DeviceArena, ReserveTakesWhatItSaid) {
  const AttentionShape shape{
      .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .rotary_dim = 16, .scale = 0.25F};
  const auto ops = make_cuda_ops(kOptions);
  ops->arena().reserve(ops->reserve_bytes(7, 100, shape));
  ops->reserve(7, 100, shape);
  EXPECT_THROW(ops->arena().take(1), std::logic_error);
}

}  // namespace
}  // namespace headrace
