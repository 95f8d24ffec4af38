// How the hidden states of a step get from a message to where a stage's layers work on them, and
// on into the next message. Messages are host memory: on a CPU the layers run in place in the
// message that will be sent; for other devices the states are copied there and back.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/device_arena.h"
#include "kernels/tensor.h"

namespace headrace {

struct HiddenShape {
  int max_rows = 0;
  int hidden_size = 0;
  bool passed_on = false;  // there is a stage behind this one
};

/// Bytes that HiddenStates takes from the arena.
std::size_t hidden_states_bytes(const DeviceArena& arena, const HiddenShape& shape);

class HiddenStates {
 public:
  /// The arena must outlive it.
  HiddenStates(DeviceArena& arena, const HiddenShape& shape);

  /// The tensor that the layers run on, float32 [rows, hidden_size]. received: what came in, empty
  /// on the first stage; it is free again on return. room: where the states are sent from, float32
  /// [rows, hidden_size]; empty on the last stage.
  TensorView take_in(int rows, std::span<const std::byte> received, std::span<std::byte> room);

  /// Brings what take_in() returned, and the layers have changed, into the same room.
  void give_out(ConstTensorView hidden, std::span<std::byte> room);

 private:
  DeviceArena& arena_;
  HiddenShape shape_;
  std::byte* own_ = nullptr;  // null where the layers run in the message
};

}  // namespace headrace
