#include "runtime/pipeline/hidden_states.h"

#include <utility>

#include "comm/waiting.h"

namespace headrace {

std::size_t hidden_states_bytes(const DeviceArena& arena, const HiddenShape& shape) {
  if (shape.has_device_link || (arena.is_host() && shape.passed_on)) return 0;
  return static_cast<std::size_t>(shape.max_rows) * static_cast<std::size_t>(shape.hidden_size) *
         sizeof(float);
}

namespace {

HiddenShape with_links(HiddenShape shape, const HiddenLinks& links) {
  shape.has_device_link = links.from != nullptr || links.to != nullptr;
  return shape;
}

// Asks until there is something, and lets transfers advance meanwhile. Who does not come is noticed
// by the links, which have a deadline.
template <class Ask>
std::byte* wait_for(const HiddenLinks& links, const Ask& ask) {
  for (const std::int64_t begin = now_ns();;) {
    if (std::byte* found = ask()) return found;
    links.poll();
    pause_politely(now_ns() - begin);
  }
}

}  // namespace

HiddenStates::HiddenStates(DeviceArena& arena, const HiddenShape& shape, HiddenLinks links)
    : arena_(arena),
      shape_(with_links(shape, links)),
      links_(std::move(links)),
      own_(arena.take(hidden_states_bytes(arena, shape_))) {}

// A step without rows has no states, and both ends of a link know it.
TensorView HiddenStates::take_in(int rows, std::span<const std::byte> received,
                                 std::span<std::byte> room) {
  TensorView hidden{.data = own_ != nullptr ? own_ : room.data(),
                    .rows = rows,
                    .cols = shape_.hidden_size,
                    .dtype = DType::kFloat32};
  if (rows == 0) return hidden;
  if (links_.to != nullptr) {
    hidden.data = wait_for(links_, [&] { return links_.to->try_acquire(); });
  }
  if (links_.from != nullptr) {
    hidden.data = receive(hidden);
  } else if (!received.empty()) {
    arena_.upload(hidden.data, received);
  }
  return hidden;
}

// Where the states are passed on by a link they go into its buffer at once, so that the one they
// came in is free for the next.
std::byte* HiddenStates::receive(TensorView hidden) {
  const std::size_t bytes = hidden.bytes();
  std::byte* message = wait_for(links_, [&] { return links_.from->try_receive(bytes); });
  if (links_.to == nullptr) return message;
  arena_.copy_rows({.to = hidden.data,
                    .to_stride = bytes,
                    .from = message,
                    .from_stride = bytes,
                    .row_bytes = bytes,
                    .rows = 1});
  links_.from->release();
  return hidden.data;
}

void HiddenStates::give_out(ConstTensorView hidden, std::span<std::byte> room) {
  if (hidden.rows == 0) return;
  if (links_.to != nullptr) {
    links_.to->post(hidden.bytes());
    return;
  }
  if (!room.empty() && room.data() != hidden.data) arena_.download(room, hidden.data);
  if (links_.from != nullptr) links_.from->release();
}

bool HiddenStates::has_room() {
  return links_.to == nullptr || links_.to->try_acquire() != nullptr;
}

bool HiddenStates::drained() {
  return links_.to == nullptr || links_.to->drained();
}

void HiddenStates::poll() const {
  if (links_.poll) links_.poll();
}

}  // namespace headrace
