#include "runtime/pipeline/step_message.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace headrace {
namespace {

struct Header {
  std::uint32_t num_stages;
  std::uint32_t rows;
  std::uint64_t plan_bytes;
};
static_assert(sizeof(Header) == 16 && sizeof(StageTimes) == 24);

// Hidden states start where vector loads are aligned.
constexpr std::size_t kAlignment = 64;

std::size_t hidden_offset(std::size_t num_stages, std::size_t plan_bytes) {
  const std::size_t end = sizeof(Header) + num_stages * sizeof(StageTimes) + plan_bytes;
  return (end + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t hidden_bytes(std::size_t rows, int hidden_size) {
  return rows * static_cast<std::size_t>(hidden_size) * sizeof(float);
}

std::vector<StageTimes> read_times(std::span<const std::byte> bytes, std::size_t num_stages) {
  std::vector<StageTimes> times(num_stages);
  std::memcpy(times.data(), bytes.data(), num_stages * sizeof(StageTimes));
  return times;
}

}  // namespace

std::size_t max_step_message_bytes(int num_stages, std::size_t max_plan_bytes, int max_rows,
                                   int hidden_size) {
  return hidden_offset(static_cast<std::size_t>(num_stages), max_plan_bytes) +
         hidden_bytes(static_cast<std::size_t>(max_rows), hidden_size);
}

std::span<std::byte> write_step_message(std::span<std::byte> buffer,
                                        std::span<const StageTimes> times,
                                        std::span<const std::byte> plan_bytes, int rows,
                                        int hidden_size) {
  const std::size_t offset = hidden_offset(times.size(), plan_bytes.size());
  const std::size_t states = hidden_bytes(static_cast<std::size_t>(rows), hidden_size);
  if (offset + states > buffer.size()) {
    throw std::logic_error("a step of " + std::to_string(rows) + " rows and " +
                           std::to_string(plan_bytes.size()) + " bytes of plan does not fit " +
                           std::to_string(buffer.size()) + " bytes");
  }
  const Header header{.num_stages = static_cast<std::uint32_t>(times.size()),
                      .rows = static_cast<std::uint32_t>(rows),
                      .plan_bytes = plan_bytes.size()};
  std::byte* at = buffer.data();
  std::memcpy(at, &header, sizeof(header));
  at += sizeof(header);
  std::memcpy(at, times.data(), times.size_bytes());
  at += times.size_bytes();
  std::memcpy(at, plan_bytes.data(), plan_bytes.size());
  at += plan_bytes.size();
  std::memset(at, 0, static_cast<std::size_t>(buffer.data() + offset - at));
  return buffer.subspan(offset, states);
}

void set_stage_times(std::span<std::byte> buffer, int stage, const StageTimes& times) {
  std::memcpy(buffer.data() + sizeof(Header) + static_cast<std::size_t>(stage) * sizeof(StageTimes),
              &times, sizeof(times));
}

std::size_t step_message_bytes(std::span<const std::byte> buffer,
                               std::span<const std::byte> hidden) {
  return static_cast<std::size_t>(hidden.data() + hidden.size() - buffer.data());
}

StepMessage read_step_message(std::span<const std::byte> bytes, int hidden_size) {
  Header header{};
  if (bytes.size() < sizeof(header)) throw std::runtime_error("a step message has no header");
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t times_bytes = std::size_t{header.num_stages} * sizeof(StageTimes);
  if (times_bytes > bytes.size() || header.plan_bytes > bytes.size() ||
      hidden_offset(header.num_stages, header.plan_bytes) +
              hidden_bytes(header.rows, hidden_size) !=
          bytes.size()) {
    throw std::runtime_error("a step message of " + std::to_string(bytes.size()) +
                             " bytes does not hold what its header says");
  }
  StepMessage message;
  message.times = read_times(bytes.subspan(sizeof(header)), header.num_stages);
  message.plan_bytes = bytes.subspan(sizeof(header) + times_bytes, header.plan_bytes);
  message.plan = decode_step_plan(message.plan_bytes);
  message.hidden = bytes.subspan(hidden_offset(header.num_stages, header.plan_bytes));
  if (message.plan.num_rows() != static_cast<int>(header.rows)) {
    throw std::runtime_error("a step message says " + std::to_string(header.rows) +
                             " rows, its plan " + std::to_string(message.plan.num_rows()));
  }
  return message;
}

void write_result_message(std::span<const StageTimes> times, const StepResult& result,
                          std::vector<std::byte>& out) {
  out.clear();
  const auto num_stages = static_cast<std::uint64_t>(times.size());
  out.resize(sizeof(num_stages) + times.size_bytes());
  std::memcpy(out.data(), &num_stages, sizeof(num_stages));
  std::memcpy(out.data() + sizeof(num_stages), times.data(), times.size_bytes());
  encode(result, out);
}

StepResult read_result_message(std::span<const std::byte> bytes, std::vector<StageTimes>& times) {
  std::uint64_t num_stages = 0;
  if (bytes.size() < sizeof(num_stages)) throw std::runtime_error("a result message has no header");
  std::memcpy(&num_stages, bytes.data(), sizeof(num_stages));
  bytes = bytes.subspan(sizeof(num_stages));
  if (num_stages > bytes.size() / sizeof(StageTimes)) {
    throw std::runtime_error("a result message is too short for the times of " +
                             std::to_string(num_stages) + " stages");
  }
  times = read_times(bytes, num_stages);
  return decode_step_result(bytes.subspan(num_stages * sizeof(StageTimes)));
}

}  // namespace headrace
