// An edge between two GPUs over MPI. Staged: the device copies to pinned memory on a stream of its
// own, MPI sends from there when the copy's event has come, receives into pinned memory, and a
// stream of the other device copies on. CUDA-aware: MPI reads and writes the device's memory
// itself. MPI is called from poll() and the other members, by the thread that owns them, never by a
// stream. On the wire it is what comm/mpi_channel.h sends.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/device_transport.h"

namespace headrace {

enum class MpiMemory : std::uint8_t { kPinned, kDevice };

/// One end of an edge.
struct MpiEdge {
  const Communicator& communicator;  // of these edges alone; has to outlive the channel
  int peer = 0;
  std::string peer_name;
  MpiMemory memory = MpiMemory::kPinned;
  ChannelShape shape;
  Stream compute = nullptr;
  double stall_timeout_s = 0.0;
};

std::unique_ptr<DeviceSender> make_mpi_device_sender(const MpiEdge& edge);
std::unique_ptr<DeviceReceiver> make_mpi_device_receiver(const MpiEdge& edge);

}  // namespace headrace
