// Blocks of a cache that go to host memory and come back to other places, of the host's arena and
// of a GPU's.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/swap_blocks.h"
#include "kernels/cuda_backend.h"
#include "tests/kernels/cuda/cuda_fixture.h"

namespace headrace {
namespace {

using namespace testing_ops;  // NOLINT(google-build-using-namespace): the fixture of this folder

const CudaOptions kOptions{.compute_dtype = DType::kFloat32,
                           .workspace_bytes = std::size_t{1} << 20};

struct Shape {
  std::size_t piece_bytes = 0;
  int num_pieces = 1;
  int num_blocks = 0;
  int num_swap_blocks = 0;
  std::size_t gap_bytes = 0;  // behind the blocks of each piece
};

std::vector<int> shuffled(int count, std::mt19937& random) {
  std::vector<int> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), random);
  return ids;
}

// A cache with other bytes in every place, and its swap memory.
class SwappedCache {
 public:
  SwappedCache(DeviceArena& arena, const Shape& shape, std::mt19937& random)
      : arena_(arena), shape_(shape) {
    const std::size_t stride =
        shape.piece_bytes * static_cast<std::size_t>(shape.num_blocks) + shape.gap_bytes;
    before_.resize(stride * static_cast<std::size_t>(shape.num_pieces));
    for (std::byte& byte : before_) byte = static_cast<std::byte>(random());
    pieces_ = {.data = arena.take(before_.size()),
               .piece_bytes = shape.piece_bytes,
               .piece_stride = stride,
               .num_pieces = shape.num_pieces,
               .num_blocks = shape.num_blocks};
    arena.upload(pieces_.data, before_);
    swap_ = arena.make_swap_memory(pieces_, shape.num_swap_blocks);
  }

  SwapMemory& swap() { return *swap_; }

  // Of what was there at first, the blocks `from` are now in `to`; all else is zero.
  void expect_moved(std::span<const int> from, std::span<const int> to) {
    std::vector<std::byte> expected(before_.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (int p = 0; p < shape_.num_pieces; ++p) {
        std::memcpy(expected.data() + offset(to[i], p), before_.data() + offset(from[i], p),
                    shape_.piece_bytes);
      }
    }
    std::vector<std::byte> found(before_.size());
    arena_.download(found, pieces_.data);
    EXPECT_TRUE(found == expected);
  }

  void forget() { arena_.zero(pieces_.data, before_.size()); }

 private:
  std::size_t offset(int block, int piece) const {
    return static_cast<std::size_t>(pieces_.piece(block, piece) - pieces_.data);
  }

  DeviceArena& arena_;
  Shape shape_;
  BlockPieces pieces_;
  std::vector<std::byte> before_;
  std::unique_ptr<SwapMemory> swap_;
};

// Some blocks go, and come back to others, in another order.
void expect_round_trip(DeviceArena& arena, const Shape& shape, int num_moved, std::uint32_t seed) {
  SCOPED_TRACE(::testing::Message() << shape.num_pieces << " pieces of " << shape.piece_bytes
                                    << " bytes, seed " << seed);
  std::mt19937 random(seed);
  SwappedCache cache(arena, shape, random);
  const auto count = static_cast<std::size_t>(num_moved);
  std::vector<int> from = shuffled(shape.num_blocks, random);
  from.resize(count);
  std::vector<int> to = shuffled(shape.num_blocks, random);
  to.resize(count);
  // Some in a row, as the scheduler gives them, some not.
  std::vector<int> places = shuffled(shape.num_swap_blocks, random);
  places.resize(count);
  std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count / 2));
  std::vector<BlockSwap> saves;
  std::vector<BlockSwap> restores;
  for (std::size_t i = 0; i < count; ++i) {
    saves.push_back({.block = from[i], .swap_block = places[i]});
    restores.push_back({.block = to[i], .swap_block = places[i]});
  }
  std::shuffle(restores.begin(), restores.end(), random);
  cache.swap().save(saves);
  cache.forget();
  cache.swap().restore(restores);
  cache.expect_moved(from, to);
}

const Shape kShapes[] = {
    {.piece_bytes = 4, .num_pieces = 1, .num_blocks = 5, .num_swap_blocks = 3},
    {.piece_bytes = 20, .num_pieces = 3, .num_blocks = 7, .num_swap_blocks = 9},
    {.piece_bytes = 48, .num_pieces = 5, .num_blocks = 11, .num_swap_blocks = 8, .gap_bytes = 4},
    {.piece_bytes = 2064, .num_pieces = 7, .num_blocks = 6, .num_swap_blocks = 6},
    {.piece_bytes = 4112, .num_pieces = 1, .num_blocks = 9, .num_swap_blocks = 20},
};

void expect_round_trips(DeviceArena& arena) {
  std::uint32_t seed = 0;
  for (const Shape& shape : kShapes) {
    const int most = std::min(shape.num_blocks, shape.num_swap_blocks);
    for (const int num_moved : {1, (most + 1) / 2, most}) {
      expect_round_trip(arena, shape, num_moved, ++seed);
    }
  }
}

TEST(Swap, OnTheHostBlocksComeBackToOtherPlaces) {
  expect_round_trips(*make_host_arena());
}

TEST(Swap, OnTheGpuBlocksComeBackToOtherPlaces) {
  const auto ops = make_cuda_ops(kOptions);
  under_schedules([&] { expect_round_trips(ops->arena()); });
}

TEST(Swap, MoreThanALaunchTakesGoInTurns) {
  const auto ops = make_cuda_ops(kOptions);
  const Shape shape{.piece_bytes = 16,
                    .num_pieces = 2,
                    .num_blocks = 2 * kMaxMovedBlocks + 90,
                    .num_swap_blocks = 2 * kMaxMovedBlocks + 70};
  expect_round_trip(ops->arena(), shape, 2 * kMaxMovedBlocks + 37, 1);
}

TEST(Swap, RefusesBlocksThatAreNotThere) {
  const auto ops = make_cuda_ops(kOptions);
  const auto host = make_host_arena();
  for (DeviceArena* arena : {&ops->arena(), host.get()}) {
    std::mt19937 random(1);
    SwappedCache cache(*arena,
                       {.piece_bytes = 16, .num_pieces = 1, .num_blocks = 4, .num_swap_blocks = 3},
                       random);
    for (const BlockSwap wrong : {BlockSwap{4, 0}, {-1, 0}, {0, 3}, {0, -1}}) {
      EXPECT_THROW(cache.swap().save({&wrong, 1}), std::logic_error);
      EXPECT_THROW(cache.swap().restore({&wrong, 1}), std::logic_error);
    }
  }
}

TEST(Swap, TakesOfTheArenaWhatItSaid) {
  const auto ops = make_cuda_ops(kOptions);
  DeviceArena& arena = ops->arena();
  constexpr std::size_t kCache = 7 * 48;
  for (const int num_swap_blocks : {1, 100, 100000})
    EXPECT_EQ(arena.swap_memory_bytes(0, num_swap_blocks), 0U);
  EXPECT_EQ(arena.swap_memory_bytes(48, 0), 0U);
  arena.reserve(arena_bytes(kCache) + arena.swap_memory_bytes(48, 1000));
  std::byte* data = arena.take(kCache);
  const auto swap = arena.make_swap_memory(
      {.data = data, .piece_bytes = 48, .piece_stride = 0, .num_pieces = 1, .num_blocks = 7}, 1000);
  EXPECT_THROW(arena.take(1), std::logic_error);
}

}  // namespace
}  // namespace headrace
