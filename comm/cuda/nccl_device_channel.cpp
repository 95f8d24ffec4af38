#include "comm/cuda/nccl_device_channel.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "comm/cuda/queued_work.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/handles.h"

namespace headrace {
namespace {

constexpr int kSenderRank = 0;
constexpr int kReceiverRank = 1;

void require_fits(std::size_t bytes, const NcclEnd& end) {
  if (bytes <= end.shape.max_bytes) return;
  throw std::logic_error("a message of " + std::to_string(bytes) + " bytes does not fit " +
                         std::to_string(end.shape.max_bytes));
}

struct Slot {
  DeviceMemory buffer;
  OwnedEvent filled;    // the message is in the buffer
  OwnedEvent released;  // nobody reads it any more
};

std::vector<Slot> make_slots(const ChannelShape& shape) {
  std::vector<Slot> slots(static_cast<std::size_t>(shape.num_buffers));
  for (Slot& slot : slots) slot.buffer = DeviceMemory(shape.max_bytes);
  return slots;
}

// What an end does, in the words of messages.
struct Words {
  std::string call;     // "ncclSend"
  std::string work;     // "on an ncclSend to rank 1"
  std::string awaited;  // "for rank 1 to take a step's hidden states (ncclSend)"
};

// An end's communicator and the last of what was queued on it.
class FollowedEnd {
 public:
  FollowedEnd(NcclEnd end, Words (*words_with)(const std::string& others))
      : words_(words_with(end.communicator->with())), end_(std::move(end)) {}

  const NcclEnd& operator*() const { return end_; }
  const NcclEnd* operator->() const { return &end_; }
  NcclCommunicator& communicator() const { return *end_.communicator; }

  void mark(cudaStream_t stream) { last_.mark(stream); }
  bool ended() { return last_.ended(words_.work); }

  // Throws where NCCL has noticed an error, the device has failed, or nothing has moved for too
  // long.
  void poll() {
    communicator().require_healthy(words_.call.c_str());
    if (!ended()) last_.require_progress(end_.stall_timeout_s, words_.awaited);
  }

 private:
  Words words_;
  QueuedWork last_;
  NcclEnd end_;
};

Words words_of_sender(const std::string& peer) {
  return {.call = "ncclSend",
          .work = "on an ncclSend to " + peer,
          .awaited = "for " + peer + " to take a step's hidden states (ncclSend)"};
}

Words words_of_receiver(const std::string& peer) {
  return {.call = "ncclRecv",
          .work = "on an ncclRecv from " + peer,
          .awaited = "for the hidden states of a step from " + peer + " (ncclRecv)"};
}

Words words_of_group(const std::string& others) {
  return {.call = "the sums of a tensor group",
          .work = "on sums with " + others,
          .awaited = "for the sums of " + others + " (NCCL)"};
}

class NcclSender final : public DeviceSender {
 public:
  explicit NcclSender(NcclEnd end)
      : slots_(make_slots(end.shape)), end_(std::move(end), words_of_sender) {}

  // The compute stream itself waits until the buffer has been sent.
  std::byte* try_acquire() override {
    Slot& slot = slots_[next_];
    if (!std::exchange(acquired_, true)) {
      HR_CUDA(cudaStreamWaitEvent(end_->compute, slot.released.get(), 0));
    }
    return slot.buffer.data();
  }

  void post(std::size_t bytes) override {
    require_fits(bytes, *end_);
    Slot& slot = slots_[next_];
    order_after(stream_.get(), end_->compute, slot.filled);
    NcclCommunicator& edge = end_.communicator();
    edge.require(
        ncclSend(slot.buffer.data(), bytes, ncclUint8, kReceiverRank, edge.get(), stream_.get()),
        "ncclSend");
    HR_CUDA(cudaEventRecord(slot.released.get(), stream_.get()));
    end_.mark(stream_.get());
    acquired_ = false;
    next_ = (next_ + 1) % slots_.size();
  }

  bool drained() override {
    poll();
    return end_.ended();
  }

  void poll() override { end_.poll(); }

 private:
  OwnedStream stream_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
  bool acquired_ = false;
  FollowedEnd end_;  // the first to go: it ends what uses the others
};

class NcclReceiver final : public DeviceReceiver {
 public:
  explicit NcclReceiver(NcclEnd end)
      : slots_(make_slots(end.shape)), end_(std::move(end), words_of_receiver) {}

  std::byte* try_receive(std::size_t bytes) override {
    require_fits(bytes, *end_);
    Slot& slot = slots_[next_];
    if (std::exchange(received_, true)) return slot.buffer.data();
    HR_CUDA(cudaStreamWaitEvent(stream_.get(), slot.released.get(), 0));
    NcclCommunicator& edge = end_.communicator();
    edge.require(
        ncclRecv(slot.buffer.data(), bytes, ncclUint8, kSenderRank, edge.get(), stream_.get()),
        "ncclRecv");
    end_.mark(stream_.get());
    order_after(end_->compute, stream_.get(), slot.filled);
    return slot.buffer.data();
  }

  void release() override {
    HR_CUDA(cudaEventRecord(slots_[next_].released.get(), end_->compute));
    received_ = false;
    next_ = (next_ + 1) % slots_.size();
  }

  void poll() override { end_.poll(); }

 private:
  OwnedStream stream_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
  bool received_ = false;
  FollowedEnd end_;  // the first to go: it ends what uses the others
};

class NcclExchange final : public DeviceExchange {
 public:
  explicit NcclExchange(NcclEnd end)
      : rank_(rank_of(*end.communicator)),
        own_(end.shape.max_bytes),
        end_(std::move(end), words_of_group) {
    int size = 0;
    end_.communicator().require(ncclCommCount(end_.communicator().get(), &size), "ncclCommCount");
    places_.assign(static_cast<std::size_t>(size), nullptr);
    all_ = DeviceMemory(end_->shape.max_bytes * places_.size());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(places_.size()); }
  std::byte* own() override { return own_.data(); }

  void gather(std::span<const std::size_t> bytes) override {
    for (const std::size_t count : bytes) require_fits(count, *end_);
    std::size_t begin = 0;
    for (std::size_t r = 0; r < places_.size(); ++r) {
      places_[r] = all_.data() + begin;
      begin += bytes[r];
    }
    const bool equal = std::all_of(bytes.begin(), bytes.end(),
                                   [&](std::size_t count) { return count == bytes.front(); });
    if (equal) {
      gather_equal(bytes.front());
    } else {
      gather_unequal(bytes);
    }
    end_.mark(end_->compute);
  }

  const std::byte* part(int rank) const override {
    return rank == rank_ ? own_.data() : places_[static_cast<std::size_t>(rank)];
  }

  void sum(float* values, std::int64_t count) override {
    NcclCommunicator& group = end_.communicator();
    group.require(ncclAllReduce(values, values, static_cast<std::size_t>(count), ncclFloat32,
                                ncclSum, group.get(), end_->compute),
                  "ncclAllReduce");
    end_.mark(end_->compute);
  }

  void poll() override { end_.poll(); }

 private:
  static int rank_of(NcclCommunicator& group) {
    int rank = 0;
    group.require(ncclCommUserRank(group.get(), &rank), "ncclCommUserRank");
    return rank;
  }

  void gather_equal(std::size_t bytes) {
    NcclCommunicator& group = end_.communicator();
    group.require(
        ncclAllGather(own_.data(), all_.data(), bytes, ncclUint8, group.get(), end_->compute),
        "ncclAllGather");
  }

  // Together, so that no order among the pairs is needed.
  void gather_unequal(std::span<const std::size_t> bytes) {
    NcclCommunicator& group = end_.communicator();
    group.require(ncclGroupStart(), "ncclGroupStart");
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const auto p = static_cast<std::size_t>(peer);
      group.require(ncclSend(own_.data(), bytes[static_cast<std::size_t>(rank_)], ncclUint8, peer,
                             group.get(), end_->compute),
                    "ncclSend");
      group.require(ncclRecv(places_[p], bytes[p], ncclUint8, peer, group.get(), end_->compute),
                    "ncclRecv");
    }
    group.require(ncclGroupEnd(), "ncclGroupEnd");
  }

  int rank_;
  DeviceMemory own_;
  DeviceMemory all_;
  std::vector<std::byte*> places_;  // by rank, in all_
  FollowedEnd end_;                 // the first to go: it ends what uses the others
};

}  // namespace

std::unique_ptr<DeviceSender> make_nccl_sender(NcclEnd end) {
  return std::make_unique<NcclSender>(std::move(end));
}

std::unique_ptr<DeviceReceiver> make_nccl_receiver(NcclEnd end) {
  return std::make_unique<NcclReceiver>(std::move(end));
}

std::unique_ptr<DeviceExchange> make_nccl_exchange(NcclEnd end) {
  return std::make_unique<NcclExchange>(std::move(end));
}

}  // namespace headrace
