// The memory of every stage, known before anything is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/config.h"
#include "model/stage_model.h"
#include "model/stage_weights.h"

namespace headrace {

struct StageMemory {
  StagePart part;
  std::string device;  // "CPU" or "GPU 0"
  std::size_t weight_bytes = 0;
  std::size_t kv_bytes = 0;
  std::size_t swap_bytes = 0;  // in host memory
  std::size_t workspace_bytes = 0;
  std::size_t message_bytes = 0;  // buffers of its channels

  std::size_t total() const {
    return weight_bytes + kv_bytes + swap_bytes + workspace_bytes + message_bytes;
  }
};

/// Bytes that this machine could give to new allocations (MemAvailable), within the control group's
/// limit where there is one.
std::uint64_t available_memory_bytes();

/// This process's largest resident size so far.
std::uint64_t peak_memory_bytes();

/// The table that is printed before loading; one line a stage, and one on the KV cache.
std::string memory_table(const std::vector<StageMemory>& stages, const StageSize& size);

/// "1.3 GiB".
std::string bytes_text(std::uint64_t bytes);

}  // namespace headrace
