#include "runtime/pipeline/hidden_states.h"

namespace headrace {

std::size_t hidden_states_bytes(const DeviceArena& arena, const HiddenShape& shape) {
  if (arena.is_host() && shape.passed_on) return 0;
  return static_cast<std::size_t>(shape.max_rows) * static_cast<std::size_t>(shape.hidden_size) *
         sizeof(float);
}

HiddenStates::HiddenStates(DeviceArena& arena, const HiddenShape& shape)
    : arena_(arena), shape_(shape), own_(arena.take(hidden_states_bytes(arena, shape))) {}

TensorView HiddenStates::take_in(int rows, std::span<const std::byte> received,
                                 std::span<std::byte> room) {
  std::byte* place = own_ != nullptr ? own_ : room.data();
  if (!received.empty()) arena_.upload(place, received);
  return {.data = place, .rows = rows, .cols = shape_.hidden_size, .dtype = DType::kFloat32};
}

void HiddenStates::give_out(ConstTensorView hidden, std::span<std::byte> room) {
  if (own_ != nullptr) arena_.download(room, hidden.data);
}

}  // namespace headrace
