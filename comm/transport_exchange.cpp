#include "comm/transport_exchange.h"

#include <algorithm>
#include <vector>

namespace headrace {
namespace {

class TransportExchange final : public TensorExchange {
 public:
  TransportExchange(DeviceExchange& exchange, const TransportExchangeSettings& settings)
      : exchange_(exchange),
        settings_(settings),
        bytes_(static_cast<std::size_t>(exchange.size()), 0) {}

  int rank() const override { return exchange_.rank(); }
  int size() const override { return exchange_.size(); }
  std::span<std::byte> own() override { return {exchange_.own(), settings_.bytes}; }

  // A step without rows has nothing to give: no round is needed, and all know it.
  void gather(std::span<const std::size_t> bytes) override {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
    if (std::all_of(bytes.begin(), bytes.end(), [](std::size_t count) { return count == 0; })) {
      return;
    }
    const ScopedPhase phase(settings_.recorder, Phase::kExchange);
    exchange_.gather(bytes);
  }

  std::span<const std::byte> part(int rank) const override {
    return {exchange_.part(rank), bytes_[static_cast<std::size_t>(rank)]};
  }

  bool adds() const override { return settings_.adds; }

  void sum(std::span<float> values) override {
    if (values.empty()) return;
    const ScopedPhase phase(settings_.recorder, Phase::kExchange);
    exchange_.sum(values.data(), std::ssize(values));
  }

 private:
  DeviceExchange& exchange_;
  TransportExchangeSettings settings_;
  std::vector<std::size_t> bytes_;  // of the last round, by rank
};

}  // namespace

std::unique_ptr<TensorExchange> make_transport_exchange(DeviceExchange& exchange,
                                                        const TransportExchangeSettings& settings) {
  return std::make_unique<TransportExchange>(exchange, settings);
}

}  // namespace headrace
