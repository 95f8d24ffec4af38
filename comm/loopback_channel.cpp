#include "comm/loopback_channel.h"

#include <deque>
#include <vector>

namespace headrace {
namespace {

struct Queue {
  ChannelShape shape;
  std::deque<std::vector<std::byte>> messages;
};

class LoopbackSender : public MessageSender {
 public:
  explicit LoopbackSender(std::shared_ptr<Queue> queue)
      : queue_(std::move(queue)), buffer_(queue_->shape.max_bytes) {}

  std::optional<std::span<std::byte>> try_acquire() override {
    if (static_cast<int>(queue_->messages.size()) >= queue_->shape.num_buffers) return std::nullopt;
    return std::span<std::byte>(buffer_);
  }
  void post(std::size_t bytes) override {
    queue_->messages.emplace_back(buffer_.begin(),
                                  buffer_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  bool drained() override { return queue_->messages.empty(); }
  void poll() override {}

 private:
  std::shared_ptr<Queue> queue_;
  std::vector<std::byte> buffer_;
};

class LoopbackReceiver : public MessageReceiver {
 public:
  explicit LoopbackReceiver(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  std::optional<std::span<const std::byte>> try_receive() override {
    if (queue_->messages.empty()) return std::nullopt;
    return std::span<const std::byte>(queue_->messages.front());
  }
  void release() override { queue_->messages.pop_front(); }
  void poll() override {}

 private:
  std::shared_ptr<Queue> queue_;
};

}  // namespace

LoopbackChannel make_loopback_channel(ChannelShape shape) {
  auto queue = std::make_shared<Queue>(Queue{shape, {}});
  return {std::make_unique<LoopbackSender>(queue), std::make_unique<LoopbackReceiver>(queue)};
}

}  // namespace headrace
