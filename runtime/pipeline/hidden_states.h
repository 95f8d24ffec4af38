// How the hidden states of a step get from one stage to where the next one's layers work on them.
// Between two GPUs they move by the device's own transport, beside the message that has the plan;
// otherwise they are part of the message, which is host memory: on a CPU the layers run in place in
// the message that will be sent; for other devices the states are copied there and back.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "comm/device_transport.h"
#include "kernels/device_arena.h"
#include "kernels/tensor.h"

namespace headrace {

struct HiddenShape {
  int max_rows = 0;
  int hidden_size = 0;
  bool passed_on = false;  // there is a stage behind this one
  // A neighbour gives or takes them in the device's memory: they have a place there.
  bool has_device_link = false;
};

/// Bytes that HiddenStates takes from the arena.
std::size_t hidden_states_bytes(const DeviceArena& arena, const HiddenShape& shape);

/// The transport's ends of a rank; borrowed. Null where states are in messages, or nobody is there.
struct HiddenLinks {
  DeviceReceiver* from = nullptr;
  DeviceSender* to = nullptr;
  std::function<void()> poll;  // lets all transfers advance, these included

  /// What a message has of the states' columns.
  int sent_in_messages(int hidden_size) const { return to != nullptr ? 0 : hidden_size; }
  int received_in_messages(int hidden_size) const { return from != nullptr ? 0 : hidden_size; }
};

class HiddenStates {
 public:
  /// The arena must outlive it.
  HiddenStates(DeviceArena& arena, const HiddenShape& shape, HiddenLinks links);

  /// The tensor that the layers run on, float32 [rows, hidden_size]. received: what the message
  /// brought, empty on the first stage and where a device link brings it; it is free again on
  /// return. room: where the message takes the states from, float32 [rows, hidden_size]; empty on
  /// the last stage and where a device link takes them. Waits for a device link.
  TensorView take_in(int rows, std::span<const std::byte> received, std::span<std::byte> room);

  /// The layers are done with what take_in() returned: brings it into the same room, or sends it.
  void give_out(ConstTensorView hidden, std::span<std::byte> room);

  /// A step can be taken in without waiting for those before to leave.
  bool has_room();
  /// Everything that was given out has left.
  bool drained();
  void poll() const;

 private:
  std::byte* receive(TensorView hidden);

  DeviceArena& arena_;
  HiddenShape shape_;
  HiddenLinks links_;
  std::byte* own_ = nullptr;  // null where the layers run in a message or in a link's buffer
};

}  // namespace headrace
