#include "comm/cuda/mpi_device_exchange.h"

#include <stdexcept>

#include "comm/check.h"
#include "comm/cuda/queued_work.h"
#include "comm/waiting.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/handles.h"

namespace headrace {
namespace {

constexpr int kTag = 0;  // messages of a pair keep their order, so rounds need no numbers

struct Part {
  DeviceMemory device;
  PinnedMemory pinned;
  MPI_Request send = MPI_REQUEST_NULL;  // of this rank's part, to that rank
  MPI_Request receive = MPI_REQUEST_NULL;

  bool is_complete() {
    int sent = 0;
    int received = 0;
    HR_MPI(MPI_Test(&send, &sent, MPI_STATUS_IGNORE));
    HR_MPI(MPI_Test(&receive, &received, MPI_STATUS_IGNORE));
    return sent != 0 && received != 0;
  }
};

class MpiDeviceExchange final : public DeviceExchange {
 public:
  explicit MpiDeviceExchange(const MpiGroup& group)
      : comm_(group.communicator.get()),
        rank_(group.communicator.rank()),
        group_(group),
        parts_(static_cast<std::size_t>(group.communicator.size())) {
    require_one_transfer("an exchange", group.bytes);
    for (Part& part : parts_) {
      part.device = DeviceMemory(group.bytes);
      if (staged()) part.pinned = PinnedMemory(group.bytes);
      values_.push_back(reinterpret_cast<const float*>(part.device.data()));
    }
    bytes_.assign(parts_.size(), 0);
    merges_.assign(parts_.size(), 1);
    merges_.front() = 0;  // ((0 + 1) + 2) + ...
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(parts_.size()); }
  std::byte* own() override { return own_part().device.data(); }

  void gather(std::span<const std::size_t> bytes) override {
    for (const std::size_t count : bytes) {
      if (count > group_.bytes) {
        throw std::logic_error("an exchange of " + std::to_string(count) + " bytes does not fit " +
                               std::to_string(group_.bytes));
      }
    }
    wait_for_own(bytes[static_cast<std::size_t>(rank_)]);
    for (std::size_t peer = 0; peer < parts_.size(); ++peer) {
      if (static_cast<int>(peer) != rank_) begin(peer, bytes);
    }
    for (std::size_t peer = 0; peer < parts_.size(); ++peer) {
      if (static_cast<int>(peer) != rank_) end(peer, bytes[peer]);
    }
  }

  const std::byte* part(int rank) const override {
    return parts_[static_cast<std::size_t>(rank)].device.data();
  }

  void sum(float* values, std::int64_t count) override {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    bytes_.assign(parts_.size(), bytes);
    if (bytes <= group_.bytes) {
      HR_CUDA(cudaMemcpyAsync(own(), values, bytes, cudaMemcpyDeviceToDevice, group_.compute));
    }
    gather(bytes_);
    launch_add_partials({.out = values,
                         .base = nullptr,
                         .parts = values_,
                         .merges = merges_,
                         .bias = nullptr,
                         .rows = 1,
                         .cols = count},
                        group_.compute);
  }

  void poll() override {}

 private:
  bool staged() const { return group_.memory == MpiMemory::kPinned; }
  Part& own_part() { return parts_[static_cast<std::size_t>(rank_)]; }
  std::byte* wire(Part& part) const { return staged() ? part.pinned.data() : part.device.data(); }

  // Until the device has made this rank's part, and with it has read the last round's.
  void wait_for_own(std::size_t bytes) {
    if (staged()) {
      HR_CUDA(cudaMemcpyAsync(own_part().pinned.data(), own(), bytes, cudaMemcpyDeviceToHost,
                              group_.compute));
    }
    HR_CUDA(cudaEventRecord(made_.get(), group_.compute));
    // Without a deadline: what the device waits for, if anything, has one of its own.
    for (const std::int64_t begin = now_ns(); !has_happened(made_, "on its part of a sum");) {
      if (group_.poll) group_.poll();
      pause_politely(now_ns() - begin);
    }
  }

  void begin(std::size_t peer, std::span<const std::size_t> bytes) {
    Part& part = parts_[peer];
    HR_MPI(MPI_Irecv(wire(part), static_cast<int>(bytes[peer]), MPI_BYTE, static_cast<int>(peer),
                     kTag, comm_, &part.receive));
    HR_MPI(MPI_Isend(wire(own_part()), static_cast<int>(bytes[static_cast<std::size_t>(rank_)]),
                     MPI_BYTE, static_cast<int>(peer), kTag, comm_, &part.send));
  }

  void end(std::size_t peer, std::size_t bytes) {
    Part& part = parts_[peer];
    Waiting waiting("the sums of " + group_.names[peer], group_.stall_timeout_s);
    while (!part.is_complete()) {
      if (group_.poll) group_.poll();
      waiting.pause();
    }
    if (!staged()) return;
    HR_CUDA(cudaMemcpyAsync(part.device.data(), part.pinned.data(), bytes, cudaMemcpyHostToDevice,
                            group_.compute));
  }

  MPI_Comm comm_;
  int rank_;
  MpiGroup group_;
  std::vector<Part> parts_;
  OwnedEvent made_;
  std::vector<const float*> values_;
  std::vector<std::int32_t> merges_;
  std::vector<std::size_t> bytes_;
};

}  // namespace

std::unique_ptr<DeviceExchange> make_mpi_device_exchange(const MpiGroup& group) {
  return std::make_unique<MpiDeviceExchange>(group);
}

}  // namespace headrace
