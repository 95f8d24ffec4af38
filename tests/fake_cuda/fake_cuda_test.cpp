// The fakes have to be as unforgiving as what they stand for, or what runs over them proves
// nothing.
#include "tests/fake_cuda/fake_cuda.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <numeric>
#include <optional>
#include <thread>

#include "kernels/cuda/handles.h"
#include "tests/cuda_emulator/emulator.h"

namespace headrace {
namespace {

using fake_cuda::Mode;
using fake_cuda::Settings;

constexpr int kCount = 64;
constexpr std::size_t kBytes = kCount * sizeof(int);

class FakeCuda : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake_cuda::num_allocations(), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    fake_cuda::configure({});
    cudaSetDevice(0);
    cudaGetLastError();
  }
};

Settings threads() {
  return {.mode = Mode::kThreads};
}

void fill(PinnedMemory& memory, int first) {
  auto* values = reinterpret_cast<int*>(memory.data());
  std::iota(values, values + kCount, first);
}

int first_of(const PinnedMemory& memory) {
  return *reinterpret_cast<const int*>(memory.data());
}

bool refused(cudaError_t status, const char* why) {
  return status != cudaSuccess && fake_cuda::last_report().find(why) != std::string::npos;
}

TEST_F(FakeCuda, AStreamKeepsItsOrderAndASynchronisingHostSeesAllOfIt) {
  for (const Mode mode : {Mode::kInline, Mode::kThreads}) {
    fake_cuda::configure({.mode = mode, .delay_us = 500, .seed = 3});
    const OwnedStream stream;
    DeviceMemory device(kBytes);
    PinnedMemory from(kBytes);
    PinnedMemory to(kBytes);
    fill(from, 7);
    cudaMemcpyAsync(device.data(), from.data(), kBytes, cudaMemcpyHostToDevice, stream.get());
    cudaMemcpyAsync(to.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream.get());
    ASSERT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);
    EXPECT_EQ(first_of(to), 7);
  }
}

TEST_F(FakeCuda, WorkThatIsNotWaitedForIsLate) {
  fake_cuda::configure({.mode = Mode::kThreads, .late_us = 30000});
  const OwnedStream stream;
  const OwnedEvent event;
  DeviceMemory device(kBytes);
  PinnedMemory from(kBytes);
  PinnedMemory to(kBytes);
  std::memset(to.data(), 0, kBytes);
  fill(from, 5);
  cudaMemcpyAsync(device.data(), from.data(), kBytes, cudaMemcpyHostToDevice, stream.get());
  cudaMemcpyAsync(to.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, stream.get());
  cudaEventRecord(event.get(), stream.get());
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
  EXPECT_EQ(first_of(to), 0);
  fill(from, 6);  // too early: the copy has not begun
  ASSERT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
  EXPECT_EQ(first_of(to), 6);
}

TEST_F(FakeCuda, AnEventHoldsAnotherStreamBackUntilItsRecordingHasBeenReached) {
  fake_cuda::configure({.mode = Mode::kThreads, .late_us = 5000});
  const OwnedStream first;
  const OwnedStream second;
  const OwnedEvent event;
  DeviceMemory device(kBytes);
  PinnedMemory from(kBytes);
  PinnedMemory to(kBytes);
  ASSERT_EQ(cudaStreamWaitEvent(second.get(), event.get(), 0), cudaSuccess);  // never recorded
  for (int round = 0; round < 5; ++round) {
    fill(from, round);
    cudaMemcpyAsync(device.data(), from.data(), kBytes, cudaMemcpyHostToDevice, first.get());
    cudaEventRecord(event.get(), first.get());
    cudaStreamWaitEvent(second.get(), event.get(), 0);
    cudaMemcpyAsync(to.data(), device.data(), kBytes, cudaMemcpyDeviceToHost, second.get());
    ASSERT_EQ(cudaStreamSynchronize(second.get()), cudaSuccess);
    EXPECT_EQ(first_of(to), round);
  }
}

TEST_F(FakeCuda, APageableSourceIsReadBeforeTheCallReturnsAndAPageableTargetWritten) {
  fake_cuda::configure({.mode = Mode::kThreads, .late_us = 5000});
  const OwnedStream stream;
  DeviceMemory device(sizeof(int));
  int value = 1;
  cudaMemcpyAsync(device.data(), &value, sizeof(value), cudaMemcpyHostToDevice, stream.get());
  value = 2;
  cudaMemcpyAsync(&value, device.data(), sizeof(value), cudaMemcpyDeviceToHost, stream.get());
  EXPECT_EQ(value, 1);
}

TEST_F(FakeCuda, TheDefaultStreamAndStreamsThatAreGoneAreRefused) {
  fake_cuda::configure(threads());
  DeviceMemory device(kBytes);
  EXPECT_TRUE(refused(cudaMemsetAsync(device.data(), 0, kBytes, nullptr), "default stream"));
  std::optional<OwnedStream> stream(std::in_place);
  const cudaStream_t gone = stream->get();
  stream.reset();
  EXPECT_TRUE(refused(cudaStreamSynchronize(gone), "not there"));
}

TEST_F(FakeCuda, CopiesBeyondAnAllocationAndOfTheWrongKindAreRefused) {
  fake_cuda::configure(threads());
  const OwnedStream stream;
  DeviceMemory device(kBytes);
  PinnedMemory pinned(kBytes);
  EXPECT_TRUE(refused(cudaMemcpyAsync(device.data() + 4, pinned.data(), kBytes,
                                      cudaMemcpyHostToDevice, stream.get()),
                      "256 bytes at offset 4 of an allocation of 256"));
  EXPECT_TRUE(refused(
      cudaMemcpyAsync(device.data(), pinned.data(), kBytes, cudaMemcpyDeviceToDevice, stream.get()),
      "direction"));
  EXPECT_EQ(cudaFree(device.data() + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(pinned.data()), cudaErrorInvalidValue);
}

TEST_F(FakeCuda, MemoryOfADeviceEnds) {
  fake_cuda::configure({.mode = Mode::kThreads, .device_bytes = 1024});
  const DeviceMemory most(768);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 512), cudaErrorMemoryAllocation);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  EXPECT_EQ(free_bytes, 256U);
  EXPECT_EQ(total_bytes, 1024U);
  const PinnedMemory elsewhere(4096);
}

TEST_F(FakeCuda, DevicesAreThoseThatTheEnvironmentShowsAndKeepTheirStreams) {
  fake_cuda::configure({.mode = Mode::kThreads, .num_devices = 4});
  setenv("CUDA_VISIBLE_DEVICES", "2,GPU-00000001,9,3", 1);
  int count = 0;
  cudaGetDeviceCount(&count);
  EXPECT_EQ(count, 2);  // as CUDA does it: up to the first that is not there
  char bus[16];
  cudaDeviceGetPCIBusId(bus, sizeof(bus), 0);
  EXPECT_EQ(std::string(bus), "0000:03:00.0");
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const OwnedStream stream;
  cudaSetDevice(0);
  const OwnedEvent event;
  EXPECT_TRUE(refused(cudaEventRecord(event.get(), stream.get()), "different devices"));
  EXPECT_THROW(emulator::launch({.grid_x = 1, .threads = 1}, stream.get(), [] {}),
               std::runtime_error);
}

TEST_F(FakeCuda, ACallThatIsToFailFailsOnceAndIsRemembered) {
  fake_cuda::configure({.mode = Mode::kThreads, .faults = {{"cudaMalloc", 2}}});
  const DeviceMemory first(kBytes);
  EXPECT_THROW(DeviceMemory{kBytes}, std::runtime_error);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  const DeviceMemory third(kBytes);
}

TEST_F(FakeCuda, AKernelThatFailsSpoilsItsDeviceForGood) {
  for (const bool by_fault : {true, false}) {
    Settings settings = threads();
    if (by_fault) settings.faults = {{"kernel", 1}};
    fake_cuda::configure(settings);
    const OwnedStream stream;
    emulator::launch({.grid_x = 1, .threads = 32}, stream.get(), [] {
      if (emulator::thread_index() < 16) emulator::sync_block({"here", 1});
      emulator::sync_block({"there", 2});
    });
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorLaunchFailure);
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorLaunchFailure);
    EXPECT_EQ(fake_cuda::last_report().empty(), by_fault);
  }
}

TEST_F(FakeCuda, SettingsComeFromTheEnvironmentAndMistakesInThemAreSaid) {
  setenv("FAKE_CUDA_FAIL", "cudaMalloc:3,kernel:1", 1);
  const Settings settings = fake_cuda::settings_of_environment();
  ASSERT_EQ(settings.faults.size(), 2U);
  EXPECT_EQ(settings.faults[1].name, "kernel");
  setenv("FAKE_CUDA_FAIL", "cudaMalloc", 1);
  EXPECT_THROW(fake_cuda::settings_of_environment(), std::invalid_argument);
  unsetenv("FAKE_CUDA_FAIL");
}

}  // namespace
}  // namespace headrace
