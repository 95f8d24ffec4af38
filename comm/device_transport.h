// Transfers between the memories of GPUs, as the rest of the program sees them: nothing of CUDA,
// NCCL or MPI is needed to use this. What moves are hidden states from stage to stage and, inside a
// tensor group, the roots of partial sums; plans go by the message channel, and say how large what
// follows them is.
//
// Everything is asynchronous to the compute stream, which the transfers wait for and are waited for
// by; the host only queues, and polls. Nothing is allocated after the transport has been made.
// comm/cuda implements it; comm/no_cuda_transport.cpp stands there where CUDA is not built in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "comm/message_channel.h"
#include "kernels/cuda/stream.h"

namespace headrace {

/// The sending end of an edge between two stages.
class DeviceSender {
 public:
  virtual ~DeviceSender() = default;
  /// Memory of the device for the next message, to be written by work that is queued on the compute
  /// stream from now on; null while all buffers are in flight. The same one until post().
  virtual std::byte* try_acquire() = 0;
  /// Sends the first `bytes` bytes once what is queued on the compute stream so far is done.
  virtual void post(std::size_t bytes) = 0;
  /// True when every message has left its buffer.
  virtual bool drained() = 0;
  /// Lets transfers advance. Throws std::runtime_error where one has failed, or nobody has taken it
  /// for longer than the stall timeout, with the call and the peer.
  virtual void poll() = 0;
};

/// The receiving end.
class DeviceReceiver {
 public:
  virtual ~DeviceReceiver() = default;
  /// The next message, of so many bytes, for work that is queued on the compute stream from now on;
  /// null while it has not come far enough. The sender's post() must have been called, or be sure
  /// to come without this rank: ask once the plan is here. Writable; valid until release().
  virtual std::byte* try_receive(std::size_t bytes) = 0;
  /// What is queued on the compute stream so far is all that uses the message.
  virtual void release() = 0;
  virtual void poll() = 0;
};

/// What the ranks of a tensor group give each other. All of it happens in the order of the compute
/// stream; all ranks of the group make the same calls.
class DeviceExchange {
 public:
  virtual ~DeviceExchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Memory of the device for what this rank gives in the coming round.
  virtual std::byte* own() = 0;
  /// Everybody gets everybody's: bytes[r] of rank r, the same list on all ranks.
  virtual void gather(std::span<const std::size_t> bytes) = 0;
  /// What a rank gave, its own included, for work that is queued from now to the next gather().
  virtual const std::byte* part(int rank) const = 0;
  /// values[i] becomes the sum over all ranks, in whatever order the transport likes: not the order
  /// of a reduction tree.
  virtual void sum(float* values, std::int64_t count) = 0;
  virtual void poll() = 0;
};

enum class TransportKind : std::uint8_t { kNccl, kMpiStaged, kMpiCudaAware };

/// "nccl", "mpi-staged", "mpi-cuda-aware".
std::string_view transport_name(TransportKind kind);
std::optional<TransportKind> transport_of(std::string_view name);

/// Why a transport cannot be used in this build, on this machine, with this MPI; empty where it
/// can. Loads NCCL where it is asked for that.
std::string why_not(TransportKind kind);

struct TransportOptions {
  TransportKind kind = TransportKind::kMpiStaged;
  Stream compute = nullptr;  // of the device that the calling thread has selected
  // Ranks of the communicator.
  std::optional<int> upstream = {};
  std::optional<int> downstream = {};
  // The tensor group in ascending order, this rank included; may be empty.
  std::vector<int> group = {};
  ChannelShape hidden = {};             // of messages from stage to stage
  std::size_t exchange_bytes = 0;       // the most that a rank gives in a round
  double stall_timeout_s = 0.0;         // 0: wait for ever
  std::vector<std::string> names = {};  // by rank, for messages: "rank 3 (stage 1, host a)"
  // Lets other transfers advance while this one waits; may be empty, may poll this one.
  std::function<void()> poll = {};
};

/// Bytes of the device that the transport takes for its buffers. What NCCL takes for itself comes
/// on top (nccl_memory.h).
std::size_t device_transport_bytes(const TransportOptions& options);

/// One rank's transfers. Only the thread that made it may call it.
class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;
  virtual DeviceSender* sender() = 0;      // null on a last stage
  virtual DeviceReceiver* receiver() = 0;  // null on a first stage
  virtual DeviceExchange* exchange() = 0;  // null for a group of one
  /// Lets transfers advance. Whoever waits for the device has to call it meanwhile: work of a lost
  /// peer never ends, and nothing else notices.
  virtual void poll() = 0;
};

/// Collective over the communicator, whose ranks all use a GPU and the same kind. Warms the
/// connections up. Throws std::invalid_argument where the kind cannot be used.
std::unique_ptr<DeviceTransport> make_device_transport(const Communicator& communicator,
                                                       const TransportOptions& options);

}  // namespace headrace
