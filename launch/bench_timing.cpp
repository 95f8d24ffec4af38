#include "launch/bench_timing.h"

#include <cstdint>
#include <random>

namespace headrace {

Buffer random_buffer(std::size_t bytes, DType dtype) {
  Buffer buffer(bytes);
  std::mt19937 generator(1);
  if (dtype == DType::kFloat32) {
    std::normal_distribution<float> normal;
    auto* p = reinterpret_cast<float*>(buffer.data());
    std::generate_n(p, bytes / sizeof(float), [&] { return normal(generator); });
  } else {
    // From 0.5 to 2 in bfloat16, around 1.8 in float16.
    auto* p = reinterpret_cast<std::uint16_t*>(buffer.data());
    std::generate_n(p, bytes / sizeof(std::uint16_t),
                    [&] { return static_cast<std::uint16_t>(generator() % 0x100 + 0x3F00); });
  }
  return buffer;
}

std::byte* random_bytes(DeviceArena& arena, std::size_t bytes, DType dtype) {
  // Piece after piece of the same numbers: to draw them all would take longer than what is timed.
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  std::byte* place = arena.take(bytes);
  const Buffer source = random_buffer(std::min(bytes, kPiece), dtype);
  for (std::size_t at = 0; at < bytes; at += source.bytes()) {
    const std::size_t count = std::min(source.bytes(), bytes - at);
    arena.upload(place + at, {source.data(), count});
  }
  return place;
}

}  // namespace headrace
