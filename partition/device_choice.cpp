#include "partition/device_choice.h"

#include <algorithm>
#include <map>

namespace headrace {

std::vector<DeviceChoice> choose_devices(const std::vector<std::vector<std::string>>& visible) {
  std::map<std::string, int> taken;
  std::vector<DeviceChoice> choices;
  for (const std::vector<std::string>& names : visible) {
    if (names.empty()) {
      choices.push_back({});
      continue;
    }
    const auto least = std::min_element(
        names.begin(), names.end(),
        [&](const std::string& a, const std::string& b) { return taken[a] < taken[b]; });
    ++taken[*least];
    choices.push_back({.device = static_cast<int>(least - names.begin()), .num_ranks = 0});
  }
  for (std::size_t rank = 0; rank < choices.size(); ++rank) {
    if (visible[rank].empty()) continue;
    const auto device = static_cast<std::size_t>(choices[rank].device);
    choices[rank].num_ranks = taken[visible[rank][device]];
  }
  return choices;
}

}  // namespace headrace
