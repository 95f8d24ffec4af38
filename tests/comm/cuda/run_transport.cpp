// run_transport KIND GROUP_SIZE [FAULT [RANK]]: one job of pipeline.h as a program, with the fakes
// set by the environment (fake_cuda.h). FAULT is NAME:N on that rank (the last), or "silent", or
// "alone" for a device that all share. A failure ends it as it ends headrace: one line, and
// MPI_Abort.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "launch/guard.h"
#include "tests/comm/cuda/pipeline.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace {

using namespace headrace;

struct Arguments {
  testing_transport::PipelineJob job;
  fake_cuda::Settings settings;
};

Arguments read(int argc, char** argv, int rank, int num_ranks) {
  if (argc < 3) throw std::invalid_argument("KIND GROUP_SIZE [FAULT [RANK]]");
  const auto kind = transport_of(argv[1]);
  if (!kind) throw std::invalid_argument(std::string(argv[1]) + ": no transport");
  Arguments found{.job = {.kind = *kind, .group_size = std::atoi(argv[2])},
                  .settings = fake_cuda::settings_of_environment()};
  found.settings.mode = fake_cuda::Mode::kThreads;
  found.settings.num_devices = num_ranks;
  if (argc < 4) return found;
  found.job.stall_timeout_s = 1.0;
  const std::string fault = argv[3];
  const int failing = argc > 4 ? std::atoi(argv[4]) : num_ranks - 1;
  const std::size_t colon = fault.find(':');
  if (fault == "alone") {
    found.settings.num_devices = 1;
  } else if (fault == "silent") {
    found.job.silent_rank = failing;
  } else if (fault == "mute") {
    found.job.mute_rank = failing;
  } else if (rank == failing) {
    found.settings.faults = {{fault.substr(0, colon), std::atoi(fault.c_str() + colon + 1)}};
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int wrong = 0;
  {
    const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
    install_guard("rank " + std::to_string(world.rank()));
    const Arguments arguments = read(argc, argv, world.rank(), world.size());
    fake_cuda::configure(arguments.settings);
    wrong = testing_transport::run_pipeline(world, arguments.job);
  }
  if (wrong > 0) std::fprintf(stderr, "%d values are wrong\n", wrong);
  MPI_Finalize();
  return wrong > 0 ? 3 : 0;
}
