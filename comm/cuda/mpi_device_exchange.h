// The exchange of a tensor group over MPI: rounds that the host takes part in. It waits until the
// device has made its part, swaps parts by messages, and queues what brings the others' to the
// device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/cuda/mpi_device_channel.h"

namespace headrace {

struct MpiGroup {
  const Communicator& communicator;  // of the group alone; has to outlive the exchange
  std::vector<std::string> names;    // by rank of the group
  MpiMemory memory = MpiMemory::kPinned;
  std::size_t bytes = 0;  // the most that a rank gives
  Stream compute = nullptr;
  double stall_timeout_s = 0.0;
  std::function<void()> poll;  // other transfers, while it waits
};

std::unique_ptr<DeviceExchange> make_mpi_device_exchange(const MpiGroup& group);

}  // namespace headrace
