#include "comm/environment.h"

#include <unistd.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <string>

#include "comm/check.h"

namespace headrace {

void check_mpi(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(std::string(call) + " failed: " + text.data() + " (" + file + ":" +
                           std::to_string(line) + ")");
}

void require_one_transfer(std::string_view what, std::size_t bytes) {
  if (bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max())) return;
  throw std::invalid_argument(std::string(what) + " of " + std::to_string(bytes) +
                              " bytes is above the 2 GiB that one transfer can carry: lower "
                              "--max-num-batched-tokens");
}

Environment::Session::Session() {
  int provided = 0;
  HR_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  HR_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_FUNNELED) {
    throw std::runtime_error(
        "this MPI library does not allow threads beside the one that calls it");
  }
}

Environment::Session::~Session() {
  MPI_Finalize();
}

Environment::Environment()
    : world_(Communicator::duplicate(MPI_COMM_WORLD)),
      node_(Communicator::shared_memory(MPI_COMM_WORLD)) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  host_ = name.data();
}

Environment::~Environment() = default;

// The lowest rank on a machine names it.
std::vector<int> Environment::nodes() const {
  const std::int64_t lowest = node_.min(world_.rank());
  std::vector<int> names;
  for (const std::int64_t name : world_.all_gather(lowest)) names.push_back(static_cast<int>(name));
  return names;
}

void Environment::reorder(const std::vector<int>& order) {
  world_ = Communicator::reordered(world_, order);
}

}  // namespace headrace
