// What the parts of the fakes share: settings, faults, the devices' errors, allocations.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "tests/fake_cuda/fake_cuda.h"

namespace headrace::fake_cuda {

/// Settings in force.
Settings settings();

/// Counts a call; true where it is to fail.
bool fails(const char* name);

/// A line on standard error, remembered for last_report().
void report(const std::string& text);

/// What the calling thread has selected, and the machine's number for it, which ranks share.
int current_device();
int num_visible_devices();
int physical_device(int device);

/// The error that spoilt a device, or cudaSuccess.
cudaError_t spoilt(int device);
void spoil(int device, cudaError_t error);

/// Remembers an error for cudaGetLastError and passes it on.
cudaError_t noted(cudaError_t error);

enum class Memory : std::uint8_t { kPageable, kPinned, kDevice };

/// What kind of memory [data, data + bytes) is. False, with a report that begins with `call`, where
/// an allocation ends within it.
bool find_memory(const char* call, const void* data, std::size_t bytes, Memory& kind);

}  // namespace headrace::fake_cuda
