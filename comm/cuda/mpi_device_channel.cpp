#include "comm/cuda/mpi_device_channel.h"

#include <exception>
#include <stdexcept>
#include <vector>

#include "comm/check.h"
#include "comm/cuda/queued_work.h"
#include "comm/waiting.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/handles.h"

namespace headrace {
namespace {

constexpr int kTag = 0;

struct Slot {
  // Of a sender: the device works and copies, then MPI sends. Of a receiver: MPI receives, the
  // message waits or is used, then the device still reads what MPI is to write next.
  enum class State : std::uint8_t { kFree, kDevice, kMpi, kArrived };

  DeviceMemory device;
  PinnedMemory pinned;
  OwnedEvent device_done;  // with what MPI waits for
  OwnedEvent released;     // the compute stream has read the message
  MPI_Request request = MPI_REQUEST_NULL;
  State state = State::kFree;
  std::size_t bytes = 0;
  std::int64_t since_ns = 0;

  bool is_complete(MPI_Status* status) {
    int done = 0;
    HR_MPI(MPI_Test(&request, &done, status));
    return done != 0;
  }
};

// What both ends have: a ring of buffers and a stream beside the compute stream.
class Ring {
 public:
  explicit Ring(const MpiEdge& edge)
      : comm_(edge.communicator.get()),
        edge_(edge),
        slots_(static_cast<std::size_t>(edge.shape.num_buffers)) {
    require_one_transfer("a message", edge.shape.max_bytes);
    for (Slot& slot : slots_) {
      slot.device = DeviceMemory(edge.shape.max_bytes);
      if (staged()) slot.pinned = PinnedMemory(edge.shape.max_bytes);
    }
  }

  bool staged() const { return edge_.memory == MpiMemory::kPinned; }
  /// What MPI reads or writes.
  std::byte* wire(Slot& slot) const { return staged() ? slot.pinned.data() : slot.device.data(); }
  Slot& next() { return slots_[next_]; }
  /// The i-th from the one whose turn it is, which is the oldest that is in flight.
  Slot& from_next(std::size_t i) { return slots_[(next_ + i) % slots_.size()]; }
  std::size_t size() const { return slots_.size(); }
  void advance() { next_ = (next_ + 1) % slots_.size(); }

  void require_fits(std::size_t bytes) const {
    if (bytes <= edge_.shape.max_bytes) return;
    throw std::logic_error("a message of " + std::to_string(bytes) + " bytes does not fit " +
                           std::to_string(edge_.shape.max_bytes));
  }
  void require_progress(std::int64_t since_ns, const std::string& what) const {
    const double limit = edge_.stall_timeout_s;
    if (limit > 0 && seconds_since(since_ns) > limit) throw_stalled(limit, what);
  }

  MPI_Comm comm_;
  MpiEdge edge_;
  OwnedStream stream_;

 private:
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
};

class MpiDeviceSender final : public DeviceSender {
 public:
  explicit MpiDeviceSender(const MpiEdge& edge) : ring_(edge) {}

  // A buffer may not die under a transfer; a failing rank leaves them to MPI_Abort.
  ~MpiDeviceSender() override {
    if (std::uncaught_exceptions() > 0) return;
    cudaStreamSynchronize(ring_.stream_.get());
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      MPI_Wait(&ring_.from_next(i).request, MPI_STATUS_IGNORE);
    }
  }
  MpiDeviceSender(const MpiDeviceSender&) = delete;
  MpiDeviceSender& operator=(const MpiDeviceSender&) = delete;

  std::byte* try_acquire() override {
    poll();
    Slot& slot = ring_.next();
    return slot.state == Slot::State::kFree ? slot.device.data() : nullptr;
  }

  void post(std::size_t bytes) override {
    ring_.require_fits(bytes);
    Slot& slot = ring_.next();
    const cudaStream_t stream = ring_.staged() ? ring_.stream_.get() : ring_.edge_.compute;
    if (ring_.staged()) {
      order_after(stream, ring_.edge_.compute, computed_);
      HR_CUDA(cudaMemcpyAsync(slot.pinned.data(), slot.device.data(), bytes, cudaMemcpyDeviceToHost,
                              stream));
    }
    HR_CUDA(cudaEventRecord(slot.device_done.get(), stream));
    slot.state = Slot::State::kDevice;
    slot.bytes = bytes;
    slot.since_ns = now_ns();
    ring_.advance();
  }

  bool drained() override {
    poll();
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      if (ring_.from_next(i).state != Slot::State::kFree) return false;
    }
    return true;
  }

  // In the order of the messages: MPI keeps it only from one call to the next.
  void poll() override {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      Slot& slot = ring_.from_next(i);
      if (slot.state == Slot::State::kDevice) {
        if (!has_happened(slot.device_done, "for " + ring_.edge_.peer_name)) {
          require_progress(slot);
          return;
        }
        HR_MPI(MPI_Isend(ring_.wire(slot), static_cast<int>(slot.bytes), MPI_BYTE, ring_.edge_.peer,
                         kTag, ring_.comm_, &slot.request));
        slot.state = Slot::State::kMpi;
      }
      if (slot.state != Slot::State::kMpi) continue;
      if (slot.is_complete(MPI_STATUS_IGNORE)) {
        slot.state = Slot::State::kFree;
      } else {
        require_progress(slot);
      }
    }
  }

 private:
  void require_progress(const Slot& slot) const {
    ring_.require_progress(slot.since_ns,
                           "for " + ring_.edge_.peer_name + " to take a step's hidden states");
  }

  Ring ring_;
  OwnedEvent computed_;
};

class MpiDeviceReceiver final : public DeviceReceiver {
 public:
  explicit MpiDeviceReceiver(const MpiEdge& edge) : ring_(edge) {
    for (std::size_t i = 0; i < ring_.size(); ++i) receive_into(ring_.from_next(i));
  }

  ~MpiDeviceReceiver() override {
    if (std::uncaught_exceptions() > 0) return;
    cudaStreamSynchronize(ring_.stream_.get());
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      Slot& slot = ring_.from_next(i);
      if (slot.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&slot.request);
      MPI_Wait(&slot.request, MPI_STATUS_IGNORE);
    }
  }
  MpiDeviceReceiver(const MpiDeviceReceiver&) = delete;
  MpiDeviceReceiver& operator=(const MpiDeviceReceiver&) = delete;

  std::byte* try_receive(std::size_t bytes) override {
    ring_.require_fits(bytes);
    poll();
    Slot& slot = ring_.next();
    if (slot.state != Slot::State::kArrived) {
      if (asked_ns_ == 0) asked_ns_ = now_ns();
      ring_.require_progress(asked_ns_,
                             "for the hidden states of a step from " + ring_.edge_.peer_name);
      return nullptr;
    }
    asked_ns_ = 0;
    if (slot.bytes != bytes) {
      throw std::runtime_error("a step's hidden states are " + std::to_string(bytes) +
                               " bytes by its plan, but " + ring_.edge_.peer_name + " sent " +
                               std::to_string(slot.bytes));
    }
    if (ring_.staged()) {
      HR_CUDA(cudaStreamWaitEvent(ring_.edge_.compute, slot.device_done.get(), 0));
    }
    return slot.device.data();
  }

  void release() override {
    Slot& slot = ring_.next();
    HR_CUDA(cudaEventRecord(slot.released.get(), ring_.edge_.compute));
    slot.state = Slot::State::kDevice;
    ring_.advance();
    poll();
  }

  void poll() override {
    for (std::size_t i = 0; i < ring_.size(); ++i) {
      Slot& slot = ring_.from_next(i);
      if (slot.state == Slot::State::kDevice) {
        // Staged, the message has left the pinned memory before the compute stream has read it.
        const OwnedEvent& read = ring_.staged() ? slot.device_done : slot.released;
        if (!has_happened(read, "on what " + ring_.edge_.peer_name + " sent")) return;
        receive_into(slot);
      }
      if (slot.state == Slot::State::kMpi) look_for(slot);
    }
  }

 private:
  void receive_into(Slot& slot) {
    HR_MPI(MPI_Irecv(ring_.wire(slot), static_cast<int>(ring_.edge_.shape.max_bytes), MPI_BYTE,
                     ring_.edge_.peer, kTag, ring_.comm_, &slot.request));
    slot.state = Slot::State::kMpi;
  }

  void look_for(Slot& slot) {
    MPI_Status status;
    if (!slot.is_complete(&status)) return;
    int bytes = 0;
    HR_MPI(MPI_Get_count(&status, MPI_BYTE, &bytes));
    slot.bytes = static_cast<std::size_t>(bytes);
    slot.state = Slot::State::kArrived;
    if (!ring_.staged()) return;
    const cudaStream_t stream = ring_.stream_.get();
    HR_CUDA(cudaStreamWaitEvent(stream, slot.released.get(), 0));
    HR_CUDA(cudaMemcpyAsync(slot.device.data(), slot.pinned.data(), slot.bytes,
                            cudaMemcpyHostToDevice, stream));
    HR_CUDA(cudaEventRecord(slot.device_done.get(), stream));
  }

  Ring ring_;
  std::int64_t asked_ns_ = 0;  // since when the caller waits for the next message
};

}  // namespace

std::unique_ptr<DeviceSender> make_mpi_device_sender(const MpiEdge& edge) {
  return std::make_unique<MpiDeviceSender>(edge);
}

std::unique_ptr<DeviceReceiver> make_mpi_device_receiver(const MpiEdge& edge) {
  return std::make_unique<MpiDeviceReceiver>(edge);
}

}  // namespace headrace
