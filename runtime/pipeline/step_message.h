// What travels from stage to stage: the times of all stages so far, the StepPlan, and the hidden
// states of its rows. One message a hop.
//
//   offset  0  u32  number of stages P
//           4  u32  rows
//           8  u64  bytes of the plan
//          16  P x { i64 busy_ns, i64 wait_ns, i64 transfer_ns }
//              the plan (STEP_PLAN.md)
//              zeros up to a multiple of 64
//              float32 [rows, hidden]
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/pipeline/stage_times.h"
#include "runtime/schedule/step_plan.h"

namespace headrace {

struct StepMessage {
  std::vector<StageTimes> times;  // one a stage
  StepPlan plan;
  std::span<const std::byte> plan_bytes;  // as received
  std::span<const std::byte> hidden;      // float32 [rows, hidden_size]
};

/// Bytes of a message with plans of up to max_plan_bytes.
std::size_t max_step_message_bytes(int num_stages, std::size_t max_plan_bytes, int max_rows,
                                   int hidden_size);

/// Writes everything but the hidden states and returns where these go: float32 [rows, hidden_size],
/// the message's last bytes. Throws std::logic_error where the buffer is too small.
std::span<std::byte> write_step_message(std::span<std::byte> buffer,
                                        std::span<const StageTimes> times,
                                        std::span<const std::byte> plan_bytes, int rows,
                                        int hidden_size);

/// Replaces one stage's times in a written message.
void set_stage_times(std::span<std::byte> buffer, int stage, const StageTimes& times);

/// The part of a written message that has to be sent.
std::size_t step_message_bytes(std::span<const std::byte> buffer,
                               std::span<const std::byte> hidden);

/// Throws std::runtime_error naming what does not fit.
StepMessage read_step_message(std::span<const std::byte> bytes, int hidden_size);

/// The way back: times, then the StepResult.
void write_result_message(std::span<const StageTimes> times, const StepResult& result,
                          std::vector<std::byte>& out);
StepResult read_result_message(std::span<const std::byte> bytes, std::vector<StageTimes>& times);

}  // namespace headrace
