#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "kernels/buffer.h"
#include "kernels/peak.h"
#include "kernels/thread_pool.h"

namespace headrace {
namespace {

// No core's own cache holds this. A cache that a socket shares may: then it would hold as small a
// model's weights as well, which is what the rate is compared with.
constexpr std::size_t kBytes = std::size_t{96} << 20;
constexpr std::size_t kPiece = std::size_t{256} << 10;
// Read between two looks at the clock: on a shared machine some stretches are undisturbed.
constexpr int kPiecesAtOnce = 64;
constexpr int kTrials = 10;

// Eight sums, so that loads do not wait for additions, and lines fetched as far ahead as products
// fetch weights: without that one core of an Emerald Rapids reads 9 GB/s, with it 28.
std::uint64_t sum_of(const std::uint64_t* values, std::size_t count) {
  constexpr std::size_t kAhead = 256;
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    __builtin_prefetch(values + i + kAhead, 0, 2);
    for (std::size_t j = 0; j < 8; ++j) sums[j] += values[i + j];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool) {
  const Buffer buffer(kBytes);
  const int pieces = static_cast<int>(kBytes / kPiece);
  std::atomic<std::uint64_t> total{0};
  const auto read = [&](int first) {
    pool.parallel_for(kPiecesAtOnce, [&](int piece) {
      const auto* values = reinterpret_cast<const std::uint64_t*>(
          buffer.data() + static_cast<std::size_t>(first + piece) * kPiece);
      total += sum_of(values, kPiece / sizeof(std::uint64_t));
    });
  };
  // Pages that nobody has written are all one page of zeros.
  pool.parallel_for(pieces, [&](int piece) {
    std::fill_n(buffer.data() + static_cast<std::size_t>(piece) * kPiece, kPiece, std::byte{1});
  });
  double best = 0.0;
  for (int first = 0; first < kTrials * pieces; first += kPiecesAtOnce) {
    const auto begin = std::chrono::steady_clock::now();
    read(first % pieces);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 1e-9 * static_cast<double>(kPiecesAtOnce * kPiece) / taken.count());
  }
  return total == 0 ? 0.0 : best;
}

}  // namespace headrace
