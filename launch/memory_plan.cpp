#include "launch/memory_plan.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string_view>

namespace headrace {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// The number in a file that holds one ("max" or a huge number where there is no limit).
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kNoLimit;
}

// What a control group (version 2, or 1) still allows.
std::uint64_t group_allowance() {
  struct Files {
    const char* limit;
    const char* used;
  };
  constexpr std::array kVersions{
      Files{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      Files{"/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const Files& files : kVersions) {
    const std::uint64_t limit = number_in(files.limit);
    const std::uint64_t used = number_in(files.used);
    if (limit != kNoLimit && used != kNoLimit) return limit > used ? limit - used : 0;
  }
  return kNoLimit;
}

std::string role(const StagePart& part) {
  std::string text = part.num_layers() > 0
                         ? fmt::format("layers {}-{}", part.begin_layer, part.end_layer - 1)
                         : std::string("no layers");
  if (part.embedding) text = "embedding, " + text;
  if (part.head) text += ", head";
  return text;
}

std::string cache_line(const StageSize& size) {
  const std::vector<KvGroup>& groups = size.kv.groups;
  if (groups.size() == 1) {
    return fmt::format("KV cache: {} blocks of {} tokens = {} tokens in every stage\n",
                       size.num_blocks, size.block_tokens,
                       std::int64_t{size.num_blocks} * size.block_tokens);
  }
  return fmt::format(
      "KV cache: {} blocks in every stage, each for {} tokens of the layers that see everything or "
      "for {} of those with a window\n",
      size.num_blocks, groups[0].pages_per_block * size.block_tokens,
      groups[1].pages_per_block * size.block_tokens);
}

}  // namespace

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return std::min(kib * 1024, group_allowance());
  }
  return group_allowance();
}

std::uint64_t peak_memory_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string memory_table(const std::vector<StageMemory>& stages, const StageSize& size) {
  const auto swap_column = [&](const std::string& text) {
    return size.num_swap_blocks == 0 ? "" : fmt::format("{:>11}", text);
  };
  std::string table =
      fmt::format("{:<7}{:<34}{:<7}{:>11}{:>11}{}{:>11}{:>11}{:>11}\n", "stage", "runs", "on",
                  "weights", "KV cache", swap_column("swap"), "workspace", "messages", "total");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageMemory& m = stages[s];
    table += fmt::format("{:<7}{:<34}{:<7}{:>11}{:>11}{}{:>11}{:>11}{:>11}\n", s, role(m.part),
                         m.device, bytes_text(m.weight_bytes), bytes_text(m.kv_bytes),
                         swap_column(bytes_text(m.swap_bytes)), bytes_text(m.workspace_bytes),
                         bytes_text(m.message_bytes), bytes_text(m.total()));
  }
  table += cache_line(size);
  if (size.num_swap_blocks > 0) {
    table += fmt::format("swap space: {} of these blocks in host memory\n", size.num_swap_blocks);
  }
  return table;
}

}  // namespace headrace
