// The exchange of ranks that compute on GPUs: rounds of a DeviceExchange, in the order of the
// compute stream. The host only queues them, or (over MPI) waits for the device in between.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/device_transport.h"
#include "comm/tensor_exchange.h"
#include "kernels/span_recorder.h"

namespace headrace {

struct TransportExchangeSettings {
  std::size_t bytes = 0;             // of a rank's buffer: TransportOptions::exchange_bytes
  bool adds = false;                 // sums are the transport's
  SpanRecorder* recorder = nullptr;  // of a trace; null without one
};

/// `exchange` and recorder must outlive it.
std::unique_ptr<TensorExchange> make_transport_exchange(DeviceExchange& exchange,
                                                        const TransportExchangeSettings& settings);

}  // namespace headrace
