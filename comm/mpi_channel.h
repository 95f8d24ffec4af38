// The message channel over MPI on host memory. MPI moves data only inside MPI calls: poll() is to
// be called between pieces of computing, which frees the sender from waiting for a receiver that
// computes.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/message_channel.h"

namespace headrace {

/// Both ends of an edge must be made with the same shape over the same communicator, one channel a
/// direction and pair of ranks. Messages above 2 GiB are refused (std::invalid_argument).
std::unique_ptr<MessageSender> make_mpi_sender(const Communicator& communicator, int peer,
                                               ChannelShape shape);
std::unique_ptr<MessageReceiver> make_mpi_receiver(const Communicator& communicator, int peer,
                                                   ChannelShape shape);

}  // namespace headrace
