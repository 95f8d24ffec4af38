// Edges and tensor groups over NCCL. An edge has a communicator and a stream of its own on either
// side: its transfers run beside the compute stream, joined to it by events. A group's run on the
// compute stream itself.
//
// A receive is queued only when its send has been, or is sure to be (DeviceReceiver::try_receive):
// then, as edges form lines, ranks cannot block each other even where a GPU runs one NCCL operation
// at a time.
#pragma once

#include <memory>

#include "comm/cuda/nccl_communicator.h"
#include "comm/device_transport.h"

namespace headrace {

/// One end of an edge or one rank's part of a group.
struct NcclEnd {
  std::unique_ptr<NcclCommunicator> communicator;  // an edge's sender is its rank 0
  Stream compute = nullptr;
  ChannelShape shape;  // for a group: max_bytes that a rank gives
  double stall_timeout_s = 0.0;
};

std::unique_ptr<DeviceSender> make_nccl_sender(NcclEnd end);
std::unique_ptr<DeviceReceiver> make_nccl_receiver(NcclEnd end);
std::unique_ptr<DeviceExchange> make_nccl_exchange(NcclEnd end);

}  // namespace headrace
