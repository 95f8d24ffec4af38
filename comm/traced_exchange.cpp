#include "comm/traced_exchange.h"

#include <utility>

namespace headrace {
namespace {

class TracedExchange final : public ShardExchange {
 public:
  TracedExchange(std::unique_ptr<ShardExchange> exchange, SpanRecorder& recorder)
      : exchange_(std::move(exchange)), recorder_(recorder) {}

  int rank() const override { return exchange_->rank(); }
  int size() const override { return exchange_->size(); }
  std::span<std::byte> own() override { return exchange_->own(); }
  void publish(std::size_t bytes) override {
    const ScopedPhase phase(&recorder_, Phase::kExchange);
    exchange_->publish(bytes);
  }
  void complete() override {
    const ScopedPhase phase(&recorder_, Phase::kExchange);
    exchange_->complete();
  }
  std::span<const std::byte> part(int rank) const override { return exchange_->part(rank); }

 private:
  std::unique_ptr<ShardExchange> exchange_;
  SpanRecorder& recorder_;
};

}  // namespace

std::unique_ptr<ShardExchange> make_traced_exchange(std::unique_ptr<ShardExchange> exchange,
                                                    SpanRecorder& recorder) {
  return std::make_unique<TracedExchange>(std::move(exchange), recorder);
}

}  // namespace headrace
