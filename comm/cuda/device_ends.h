// What a transport gives a rank: an end for each of its links. Made by one of the transports.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/device_transport.h"

namespace headrace {

struct DeviceEnds {
  std::vector<Communicator> communicators;  // that the ends use, and outlive them
  std::unique_ptr<DeviceSender> sender;
  std::unique_ptr<DeviceReceiver> receiver;
  std::unique_ptr<DeviceExchange> exchange;
};

/// Collective over the communicator, for kMpiStaged and kMpiCudaAware.
DeviceEnds make_mpi_ends(const Communicator& communicator, const TransportOptions& options);

/// Collective over the communicator. Warms every connection up.
DeviceEnds make_nccl_ends(const Communicator& communicator, const TransportOptions& options);

/// True for a tensor group of several ranks.
inline bool has_group(const TransportOptions& options) {
  return options.group.size() > 1;
}

}  // namespace headrace
