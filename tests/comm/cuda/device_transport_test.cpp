#include "comm/device_transport.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/handles.h"
#include "tests/comm/cuda/pipeline.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace headrace {
namespace {

using fake_cuda::Mode;
using testing_transport::run_pipeline;

// How streams are run: at full speed, with random delays, as late as the host allows, and with
// NCCL's operations one at a time.
std::vector<fake_cuda::Settings> schedules(int num_devices) {
  std::vector<fake_cuda::Settings> all(4);
  for (fake_cuda::Settings& settings : all) {
    settings.mode = Mode::kThreads;
    settings.num_devices = num_devices;
    settings.seed = 11;
  }
  all[1].delay_us = 400;
  all[2].late_us = 1500;
  all[3].delay_us = 200;
  all[3].serial_nccl = true;
  return all;
}

class Transports : public ::testing::TestWithParam<TransportKind> {};

TEST_P(Transports, EveryLayoutHasTheRightValuesHoweverStreamsAreRun) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  for (int group_size = 1; group_size <= world.size(); ++group_size) {
    if (world.size() % group_size != 0) continue;
    for (const fake_cuda::Settings& settings : schedules(world.size())) {
      fake_cuda::configure(settings);
      EXPECT_EQ(run_pipeline(world, {.kind = GetParam(), .group_size = group_size}), 0)
          << "groups of " << group_size << ", delays " << settings.delay_us << ", late "
          << settings.late_us << ", serial " << settings.serial_nccl;
      EXPECT_EQ(fake_cuda::last_report(), "");
      EXPECT_EQ(fake_cuda::num_allocations(), 0);
    }
  }
}

TEST_P(Transports, RanksMayShareADeviceUnlessNcclForbidsIt) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  fake_cuda::Settings settings = schedules(1).front();
  fake_cuda::configure(settings);
  if (GetParam() != TransportKind::kNccl || world.size() == 1) {
    EXPECT_EQ(run_pipeline(world, {.kind = GetParam()}), 0);
    return;
  }
  try {
    run_pipeline(world, {.kind = GetParam()});
    FAIL() << "several ranks on one device";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("Duplicate GPU"), std::string::npos) << error.what();
  }
  world.barrier();
}

std::string name_of(const ::testing::TestParamInfo<TransportKind>& info) {
  std::string name(transport_name(info.param));
  std::erase(name, '-');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, Transports,
                         ::testing::Values(TransportKind::kNccl, TransportKind::kMpiStaged,
                                           TransportKind::kMpiCudaAware),
                         name_of);

// The memory plan takes this number out of what the KV cache may have.
TEST_P(Transports, TakeTheMemoryThatIsPlannedForThem) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  fake_cuda::Settings settings = schedules(world.size()).front();
  fake_cuda::configure(settings);
  HR_CUDA(cudaSetDevice(world.rank()));
  const OwnedStream compute;
  TransportOptions options{.kind = GetParam(),
                           .compute = compute.get(),
                           .hidden = {.max_bytes = 5000, .num_buffers = 3},
                           .exchange_bytes = 7000,
                           .stall_timeout_s = 20.0};
  if (world.rank() > 0) options.upstream = world.rank() - 1;
  if (world.rank() + 1 < world.size()) options.downstream = world.rank() + 1;
  for (int rank = 0; rank < world.size(); ++rank) {
    options.group.push_back(rank);
    options.names.push_back("rank " + std::to_string(rank));
  }
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  HR_CUDA(cudaMemGetInfo(&before, &total));
  const auto transport = make_device_transport(world, options);
  HR_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before - after, device_transport_bytes(options));
}

TEST(TransportNames, AreThoseOfTheOption) {
  for (const auto kind :
       {TransportKind::kNccl, TransportKind::kMpiStaged, TransportKind::kMpiCudaAware}) {
    EXPECT_EQ(transport_of(transport_name(kind)), kind);
  }
  EXPECT_EQ(transport_of("tcp"), std::nullopt);
}

TEST(Transport, MpiThatDoesNotTakeMemoryOfAGpuIsNamed) {
  const Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  setenv("FAKE_MPI_WITHOUT_CUDA", "1", 1);
  try {
    run_pipeline(world, {.kind = TransportKind::kMpiCudaAware});
    FAIL() << "an MPI that takes no memory of a GPU";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("mpi-cuda-aware"), std::string::npos) << error.what();
  }
  unsetenv("FAKE_MPI_WITHOUT_CUDA");
}

}  // namespace
}  // namespace headrace
