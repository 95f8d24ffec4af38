#include "tests/fake_cuda/state.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "tests/fake_cuda/lock.h"

namespace headrace::fake_cuda {
namespace {

struct State {
  Settings settings = settings_of_environment();
  std::map<std::string, int, std::less<>> calls;
  std::map<int, cudaError_t> spoilt;
  std::string last_report;
};

// Never destroyed: threads of streams may outlive main().
State& state() {
  static State& all = *new State;
  return all;
}

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;

std::int64_t number_of(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || value < 0) {
    throw std::invalid_argument(std::string(name) + "='" + text + "': a number is needed");
  }
  return value;
}

// NAME:N,... in a variable of the environment.
std::vector<Fault> faults_of(const char* variable) {
  const char* value = std::getenv(variable);
  std::string_view text = value == nullptr ? "" : value;
  std::vector<Fault> faults;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t colon = one.find(':');
    const int nth =
        colon == std::string_view::npos ? 0 : std::atoi(std::string(one.substr(colon + 1)).c_str());
    if (nth < 1) throw std::invalid_argument(std::string(variable) + ": NAME:N,... is needed");
    faults.push_back({std::string(one.substr(0, colon)), nth});
  }
  return faults;
}

std::string uuid_text(int physical) {
  return "GPU-0000000" + std::to_string(physical);
}

// CUDA_VISIBLE_DEVICES as CUDA reads it: numbers or beginnings of UUIDs, up to the first that names
// nothing.
std::vector<int> visible_devices(int num_devices) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> all;
  if (text == nullptr) {
    for (int device = 0; device < num_devices; ++device) all.push_back(device);
    return all;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string one(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    int found = -1;
    for (int device = 0; device < num_devices; ++device) {
      if (one == std::to_string(device) ||
          (one.size() > 4 && uuid_text(device).compare(0, one.size(), one) == 0)) {
        found = device;
      }
    }
    if (found < 0) break;
    all.push_back(found);
  }
  return all;
}

}  // namespace

Settings settings_of_environment() {
  Settings found;
  const char* mode = std::getenv("FAKE_CUDA_MODE");
  if (mode != nullptr && std::strcmp(mode, "threads") == 0) {
    found.mode = Mode::kThreads;
  } else if (mode != nullptr && std::strcmp(mode, "inline") != 0) {
    throw std::invalid_argument(std::string("FAKE_CUDA_MODE='") + mode + "': inline or threads");
  }
  found.delay_us = number_of("FAKE_CUDA_DELAY_US", 0);
  found.late_us = number_of("FAKE_CUDA_LATE_US", 0);
  found.seed = static_cast<std::uint32_t>(number_of("FAKE_CUDA_SEED", 0));
  found.num_devices = static_cast<int>(number_of("FAKE_CUDA_DEVICES", found.num_devices));
  found.device_bytes = static_cast<std::size_t>(
      number_of("FAKE_CUDA_BYTES", static_cast<std::int64_t>(found.device_bytes)));
  const char* algorithms = std::getenv("FAKE_CUBLASLT_ALGORITHMS");
  if (algorithms != nullptr) found.algorithms = algorithms;
  found.serial_nccl = number_of("FAKE_NCCL_SERIAL", 0) != 0;
  found.faults = faults_of("FAKE_CUDA_FAIL");
  for (Fault& fault : faults_of("FAKE_CUDA_STOP")) {
    fault.stops = true;
    found.faults.push_back(std::move(fault));
  }
  return found;
}

void configure(const Settings& settings) {
  const Locked locked;
  State& all = state();
  all.settings = settings;
  all.calls.clear();
  all.spoilt.clear();
  all.last_report.clear();
}

Settings settings() {
  const Locked locked;
  return state().settings;
}

int num_calls(std::string_view name) {
  const Locked locked;
  const auto found = state().calls.find(name);
  return found == state().calls.end() ? 0 : found->second;
}

std::string last_report() {
  const Locked locked;
  return state().last_report;
}

bool fails(const char* name) {
  const Locked locked;
  const int nth = ++state().calls[name];
  for (const Fault& fault : state().settings.faults) {
    if (fault.name != name || fault.nth != nth) continue;
    if (!fault.stops) return true;
    std::raise(SIGSTOP);
  }
  return false;
}

void report(const std::string& text) {
  std::fprintf(stderr, "fake CUDA: %s\n", text.c_str());
  const Locked locked;
  state().last_report = text;
}

int current_device() {
  return device_of_thread;
}

int num_visible_devices() {
  return static_cast<int>(visible_devices(settings().num_devices).size());
}

int physical_device(int device) {
  return visible_devices(settings().num_devices).at(static_cast<std::size_t>(device));
}

cudaError_t spoilt(int device) {
  const Locked locked;
  const auto found = state().spoilt.find(device);
  return found == state().spoilt.end() ? cudaSuccess : found->second;
}

void spoil(int device, cudaError_t error) {
  const Locked locked;
  state().spoilt.emplace(device, error);
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace headrace::fake_cuda

using headrace::fake_cuda::noted;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = headrace::fake_cuda::num_visible_devices();
  return noted(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= headrace::fake_cuda::num_visible_devices()) {
    return noted(cudaErrorInvalidDevice);
  }
  headrace::fake_cuda::device_of_thread = device;
  return noted(headrace::fake_cuda::spoilt(device));
}

cudaError_t cudaGetDevice(int* device) {
  *device = headrace::fake_cuda::device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= headrace::fake_cuda::num_visible_devices()) {
    return noted(cudaErrorInvalidDevice);
  }
  const int physical = headrace::fake_cuda::physical_device(device);
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "Fake GPU %d", physical);
  std::snprintf(properties->uuid.bytes, sizeof(properties->uuid.bytes), "fake-%d", physical);
  properties->pciBusID = physical + 1;
  properties->totalGlobalMem = headrace::fake_cuda::settings().device_bytes;
  properties->major = 9;
  properties->multiProcessorCount = 132;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= headrace::fake_cuda::num_visible_devices()) {
    return noted(cudaErrorInvalidDevice);
  }
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    default:
      return noted(cudaErrorInvalidValue);
  }
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= headrace::fake_cuda::num_visible_devices()) {
    return noted(cudaErrorInvalidDevice);
  }
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                headrace::fake_cuda::physical_device(device) + 1);
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return std::exchange(headrace::fake_cuda::last_error, cudaSuccess);
}

cudaError_t cudaPeekAtLastError() {
  const cudaError_t error = headrace::fake_cuda::last_error;
  return error != cudaSuccess ? error
                              : headrace::fake_cuda::spoilt(headrace::fake_cuda::device_of_thread);
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    default:
      return "an error of the fake CUDA runtime";
  }
}

const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
