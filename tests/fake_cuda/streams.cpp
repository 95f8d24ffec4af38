#include "tests/fake_cuda/streams.h"

#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/emulator.h"
#include "tests/fake_cuda/lock.h"
#include "tests/fake_cuda/sanitizers.h"
#include "tests/fake_cuda/state.h"

namespace headrace::fake_cuda {
namespace {

constexpr std::size_t kOrderBytes = 16;  // each object has to have a place of its own

struct Entry {
  Operation operation;
  std::int64_t queued_us = 0;
  alignas(kOrderBytes) char order[kOrderBytes] = {};
};

// What an event stands for from one recording to the next.
struct Recording {
  bool done = false;
  alignas(kOrderBytes) char order[kOrderBytes] = {};
};

}  // namespace
}  // namespace headrace::fake_cuda

struct CUstream_st {
  int device = 0;
  headrace::fake_cuda::Settings settings;
  std::minstd_rand random;
  std::deque<std::unique_ptr<headrace::fake_cuda::Entry>> queue;
  std::int64_t num_queued = 0;
  std::int64_t num_done = 0;
  bool destroyed = false;
  alignas(16) char order[headrace::fake_cuda::kOrderBytes] = {};
};

struct CUevent_st {
  int device = 0;
  headrace::fake_cuda::Recording* latest = nullptr;  // none before the first
};

namespace headrace::fake_cuda {
namespace {

struct Streams {
  std::set<cudaStream_t> alive;
  std::set<cudaEvent_t> events;
  std::deque<Recording> recordings;  // kept: a place in memory must not stand for two of them
  unsigned num_made = 0;
  int num_waiting = 0;  // threads of the host that wait for the device
};

Streams& streams() {
  static Streams& all = *new Streams;
  return all;
}

bool is_inline(cudaStream_t stream) {
  return stream->settings.mode == Mode::kInline;
}

bool host_waits() {
  const Locked locked;
  return streams().num_waiting > 0;
}

// The delays that bring out work which is not waited for.
void delay(CUstream_st& stream, const Entry& entry) {
  constexpr std::int64_t kLookUs = 100;
  while (now_us() < entry.queued_us + stream.settings.late_us && !host_waits()) sleep_us(kLookUs);
  if (stream.settings.delay_us == 0 || stream.random() / 16 % 2 == 0) return;
  sleep_us(static_cast<std::int64_t>(stream.random()) % (stream.settings.delay_us + 1));
}

void run(CUstream_st& stream, Entry& entry) {
  constexpr std::int64_t kAgainUs = 30;
  tell_acquire(entry.order);
  while (spoilt(stream.device) == cudaSuccess && !entry.operation()) sleep_us(kAgainUs);
  tell_release(stream.order);
}

// A stream's thread. It ends when the stream was destroyed and all is done.
void work(CUstream_st* stream) {
  for (;;) {
    const std::uint32_t since = wake_count();
    Entry* entry = nullptr;
    {
      const Locked locked;
      if (!stream->queue.empty()) {
        entry = stream->queue.front().get();
      } else if (stream->destroyed) {
        break;
      }
    }
    if (entry == nullptr) {
      nap(since);
      continue;
    }
    delay(*stream, *entry);
    run(*stream, *entry);
    std::unique_ptr<Entry> done;
    {
      const Locked locked;
      done = std::move(stream->queue.front());
      stream->queue.pop_front();
      ++stream->num_done;
    }
    wake_all();
  }
  const OwnBusiness own;
  delete stream;
}

// Waits until ready() holds, which is asked under the lock.
template <class Ready>
void wait_until(const Ready& ready) {
  {
    const Locked locked;
    ++streams().num_waiting;
  }
  for (;;) {
    const std::uint32_t since = wake_count();
    {
      const Locked locked;
      if (ready()) {
        --streams().num_waiting;
        return;
      }
    }
    nap(since);
  }
}

// Launches of the emulator's kernels.
void launch_kernel(cudaStream_t stream, std::function<void()> kernel) {
  cudaError_t status = check_stream("cudaLaunchKernel", stream);
  if (status == cudaSuccess && device_of(stream) != current_device()) {
    report("cudaLaunchKernel: the stream is not of the device that this thread has selected");
    status = cudaErrorInvalidResourceHandle;
  }
  if (status == cudaSuccess && fails("cudaLaunchKernel")) status = cudaErrorLaunchFailure;
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("cudaLaunchKernel: ") + cudaGetErrorString(noted(status)));
  }
  if (is_inline(stream)) {
    if (fails("kernel")) spoil(stream->device, cudaErrorLaunchFailure);
    kernel();
    return;
  }
  const int device = stream->device;
  enqueue(stream, [device, kernel = std::move(kernel)] {
    if (fails("kernel")) {
      spoil(device, cudaErrorLaunchFailure);
      return true;
    }
    try {
      kernel();
    } catch (const std::exception& error) {
      report(error.what());
      spoil(device, cudaErrorLaunchFailure);
    }
    return true;
  });
}

cudaError_t check_event(const char* call, cudaEvent_t event) {
  const Locked locked;
  if (streams().events.contains(event)) return cudaSuccess;
  std::fprintf(stderr, "fake CUDA: %s: an event that is not there\n", call);
  return cudaErrorInvalidResourceHandle;
}

}  // namespace

cudaError_t check_stream(const char* call, cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    report(std::string(call) + ": the default stream is not to be used");
    return cudaErrorInvalidResourceHandle;
  }
  bool alive = false;
  {
    const Locked locked;
    alive = streams().alive.contains(stream);
  }
  if (!alive) {
    report(std::string(call) + ": a stream that is not there");
    return cudaErrorInvalidResourceHandle;
  }
  return spoilt(stream->device);
}

int device_of(cudaStream_t stream) {
  return stream->device;
}

void enqueue(cudaStream_t stream, Operation operation) {
  if (is_inline(stream)) {
    while (spoilt(stream->device) == cudaSuccess && !operation()) sleep_us(1);
    return;
  }
  std::unique_ptr<Entry> entry;
  {
    const OwnBusiness own;
    entry = std::make_unique<Entry>();
    entry->operation = std::move(operation);
    entry->queued_us = now_us();
  }
  tell_release(entry->order);
  {
    const Locked locked;
    stream->queue.push_back(std::move(entry));
    ++stream->num_queued;
  }
  wake_all();
}

void wait_for(cudaStream_t stream) {
  std::int64_t wanted = 0;
  {
    const Locked locked;
    wanted = stream->num_queued;
  }
  wait_until([&] { return stream->num_done >= wanted; });
  tell_acquire(stream->order);
}

void wait_for_device(int device) {
  std::vector<cudaStream_t> all;
  {
    const Locked locked;
    for (const cudaStream_t stream : streams().alive) {
      if (stream->device == device) all.push_back(stream);
    }
  }
  for (const cudaStream_t stream : all) wait_for(stream);
}

}  // namespace headrace::fake_cuda

using namespace headrace::fake_cuda;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  if (flags != cudaStreamNonBlocking) return noted(cudaErrorInvalidValue);
  if (fails("cudaStreamCreateWithFlags")) return noted(cudaErrorMemoryAllocation);
  headrace::emulator::set_launcher(launch_kernel);
  const Settings in_force = settings();
  {
    const Locked locked;
    *stream = new CUstream_st;
    (*stream)->device = current_device();
    (*stream)->settings = in_force;
    (*stream)->random.seed(in_force.seed * 7919U + ++streams().num_made);
    streams().alive.insert(*stream);
  }
  if (in_force.mode == Mode::kThreads) std::thread(work, *stream).detach();
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const Locked locked;
    if (streams().alive.erase(stream) == 0) return noted(cudaErrorInvalidResourceHandle);
    stream->destroyed = true;
    if (is_inline(stream)) delete stream;
  }
  wake_all();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t status = check_stream("cudaStreamSynchronize", stream);
  if (status != cudaSuccess) return noted(status);
  if (fails("cudaStreamSynchronize")) return noted(cudaErrorLaunchFailure);
  wait_for(stream);
  return noted(spoilt(stream->device));
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const cudaError_t status = check_stream("cudaStreamQuery", stream);
  if (status != cudaSuccess) return noted(status);
  {
    const Locked locked;
    if (stream->num_done < stream->num_queued) return cudaErrorNotReady;
  }
  tell_acquire(stream->order);
  return noted(spoilt(stream->device));
}

cudaError_t cudaDeviceSynchronize() {
  wait_for_device(current_device());
  return noted(spoilt(current_device()));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  if (fails("cudaEventCreateWithFlags")) return noted(cudaErrorMemoryAllocation);
  const Locked locked;
  *event = new CUevent_st;
  (*event)->device = current_device();
  streams().events.insert(*event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Locked locked;
  if (streams().events.erase(event) == 0) return noted(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t status = check_stream("cudaEventRecord", stream);
  if (status == cudaSuccess) status = check_event("cudaEventRecord", event);
  if (status != cudaSuccess) return noted(status);
  if (fails("cudaEventRecord")) return noted(cudaErrorLaunchFailure);
  if (event->device != device_of(stream)) {
    report("cudaEventRecord: event and stream are of different devices");
    return noted(cudaErrorInvalidResourceHandle);
  }
  Recording* recording = nullptr;
  {
    const Locked locked;
    recording = &streams().recordings.emplace_back();
    event->latest = recording;
  }
  enqueue(stream, [recording] {
    tell_release(recording->order);
    const Locked locked;
    recording->done = true;
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  cudaError_t status = check_stream("cudaStreamWaitEvent", stream);
  if (status == cudaSuccess) status = check_event("cudaStreamWaitEvent", event);
  if (status != cudaSuccess) return noted(status);
  if (fails("cudaStreamWaitEvent")) return noted(cudaErrorLaunchFailure);
  Recording* recording = nullptr;
  {
    const Locked locked;
    recording = event->latest;
  }
  if (recording == nullptr) return cudaSuccess;
  enqueue(stream, [recording] {
    {
      const Locked locked;
      if (!recording->done) return false;
    }
    tell_acquire(recording->order);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const cudaError_t status = check_event("cudaEventQuery", event);
  if (status != cudaSuccess) return noted(status);
  if (spoilt(event->device) != cudaSuccess) return noted(spoilt(event->device));
  if (fails("cudaEventQuery")) return noted(cudaErrorLaunchFailure);
  Recording* recording = nullptr;
  {
    const Locked locked;
    recording = event->latest;
    if (recording != nullptr && !recording->done) return cudaErrorNotReady;
  }
  if (recording != nullptr) tell_acquire(recording->order);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t status = check_event("cudaEventSynchronize", event);
  if (status != cudaSuccess) return noted(status);
  Recording* recording = nullptr;
  {
    const Locked locked;
    recording = event->latest;
  }
  const int device = event->device;
  if (recording != nullptr) {
    wait_until([&] { return recording->done; });
    tell_acquire(recording->order);
  }
  return noted(spoilt(device));
}
