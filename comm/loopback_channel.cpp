#include "comm/loopback_channel.h"

#include <deque>
#include <mutex>
#include <vector>

namespace headrace {
namespace {

class Queue {
 public:
  explicit Queue(ChannelShape shape) : shape_(shape) {}

  const ChannelShape& shape() const { return shape_; }
  int size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(messages_.size());
  }
  void push(std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(bytes.begin(), bytes.end());
  }
  // Stays where it is while others are pushed.
  std::span<const std::byte> front() const {
    const std::lock_guard lock(mutex_);
    return messages_.front();
  }
  void pop() {
    const std::lock_guard lock(mutex_);
    messages_.pop_front();
  }

 private:
  ChannelShape shape_;
  mutable std::mutex mutex_;
  std::deque<std::vector<std::byte>> messages_;  // guarded by mutex_
};

class LoopbackSender : public MessageSender {
 public:
  explicit LoopbackSender(std::shared_ptr<Queue> queue)
      : queue_(std::move(queue)), buffer_(queue_->shape().max_bytes) {}

  std::optional<std::span<std::byte>> try_acquire() override {
    if (queue_->size() >= queue_->shape().num_buffers) return std::nullopt;
    return std::span<std::byte>(buffer_);
  }
  void post(std::size_t bytes) override { queue_->push(std::span(buffer_).first(bytes)); }
  bool drained() override { return queue_->size() == 0; }
  void poll() override {}

 private:
  std::shared_ptr<Queue> queue_;
  std::vector<std::byte> buffer_;
};

class LoopbackReceiver : public MessageReceiver {
 public:
  explicit LoopbackReceiver(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  std::optional<std::span<const std::byte>> try_receive() override {
    if (queue_->size() == 0) return std::nullopt;
    return queue_->front();
  }
  void release() override { queue_->pop(); }
  void poll() override {}

 private:
  std::shared_ptr<Queue> queue_;
};

}  // namespace

LoopbackChannel make_loopback_channel(ChannelShape shape) {
  auto queue = std::make_shared<Queue>(shape);
  return {std::make_unique<LoopbackSender>(queue), std::make_unique<LoopbackReceiver>(queue)};
}

}  // namespace headrace
