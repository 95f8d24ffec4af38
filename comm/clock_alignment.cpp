#include "comm/clock_alignment.h"

#include <limits>

#include "comm/check.h"
#include "comm/waiting.h"

namespace headrace {
namespace {

// Most round trips are quick; one in a few meets a rank that the system has put aside.
constexpr int kRounds = 16;
constexpr int kTag = 0;

// Rank 0's side of one other rank.
ClockOffset ask(MPI_Comm comm, int rank) {
  ClockOffset best{.error_ns = std::numeric_limits<std::int64_t>::max()};
  for (int round = 0; round < kRounds; ++round) {
    std::int64_t theirs = 0;
    const std::int64_t begin = now_ns();
    HR_MPI(MPI_Send(&begin, 1, MPI_INT64_T, rank, kTag, comm));
    HR_MPI(MPI_Recv(&theirs, 1, MPI_INT64_T, rank, kTag, comm, MPI_STATUS_IGNORE));
    const std::int64_t end = now_ns();
    const std::int64_t error = (end - begin + 1) / 2;
    if (error < best.error_ns) {
      best = {.offset_ns = begin + (end - begin) / 2 - theirs, .error_ns = error};
    }
  }
  return best;
}

void answer(MPI_Comm comm) {
  for (int round = 0; round < kRounds; ++round) {
    std::int64_t asked = 0;
    HR_MPI(MPI_Recv(&asked, 1, MPI_INT64_T, 0, kTag, comm, MPI_STATUS_IGNORE));
    const std::int64_t now = now_ns();
    HR_MPI(MPI_Send(&now, 1, MPI_INT64_T, 0, kTag, comm));
  }
}

}  // namespace

ClockOffset align_clock(const Communicator& communicator) {
  const MPI_Comm comm = communicator.get();
  std::int64_t found[2] = {0, 0};
  if (communicator.rank() != 0) {
    answer(comm);
    HR_MPI(MPI_Recv(found, 2, MPI_INT64_T, 0, kTag, comm, MPI_STATUS_IGNORE));
    return {.offset_ns = found[0], .error_ns = found[1]};
  }
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const ClockOffset offset = ask(comm, rank);
    found[0] = offset.offset_ns;
    found[1] = offset.error_ns;
    HR_MPI(MPI_Send(found, 2, MPI_INT64_T, rank, kTag, comm));
  }
  return {};
}

}  // namespace headrace
