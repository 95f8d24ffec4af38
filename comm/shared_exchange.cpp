// Rounds over shared memory. Every rank has two buffers that take turns and a counter of rounds it
// has published. To publish round r is to say that round r - 1 was read, so whoever has seen all
// publish r - 1 may write the buffer of r, which was last read in r - 2: one wait a round is
// enough.
#include <atomic>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <utility>

#include "comm/check.h"
#include "comm/mpi_exchange.h"
#include "comm/waiting.h"
#include "kernels/buffer.h"

namespace headrace {
namespace {

constexpr std::size_t kLine = 64;

// At the start of every rank's memory; alone in its cache line.
struct alignas(kLine) Header {
  std::atomic<std::uint64_t> round{0};  // the last one published; the first is 1
  std::size_t bytes[2] = {0, 0};        // published in odd and even rounds
};
static_assert(sizeof(Header) == kLine && std::atomic<std::uint64_t>::is_always_lock_free);

std::size_t padded(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

std::size_t segment_bytes(std::size_t capacity) {
  return sizeof(Header) + 2 * padded(capacity);
}

// MPI promises no alignment of shared memory. Mappings start at pages, so every process rounds a
// segment up by the same amount.
std::byte* aligned(std::byte* segment) {
  const auto address = reinterpret_cast<std::uintptr_t>(segment);
  return segment + (padded(address) - address);
}

class SharedExchange : public ShardExchange {
 public:
  // segments: by rank, segment_bytes(capacity) each, headers made.
  SharedExchange(int rank, std::vector<std::byte*> segments, std::size_t capacity,
                 ExchangeWait wait)
      : rank_(rank), segments_(std::move(segments)), capacity_(capacity), wait_(std::move(wait)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(segments_.size()); }

  std::span<std::byte> own() override { return {buffer(rank_, round_ + 1), capacity_}; }

  void publish(std::size_t bytes) override {
    if (bytes > capacity_) {
      throw std::logic_error("an exchange of " + std::to_string(bytes) + " bytes does not fit " +
                             std::to_string(capacity_));
    }
    ++round_;
    header(rank_).bytes[round_ % 2] = bytes;
    header(rank_).round.store(round_, std::memory_order_release);
  }

  void complete() override {
    for (int peer = 0; peer < size(); ++peer) {
      if (has_published(peer)) continue;
      Waiting waiting(wait_.names.empty() ? std::string("another thread")
                                          : wait_.names[static_cast<std::size_t>(peer)],
                      wait_.stall_timeout_s);
      while (!has_published(peer)) {
        if (wait_.poll) wait_.poll();
        waiting.pause();
      }
    }
  }

  std::span<const std::byte> part(int rank) const override {
    return {buffer(rank, round_), header(rank).bytes[round_ % 2]};
  }

 private:
  Header& header(int rank) const {
    return *std::launder(reinterpret_cast<Header*>(segments_[static_cast<std::size_t>(rank)]));
  }
  std::byte* buffer(int rank, std::uint64_t round) const {
    return segments_[static_cast<std::size_t>(rank)] + sizeof(Header) +
           round % 2 * padded(capacity_);
  }
  bool has_published(int peer) const {
    return header(peer).round.load(std::memory_order_acquire) >= round_;
  }

  int rank_;
  std::vector<std::byte*> segments_;
  std::size_t capacity_;
  ExchangeWait wait_;
  std::uint64_t round_ = 0;
};

// Owns the window that holds the memory.
class WindowExchange final : public SharedExchange {
 public:
  WindowExchange(MPI_Win window, int rank, std::vector<std::byte*> segments, std::size_t capacity,
                 ExchangeWait wait)
      : SharedExchange(rank, std::move(segments), capacity, std::move(wait)), window_(window) {}
  // Collective; a failing rank leaves the window to MPI_Abort.
  ~WindowExchange() override {
    if (std::uncaught_exceptions() == 0) MPI_Win_free(&window_);
  }
  WindowExchange(const WindowExchange&) = delete;
  WindowExchange& operator=(const WindowExchange&) = delete;

 private:
  MPI_Win window_;
};

// An end of a group of threads, which share the memory's ownership.
class ThreadExchange final : public SharedExchange {
 public:
  ThreadExchange(std::shared_ptr<std::vector<Buffer>> memory, int rank,
                 std::vector<std::byte*> segments, std::size_t capacity)
      : SharedExchange(rank, std::move(segments), capacity, {}), memory_(std::move(memory)) {}

 private:
  std::shared_ptr<std::vector<Buffer>> memory_;
};

}  // namespace

std::unique_ptr<ShardExchange> make_shared_exchange(const Communicator& group, std::size_t bytes,
                                                    ExchangeWait wait) {
  std::byte* own = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  HR_MPI(MPI_Win_allocate_shared(static_cast<MPI_Aint>(segment_bytes(bytes) + kLine), 1,
                                 MPI_INFO_NULL, group.get(), static_cast<void*>(&own), &window));
  new (aligned(own)) Header;
  std::vector<std::byte*> segments;
  for (int rank = 0; rank < group.size(); ++rank) {
    MPI_Aint size = 0;
    int unit = 0;
    std::byte* segment = nullptr;
    HR_MPI(MPI_Win_shared_query(window, rank, &size, &unit, static_cast<void*>(&segment)));
    segments.push_back(aligned(segment));
  }
  group.barrier();  // all headers are made
  return std::make_unique<WindowExchange>(window, group.rank(), std::move(segments), bytes,
                                          std::move(wait));
}

std::vector<std::unique_ptr<ShardExchange>> make_thread_exchange(int size, std::size_t bytes) {
  const auto memory = std::make_shared<std::vector<Buffer>>();
  std::vector<std::byte*> segments;
  for (int rank = 0; rank < size; ++rank) {
    memory->emplace_back(segment_bytes(bytes));
    segments.push_back(memory->back().data());
    new (segments.back()) Header;
  }
  std::vector<std::unique_ptr<ShardExchange>> ends;
  ends.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ends.push_back(std::make_unique<ThreadExchange>(memory, rank, segments, bytes));
  }
  return ends;
}

}  // namespace headrace
