#include "comm/mpi_channel.h"

#include <exception>
#include <string>
#include <vector>

#include "comm/check.h"
#include "kernels/buffer.h"

namespace headrace {
namespace {

constexpr int kTag = 0;  // one communicator a kind of traffic, so tags tell nothing apart

struct Slot {
  Buffer buffer;
  MPI_Request request = MPI_REQUEST_NULL;
};

std::vector<Slot> make_slots(ChannelShape shape) {
  require_one_transfer("a message", shape.max_bytes);
  std::vector<Slot> slots(static_cast<std::size_t>(shape.num_buffers));
  for (Slot& slot : slots) slot.buffer = Buffer(shape.max_bytes);
  return slots;
}

bool is_complete(Slot& slot, MPI_Status* status = MPI_STATUS_IGNORE) {
  int done = 0;
  HR_MPI(MPI_Test(&slot.request, &done, status));
  return done != 0;
}

class MpiSender : public MessageSender {
 public:
  MpiSender(const Communicator& communicator, int peer, ChannelShape shape)
      : comm_(communicator.get()), peer_(peer), slots_(make_slots(shape)) {}

  // A buffer may not die under a transfer, but a failing rank must reach the terminate handler
  // instead of waiting here for a peer that may be gone.
  ~MpiSender() override {
    if (std::uncaught_exceptions() > 0) return;
    for (Slot& slot : slots_) MPI_Wait(&slot.request, MPI_STATUS_IGNORE);
  }
  MpiSender(const MpiSender&) = delete;
  MpiSender& operator=(const MpiSender&) = delete;

  std::optional<std::span<std::byte>> try_acquire() override {
    Slot& slot = slots_[next_];
    if (!is_complete(slot)) return std::nullopt;
    return std::span<std::byte>(slot.buffer.data(), slot.buffer.bytes());
  }

  void post(std::size_t bytes) override {
    Slot& slot = slots_[next_];
    HR_MPI(MPI_Isend(slot.buffer.data(), static_cast<int>(bytes), MPI_BYTE, peer_, kTag, comm_,
                     &slot.request));
    next_ = (next_ + 1) % slots_.size();
  }

  bool drained() override {
    bool all = true;
    for (Slot& slot : slots_) all = is_complete(slot) && all;
    return all;
  }

  void poll() override { drained(); }

 private:
  MPI_Comm comm_;
  int peer_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

class MpiReceiver : public MessageReceiver {
 public:
  MpiReceiver(const Communicator& communicator, int peer, ChannelShape shape)
      : comm_(communicator.get()), peer_(peer), slots_(make_slots(shape)) {
    for (Slot& slot : slots_) post(slot);
  }

  // Receives that no message will meet are withdrawn; a failing rank leaves them to MPI_Abort.
  ~MpiReceiver() override {
    if (std::uncaught_exceptions() > 0) return;
    for (Slot& slot : slots_) {
      if (slot.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&slot.request);
      MPI_Wait(&slot.request, MPI_STATUS_IGNORE);
    }
  }
  MpiReceiver(const MpiReceiver&) = delete;
  MpiReceiver& operator=(const MpiReceiver&) = delete;

  std::optional<std::span<const std::byte>> try_receive() override {
    if (!arrived_) {
      MPI_Status status;
      Slot& slot = slots_[next_];
      if (!is_complete(slot, &status)) return std::nullopt;
      int bytes = 0;
      HR_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
      arrived_ = std::span<const std::byte>(slot.buffer.data(), static_cast<std::size_t>(bytes));
    }
    return arrived_;
  }

  void release() override {
    arrived_.reset();
    post(slots_[next_]);
    next_ = (next_ + 1) % slots_.size();
  }

  void poll() override { try_receive(); }

 private:
  void post(Slot& slot) {
    HR_MPI(MPI_Irecv(slot.buffer.data(), static_cast<int>(slot.buffer.bytes()), MPI_BYTE, peer_,
                     kTag, comm_, &slot.request));
  }

  MPI_Comm comm_;
  int peer_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
  std::optional<std::span<const std::byte>> arrived_;
};

}  // namespace

std::unique_ptr<MessageSender> make_mpi_sender(const Communicator& communicator, int peer,
                                               ChannelShape shape) {
  return std::make_unique<MpiSender>(communicator, peer, shape);
}

std::unique_ptr<MessageReceiver> make_mpi_receiver(const Communicator& communicator, int peer,
                                                   ChannelShape shape) {
  return std::make_unique<MpiReceiver>(communicator, peer, shape);
}

}  // namespace headrace
