// The message channel inside one process: a whole pipeline can run in the threads of a test.
#pragma once

#include <memory>

#include "comm/message_channel.h"

namespace headrace {

struct LoopbackChannel {
  std::unique_ptr<MessageSender> sender;
  std::unique_ptr<MessageReceiver> receiver;
};

/// Two ends that share a queue of shape.num_buffers messages. Each end may be in a thread of
/// its own.
LoopbackChannel make_loopback_channel(ChannelShape shape);

}  // namespace headrace
