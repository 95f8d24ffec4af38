// One direction of one edge between two ranks: messages of varying size, in order, several in
// flight. Both ends own a ring of buffers, so a receive is posted long before its message is needed
// and a send is waited for only when its buffer is needed again.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace headrace {

/// The sending end. The caller fills a buffer in place and posts it.
class MessageSender {
 public:
  virtual ~MessageSender() = default;
  /// A free buffer of max_bytes, or nullopt while all are in flight. The same one until post().
  virtual std::optional<std::span<std::byte>> try_acquire() = 0;
  /// Sends the first `bytes` bytes of the acquired buffer.
  virtual void post(std::size_t bytes) = 0;
  /// True when every posted message has left its buffer.
  virtual bool drained() = 0;
  /// Lets transfers advance while the caller computes.
  virtual void poll() = 0;
};

/// The receiving end.
class MessageReceiver {
 public:
  virtual ~MessageReceiver() = default;
  /// The oldest message that has arrived, valid until release(); nullopt while there is none.
  virtual std::optional<std::span<const std::byte>> try_receive() = 0;
  /// Gives the buffer of the received message back for a later one.
  virtual void release() = 0;
  virtual void poll() = 0;
};

/// How large messages get and how many may be on their way.
struct ChannelShape {
  std::size_t max_bytes = 0;
  int num_buffers = 2;
};

}  // namespace headrace
