#include "launch/agreement.h"

#include <optional>
#include <stdexcept>
#include <string>

namespace headrace {

void prepare_together(const Communicator& world, const std::function<void()>& prepare) {
  std::optional<std::string> mistake;
  try {
    prepare();
  } catch (const std::invalid_argument& e) {
    mistake = e.what();
  }
  const int nobody = world.size();
  const auto first = static_cast<int>(world.min(mistake ? world.rank() : nobody));
  if (first == nobody) return;
  throw std::invalid_argument(world.broadcast(mistake.value_or(""), first));
}

}  // namespace headrace
