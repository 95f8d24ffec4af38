// Which device each rank of a node computes on.
#pragma once

#include <string>
#include <vector>

namespace headrace {

/// Of one rank: the index of its device among those it sees, and how many ranks of the node have
/// that one. No device where it sees none.
struct DeviceChoice {
  int device = -1;
  int num_ranks = 0;
};

/// visible: for each rank of a node, in order, the names of the devices that it sees; the same
/// device has the same name everywhere. A rank takes the one that fewest before it have taken, the
/// first of these. So ranks that see the same devices take them in turn, and ranks to which the
/// launcher shows one each take that.
std::vector<DeviceChoice> choose_devices(const std::vector<std::vector<std::string>>& visible);

}  // namespace headrace
